/*
 * What the launches inside a library call may read and write: collected by the call's own rules (in calls/) into the thread's record.
 */
#ifndef TSR_CALLS_OPERANDS_H
#define TSR_CALLS_OPERANDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "calls/box.h"
#include "calls/calls.h"

#define TSR_OPERAND_RANGES 256u

/* A call's arguments as the caller passed them, by position from 1; only those that are integers or pointers are counted. */
struct tsr_arguments {
    uint32_t call;             /* index of the entry point */
    const uint64_t *registers; /* the first six */
    const uint64_t *stack;     /* the others */
};

static inline uint64_t tsr_argument(const struct tsr_arguments *arguments, uint32_t position)
{
    return position <= 6 ? arguments->registers[position - 1] : arguments->stack[position - 7];
}

static inline int32_t tsr_argument_int(const struct tsr_arguments *arguments, uint32_t position)
{
    return (int32_t)tsr_argument(arguments, position);
}

/* The ranges are the caller's to fill: at most TSR_OPERAND_RANGES, more make the operands unknown. */
struct tsr_operands {
    const char *unknown; /* why; NULL: the ranges hold all */
    uint32_t count;
    bool other_gpus; /* the launches reach memory of other GPUs and processes, too */
    struct tsr_access_range ranges[TSR_OPERAND_RANGES];
};

/* What a call has done so far. */
#define TSR_CALL_PIECES 8u
struct tsr_call_done {
    bool all; /* work that may have touched anything; else it set these pieces of memory, if any: */
    uint32_t count;
    struct {
        uint64_t first, end;
    } pieces[TSR_CALL_PIECES];
};

/* What a thread keeps, allocated with its first call that is looked at. */
struct tsr_call_thread {
    struct tsr_operands operands; /* of the outermost call */
    struct tsr_operands later;    /* of its work from now on; filled in with the first */
    struct tsr_call_done done;
    struct tsr_operands grouped; /* of NCCL's calls since the group began */
};
struct tsr_call_thread *tsr_call_thread(void); /* NULL: out of memory */

/* OVERWRITTEN: the call writes all of it and reads nothing of it. Neither that nor SCRATCH is said of more than is certain. */
enum tsr_operand_access {
    TSR_OPERAND_READ = 1,
    TSR_OPERAND_WRITE = 2,
    TSR_OPERAND_BOTH = 3,
    TSR_OPERAND_OVERWRITTEN = 4 | TSR_OPERAND_WRITE,
    TSR_OPERAND_SCRATCH = 8 | TSR_OPERAND_BOTH
};

void tsr_operands_clear(struct tsr_operands *operands);
/* What later work of the same call may touch: everything that earlier work has left matters. */
void tsr_operands_later(const struct tsr_operands *operands, const struct tsr_call_done *done, struct tsr_operands *later);
void tsr_operands_unknown(struct tsr_operands *operands, const char *why);
void tsr_operands_add_box(struct tsr_operands *operands, enum tsr_operand_access access, const struct tsr_box *box);
void tsr_operands_add_bytes(struct tsr_operands *operands, enum tsr_operand_access access, uint64_t address, uint64_t bytes);
/* As much as the allocation there has; nothing when the address is 0. */
void tsr_operands_add_whole(struct tsr_operands *operands, enum tsr_operand_access access, uint64_t address);

/* A matrix whose columns stand `pitch` elements apart, `count` of them `stride` elements apart. Elements of `bits` bits. */
struct tsr_matrix {
    uint64_t address, rows, columns, pitch, stride, count;
    uint32_t bits;
};
void tsr_operands_add_matrix(struct tsr_operands *operands, enum tsr_operand_access access, const struct tsr_matrix *matrix);

/* Bits of an element of a cudaDataType; 0: not a type that is known. */
uint32_t tsr_type_bits(int32_t type);

/* The function of the library that has the entry point, or of the libraries beside it; NULL: not there. Looked up once. */
void *tsr_call_function(uint32_t call, const char *name, void **known);

#endif
