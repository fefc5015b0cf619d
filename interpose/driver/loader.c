/*
 * See loader.h. The rule for a name `cu` + capital letter and an explicit handle: ask the real dlsym; when what it finds is a function of
 * a libcuda.so*, or the handle is ours, the answer is
 *
 *   our export of that name, if the driver behind us has the function;
 *   else what the driver behind us has: a function newer than our table, or nothing and the reason in dlerror.
 *
 * So no function is found that the driver lacks. The last look-up made is the one whose result is returned, so dlerror is about that one.
 */
#include "driver/loader.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <string.h>

#include "driver/real.h"

typedef void *(*tsr_dlsym)(void *handle, const char *name);

tsr_dlsym tsr_loader_next __attribute__((visibility("hidden"))); /* atomic; NULL until the first use */
tsr_dlsym tsr_loader_find_next(void) __attribute__((visibility("hidden")));
void *tsr_loader_driver_symbol(void *handle, const char *name) __attribute__((visibility("hidden")));
extern const char tsr_loader_start[] __asm__("__ehdr_start") __attribute__((visibility("hidden")));

/* Jumps in both cases: the real dlsym, and tsr_loader_driver_symbol, return to the caller of dlsym. */
__asm__(".text\n.globl dlsym\n.type dlsym, @function\n.balign 16\ndlsym:\n"
        "  .cfi_startproc\n"
        "  endbr64\n"
        "  lea 1(%rdi), %rax\n  cmp $1, %rax\n  jbe 1f\n" /* RTLD_DEFAULT is 0, RTLD_NEXT is -1 */
        "  test %rsi, %rsi\n  jz 1f\n"
        "  cmpb $'c', (%rsi)\n  jne 1f\n  cmpb $'u', 1(%rsi)\n  jne 1f\n"
        "  movzbl 2(%rsi), %eax\n  sub $'A', %eax\n  cmp $25, %eax\n  jbe tsr_loader_driver_symbol\n"
        "1:\n"
        "  mov tsr_loader_next(%rip), %rax\n  test %rax, %rax\n  jz 2f\n"
        "  jmp *%rax\n"
        "2:\n"
        "  push %rdi\n  push %rsi\n  sub $8, %rsp\n  .cfi_adjust_cfa_offset 24\n"
        "  call tsr_loader_find_next\n"
        "  add $8, %rsp\n  pop %rsi\n  pop %rdi\n  .cfi_adjust_cfa_offset -24\n"
        "  jmp *%rax\n  .cfi_endproc\n"
        ".size dlsym, . - dlsym\n");

/* Sanitizers look their own functions up through here before their memory is set up. */
#define NOT_SANITIZED __attribute__((no_sanitize("address", "thread", "undefined")))

NOT_SANITIZED static tsr_dlsym libc_dlsym(void)
{
    tsr_dlsym found = (tsr_dlsym)dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
    return found ? found : (tsr_dlsym)dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
}

NOT_SANITIZED tsr_dlsym tsr_loader_find_next(void)
{
    tsr_dlsym libc = libc_dlsym(), next = (tsr_dlsym)libc(RTLD_NEXT, "dlsym");
    __atomic_store_n(&tsr_loader_next, next ? next : libc, __ATOMIC_RELAXED);
    return next ? next : libc;
}

void *tsr_loader_symbol(void *handle, const char *name)
{
    static tsr_dlsym libc; /* atomic */
    tsr_dlsym real = __atomic_load_n(&libc, __ATOMIC_RELAXED);
    if (!real)
        __atomic_store_n(&libc, real = libc_dlsym(), __ATOMIC_RELAXED);
    return real(handle, name);
}

/* In glibc a handle is the object's link map. */
bool tsr_loader_is_self(const void *handle)
{
    Dl_info object;
    void *map = NULL;
    return dladdr1(tsr_loader_start, &object, &map, RTLD_DL_LINKMAP) && handle == map;
}

/* Our export of that name. A library that was preloaded has nothing that could be searched until it is opened. */
static void *own_symbol(const char *name)
{
    static void *self; /* atomic */
    void *handle = __atomic_load_n(&self, __ATOMIC_RELAXED);
    Dl_info object;
    if (!handle && dladdr(tsr_loader_start, &object)) {
        handle = dlopen(object.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
        __atomic_store_n(&self, handle, __ATOMIC_RELAXED);
    }
    return handle ? tsr_loader_symbol(handle, name) : NULL;
}

uintptr_t tsr_loader_self_start(void)
{
    return (uintptr_t)tsr_loader_start;
}

uintptr_t tsr_loader_start_of(const void *handle)
{
    return ((const struct link_map *)handle)->l_addr;
}

/* Whether it is a function of a driver library, us included. */
static bool is_of_driver(const void *function, bool *is_ours)
{
    Dl_info object;
    if (!dladdr(function, &object) || !object.dli_fname)
        return false;
    *is_ours = object.dli_fbase == tsr_loader_start;
    const char *slash = strrchr(object.dli_fname, '/');
    const char *name = slash ? slash + 1 : object.dli_fname;
    return *is_ours || strncmp(name, "libcuda.so", strlen("libcuda.so")) == 0;
}

static void *answer(void *handle, const char *name)
{
    bool is_ours = true;
    void *found = tsr_loader_symbol(handle, name);
    if (found ? !is_of_driver(found, &is_ours) : !tsr_loader_is_self(handle))
        return found;
    void *driver = tsr_real_library();
    if (!driver)
        return found;
    void *ours = own_symbol(name);
    void *real = tsr_loader_symbol(driver, name);
    if (!real && !is_ours) /* of another copy of the driver, which has more functions than ours */
        return tsr_loader_symbol(handle, name);
    return real && ours ? ours : real;
}

void *tsr_loader_driver_symbol(void *handle, const char *name)
{
    int saved_errno = errno;
    void *found = answer(handle, name);
    errno = saved_errno;
    return found;
}
