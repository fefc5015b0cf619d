/*
 * Preloaded: in the process that TESSERA_FAULT_ALLOCATION names as `name:n`, the n-th request of Tessera's own code for memory, a mapping, a memory
 * file, a socket or a thread fails, once, and leaves the file TESSERA_FAULT_MARK. In every other process, and for every other caller, it passes all on.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *old, size_t bytes);

#define EXPORT __attribute__((visibility("default")))
#define FAILS is_the_one(__builtin_return_address(0))

static uintptr_t first, last; /* of Tessera's code in this process */
static long wanted, calls;

static int find_code(struct dl_phdr_info *info, size_t size, void *whole_program)
{
    (void)size;
    if (whole_program ? info->dlpi_name[0] != 0 : !strstr(info->dlpi_name, "/shim/libcuda.so.1"))
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_flags & PF_X) {
            first = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
            last = first + info->dlpi_phdr[i].p_memsz;
        }
    return 1;
}

__attribute__((constructor)) static void begin(void)
{
    const char *fault = getenv("TESSERA_FAULT_ALLOCATION"), *colon = fault ? strchr(fault, ':') : NULL;
    const char *self = program_invocation_short_name;
    if (!colon || strlen(self) != (size_t)(colon - fault) || memcmp(self, fault, strlen(self)) != 0)
        return;
    dl_iterate_phdr(find_code, strcmp(self, "tessera-executor") == 0 ? "" : NULL);
    wanted = atol(colon + 1);
}

static bool is_the_one(const void *caller)
{
    uintptr_t from = (uintptr_t)caller;
    bool is = wanted && from >= first && from < last && __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED) == wanted;
    if (is && getenv("TESSERA_FAULT_MARK"))
        close(open(getenv("TESSERA_FAULT_MARK"), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    return is;
}

/* Not dlsym, of which there may be another one in front. */
static void *next(const char *name)
{
    void *found = dlvsym(RTLD_NEXT, name, "GLIBC_2.2.5");
    return found ? found : dlvsym(RTLD_NEXT, name, "GLIBC_2.34");
}

EXPORT void *malloc(size_t bytes)
{
    return FAILS ? (errno = ENOMEM, NULL) : __libc_malloc(bytes);
}

EXPORT void *calloc(size_t count, size_t bytes)
{
    return FAILS ? (errno = ENOMEM, NULL) : __libc_calloc(count, bytes);
}

EXPORT void *realloc(void *old, size_t bytes)
{
    return FAILS ? (errno = ENOMEM, NULL) : __libc_realloc(old, bytes);
}

EXPORT void *mmap(void *address, size_t bytes, int protection, int flags, int descriptor, off_t offset)
{
    static void *(*real)(void *, size_t, int, int, int, off_t);
    if (!real)
        *(void **)&real = next("mmap");
    return FAILS ? (errno = ENOMEM, MAP_FAILED) : real(address, bytes, protection, flags, descriptor, offset);
}

EXPORT int memfd_create(const char *name, unsigned flags)
{
    static int (*real)(const char *, unsigned);
    if (!real)
        *(void **)&real = dlvsym(RTLD_NEXT, "memfd_create", "GLIBC_2.27");
    return FAILS ? (errno = EMFILE, -1) : real(name, flags);
}

EXPORT int socket(int domain, int type, int protocol)
{
    static int (*real)(int, int, int);
    if (!real)
        *(void **)&real = next("socket");
    return FAILS ? (errno = EMFILE, -1) : real(domain, type, protocol);
}

EXPORT int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument)
{
    static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    if (!real)
        *(void **)&real = next("pthread_create");
    return FAILS ? EAGAIN : real(thread, attributes, run, argument);
}
