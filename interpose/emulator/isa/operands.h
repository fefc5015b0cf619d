/*
 * What the decoder puts into instructions of the interpreter's operations, besides registers: flags and the structures
 * after insn.aux. Conventions per operation: op_keys.md.
 */
#ifndef TSR_EXEC_OPERANDS_H
#define TSR_EXEC_OPERANDS_H

#include "insn.h"

#define TSR_MEM_ADDRESS64 0x100u /* shared and local: the address register has 64 bits; its low half counts */
#define TSR_MEM_STRONG 0x200u    /* volatile, relaxed, acquire, release: every element is one atomic access */
#define TSR_SOURCE_NOT 0x400u    /* the source predicate is !p */

struct tsr_branch_table { /* brx.idx */
    uint32_t count;
    const struct tsr_insn *const *targets; /* each a join */
};

#endif
