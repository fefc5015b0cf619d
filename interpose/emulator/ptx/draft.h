/*
 * A function's instructions while they are being made: operands are virtual registers (numbers into tsr_load.register_types), constants are
 * virtual registers with a value, branch targets are labels. place.c turns a draft into frame offsets and final instructions.
 */
#ifndef TSR_PTX_DRAFT_H
#define TSR_PTX_DRAFT_H

#include "load.h"

enum tsr_field { TSR_F_DST, TSR_F_DST2, TSR_F_A, TSR_F_B, TSR_F_C, TSR_F_D, TSR_F_COUNT };

struct tsr_draft_insn {
    const struct tsr_op *op;
    uint32_t field[TSR_F_COUNT]; /* register, plain number or TSR_NO_REG */
    uint8_t defs, uses, areas;   /* bit per field: a register that is written, read; an offset among the areas of the frame */
    uint16_t flags;
    uint16_t list_defs, list_count;
    uint32_t guard, line;
    uint32_t label; /* id of the target label, or TSR_NO_REG */
    int64_t imm;
    uint32_t *list; /* virtual registers, in the scratch arena */
    void *aux;      /* final, in the kept arena; struct tsr_call and struct tsr_branch_table are completed by place.c */
    const struct tsr_label *const *table; /* targets of a branch table */
    bool is_call;                         /* aux is a struct tsr_call */
};

struct tsr_draft_const {
    uint32_t reg, bytes;
    uint64_t value;
    uint32_t variable; /* index + 1 */
    uint32_t shared;   /* index + 1 */
};

struct tsr_draft {
    TSR_VEC(struct tsr_draft_insn) insns;
    TSR_VEC(struct tsr_draft_const) consts;
    uint32_t *const_slots; /* hash of consts: index + 1, in the scratch arena */
    uint32_t const_mask;
    uint32_t *label_insns; /* by label id: index of its join */
    const struct tsr_statement *statement;
};

struct tsr_draft_insn *tsr_draft_add(struct tsr_load *load, const struct tsr_op *op);

static inline void tsr_draft_def(struct tsr_draft_insn *insn, enum tsr_field field, uint32_t reg)
{
    insn->field[field] = reg;
    if (reg != TSR_NO_REG)
        insn->defs |= (uint8_t)(1u << field);
}
static inline void tsr_draft_use(struct tsr_draft_insn *insn, enum tsr_field field, uint32_t reg)
{
    insn->field[field] = reg;
    if (reg != TSR_NO_REG)
        insn->uses |= (uint8_t)(1u << field);
}
static inline void tsr_draft_area(struct tsr_draft_insn *insn, enum tsr_field field, uint32_t offset)
{
    insn->field[field] = offset;
    insn->areas |= (uint8_t)(1u << field);
}

/* A register that holds the value in all lanes. bytes: 2, 4, 8, or 0 for a predicate. */
uint32_t tsr_draft_const(struct tsr_load *load, uint32_t bytes, uint64_t value);
uint32_t tsr_draft_variable(struct tsr_load *load, uint32_t variable, int64_t addend); /* 64 bits */
uint32_t tsr_draft_shared(struct tsr_load *load, uint32_t shared, int64_t addend, uint32_t bytes);

/* Bytes of a register per lane: 2, 4, 8; 0 for a predicate. A .b128 register is two of 8. */
static inline uint32_t tsr_register_bytes(const struct tsr_load *load, uint32_t reg)
{
    uint8_t bytes = tsr_type_bytes[load->register_types.data[reg]];
    return bytes == 1 ? 2 : bytes == 16 ? 8 : bytes;
}
/* A fresh register of 2, 4, 8 bytes, or 0: predicate. */
uint32_t tsr_draft_temp(struct tsr_load *load, uint32_t bytes);

#endif
