/*
 * What the files of directory.h share: the cells of an extent, a sorted array, and what a use does with each. directory_cells.c keeps the
 * array, directory_ask.c says what a use needs, directory.c changes what is held, directory_survey.c says where a launch would find its bytes.
 */
#ifndef TSR_MEMORY_DIRECTORY_CELLS_H
#define TSR_MEMORY_DIRECTORY_CELLS_H

#include "memory/directory.h"

#define TSR_CELL_SPLITS 2u /* cells that one range can add */

/* What a use does with a cell, or with as much of it as it uses. */
struct tsr_cell_plan {
    uint8_t parts; /* bit n: it uses part n */
    bool pulls;    /* what is missing of them */
    bool layers;   /* its rows become a part of their own: the cell has one part, and the copy lacks that */
};

/* Of bytes first to end of the cell, all of which the use covers. */
struct tsr_cell_plan tsr_cell_plan(const struct tsr_cell *cell, uint64_t first, uint64_t end, const struct tsr_use *use);

static inline uint64_t tsr_least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t tsr_cell_end(const struct tsr_directory *directory, size_t index)
{
    return index + 1 < directory->cells.count ? directory->cells.data[index + 1].first : directory->bytes;
}

static inline bool tsr_cell_is_at(const struct tsr_directory *directory, size_t index, uint64_t offset)
{
    return index < directory->cells.count && directory->cells.data[index].first <= offset &&
           offset < tsr_cell_end(directory, index);
}

/* Where the offset was found last, if it still lies there. */
static inline uint16_t *tsr_cell_hint(const struct tsr_directory *directory, uint64_t offset)
{
    return (uint16_t *)&directory->hints[offset * 0x9e3779b97f4a7c15ull >> 40 & (TSR_DIRECTORY_HINTS - 1)];
}

size_t tsr_cell_search(const struct tsr_directory *directory, uint64_t offset);

/* The cell that the offset lies in. */
static inline size_t tsr_cell_find(const struct tsr_directory *directory, uint64_t offset)
{
    size_t hint = *tsr_cell_hint(directory, offset);
    return tsr_cell_is_at(directory, hint, offset) ? hint : tsr_cell_search(directory, offset);
}

static inline unsigned tsr_cell_part_count(const struct tsr_cell *cell)
{
    return cell->rows.stride ? 2 : 1;
}

/* Where the part's bytes are; only of a cell of two parts. */
static inline struct tsr_rows tsr_cell_rows(const struct tsr_cell *cell, unsigned part)
{
    return part ? tsr_rows_gaps(cell->rows) : cell->rows;
}

static inline bool tsr_part_has(const struct tsr_part *part, uint8_t copy)
{
    return part->holders >> copy & 1;
}

/* Bit n: part n has some of bytes first to end. */
static inline uint8_t tsr_cell_parts_in(const struct tsr_cell *cell, uint64_t first, uint64_t end)
{
    uint8_t parts = cell->rows.stride ? 0 : 1;
    for (unsigned part = 0; part < 2 && cell->rows.stride; part++)
        parts |= (uint8_t)(tsr_rows_meet(tsr_cell_rows(cell, part), first, end) << part);
    return parts;
}

/* Those of the parts that the copy does not hold. */
static inline uint8_t tsr_cell_lacking(const struct tsr_cell *cell, uint8_t parts, uint8_t copy)
{
    uint8_t lacking = 0;
    for (unsigned part = 0; part < 2; part++)
        lacking |= (uint8_t)(!tsr_part_has(&cell->parts[part], copy) << part);
    return lacking & parts;
}

static inline struct tsr_rows tsr_use_rows(const struct tsr_use *use)
{
    return (struct tsr_rows){use->stride, use->width, use->first % use->stride};
}

/* Where the queue is among the writers, or has room; TSR_DIRECTORY_WRITERS: there is none. */
static inline uint32_t tsr_part_writer(const struct tsr_part *part, uint32_t queue)
{
    uint32_t at = 0;
    while (at < TSR_DIRECTORY_WRITERS && part->writers[at] && tsr_ticket_queue_of(part->writers[at]) != queue)
        at++;
    return at;
}

/* A cell begins at the offset from now on; there is room. Its index. */
size_t tsr_cell_split(struct tsr_directory *directory, uint64_t offset);

/* Adds so many bytes of the part to the survey. */
void tsr_part_survey(const struct tsr_part *part, uint64_t bytes, const struct tsr_survey_of *of, struct tsr_survey *survey);

/* Equal neighbours among the cells from `begin` to `end`, and at the edges of these, which may have been split, become one. */
void tsr_cells_join(struct tsr_directory *directory, size_t begin, size_t end);

#endif
