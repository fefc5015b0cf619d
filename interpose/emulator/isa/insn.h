/*
 * One decoded instruction, and the frame it works on.
 *
 * A warp is 32 lanes in lockstep. Every register is an array over the 32 lanes in the current frame, 64-byte aligned:
 *   predicate 4 bytes (bit l = lane l), 16-bit (also 8-bit values) 64 bytes, 32-bit 128 bytes, 64-bit 256 bytes.
 * A .b128 register is two 64-bit ones, low half first. Operands are byte offsets into the frame. Immediates, addresses of variables and
 * of functions are constant registers: they lie in the frame like any other and are copied there from the function's template when the frame
 * is made. Registers are as wide as PTX declared them (8-bit: 16); where an instruction's type is narrower than the register, the
 * decoder inserts a conversion (`tsr.low.*`, `tsr.zext.*`, `tsr.sext.*`), so an operation never sees a width other than its own.
 *
 * The decoder (ptx/) is the only producer, the interpreter (exec/) the only consumer.
 */
#ifndef TSR_EXEC_INSN_H
#define TSR_EXEC_INSN_H

#include <stdint.h>

struct tsr_insn;
struct tsr_warp;

/*
 * Executes `i` for the lanes in `m` (never empty; m is a subset of the warp's active mask, guard applied) and returns the instruction to run next, or
 * NULL when the warp must stop running (barrier, yield, exit, fault: see warp->state). Straight-line operations return i + 1.
 */
typedef const struct tsr_insn *tsr_op_fn(struct tsr_warp *w, const struct tsr_insn *i, uint32_t m);

#define TSR_NO_REG 0xffffffffu
#define TSR_INSN_GUARD_NOT 1u /* the guard is @!p */

struct tsr_insn {
    tsr_op_fn *run;
    uint32_t guard;     /* predicate register or TSR_NO_REG; with no lane left the instruction is skipped */
    uint16_t flags;     /* TSR_INSN_*; bits from 8 up belong to the operation */
    uint16_t cycles;    /* issue cost in 1/16 cycles of one scheduler, for the device the code was decoded for */
    uint32_t dst, dst2; /* TSR_NO_REG where absent (`_` or not written) */
    uint32_t a, b, c, d;
    int64_t imm; /* displacement, immediate operand, or what the operation documents */
    union {
        const uint32_t *list;          /* further registers: destinations first, then sources, as the operation documents */
        const struct tsr_insn *target; /* branch target */
        const struct tsr_call *call;
        const void *aux;
    };
    uint32_t op;   /* number in the registry: names, traces, statistics */
    uint32_t line; /* in the PTX text, from 1 */
};
_Static_assert(sizeof(struct tsr_insn) == 64, "one cache line");

#endif
