/* See directory.h: what a use must pull, and which work it must come after. */
#include "memory/directory_cells.h"

#define MOST_STRIDE INT32_MAX /* the longest with which drivers copy rows */
#ifndef TSR_DIRECTORY_LEAST_ROW
#define TSR_DIRECTORY_LEAST_ROW 256u /* bytes of a row, and of a gap: shorter ones are slow to copy by themselves */
#endif

static bool has_gaps(const struct tsr_use *use)
{
    return !use->pulls && use->writes && use->stride > use->width;
}

unsigned tsr_use_cut(const struct tsr_use *use, uint64_t first, uint64_t end, struct tsr_use out[2])
{
    struct tsr_use part = *use;
    unsigned count = 0;
    part.first = use->first > first ? use->first : first;
    part.end = tsr_least(use->end, end);
    uint64_t behind = has_gaps(use) && part.first < part.end ? (part.first - use->first) % use->stride : 0;
    if (behind && behind < use->width) {
        struct tsr_use *rest = &out[count++];
        *rest = part;
        rest->stride = rest->width = 0;
        rest->end = tsr_least(part.first + use->width - behind, part.end);
    }
    if (behind)
        part.first += use->stride - behind;
    if (part.first < part.end)
        out[count++] = part;
    return count;
}

struct tsr_cell_plan tsr_cell_plan(const struct tsr_cell *cell, uint64_t first, uint64_t end, const struct tsr_use *use)
{
    uint8_t parts = tsr_cell_parts_in(cell, first, end);
    struct tsr_cell_plan whole = {.parts = parts, .pulls = use->pulls}, careful = {.parts = parts, .pulls = true};
    if (!has_gaps(use) || !tsr_rows_meet(tsr_rows_gaps(tsr_use_rows(use)), first, end))
        return whole;
    struct tsr_rows used = tsr_use_rows(use);
    if (!tsr_rows_meet(used, first, end))
        return (struct tsr_cell_plan){0};
    for (unsigned part = 0; part < tsr_cell_part_count(cell) && cell->rows.stride; part++)
        if (tsr_rows_are_same(tsr_cell_rows(cell, part), used))
            return (struct tsr_cell_plan){.parts = (uint8_t)(1u << part)};
    if (!tsr_cell_lacking(cell, parts, use->copy))
        return whole;
    bool wide = used.width >= TSR_DIRECTORY_LEAST_ROW && used.stride - used.width >= TSR_DIRECTORY_LEAST_ROW &&
                used.stride <= MOST_STRIDE;
    return cell->rows.stride || !wide ? careful : (struct tsr_cell_plan){.parts = 1, .layers = true};
}

static void report_wait(const struct tsr_directory_listener *listener, uint64_t ticket)
{
    if (ticket && listener->wait)
        listener->wait(listener->context, ticket);
}

/* Pulls from the copy. */
static void report_guards(const struct tsr_directory_listener *listener, const struct tsr_cell *cell, uint8_t copy)
{
    for (unsigned other = 0; listener->guard && other < TSR_DIRECTORY_COPIES; other++)
        if (cell->origins[other] >> copy & 1 && cell->arrivals[other])
            listener->guard(listener->context, cell->arrivals[other]);
}

static void report_writers(const struct tsr_directory_listener *listener, const struct tsr_part *part)
{
    for (uint32_t i = 0; i < TSR_DIRECTORY_WRITERS && part->writers[i] && listener->wait; i++)
        listener->wait(listener->context, part->writers[i]);
}

/* A writer of another queue, for which there is no room among those that are remembered, comes after them. */
static bool must_follow_writers(const struct tsr_part *part, const struct tsr_use *use)
{
    return use->writes && part->source == use->copy &&
           tsr_part_writer(part, tsr_ticket_queue_of(use->ticket)) == TSR_DIRECTORY_WRITERS;
}

/* Pulls of neighbouring cells from one copy are one. */
static void pull_more(struct tsr_pull *open, const struct tsr_pull *more, const struct tsr_directory_listener *listener)
{
    if (more->first >= more->end)
        return;
    if (open->end == more->first && open->end > open->first && open->from == more->from && !open->stride && !more->stride) {
        open->end = more->end;
        return;
    }
    if (open->end > open->first)
        listener->pull(listener->context, open);
    *open = *more;
}

/* Of the bytes of `all`, those in rows: the rest of a row that began earlier, whole rows, the beginning of the last one. */
static void pull_rows(struct tsr_pull *open, const struct tsr_pull *all, struct tsr_rows rows,
                      const struct tsr_directory_listener *listener)
{
    struct tsr_pull more = *all;
    uint64_t at = tsr_rows_next(rows, all->first), behind = tsr_rows_behind(rows, at);
    if (behind) {
        more.first = at;
        more.end = tsr_least(at + rows.width - behind, all->end);
        pull_more(open, &more, listener);
        at += rows.stride - behind;
    }
    if (at + rows.width <= all->end) {
        uint64_t count = (all->end - at - rows.width) / rows.stride + 1;
        more.first = at;
        more.end = at + (count - 1) * rows.stride + rows.width;
        more.stride = count > 1 ? rows.stride : 0;
        more.width = count > 1 ? rows.width : 0;
        pull_more(open, &more, listener);
        at += count * rows.stride;
    }
    more.first = at;
    more.end = tsr_least(at + rows.width, all->end);
    more.stride = more.width = 0;
    pull_more(open, &more, listener);
}

/* Of bytes first to end, what the copy lacks of the parts. */
static void pull_parts(struct tsr_pull *open, const struct tsr_cell *cell, uint64_t first, uint64_t end, uint8_t lacking,
                       uint8_t copy, const struct tsr_directory_listener *listener)
{
    for (unsigned i = 0; i < tsr_cell_part_count(cell); i++) {
        const struct tsr_part *part = &cell->parts[i];
        struct tsr_pull all = {.first = first, .end = end, .from = part->source, .to = copy, .writer = part->writers[0]};
        bool both = lacking == 3 && cell->parts[0].source == cell->parts[1].source;
        if (i == 0 && (both || !cell->rows.stride) && lacking & 1)
            pull_more(open, &all, listener);
        else if (!both && lacking >> i & 1)
            pull_rows(open, &all, tsr_cell_rows(cell, i), listener);
    }
}

/* A use that makes its rows a part of their own comes after the gaps' writers, too, if other rows of the same work may have the gaps pulled. */
static void ask_cell(const struct tsr_cell *cell, uint64_t first, uint64_t end, const struct tsr_use *use,
                     struct tsr_pull *open, const struct tsr_directory_listener *listener)
{
    struct tsr_cell_plan plan = tsr_cell_plan(cell, first, end, use);
    uint8_t copy = use->copy, lacking = plan.pulls ? tsr_cell_lacking(cell, plan.parts, copy) : 0;
    if (!plan.parts)
        return;
    report_wait(listener, cell->arrivals[copy]);
    for (unsigned i = 0; i < tsr_cell_part_count(cell); i++) {
        const struct tsr_part *part = &cell->parts[i];
        if (lacking >> i & 1 || (plan.layers && use->others_leave_gaps) ||
            (plan.parts >> i & 1 && must_follow_writers(part, use)))
            report_writers(listener, part);
    }
    if (lacking || use->writes)
        report_guards(listener, cell, copy);
    if (lacking)
        pull_parts(open, cell, first, end, lacking, copy, listener);
}

void tsr_directory_ask(const struct tsr_directory *directory, const struct tsr_use *use,
                       const struct tsr_directory_listener *listener)
{
    struct tsr_pull open = {0};
    if (use->first >= use->end)
        return;
    for (size_t i = tsr_cell_find(directory, use->first);
         i < directory->cells.count && directory->cells.data[i].first < use->end; i++) {
        const struct tsr_cell *cell = &directory->cells.data[i];
        uint64_t first = cell->first > use->first ? cell->first : use->first;
        ask_cell(cell, first, tsr_least(tsr_cell_end(directory, i), use->end), use, &open, listener);
    }
    if (open.end > open.first)
        listener->pull(listener->context, &open);
}

void tsr_directory_ask_all(const struct tsr_directory *directory, uint8_t copy, const struct tsr_directory_listener *listener)
{
    struct tsr_use all = {.end = directory->bytes, .copy = copy, .pulls = true};
    tsr_directory_ask(directory, &all, listener);
    for (size_t i = 0; i < directory->cells.count; i++) {
        report_writers(listener, &directory->cells.data[i].parts[0]);
        report_writers(listener, &directory->cells.data[i].parts[1]);
        for (unsigned other = 0; other < TSR_DIRECTORY_COPIES; other++)
            report_wait(listener, directory->cells.data[i].arrivals[other]);
    }
}

void tsr_directory_report_held(const struct tsr_directory *directory, uint8_t copy, uint8_t to,
                               const struct tsr_directory_listener *listener)
{
    struct tsr_pull open = {0};
    for (size_t i = 0; i < directory->cells.count; i++) {
        const struct tsr_cell *cell = &directory->cells.data[i];
        struct tsr_pull all = {.first = cell->first, .end = tsr_cell_end(directory, i), .from = copy, .to = to};
        uint8_t every = cell->rows.stride ? 3 : 1, held = (uint8_t)(every & ~tsr_cell_lacking(cell, every, copy));
        if (held == every)
            pull_more(&open, &all, listener);
        else if (held)
            pull_rows(&open, &all, tsr_cell_rows(cell, held >> 1), listener);
    }
    if (open.end > open.first)
        listener->pull(listener->context, &open);
}
