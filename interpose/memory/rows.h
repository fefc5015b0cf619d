/* Arithmetic on rows: pieces of equal length at a stride, and the gaps between them. */
#ifndef TSR_MEMORY_ROWS_H
#define TSR_MEMORY_ROWS_H

#include <stdbool.h>
#include <stdint.h>

/* Of every `stride` bytes of an extent, `width` from `phase` on, which may lead over into the next ones. */
struct tsr_rows {
    uint64_t stride, width, phase; /* width, phase below stride; stride 0: all bytes */
};

/* What is between them. */
static inline struct tsr_rows tsr_rows_gaps(struct tsr_rows rows)
{
    return (struct tsr_rows){rows.stride, rows.stride - rows.width, (rows.phase + rows.width) % rows.stride};
}

static inline bool tsr_rows_are_same(struct tsr_rows a, struct tsr_rows b)
{
    return a.stride == b.stride && a.width == b.width && a.phase == b.phase;
}

/* How far the offset is past the beginning of a row. */
static inline uint64_t tsr_rows_behind(struct tsr_rows rows, uint64_t at)
{
    return (at % rows.stride + rows.stride - rows.phase) % rows.stride;
}

/* The first offset from there on that is in a row. */
static inline uint64_t tsr_rows_next(struct tsr_rows rows, uint64_t at)
{
    uint64_t behind = tsr_rows_behind(rows, at);
    return behind < rows.width ? at : at + rows.stride - behind;
}

static inline bool tsr_rows_meet(struct tsr_rows rows, uint64_t first, uint64_t end)
{
    return tsr_rows_next(rows, first) < end;
}

/* In rows, from the beginning of one on. */
static inline uint64_t tsr_rows_bytes_before(struct tsr_rows rows, uint64_t bytes)
{
    uint64_t rest = bytes % rows.stride;
    return bytes / rows.stride * rows.width + (rest < rows.width ? rest : rows.width);
}

static inline uint64_t tsr_rows_bytes(struct tsr_rows rows, uint64_t first, uint64_t end)
{
    uint64_t behind = tsr_rows_behind(rows, first);
    return tsr_rows_bytes_before(rows, behind + end - first) - tsr_rows_bytes_before(rows, behind);
}

#endif
