/*
 * The registry of operations: what the decoder may put into an instruction.
 *
 * Two kinds:
 *  - lane operations: destination and sources are registers, every lane on its own. Generated from the semantics table (ptxtools/isa/semantics.py);
 *    the key is the PTX opcode as spelled ("fma.rn.ftz.f32", "cvt.rni.s32.f32", "setp.lt.and.s32", "selp.b64", "mul.wide.u16", "lop3.b32"),
 *    every valid spelling has a row (modifiers in PTX's order). Plus the internal ones: "tsr.low.bN.bM", "tsr.zext.bM.bN",
 *    "tsr.sext.bM.bN" (register width M to/from N).
 *  - interpreter operations: hand-written in exec/ (memory, control, barriers, atomics, warp collectives, matrix). exec/op_keys.md
 *    lists each key with its operand convention (which field holds what); the decoder follows it.
 */
#ifndef TSR_EXEC_OP_H
#define TSR_EXEC_OP_H

#include <stddef.h>
#include <stdint.h>

#include "insn.h"

/* How an operand is stored (register class), and what it means. */
enum tsr_type {
    TSR_T_NONE,
    TSR_T_PRED,
    TSR_T_B8,
    TSR_T_U8,
    TSR_T_S8,
    TSR_T_B16,
    TSR_T_U16,
    TSR_T_S16,
    TSR_T_F16,
    TSR_T_BF16,
    TSR_T_B32,
    TSR_T_U32,
    TSR_T_S32,
    TSR_T_F32,
    TSR_T_F16X2,
    TSR_T_BF16X2,
    TSR_T_B64,
    TSR_T_U64,
    TSR_T_S64,
    TSR_T_F64,
    TSR_T_B128,
    TSR_T_COUNT
};
extern const uint8_t tsr_type_bytes[TSR_T_COUNT]; /* of one lane's value; PRED is 0 */

/* What the issue slot costs; machine-dependent numbers are made from the class by the decoder (tsr_op_cycles). */
enum tsr_op_class {
    TSR_C_INT,
    TSR_C_INT_MUL,
    TSR_C_F32,
    TSR_C_F64,
    TSR_C_F16,
    TSR_C_SPECIAL,
    TSR_C_CONVERT,
    TSR_C_MOVE,
    TSR_C_CONTROL,
    TSR_C_MEMORY,
    TSR_C_SHARED,
    TSR_C_ATOMIC,
    TSR_C_COLLECTIVE,
    TSR_C_MMA_F16,
    TSR_C_MMA_TF32,
    TSR_C_MMA_S8,
    TSR_C_MMA_F64,
    TSR_C_FREE,
    TSR_C_COUNT
};

#define TSR_OP_LANE 1u  /* lane operation; dst_type, src_type are set */
#define TSR_OP_DST2 2u  /* also writes dst2 (setp p|q): same type as dst */

struct tsr_op {
    const char *key;
    tsr_op_fn *run;  /* for this CPU */
    uint32_t number; /* index in the registry, stable within one build */
    uint8_t flags, op_class, sources;
    uint8_t dst_type; /* enum tsr_type */
    uint8_t
        src_type[4]; /* a, b, c, d. An operand that PTX requires to be an immediate (lop3's table) is a register here as well */
    uint16_t work;   /* matrix operations: multiply-adds per warp / 32; else 1 */
};

/* NULL when there is no such operation. Safe from any thread after the first call. */
const struct tsr_op *tsr_op_find(const char *key, size_t length);
const struct tsr_op *tsr_op_at(uint32_t number); /* NULL past the end */

struct tsr_device_desc;
uint16_t tsr_op_cycles(const struct tsr_op *op, const struct tsr_device_desc *device);

#endif
