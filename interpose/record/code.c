/* See code.h. */
#include "record/code.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/format.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/options.h"
#include "base/os.h"
#include "record/writer.h"

#define HASHED_BYTES (64u << 20) /* hashing more would be noticed: 10 ms */
#define BUDGET_BYTES (256ull << 20)

static uint64_t copied_bytes; /* atomic; by this process and, before it, by those it was forked from */

struct search {
    uintptr_t begin, end;
    struct tsr_code *code;
};

/* Only segments that cannot be written: what they hold is what the file holds. */
static int look_into(struct dl_phdr_info *object, size_t size, void *argument)
{
    struct search *search = argument;
    (void)size;
    for (unsigned i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &object->dlpi_phdr[i];
        uintptr_t begin = object->dlpi_addr + segment->p_vaddr;
        if (segment->p_type != PT_LOAD || segment->p_flags & PF_W || search->begin < begin ||
            search->end > begin + segment->p_filesz)
            continue;
        search->code->offset = segment->p_offset + (search->begin - begin);
        const char *name = object->dlpi_name && *object->dlpi_name ? object->dlpi_name : "/proc/self/exe";
        search->code->file = open(name, O_RDONLY | O_CLOEXEC);
        return 1;
    }
    return 0;
}

/* The file that some bytes of the process come from, opened; -1: none does. */
static void look_for(struct tsr_code *code, const void *data, size_t bytes)
{
    struct search search = {(uintptr_t)data, (uintptr_t)data + bytes, code};
    dl_iterate_phdr(look_into, &search);
}

/* The absolute name. */
static void name_file(struct tsr_code *code)
{
    char link[64];
    tsr_format(link, sizeof link, "/proc/self/fd/%d", code->file);
    ssize_t length = readlink(link, code->path, sizeof code->path - 1);
    code->path[length < 0 ? 0 : length] = 0;
}

static bool read_all(int file, char *to, size_t bytes)
{
    while (bytes) {
        ssize_t count = read(file, to, bytes);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            return false;
        to += count;
        bytes -= (size_t)count;
    }
    return true;
}

static void read_file(struct tsr_code *code, const char *path)
{
    struct stat status;
    tsr_format(code->path, sizeof code->path, "%s", path);
    code->file = tsr_options()->code ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    if (code->file < 0)
        return;
    name_file(code);
    if (fstat(code->file, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size > HASHED_BYTES)
        return;
    size_t bytes = (size_t)status.st_size;
    code->read = malloc(bytes + 1);
    if (!code->read || !read_all(code->file, code->read, bytes))
        return;
    code->data = code->read;
    code->bytes = bytes;
}

void tsr_code_find(struct tsr_code *code, const void *data, size_t bytes, const char *path)
{
    int saved_errno = errno;
    *code = (struct tsr_code){.data = data, .bytes = bytes, .file = -1};
    if (!data) {
        read_file(code, path);
    } else if (tsr_options()->code) {
        look_for(code, data, bytes);
        if (code->file >= 0)
            name_file(code);
    }
    code->hash = code->data && code->bytes && code->bytes <= HASHED_BYTES ? tsr_hash(code->data, code->bytes) : 0;
    errno = saved_errno;
}

void tsr_code_name_loader(struct tsr_code *code, const void *caller)
{
    if (code->file >= 0 || code->path[0] || !tsr_options()->code)
        return;
    int saved_errno = errno;
    look_for(code, caller, 1);
    if (code->file >= 0) {
        name_file(code);
        close(code->file);
        code->file = -1;
        code->offset = 0;
    }
    errno = saved_errno;
}

static int copy(const struct tsr_code *code)
{
    if (__atomic_add_fetch(&copied_bytes, code->bytes, __ATOMIC_RELAXED) > BUDGET_BYTES)
        return -1;
    int descriptor = tsr_os_memfd("tessera-code", 0);
    if (descriptor < 0 ||
        (tsr_os_allocate(descriptor, 0, code->bytes) && tsr_os_write_all(descriptor, code->data, code->bytes)))
        return descriptor;
    close(descriptor);
    return -1;
}

void tsr_code_hand_over(const struct tsr_code *code, uint32_t module, uint64_t linked_into)
{
    if (!tsr_options()->code || !code->hash)
        return;
    int saved_errno = errno;
    int descriptor = code->file >= 0 ? code->file : copy(code);
    struct tsr_records_message message = {.number = module,
                                          .hash = code->hash,
                                          .linked_into = linked_into,
                                          .offset = code->file >= 0 ? code->offset : 0,
                                          .bytes = code->bytes};
    if (descriptor < 0 || !tsr_writer_hand_over(message, descriptor))
        tsr_info("the code of a module of %zu bytes is not analysed", code->bytes);
    if (code->file < 0 && descriptor >= 0)
        close(descriptor);
    errno = saved_errno;
}

void tsr_code_done(struct tsr_code *code)
{
    int saved_errno = errno;
    if (code->file >= 0)
        close(code->file);
    free(code->read);
    errno = saved_errno;
}
