/*
 * The exports that the shim only forwards: for each row of the driver table a jump through the row's pointer in tsr_real, 16 bytes long
 * and aligned, because other tools patch the first bytes of driver functions. A jump keeps every register and the stack as they are, so
 * it fits any prototype.
 *
 * Before the driver is open each pointer leads to its loader stub, which saves the argument registers, opens the driver and continues
 * at the pointer that is there then.
 *
 * Where launches are deferred (deferred.h), all functions but those that are called at once (classes.py) wait for them first: an error
 * of theirs is the call's result.
 */
#include "driver/real.h"
#include "driver/wrapped.h"

/*
 * One counter runs through the table in the assembler. Rows that are forwarded emit an export, and so do rows with a function that is only
 * for processes in which the shim acts (engaged.h); all rows emit a loader stub.
 */
#define EXPORT_0(symbol)                                                                                                       \
    ".globl " #symbol "\n.type " #symbol ", @function\n.balign 16\n" #symbol ":\n"                                              \
    "  endbr64\n  jmp *(tsr_real + 8 * tsr_row)(%rip)\n.balign 16\n.size " #symbol ", . - " #symbol "\n"
#define EXPORT_1(symbol)
#define EXPORT_3(symbol)                                                                                                       \
    ".globl " #symbol "\n.type " #symbol ", @function\n.balign 16\n" #symbol ":\n"                                              \
    "  endbr64\n  cmpl $0, tsr_engaged(%rip)\n  jne engaged_" #symbol "\n"                                                    \
    "  jmp *(tsr_real + 8 * tsr_row)(%rip)\n.balign 16\n.size " #symbol ", . - " #symbol "\n"
#define EXPORT_2(symbol) EXPORT_WAITING(symbol, 1)
#define EXPORT_4(symbol) EXPORT_WAITING(symbol, 0)
#define EXPORT_WAITING(symbol, all)                                                                                                       \
    ".globl " #symbol "\n.type " #symbol ", @function\n.balign 16\n" #symbol ":\n"                                              \
    "  endbr64\n  cmpl $0, tsr_engaged(%rip)\n  jne 1f\n"                                                                     \
    "  jmp *(tsr_real + 8 * tsr_row)(%rip)\n"                                                                                  \
    "1: cmpl $0, tsr_deferring(%rip)\n  je engaged_" #symbol "\n"                                                            \
    "  lea engaged_" #symbol "(%rip), %r11\n  mov $" #all ", %eax\n  jmp tsr_after_deferred\n.balign 16\n.size " #symbol ", . - " #symbol "\n"
#define EXPORT_CHOOSE(wraps) EXPORT_##wraps
#define EXPORT_FOR(wraps) EXPORT_CHOOSE(wraps)
#define ROW(symbol)                                                                                                            \
    __asm__(".text\n" EXPORT_FOR(TSR_WRAPS(symbol))(symbol) ".balign 16\ntsr_loader_" #symbol ":\n"                              \
            "  push $tsr_row\n  jmp tsr_loader_common\n"                                                                       \
            ".section .data.rel.tsr_real, \"aw\"\n  .quad tsr_loader_" #symbol "\n.text\n.set tsr_row, tsr_row + 1\n");

/* Around a call of C in the middle of any prototype: arguments in registers, and one register more; %rbx is the frame's. */
#define SAVE_ARGUMENTS(also)                                                                                                   \
    "  push %rdi\n  push %rsi\n  push %rdx\n  push %rcx\n  push %r8\n  push %r9\n  push " also "\n  push %rbx\n"                \
    "  sub $128, %rsp\n"                                                                                                       \
    "  movups %xmm0, (%rsp)\n  movups %xmm1, 16(%rsp)\n  movups %xmm2, 32(%rsp)\n  movups %xmm3, 48(%rsp)\n"                  \
    "  movups %xmm4, 64(%rsp)\n  movups %xmm5, 80(%rsp)\n  movups %xmm6, 96(%rsp)\n  movups %xmm7, 112(%rsp)\n"               \
    "  mov %rsp, %rbx\n  and $-16, %rsp\n"
#define RESTORE_ARGUMENTS(also)                                                                                                \
    "  mov %rbx, %rsp\n"                                                                                                       \
    "  movups (%rsp), %xmm0\n  movups 16(%rsp), %xmm1\n  movups 32(%rsp), %xmm2\n  movups 48(%rsp), %xmm3\n"                  \
    "  movups 64(%rsp), %xmm4\n  movups 80(%rsp), %xmm5\n  movups 96(%rsp), %xmm6\n  movups 112(%rsp), %xmm7\n"               \
    "  add $128, %rsp\n"                                                                                                       \
    "  pop %rbx\n  pop " also "\n  pop %r9\n  pop %r8\n  pop %rcx\n  pop %rdx\n  pop %rsi\n  pop %rdi\n"

__asm__(
    ".text\n.type tsr_after_deferred, @function\n.balign 16\ntsr_after_deferred:\n"
    "  .cfi_startproc\n"
    "  push %rbp\n  .cfi_def_cfa_offset 16\n  .cfi_offset %rbp, -16\n"
    "  mov %rsp, %rbp\n  .cfi_def_cfa_register %rbp\n" SAVE_ARGUMENTS("%r11") "  mov %eax, %edi\n  call tsr_deferred_wait\n" RESTORE_ARGUMENTS(
        "%r11") "  pop %rbp\n  .cfi_def_cfa %rsp, 8\n  .cfi_restore %rbp\n"
                "  test %eax, %eax\n  jne 1f\n  jmp *%r11\n1: ret\n"
                "  .cfi_endproc\n.size tsr_after_deferred, . - tsr_after_deferred\n"
                ".set tsr_row, 0\n"
                ".section .data.rel.tsr_real, \"aw\"\n.balign 64\n.globl tsr_real\n.hidden tsr_real\n.type tsr_real, @object\ntsr_real:\n"
                ".text\n.type tsr_loader_common, @function\ntsr_loader_common:\n"
                "  .cfi_startproc\n  .cfi_def_cfa_offset 16\n"
                "  push %rbp\n  .cfi_def_cfa_offset 24\n  .cfi_offset %rbp, -24\n"
                "  mov %rsp, %rbp\n  .cfi_def_cfa_register %rbp\n" SAVE_ARGUMENTS("%rax") "  mov 8(%rbp), %rdi\n  call tsr_forward_target\n  mov %rax, %r11\n" RESTORE_ARGUMENTS(
                    "%rax") "  pop %rbp\n  .cfi_def_cfa %rsp, 16\n  .cfi_restore %rbp\n"
                            "  add $8, %rsp\n  .cfi_def_cfa_offset 8\n  jmp *%r11\n  .cfi_endproc\n.size tsr_loader_common, . - tsr_loader_common\n");

#define TSR_DRIVER(symbol, class, status, type) ROW(symbol)
#define TSR_DRIVER_TWIN(symbol, base, type) ROW(symbol)
#define TSR_DRIVER_UNTYPED(symbol, class, status) ROW(symbol)
#include "api/driver.def"
