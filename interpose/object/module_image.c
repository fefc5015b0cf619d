/* See module_image.h. */
#include "object/module_image.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/os.h"
#include "image/extent.h"
#include "object/registry.h"
#include "object/session.h"

/* Images that libraries carry lie in their mapped files; those that were made at run time lie in no file. */
static void read_module_name(struct tsr_module_record *module, const void *image)
{
    Dl_info info;
    if (!dladdr(image, &info) || !info.dli_fname)
        return;
    const char *slash = strrchr(info.dli_fname, '/');
    strncat(module->name, slash ? slash + 1 : info.dli_fname, sizeof module->name - 1);
}

void tsr_module_keep(struct tsr_module_record *module, const void *image)
{
    if (!tsr_session())
        return;
    image = tsr_image_unwrap(image);
    module->bytes = tsr_image_bytes(image);
    module->image = module->bytes ? tsr_os_memfd("tessera-image", module->bytes) : -1;
    read_module_name(module, image);
    if (module->image >= 0 && !(tsr_os_write_all(module->image, image, module->bytes) &&
                                tsr_os_seal(module->image, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE))) {
        close(module->image);
        module->image = -1;
    }
}

void tsr_module_keep_file(struct tsr_module_record *module, const char *path)
{
    int file = tsr_session() ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    off_t bytes = file >= 0 ? lseek(file, 0, SEEK_END) : -1;
    char *image = bytes > 0 ? calloc(1, (size_t)bytes + 1) : NULL; /* a text ends with a zero */
    if (image && pread(file, image, (size_t)bytes, 0) == bytes)
        tsr_module_keep(module, image);
    free(image);
    if (file >= 0)
        close(file);
}

void tsr_module_drop_image(struct tsr_module_record *module)
{
    if (module->image >= 0)
        close(module->image);
    module->image = -1;
}

const char *tsr_module_name(const struct tsr_module_record *module)
{
    return module->name;
}

uint64_t tsr_module_hash(struct tsr_module_record *module)
{
    uint64_t hash = __atomic_load_n(&module->hash, __ATOMIC_RELAXED);
    if (hash || module->image < 0)
        return hash;
    void *image = mmap(NULL, module->bytes, PROT_READ, MAP_SHARED, module->image, 0);
    if (image == MAP_FAILED)
        return 0;
    hash = tsr_hash(image, module->bytes);
    munmap(image, module->bytes);
    __atomic_store_n(&module->hash, hash, __ATOMIC_RELAXED);
    return hash;
}
