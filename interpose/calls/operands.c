/* See operands.h. */
#include "calls/operands.h"

#include <pthread.h>
#include <stdlib.h>

static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool has_key;

static void make_key(void)
{
    has_key = pthread_key_create(&key, free) == 0;
}

struct tsr_call_thread *tsr_call_thread(void)
{
    pthread_once(&once, make_key);
    struct tsr_call_thread *thread = has_key ? pthread_getspecific(key) : NULL;
    if (thread || !has_key)
        return thread;
    thread = calloc(1, sizeof *thread);
    if (thread && pthread_setspecific(key, thread) != 0) {
        free(thread);
        return NULL;
    }
    return thread;
}

void tsr_operands_clear(struct tsr_operands *operands)
{
    operands->unknown = NULL;
    operands->count = 0;
    operands->other_gpus = false;
}

void tsr_operands_unknown(struct tsr_operands *operands, const char *why)
{
    if (!operands->unknown)
        operands->unknown = why;
}

static void add(struct tsr_operands *operands, const struct tsr_access_range *range)
{
    if (operands->count == TSR_OPERAND_RANGES)
        tsr_operands_unknown(operands, "more operands than there is room for");
    else
        operands->ranges[operands->count++] = *range;
}

static void add_unmarked(struct tsr_operands *later, struct tsr_access_range range)
{
    bool overwritten = range.overwritten;
    range.intermediate |= range.overwritten || range.scratch;
    range.overwritten = range.scratch = 0;
    add(later, &range);
    range.kind = TSR_ACCESS_READ;
    if (overwritten)
        add(later, &range);
}

/* As it was, but for what the pieces from `from` on have set: of scratch those bytes, else all of it. */
static void add_later(struct tsr_operands *later, struct tsr_access_range range, const struct tsr_call_done *done,
                      uint32_t from)
{
    uint64_t first = range.base + (uint64_t)range.first, end = range.base + (uint64_t)range.last + 1;
    while (from < done->count && (done->pieces[from].end <= first || end <= done->pieces[from].first))
        from++;
    if (range.whole || from == done->count) {
        add(later, &range);
        return;
    }
    if (!range.scratch || range.stride) {
        add_unmarked(later, range);
        return;
    }
    uint64_t begins = done->pieces[from].first, ends = done->pieces[from].end;
    struct tsr_access_range part = range;
    if (first < begins) {
        part.last = (int64_t)(begins - range.base) - 1;
        add_later(later, part, done, from + 1);
    }
    part.first = begins > first ? (int64_t)(begins - range.base) : range.first;
    part.last = ends < end ? (int64_t)(ends - range.base) - 1 : range.last;
    add_unmarked(later, part);
    if (ends < end) {
        part.first = (int64_t)(ends - range.base);
        part.last = range.last;
        add_later(later, part, done, from + 1);
    }
}

void tsr_operands_later(const struct tsr_operands *operands, const struct tsr_call_done *done, struct tsr_operands *later)
{
    later->unknown = operands->unknown;
    later->other_gpus = operands->other_gpus;
    later->count = 0;
    for (uint32_t i = 0; i < operands->count; i++)
        if (done->all)
            add_unmarked(later, operands->ranges[i]);
        else
            add_later(later, operands->ranges[i], done, 0);
}

static bool has(enum tsr_operand_access access, enum tsr_operand_access what)
{
    return (access & what) == what;
}

void tsr_operands_add_box(struct tsr_operands *operands, enum tsr_operand_access access, const struct tsr_box *box)
{
    struct tsr_access_range ranges[TSR_BOX_RANGES];
    uint32_t count = tsr_box_ranges(box, TSR_ACCESS_READ, ranges);
    bool exact = access > TSR_OPERAND_BOTH && tsr_box_is_exact(box);
    for (uint32_t i = 0; i < count; i++) {
        ranges[i].scratch = exact && has(access, TSR_OPERAND_SCRATCH);
        if (access & TSR_OPERAND_READ)
            add(operands, &ranges[i]);
        ranges[i].kind = TSR_ACCESS_WRITE;
        ranges[i].overwritten = exact && has(access, TSR_OPERAND_OVERWRITTEN);
        if (access & TSR_OPERAND_WRITE)
            add(operands, &ranges[i]);
    }
}

void tsr_operands_add_bytes(struct tsr_operands *operands, enum tsr_operand_access access, uint64_t address, uint64_t bytes)
{
    if (address)
        tsr_operands_add_box(operands, access, &(struct tsr_box){.address = address, .element_bytes = bytes});
}

void tsr_operands_add_whole(struct tsr_operands *operands, enum tsr_operand_access access, uint64_t address)
{
    struct tsr_access_range range = {.whole = 1, .parameter = -1, .symbol = -1, .base = address, .first = 0, .last = -1};
    range.kind = TSR_ACCESS_READ;
    if (address && (access & TSR_OPERAND_READ))
        add(operands, &range);
    range.kind = TSR_ACCESS_WRITE;
    if (address && (access & TSR_OPERAND_WRITE))
        add(operands, &range);
}

void tsr_operands_add_matrix(struct tsr_operands *operands, enum tsr_operand_access access, const struct tsr_matrix *matrix)
{
    if (!matrix->address || !matrix->rows)
        return;
    if (matrix->rows * matrix->bits % 8 || matrix->pitch * matrix->bits % 8 || matrix->stride * matrix->bits % 8)
        access &= TSR_OPERAND_BOTH; /* bytes that are shared with what is not the matrix' */
    tsr_operands_add_box(operands, access,
                         &(struct tsr_box){.address = matrix->address,
                                           .element_bytes = (matrix->rows * matrix->bits + 7) / 8,
                                           .axes = 2,
                                           .extents = {matrix->columns, matrix->count},
                                           .strides = {matrix->pitch * matrix->bits / 8, matrix->stride * matrix->bits / 8}});
}

uint32_t tsr_type_bits(int32_t type)
{
    /* cudaDataType of CUDA 13 in order, from CUDA_R_32F to CUDA_R_4F_E2M1; formats of 6 bits take a byte. */
    static const uint8_t bits[] = {32, 64, 16, 8,  64, 128, 32, 16, 8,   16, 32,  64, 32, 64, 16, 32, 4,
                                   8,  4,  8,  16, 32, 16,  32, 64, 128, 64, 128, 8,  8,  8,  8,  8,  4};
    return type >= 0 && (uint32_t)type < sizeof bits ? bits[type] : 0;
}
