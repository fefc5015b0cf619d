/* See driver_file.h. */
#include "driver/driver_file.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "driver/loader.h"
#include "tessera/driver_places.h"

#define DRIVER "libcuda.so.1"
#define VERSIONED "libcuda.so."

static void *open_file(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library && tsr_loader_is_self(library)) {
        dlclose(library);
        return NULL;
    }
    if (library)
        tsr_info("the driver is %s", path);
    return library;
}

/* path = directory/name; false if it does not fit. */
static bool join(char path[PATH_MAX], const char *directory, size_t length, const char *name)
{
    size_t name_bytes = strlen(name) + 1;
    if (length + 1 + name_bytes > PATH_MAX)
        return false;
    memcpy(path, directory, length);
    path[length] = '/';
    memcpy(path + length + 1, name, name_bytes);
    return true;
}

static bool is_version(const char *name)
{
    size_t prefix = strlen(VERSIONED);
    return strncmp(name, VERSIONED, prefix) == 0 && name[prefix] >= '0' && name[prefix] <= '9';
}

/* A driver that was mounted into a container may have no name but that with its version. */
static void *open_newest(const char *directory, size_t length)
{
    char path[PATH_MAX], newest[NAME_MAX + 1] = "";
    DIR *entries = join(path, directory, length, "") ? opendir(path) : NULL;
    if (!entries)
        return NULL;
    for (const struct dirent *entry; (entry = readdir(entries));)
        if (is_version(entry->d_name) && strverscmp(entry->d_name, newest) > 0)
            memcpy(newest, entry->d_name, strlen(entry->d_name) + 1);
    closedir(entries);
    return *newest && join(path, directory, length, newest) ? open_file(path) : NULL;
}

static void *open_in(const char *directory, size_t length)
{
    char path[PATH_MAX];
    if (directory[0] != '/' || !join(path, directory, length, DRIVER))
        return NULL;
    void *library = open_file(path);
    return library ? library : open_newest(directory, length);
}

static void *open_in_list(const char *directories)
{
    void *library = NULL;
    while (directories && *directories && !library) {
        size_t length = strcspn(directories, ":;");
        library = open_in(directories, length);
        directories += length + (directories[length] != 0);
    }
    return library;
}

/* The loader's cache as glibc 2.32 and later writes it; offsets of strings count from its start. */
#define CACHE_MAGIC "glibc-ld.so.cache1.1"
#define CACHE_X86_64 0x0303 /* flags of a 64-bit library */

struct cache {
    char magic[20];
    uint32_t count, string_bytes;
    uint8_t flags, pad[3];
    uint32_t extensions, unused[3];
    struct {
        int32_t flags;
        uint32_t name, path;
        uint32_t unused;
        uint64_t capabilities;
    } entries[];
};

static void *open_from(const struct cache *cache, size_t bytes)
{
    const char *text = (const char *)cache;
    if (bytes <= sizeof *cache || memcmp(cache->magic, CACHE_MAGIC, sizeof cache->magic) != 0 || text[bytes - 1] ||
        cache->count > (bytes - sizeof *cache) / sizeof cache->entries[0])
        return NULL;
    void *library = NULL;
    for (uint32_t i = 0; i < cache->count && !library; i++)
        if (cache->entries[i].flags == CACHE_X86_64 && cache->entries[i].name < bytes && cache->entries[i].path < bytes &&
            strcmp(text + cache->entries[i].name, DRIVER) == 0)
            library = open_file(text + cache->entries[i].path);
    return library;
}

static void *open_cached(void)
{
    int file = open("/etc/ld.so.cache", O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return NULL;
    struct stat status;
    size_t bytes = fstat(file, &status) == 0 ? (size_t)status.st_size : 0;
    void *cache = bytes ? mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, file, 0) : MAP_FAILED;
    close(file);
    if (cache == MAP_FAILED)
        return NULL;
    void *library = open_from(cache, bytes);
    munmap(cache, bytes);
    return library;
}

static void *open_listed(void)
{
    static const char *const places[] = {
#define PLACE(directory) directory,
        TSR_DRIVER_PLACES(PLACE)};
    void *library = NULL;
    for (unsigned i = 0; i < sizeof places / sizeof places[0] && !library; i++)
        library = open_in(places[i], strlen(places[i]));
    return library;
}

static void *open_named(const char *path)
{
    void *library = open_file(path);
    if (!library) {
        const char *reason = dlerror();
        tsr_error("TESSERA_DRIVER=%s cannot be used: %s", path,
                  reason ? reason : "it leads to Tessera itself, not to a driver");
    }
    return library;
}

void *tsr_driver_file_open(void)
{
    const char *named = secure_getenv("TESSERA_DRIVER");
    if (named && *named)
        return open_named(named);
    void *library = open_in_list(secure_getenv("LD_LIBRARY_PATH"));
    if (!library)
        library = open_cached();
    if (!library)
        library = open_listed();
    if (!library)
        tsr_error("no CUDA driver found; set TESSERA_DRIVER to the absolute path of libcuda.so.1");
    return library;
}
