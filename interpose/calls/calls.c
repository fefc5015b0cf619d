/*
 * See calls.h. Each entry point is a stub of its own number, which continues in one common part: it keeps the arguments in registers, copies
 * those on the stack (as many as any entry point has), and calls the real function between enter and leave. So no prototype is needed,
 * and debuggers and exceptions find their way through the frame.
 */
#include "calls/calls.h"

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>

#include <tessera/library_calls.h>

#define STACK_BYTES 256 /* of arguments; the entry point with the most has 23, 17 of them there */
#define TEXT_(value) #value
#define TEXT(value) TEXT_(value)

static const char *const cublas[] = {"libcublas.so.13", "libcublas.so.12", "libcublas.so.11", NULL};
static const char *const cublasLt[] = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so.11", NULL};
static const char *const cudnn[] = {"libcudnn.so.9", "libcudnn.so.8", NULL};
static const char *const cufft[] = {"libcufft.so.12", "libcufft.so.11", "libcufft.so.10", NULL};
static const char *const cusparse[] = {"libcusparse.so.12", "libcusparse.so.11", NULL};
static const char *const curand[] = {"libcurand.so.10", NULL};

static struct entry {
    const char *name;
    const char *const *libraries; /* that may have it, by SONAME */
    void *real;                   /* atomic; NULL: not found yet */
} entries[] = {
#define ENTRY(family, name) {#name, family, NULL},
    TSR_LIBRARY_CALLS(ENTRY)};
#define ENTRY_COUNT (sizeof entries / sizeof entries[0])
_Static_assert(ENTRY_COUNT < TSR_LIBRARY_CALLS_MOST, "numbers fit in a set of this size");

static __thread uint32_t depth, now;

void *tsr_call_enter(uint32_t index) __attribute__((visibility("hidden")));
void tsr_call_leave(void) __attribute__((visibility("hidden")));

/* What CUDA's libraries say before they are initialised. */
static int not_there(void)
{
    return 1;
}

/* Only in libraries that somebody has loaded, which stay loaded then. */
static void *find(struct entry *entry)
{
    int saved_errno = errno;
    void *real = NULL;
    for (const char *const *name = entry->libraries; *name && !real; name++) {
        void *library = dlopen(*name, RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
        real = library ? dlsym(library, entry->name) : NULL;
    }
    if (real)
        __atomic_store_n(&entry->real, real, __ATOMIC_RELAXED);
    errno = saved_errno;
    return real ? real : (void *)not_there;
}

void *tsr_call_enter(uint32_t index)
{
    if (depth++ == 0)
        now = index + 1;
    void *real = __atomic_load_n(&entries[index].real, __ATOMIC_RELAXED);
    return real ? real : find(&entries[index]);
}

void tsr_call_leave(void)
{
    if (--depth == 0)
        now = 0;
}

uint32_t tessera_library_call(void)
{
    return now;
}

const char *tessera_library_call_name(uint32_t number)
{
    return number - 1 < ENTRY_COUNT ? entries[number - 1].name : NULL;
}

#define STUB(family, name)                                                                                                     \
    __asm__(".text\n.globl " #name "\n.type " #name ", @function\n.balign 16\n" #name ":\n"                                     \
            "  .cfi_startproc\n  endbr64\n  mov $tsr_call_row, %r11d\n  jmp tsr_call_common\n  .cfi_endproc\n"                 \
            ".size " #name ", . - " #name "\n.set tsr_call_row, tsr_call_row + 1\n");

__asm__(".set tsr_call_row, 0\n");
TSR_LIBRARY_CALLS(STUB)

/* %r11d: the entry's index. Returns what the real function does, in %rax, %rdx and %xmm0. */
__asm__(
    ".text\n.type tsr_call_common, @function\n.balign 16\ntsr_call_common:\n"
    "  .cfi_startproc\n"
    "  push %rbp\n  .cfi_def_cfa_offset 16\n  .cfi_offset %rbp, -16\n"
    "  mov %rsp, %rbp\n  .cfi_def_cfa_register %rbp\n"
    "  sub $192, %rsp\n"
    "  mov %rdi, (%rsp)\n  mov %rsi, 8(%rsp)\n  mov %rdx, 16(%rsp)\n  mov %rcx, 24(%rsp)\n"
    "  mov %r8, 32(%rsp)\n  mov %r9, 40(%rsp)\n  mov %rax, 48(%rsp)\n"
    "  movaps %xmm0, 64(%rsp)\n  movaps %xmm1, 80(%rsp)\n  movaps %xmm2, 96(%rsp)\n  movaps %xmm3, 112(%rsp)\n"
    "  movaps %xmm4, 128(%rsp)\n  movaps %xmm5, 144(%rsp)\n  movaps %xmm6, 160(%rsp)\n  movaps %xmm7, 176(%rsp)\n"
    "  mov %r11d, %edi\n  call tsr_call_enter\n  mov %rax, %r11\n"
    "  sub $" TEXT(
        STACK_BYTES) ", %rsp\n"
                     "  lea 16(%rbp), %rsi\n  mov %rsp, %rdi\n  mov $(" TEXT(
                         STACK_BYTES) " / 8), %ecx\n  rep movsq\n"
                                      "  lea " TEXT(
                                          STACK_BYTES) "(%rsp), %r10\n"
                                                       "  mov (%r10), %rdi\n  mov 8(%r10), %rsi\n  mov 16(%r10), %rdx\n  mov 24(%r10), %rcx\n"
                                                       "  mov 32(%r10), %r8\n  mov 40(%r10), %r9\n  mov 48(%r10), %rax\n"
                                                       "  movaps 64(%r10), %xmm0\n  movaps 80(%r10), %xmm1\n  movaps 96(%r10), %xmm2\n  movaps 112(%r10), %xmm3\n"
                                                       "  movaps 128(%r10), %xmm4\n  movaps 144(%r10), %xmm5\n  movaps 160(%r10), %xmm6\n  movaps 176(%r10), %xmm7\n"
                                                       "  call *%r11\n"
                                                       "  mov %rax, (%rsp)\n  mov %rdx, 8(%rsp)\n  movaps %xmm0, 16(%rsp)\n"
                                                       "  call tsr_call_leave\n"
                                                       "  mov (%rsp), %rax\n  mov 8(%rsp), %rdx\n  movaps 16(%rsp), %xmm0\n"
                                                       "  leave\n  .cfi_def_cfa %rsp, 8\n  ret\n"
                                                       "  .cfi_endproc\n.size tsr_call_common, . - tsr_call_common\n");
