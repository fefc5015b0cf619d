/* Looking for the driver, with files that a fake shim may find: every library here is the C library's libm under another name. */
#include <stddef.h>
#include <stdlib.h>

#include "driver/driver_file.c"

#include "check.h"

static const void *self; /* what is taken for the shim */

bool tsr_loader_is_self(const void *handle)
{
    return handle == self;
}

struct fake_cache {
    struct cache head;
    struct {
        int32_t flags;
        uint32_t name, path;
        uint32_t unused;
        uint64_t capabilities;
    } entries[3];
    char text[256];
};

#define TEXT_AT(offset) (uint32_t)(offsetof(struct fake_cache, text) + (offset))

static const char *mathematics(void)
{
    Dl_info object;
    return dladdr(dlsym(dlopen("libm.so.6", RTLD_NOW), "cos"), &object) ? object.dli_fname : "";
}

static struct fake_cache cache_with(const char *path)
{
    struct fake_cache cache = {.head = {.magic = {0}, .count = 3}};
    memcpy(cache.head.magic, CACHE_MAGIC, sizeof cache.head.magic);
    static const char names[] = DRIVER "\0libother.so\0/none";
    memcpy(cache.text, names, sizeof names);
    strncpy(cache.text + 64, path, sizeof cache.text - 65);
    uint32_t name = TEXT_AT(0), other = TEXT_AT(13), nowhere = TEXT_AT(25), file = TEXT_AT(64);
    cache.entries[0].flags = 3, cache.entries[0].name = name, cache.entries[0].path = nowhere;
    cache.entries[1].flags = CACHE_X86_64, cache.entries[1].name = other, cache.entries[1].path = nowhere;
    cache.entries[2].flags = CACHE_X86_64, cache.entries[2].name = name, cache.entries[2].path = file;
    return cache;
}

TEST(the_cache_leads_to_the_driver)
{
    struct fake_cache cache = cache_with(mathematics());
    self = NULL;
    CHECK(open_from(&cache.head, sizeof cache) == dlopen("libm.so.6", RTLD_NOW));
    cache.entries[2].name = TEXT_AT(13);
    CHECK(!open_from(&cache.head, sizeof cache));
}

TEST(a_damaged_cache_leads_nowhere)
{
    struct fake_cache cache = cache_with(mathematics());
    for (size_t bytes = 0; bytes < offsetof(struct fake_cache, text); bytes++)
        CHECK(!open_from(&cache.head, bytes));
    cache.head.count = UINT32_MAX;
    CHECK(!open_from(&cache.head, sizeof cache));
    cache = cache_with(mathematics());
    cache.entries[2].path = UINT32_MAX;
    CHECK(!open_from(&cache.head, sizeof cache));
    cache = cache_with(mathematics());
    cache.text[sizeof cache.text - 1] = 'x'; /* a text without end */
    CHECK(!open_from(&cache.head, sizeof cache));
    cache = cache_with(mathematics());
    cache.head.magic[0] = 'G';
    CHECK(!open_from(&cache.head, sizeof cache));
}

TEST(the_shim_is_never_the_driver)
{
    struct fake_cache cache = cache_with(mathematics());
    self = dlopen("libm.so.6", RTLD_NOW);
    CHECK(!open_from(&cache.head, sizeof cache));
    setenv("TESSERA_LOG", "error", 1);
    CHECK(!open_named(mathematics()));
    self = NULL;
    CHECK(open_named(mathematics()) != NULL);
}

TEST(the_newest_version_in_a_directory)
{
    char directory[] = "/tmp/tessera-driver-file-XXXXXX", path[PATH_MAX];
    REQUIRE(mkdtemp(directory));
    static const char *const names[] = {"libcuda.so.9.3", "libcuda.so.580.9", "libcuda.so.old", "libcuda.so.580.10"};
    for (size_t i = 0; i < 4; i++) {
        REQUIRE(join(path, directory, strlen(directory), names[i]));
        CHECK_EQ(symlink(i == 3 ? mathematics() : "/none", path), 0);
    }
    CHECK(open_in(directory, strlen(directory)) == dlopen("libm.so.6", RTLD_NOW));
    char list[PATH_MAX + 32];
    snprintf(list, sizeof list, "relative::/none;%s/", directory);
    CHECK(open_in_list(list) == dlopen("libm.so.6", RTLD_NOW));
    CHECK(!open_in_list("relative:;:/none"));
    for (size_t i = 0; i < 4; i++)
        CHECK(join(path, directory, strlen(directory), names[i]) && unlink(path) == 0);
    CHECK_EQ(rmdir(directory), 0);
}

TEST(a_path_that_is_too_long_is_left_out)
{
    char directory[PATH_MAX];
    memset(directory, '/', sizeof directory);
    CHECK(!open_in(directory, sizeof directory));
    CHECK(!open_in(directory, PATH_MAX - strlen(DRIVER) - 1));
}
