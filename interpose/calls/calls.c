/*
 * See calls.h. Each entry point is a stub of its own number, which continues in one common part: it keeps the arguments in registers, copies
 * those on the stack (as many as any entry point has), and calls the real function between enter and leave. So no prototype is needed,
 * and debuggers and exceptions find their way through the frame.
 */
#include "calls/calls.h"

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>

#include "calls/entries.h"

#define STACK_BYTES 256 /* of arguments; the entry point with the most has 23, 17 of them there */
#define TEXT_(value) #value
#define TEXT(value) TEXT_(value)

static const char *const libraries[TSR_FAMILIES][4] = {
    [TSR_FAMILY_cublas] = {"libcublas.so.13", "libcublas.so.12", "libcublas.so.11"},
    [TSR_FAMILY_cublasLt] = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so.11"},
    [TSR_FAMILY_cudnn] = {"libcudnn.so.9", "libcudnn.so.8"},
    [TSR_FAMILY_cufft] = {"libcufft.so.12", "libcufft.so.11", "libcufft.so.10"},
    [TSR_FAMILY_cusparse] = {"libcusparse.so.12", "libcusparse.so.11"},
    [TSR_FAMILY_curand] = {"libcurand.so.10"},
    [TSR_FAMILY_nccl] = {"libnccl.so.2"},
};

static const struct family {
    void (*operands)(const struct tsr_arguments *arguments, struct tsr_operands *operands); /* NULL: not known */
    void (*note)(const struct tsr_arguments *arguments);                                    /* NULL: nothing to remember */
} families[TSR_FAMILIES] = {
    [TSR_FAMILY_cublas] = {tsr_blas_operands, tsr_blas_note},       [TSR_FAMILY_cublasLt] = {tsr_blas_lt_operands, NULL},
    [TSR_FAMILY_cudnn] = {tsr_dnn_operands, tsr_dnn_note},          [TSR_FAMILY_cufft] = {tsr_fft_operands, tsr_fft_note},
    [TSR_FAMILY_cusparse] = {tsr_sparse_operands, tsr_sparse_note}, [TSR_FAMILY_nccl] = {tsr_nccl_operands, tsr_nccl_note},
};

static struct entry {
    const char *name;
    enum tsr_call_family family;
    void *real; /* atomic; NULL: not found yet */
} entries[] = {
#define ENTRY(family, name) {#name, TSR_FAMILY_##family, NULL},
    TSR_LIBRARY_CALLS(ENTRY) TSR_LIBRARY_NOTES(ENTRY)};
_Static_assert(sizeof entries / sizeof entries[0] == TSR_ALL_CALLS, "one for each index");
_Static_assert(TSR_LAUNCHING_CALLS < TSR_LIBRARY_CALLS_MOST, "numbers fit in a set of this size");

static bool wanted; /* atomic */
static __thread uint32_t depth, outermost;
static __thread bool has_operands; /* the outermost call launches, and its operands are in the thread's record */
static __thread const struct tessera_library_stated *stated; /* in place of these; NULL: they count */

void *tsr_call_enter(uint32_t index, const uint64_t *registers, const uint64_t *stack) __attribute__((visibility("hidden")));
void tsr_call_leave(uint32_t index, const uint64_t *registers, const uint64_t *stack, int result)
    __attribute__((visibility("hidden")));

/* What CUDA's libraries say before they are initialised. */
static int not_there(void)
{
    return 1;
}

/* Only in libraries that somebody has loaded, which stay loaded then. */
static void *find(enum tsr_call_family family, const char *name, void **known)
{
    int saved_errno = errno;
    void *real = NULL;
    for (const char *const *file = libraries[family]; *file && !real; file++) {
        void *library = dlopen(*file, RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
        real = library ? dlsym(library, name) : NULL;
    }
    if (real)
        __atomic_store_n(known, real, __ATOMIC_RELAXED);
    errno = saved_errno;
    return real;
}

void *tsr_call_function(uint32_t call, const char *name, void **known)
{
    void *function = __atomic_load_n(known, __ATOMIC_RELAXED);
    return function ? function : find(entries[call].family, name, known);
}

static bool find_operands(const struct tsr_arguments *arguments)
{
    int saved_errno = errno;
    const struct entry *entry = &entries[arguments->call];
    struct tsr_call_thread *thread = tsr_call_thread();
    if (thread) {
        tsr_operands_clear(&thread->operands);
        if (families[entry->family].operands)
            families[entry->family].operands(arguments, &thread->operands);
        else
            tsr_operands_unknown(&thread->operands, "a library whose calls are not described");
        tsr_memory_add_operands(entry->family, tsr_argument(arguments, 1), &thread->operands);
        thread->done = (struct tsr_call_done){0};
    }
    errno = saved_errno;
    return thread;
}

static bool makes_handle(uint32_t index)
{
    return index == TSR_CALL_cublasCreate_v2 || index == TSR_CALL_cublasLtCreate || index == TSR_CALL_cudnnCreate;
}

void *tsr_call_enter(uint32_t index, const uint64_t *registers, const uint64_t *stack)
{
    void *real = __atomic_load_n(&entries[index].real, __ATOMIC_RELAXED);
    if (!real)
        real = find(entries[index].family, entries[index].name, &entries[index].real);
    if (depth++ == 0) {
        outermost = index + 1;
        if (real && index < TSR_LAUNCHING_CALLS && __atomic_load_n(&wanted, __ATOMIC_RELAXED))
            has_operands = find_operands(&(struct tsr_arguments){index, registers, stack});
    }
    return real ? real : (void *)not_there;
}

void tsr_call_leave(uint32_t index, const uint64_t *registers, const uint64_t *stack, int result)
{
    void (*note)(const struct tsr_arguments *arguments) = families[entries[index].family].note;
    if (--depth == 0) {
        outermost = 0;
        has_operands = false;
        if (makes_handle(index))
            tsr_memory_has_handle(&outermost, result == 0 ? *(const uint64_t *)registers[0] : 0);
    }
    if (note && result == 0 && entries[index].real) {
        int saved_errno = errno;
        note(&(struct tsr_arguments){index, registers, stack});
        errno = saved_errno;
    }
}

void tessera_library_stand_in(const struct tessera_library_stated *call)
{
    stated = call;
}

uint32_t tessera_library_call(void)
{
    if (stated)
        return stated->call;
    return outermost <= TSR_LAUNCHING_CALLS ? outermost : 0;
}

const char *tessera_library_call_name(uint32_t number)
{
    return number - 1 < TSR_LAUNCHING_CALLS ? entries[number - 1].name : NULL;
}

void tessera_library_operands_wanted(void)
{
    __atomic_store_n(&wanted, true, __ATOMIC_RELAXED);
}

/* It has given the GPU work. */
static bool has_begun(const struct tsr_call_thread *thread)
{
    return thread->done.all || thread->done.count;
}

void tessera_library_enqueued(void)
{
    struct tsr_call_thread *thread = has_operands ? tsr_call_thread() : NULL;
    if (!thread || thread->done.all)
        return;
    thread->done.all = true;
    tsr_operands_later(&thread->operands, &thread->done, &thread->later);
}

void tessera_library_enqueued_bytes(uint64_t address, uint64_t bytes)
{
    struct tsr_call_thread *thread = has_operands ? tsr_call_thread() : NULL;
    if (!thread || thread->done.all)
        return;
    struct tsr_call_done *done = &thread->done;
    if (done->count == TSR_CALL_PIECES) {
        tessera_library_enqueued();
        return;
    }
    done->pieces[done->count].first = address;
    done->pieces[done->count++].end = address + bytes;
    tsr_operands_later(&thread->operands, done, &thread->later);
}

static int32_t report(const struct tsr_operands *operands, const struct tsr_access_range **ranges, uint32_t *other_gpus,
                      const char **why)
{
    *ranges = operands->ranges;
    *other_gpus = operands->other_gpus;
    *why = operands->unknown;
    return operands->unknown ? -1 : (int32_t)operands->count;
}

static int32_t no_operands(const char **why)
{
    *why = "no library call";
    return -1;
}

int32_t tessera_library_operands(const struct tsr_access_range **ranges, uint32_t *other_gpus, const char **why)
{
    if (stated) {
        *ranges = stated->ranges;
        *other_gpus = stated->other_gpus;
        *why = stated->why;
        return stated->count;
    }
    const struct tsr_call_thread *thread = has_operands ? tsr_call_thread() : NULL;
    return thread ? report(has_begun(thread) ? &thread->later : &thread->operands, ranges, other_gpus, why) : no_operands(why);
}

int32_t tessera_library_newest(const struct tsr_access_range **ranges, uint32_t *other_gpus, const char **why)
{
    const struct tsr_call_thread *thread = tsr_call_thread();
    return thread ? report(&thread->operands, ranges, other_gpus, why) : no_operands(why);
}

void tessera_library_memory(uint64_t address, uint64_t bytes)
{
    if (!outermost)
        return;
    tsr_memory_made(entries[outermost - 1].family, address, bytes, makes_handle(outermost - 1) ? &outermost : NULL);
    if (has_operands)
        tsr_operands_add_bytes(&tsr_call_thread()->operands, TSR_OPERAND_BOTH, address, bytes);
    if (has_operands && has_begun(tsr_call_thread()))
        tsr_operands_add_bytes(&tsr_call_thread()->later, TSR_OPERAND_BOTH, address, bytes);
}

void tessera_library_memory_gone(uint64_t address)
{
    tsr_memory_gone(address);
}

#define STUB(family, name)                                                                                                     \
    __asm__(".text\n.globl " #name "\n.type " #name ", @function\n.balign 16\n" #name ":\n"                                     \
            "  .cfi_startproc\n  endbr64\n  mov $tsr_call_row, %r11d\n  jmp tsr_call_common\n  .cfi_endproc\n"                 \
            ".size " #name ", . - " #name "\n.set tsr_call_row, tsr_call_row + 1\n");

__asm__(".set tsr_call_row, 0\n");
TSR_LIBRARY_CALLS(STUB)
TSR_LIBRARY_NOTES(STUB)

/*
 * %r11d: the entry's index. Returns what the real function does, in %rax, %rdx and %xmm0. The frame, from %rsp + STACK_BYTES on: six arguments,
 * %rax, the index, eight vector registers.
 */
__asm__(
    ".text\n.type tsr_call_common, @function\n.balign 16\ntsr_call_common:\n"
    "  .cfi_startproc\n"
    "  push %rbp\n  .cfi_def_cfa_offset 16\n  .cfi_offset %rbp, -16\n"
    "  mov %rsp, %rbp\n  .cfi_def_cfa_register %rbp\n"
    "  sub $192, %rsp\n"
    "  mov %rdi, (%rsp)\n  mov %rsi, 8(%rsp)\n  mov %rdx, 16(%rsp)\n  mov %rcx, 24(%rsp)\n"
    "  mov %r8, 32(%rsp)\n  mov %r9, 40(%rsp)\n  mov %rax, 48(%rsp)\n  mov %r11, 56(%rsp)\n"
    "  movaps %xmm0, 64(%rsp)\n  movaps %xmm1, 80(%rsp)\n  movaps %xmm2, 96(%rsp)\n  movaps %xmm3, 112(%rsp)\n"
    "  movaps %xmm4, 128(%rsp)\n  movaps %xmm5, 144(%rsp)\n  movaps %xmm6, 160(%rsp)\n  movaps %xmm7, 176(%rsp)\n"
    "  mov %r11d, %edi\n  mov %rsp, %rsi\n  lea 16(%rbp), %rdx\n  call tsr_call_enter\n  mov %rax, %r11\n"
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
                                                       "  mov " TEXT(STACK_BYTES) " + 56(%rsp), %edi\n  lea " TEXT(
                                                           STACK_BYTES) "(%rsp), %rsi\n  lea 16(%rbp), %rdx\n"
                                                                        "  mov %eax, %ecx\n  call tsr_call_leave\n"
                                                                        "  mov (%rsp), %rax\n  mov 8(%rsp), %rdx\n  movaps 16(%rsp), %xmm0\n"
                                                                        "  leave\n  .cfi_def_cfa %rsp, 8\n  ret\n"
                                                                        "  .cfi_endproc\n.size tsr_call_common, . - tsr_call_common\n");
