/* See directory_cells.h: the array. */
#include "memory/directory_cells.h"

#include <string.h>

bool tsr_directory_start(struct tsr_directory *directory, uint64_t bytes, uint16_t holders)
{
    uint8_t first = holders ? (uint8_t)__builtin_ctz(holders) : 0;
    return tsr_directory_start_at(directory, bytes, holders, first, first);
}

bool tsr_directory_start_at(struct tsr_directory *directory, uint64_t bytes, uint16_t holders, uint8_t source, uint8_t base)
{
    *directory = (struct tsr_directory){.most = TSR_DIRECTORY_CELLS, .base = base};
    if (!bytes || !holders || !tsr_vec_reserve(&directory->cells, 1))
        return false;
    directory->bytes = bytes;
    directory->cells.count = 1;
    directory->cells.data[0] = (struct tsr_cell){.parts[0] = {.holders = holders, .source = source}};
    return true;
}

void tsr_directory_fini(struct tsr_directory *directory)
{
    tsr_vec_fini(&directory->cells);
    directory->bytes = 0;
}

bool tsr_directory_has_room(struct tsr_directory *directory, size_t cells)
{
    size_t wanted = directory->cells.count + cells;
    return wanted <= directory->most && tsr_vec_reserve(&directory->cells, wanted);
}

/* For the next look-up of the offset, too. */
size_t tsr_cell_search(const struct tsr_directory *directory, uint64_t offset)
{
    size_t low = 0, high = directory->cells.count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (directory->cells.data[middle].first <= offset)
            low = middle;
        else
            high = middle;
    }
    *tsr_cell_hint(directory, offset) = (uint16_t)low;
    return low;
}

size_t tsr_cell_split(struct tsr_directory *directory, uint64_t offset)
{
    if (offset >= directory->bytes)
        return directory->cells.count;
    size_t index = tsr_cell_find(directory, offset);
    struct tsr_cell *cells = directory->cells.data;
    if (cells[index].first == offset)
        return index;
    memmove(cells + index + 2, cells + index + 1, (directory->cells.count - index - 1) * sizeof cells[0]);
    cells[index + 1] = cells[index];
    cells[index + 1].first = offset;
    directory->cells.count++;
    return index + 1;
}

static bool are_parts_like(const struct tsr_part *a, const struct tsr_part *b)
{
    return a->holders == b->holders && a->source == b->source && memcmp(a->writers, b->writers, sizeof a->writers) == 0;
}

static bool is_like(const struct tsr_cell *a, const struct tsr_cell *b)
{
    return tsr_rows_are_same(a->rows, b->rows) && are_parts_like(&a->parts[0], &b->parts[0]) &&
           are_parts_like(&a->parts[1], &b->parts[1]) && memcmp(a->arrivals, b->arrivals, sizeof a->arrivals) == 0 &&
           memcmp(a->origins, b->origins, sizeof a->origins) == 0;
}

/* Adds the writers, if there is room for them. */
static bool add_writers(struct tsr_part *to, const struct tsr_part *from)
{
    struct tsr_part both = *to;
    for (uint32_t i = 0; i < TSR_DIRECTORY_WRITERS && from->writers[i]; i++) {
        uint32_t at = tsr_part_writer(&both, tsr_ticket_queue_of(from->writers[i]));
        if (at == TSR_DIRECTORY_WRITERS)
            return false;
        both.writers[at] = from->writers[i] > both.writers[at] ? from->writers[i] : both.writers[at];
    }
    *to = both;
    return true;
}

/* Two parts that have the same holders, or of which one has no bytes, become one. */
static void simplify(struct tsr_directory *directory, size_t index)
{
    struct tsr_cell *cell = &directory->cells.data[index];
    struct tsr_part *parts = cell->parts;
    uint64_t end = tsr_cell_end(directory, index);
    if (!cell->rows.stride)
        return;
    if (!tsr_rows_meet(cell->rows, cell->first, end))
        parts[0] = parts[1];
    else if (tsr_rows_meet(tsr_rows_gaps(cell->rows), cell->first, end) &&
             (parts[0].holders != parts[1].holders || parts[0].source != parts[1].source || !add_writers(&parts[0], &parts[1])))
        return;
    cell->rows = (struct tsr_rows){0};
    parts[1] = (struct tsr_part){0};
}

void tsr_cells_join(struct tsr_directory *directory, size_t begin, size_t end)
{
    struct tsr_cell *cells = directory->cells.data;
    size_t count = directory->cells.count, to = begin > 2 ? begin - 2 : 0, from = to + 1;
    size_t stop = end + 2 < count ? end + 2 : count;
    for (size_t i = begin ? begin - 1 : 0; i < stop && i <= end; i++)
        simplify(directory, i);
    for (; from < stop; from++)
        if (!is_like(&cells[to], &cells[from])) {
            if (++to != from)
                cells[to] = cells[from];
        }
    if (to + 1 != stop)
        memmove(cells + to + 1, cells + stop, (count - stop) * sizeof cells[0]);
    directory->cells.count -= stop - (to + 1);
}
