/* See directory.h. */
#include "memory/directory.h"

#include <string.h>

#define MOST_GAPS 64u   /* of an overwritten use: with more, all that lies between its ends is pulled */
#define SPLITS 2u       /* cells that one range can add */

bool tsr_directory_start(struct tsr_directory *directory, uint64_t bytes, uint16_t holders)
{
    *directory = (struct tsr_directory){.most = TSR_DIRECTORY_CELLS};
    if (!bytes || !holders || !tsr_vec_reserve(&directory->cells, 1))
        return false;
    directory->bytes = bytes;
    directory->cells.count = 1;
    directory->cells.data[0] = (struct tsr_cell){.holders = holders, .source = (uint8_t)__builtin_ctz(holders)};
    return true;
}

void tsr_directory_fini(struct tsr_directory *directory)
{
    tsr_vec_fini(&directory->cells);
    directory->bytes = 0;
}

static uint64_t end_of(const struct tsr_directory *directory, size_t index)
{
    return index + 1 < directory->cells.count ? directory->cells.data[index + 1].first : directory->bytes;
}

/* The cell that the offset lies in. */
static size_t find(const struct tsr_directory *directory, uint64_t offset)
{
    size_t low = 0, high = directory->cells.count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (directory->cells.data[middle].first <= offset)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static bool has(const struct tsr_cell *cell, uint8_t copy)
{
    return cell->holders >> copy & 1;
}

static void tell_wait(const struct tsr_directory_listener *listener, uint64_t ticket)
{
    if (ticket)
        listener->wait(listener->context, ticket);
}

/* Whoever has pulled from the copy. */
static void tell_guards(const struct tsr_directory_listener *listener, const struct tsr_cell *cell, uint8_t copy)
{
    for (unsigned other = 0; listener->guard && other < TSR_DIRECTORY_COPIES; other++)
        if (cell->origins[other] >> copy & 1 && cell->arrivals[other])
            listener->guard(listener->context, cell->arrivals[other]);
}

static void tell_writers(const struct tsr_directory_listener *listener, const struct tsr_cell *cell)
{
    for (uint32_t i = 0; i < TSR_DIRECTORY_WRITERS && cell->writers[i]; i++)
        listener->wait(listener->context, cell->writers[i]);
}

/* Where the queue is among the writers, or has room; TSR_DIRECTORY_WRITERS: there is none. */
static uint32_t writer_at(const struct tsr_cell *cell, uint32_t queue)
{
    uint32_t at = 0;
    while (at < TSR_DIRECTORY_WRITERS && cell->writers[at] && tsr_ticket_queue_of(cell->writers[at]) != queue)
        at++;
    return at;
}

/* Who writes where others have, with no room to remember them, comes after them. */
static bool must_follow_writers(const struct tsr_cell *cell, const struct tsr_use *use)
{
    return use->writes && cell->source == use->copy &&
           writer_at(cell, tsr_ticket_queue_of(use->ticket)) == TSR_DIRECTORY_WRITERS;
}

/* Pulls of neighbouring cells from one copy are one. */
static void pull_more(struct tsr_pull *open, const struct tsr_pull *more, const struct tsr_directory_listener *listener)
{
    if (open->end == more->first && open->end > open->first && open->from == more->from) {
        open->end = more->end;
        return;
    }
    if (open->end > open->first)
        listener->pull(listener->context, open);
    *open = *more;
}

/* What is needed before the use has these bytes in its copy. */
static void ask_range(const struct tsr_directory *directory, uint64_t first, uint64_t end, const struct tsr_use *use,
                      bool pulls, const struct tsr_directory_listener *listener)
{
    struct tsr_pull open = {0};
    uint8_t copy = use->copy;
    for (size_t i = find(directory, first); i < directory->cells.count && directory->cells.data[i].first < end; i++) {
        const struct tsr_cell *cell = &directory->cells.data[i];
        tell_wait(listener, cell->arrivals[copy]);
        bool missing = pulls && !has(cell, copy);
        if (missing || use->writes)
            tell_guards(listener, cell, copy);
        if (missing || must_follow_writers(cell, use))
            tell_writers(listener, cell);
        if (!missing)
            continue;
        uint64_t last = end_of(directory, i);
        struct tsr_pull more = {cell->first > first ? cell->first : first, last < end ? last : end, cell->source, copy,
                                cell->writers[0]};
        pull_more(&open, &more, listener);
    }
    if (open.end > open.first)
        listener->pull(listener->context, &open);
}

/* Of an overwritten use with gaps, the gaps are left as they are, and so must be there. */
static void ask_gaps(const struct tsr_directory *directory, const struct tsr_use *use,
                     const struct tsr_directory_listener *listener)
{
    uint64_t gaps = (use->end - use->first) / use->stride;
    ask_range(directory, use->first, use->end, use, gaps > MOST_GAPS, listener);
    if (gaps > MOST_GAPS)
        return;
    for (uint64_t at = use->first + use->width; at < use->end; at += use->stride) {
        uint64_t gap = use->stride - use->width, left = use->end - at;
        ask_range(directory, at, at + (gap < left ? gap : left), use, true, listener);
    }
}

static bool has_gaps(const struct tsr_use *use)
{
    return !use->pulls && use->writes && use->stride > use->width;
}

void tsr_directory_ask(const struct tsr_directory *directory, const struct tsr_use *use,
                       const struct tsr_directory_listener *listener)
{
    if (use->first >= use->end)
        return;
    if (has_gaps(use))
        ask_gaps(directory, use, listener);
    else
        ask_range(directory, use->first, use->end, use, use->pulls, listener);
}

/* A cell begins at the offset from now on; there is room. Its index. */
static size_t split(struct tsr_directory *directory, uint64_t offset)
{
    if (offset >= directory->bytes)
        return directory->cells.count;
    size_t index = find(directory, offset);
    struct tsr_cell *cells = directory->cells.data;
    if (cells[index].first == offset)
        return index;
    memmove(cells + index + 2, cells + index + 1, (directory->cells.count - index - 1) * sizeof cells[0]);
    cells[index + 1] = cells[index];
    cells[index + 1].first = offset;
    directory->cells.count++;
    return index + 1;
}

static bool is_like(const struct tsr_cell *a, const struct tsr_cell *b)
{
    return a->holders == b->holders && a->source == b->source && memcmp(a->writers, b->writers, sizeof a->writers) == 0 &&
           memcmp(a->arrivals, b->arrivals, sizeof a->arrivals) == 0 && memcmp(a->origins, b->origins, sizeof a->origins) == 0;
}

/* Like neighbours among the cells from `begin` to `end`, and at its edges, become one. */
static void join(struct tsr_directory *directory, size_t begin, size_t end)
{
    struct tsr_cell *cells = directory->cells.data;
    size_t count = directory->cells.count, to = begin ? begin - 1 : 0, from = to + 1;
    size_t stop = end < count ? end + 1 : count;
    for (; from < stop; from++)
        if (!is_like(&cells[to], &cells[from])) {
            if (++to != from)
                cells[to] = cells[from];
        }
    if (to + 1 != stop)
        memmove(cells + to + 1, cells + stop, (count - stop) * sizeof cells[0]);
    directory->cells.count -= stop - (to + 1);
}

/* Who repeats still does, whatever else of his comes. */
static void note_writer(struct tsr_cell *cell, const struct tsr_use *use)
{
    uint32_t at = writer_at(cell, tsr_ticket_queue_of(use->ticket));
    if (cell->source != use->copy || at == TSR_DIRECTORY_WRITERS) {
        memset(cell->writers, 0, sizeof cell->writers);
        at = 0;
    }
    uint64_t ticket = use->ticket | (use->repeats ? TSR_TICKET_LATEST : 0);
    if (ticket > cell->writers[at])
        cell->writers[at] = ticket;
}

static void change(struct tsr_cell *cell, const struct tsr_use *use, bool pulled)
{
    if (pulled && !has(cell, use->copy)) {
        cell->arrivals[use->copy] = use->ticket;
        cell->origins[use->copy] |= (uint16_t)(1u << cell->source);
    }
    cell->holders |= (uint16_t)(1u << use->copy);
    if (!use->writes)
        return;
    note_writer(cell, use);
    cell->holders = (uint16_t)(1u << use->copy);
    cell->source = use->copy;
}

bool tsr_directory_has_room(struct tsr_directory *directory, size_t cells)
{
    size_t wanted = directory->cells.count + cells;
    return wanted <= directory->most && tsr_vec_reserve(&directory->cells, wanted);
}

void tsr_directory_ask_all(const struct tsr_directory *directory, uint8_t copy, const struct tsr_directory_listener *listener)
{
    struct tsr_use all = {.end = directory->bytes, .copy = copy, .pulls = true};
    ask_range(directory, 0, directory->bytes, &all, true, listener);
    for (size_t i = 0; i < directory->cells.count; i++) {
        tell_writers(listener, &directory->cells.data[i]);
        for (unsigned other = 0; other < TSR_DIRECTORY_COPIES; other++)
            tell_wait(listener, directory->cells.data[i].arrivals[other]);
    }
}

void tsr_directory_gather(struct tsr_directory *directory, uint8_t copy, uint64_t ticket,
                          const struct tsr_directory_listener *listener)
{
    struct tsr_cell *cells = directory->cells.data;
    tsr_directory_ask_all(directory, copy, listener);
    cells[0] = (struct tsr_cell){.writers = {ticket}, .holders = (uint16_t)(1u << copy), .source = copy};
    for (unsigned other = 0; other < TSR_DIRECTORY_COPIES; other++) {
        cells[0].arrivals[other] = ticket;
        cells[0].origins[other] = UINT16_MAX;
    }
    directory->cells.count = 1;
}

static enum tsr_directory_change change_of(const struct tsr_cell *cell, const struct tsr_use *use)
{
    if (!has(cell, use->copy) || (use->writes && cell->holders != 1u << use->copy))
        return TSR_DIRECTORY_HOLDS;
    if (!use->writes)
        return TSR_DIRECTORY_SAME;
    uint32_t at = writer_at(cell, tsr_ticket_queue_of(use->ticket));
    if (at == TSR_DIRECTORY_WRITERS)
        return TSR_DIRECTORY_HOLDS;
    return (cell->writers[at] & TSR_TICKET_LATEST) == TSR_TICKET_LATEST ? TSR_DIRECTORY_SAME : TSR_DIRECTORY_WRITES;
}

enum tsr_directory_change tsr_directory_look(const struct tsr_directory *directory, const struct tsr_use *use)
{
    enum tsr_directory_change most = TSR_DIRECTORY_SAME;
    if (use->first >= use->end)
        return most;
    for (size_t i = find(directory, use->first); i < directory->cells.count && directory->cells.data[i].first < use->end; i++) {
        enum tsr_directory_change of = change_of(&directory->cells.data[i], use);
        most = of > most ? of : most;
    }
    return most;
}

void tsr_directory_freeze(struct tsr_directory *directory, uint64_t (*last)(uint32_t queue))
{
    if (!directory->repeats)
        return;
    for (size_t i = 0; i < directory->cells.count; i++) {
        uint64_t *writers = directory->cells.data[i].writers;
        for (uint32_t at = 0; at < TSR_DIRECTORY_WRITERS && writers[at]; at++)
            if ((writers[at] & TSR_TICKET_LATEST) == TSR_TICKET_LATEST)
                writers[at] = (writers[at] & ~TSR_TICKET_LATEST) | last(tsr_ticket_queue_of(writers[at]));
    }
    directory->repeats = false;
}

void tsr_directory_settle(struct tsr_directory *directory)
{
    for (size_t i = 0; i < directory->cells.count; i++) {
        struct tsr_cell *cell = &directory->cells.data[i];
        memset(cell->writers, 0, sizeof cell->writers);
        memset(cell->arrivals, 0, sizeof cell->arrivals);
        memset(cell->origins, 0, sizeof cell->origins);
    }
    directory->repeats = false;
    join(directory, 0, directory->cells.count);
}

void tsr_directory_apply(struct tsr_directory *directory, const struct tsr_use *use,
                         const struct tsr_directory_listener *listener)
{
    if (use->first >= use->end)
        return;
    if (tsr_directory_look(directory, use) == TSR_DIRECTORY_SAME) { /* the usual case */
        tsr_directory_ask(directory, use, listener);
        return;
    }
    directory->repeats |= use->repeats && use->writes;
    if (!tsr_directory_has_room(directory, SPLITS)) {
        tsr_directory_gather(directory, use->copy, use->ticket, listener);
        return;
    }
    tsr_directory_ask(directory, use, listener);
    size_t begin = split(directory, use->first), end = split(directory, use->end);
    bool pulled = use->pulls || has_gaps(use);
    for (size_t i = begin; i < end; i++)
        change(&directory->cells.data[i], use, pulled);
    join(directory, begin, end);
}

void tsr_directory_forget(struct tsr_directory *directory, uint64_t first, uint64_t end, uint16_t holders)
{
    if (first >= end || !tsr_directory_has_room(directory, SPLITS))
        return; /* they stay what they are */
    size_t begin = split(directory, first), stop = split(directory, end);
    for (size_t i = begin; i < stop; i++)
        directory->cells.data[i].holders = holders | (uint16_t)(1u << directory->cells.data[i].source);
    join(directory, begin, stop);
}

enum tsr_directory_keeps tsr_directory_keeps(const struct tsr_directory *directory, uint8_t copy)
{
    enum tsr_directory_keeps most = TSR_DIRECTORY_KEEPS_NOTHING;
    for (size_t i = 0; i < directory->cells.count; i++) {
        const struct tsr_cell *cell = &directory->cells.data[i];
        if (cell->holders == 1u << copy)
            return TSR_DIRECTORY_KEEPS_ONLY_ONES;
        if (has(cell, copy))
            most = TSR_DIRECTORY_KEEPS_DOUBLES;
    }
    return most;
}

void tsr_directory_lose(struct tsr_directory *directory, uint8_t copy)
{
    for (size_t i = 0; i < directory->cells.count; i++) {
        struct tsr_cell *cell = &directory->cells.data[i];
        cell->holders &= (uint16_t)~(1u << copy);
        cell->arrivals[copy] = 0;
        cell->origins[copy] = 0;
        if (cell->source == copy)
            cell->source = (uint8_t)__builtin_ctz(cell->holders);
    }
    join(directory, 0, directory->cells.count);
}

bool tsr_directory_holds(const struct tsr_directory *directory, uint64_t first, uint64_t end, uint8_t copy)
{
    for (size_t i = find(directory, first); i < directory->cells.count && directory->cells.data[i].first < end; i++)
        if (!has(&directory->cells.data[i], copy) || directory->cells.data[i].arrivals[copy])
            return false;
    return true;
}

static void add_part(struct tsr_survey *survey, uint64_t writer, uint64_t bytes, uint16_t holders)
{
    struct tsr_place_part *parts = survey->parts;
    for (uint32_t i = 0; i < survey->part_count; i++)
        if (parts[i].writer == writer && parts[i].holders == holders) {
            parts[i].bytes += bytes;
            return;
        }
    if (survey->part_count < TSR_PLACE_PARTS) {
        parts[survey->part_count++] = (struct tsr_place_part){writer, bytes, holders};
        return;
    }
    struct tsr_place_part *last = &parts[TSR_PLACE_PARTS - 1];
    if (bytes > last->bytes)
        last->writer = writer;
    last->bytes += bytes;
    last->holders &= holders;
}

static void survey_cell(const struct tsr_cell *cell, uint64_t bytes, const struct tsr_survey_of *of, struct tsr_survey *survey)
{
    bool fresh = false;
    for (uint32_t i = 0; i < TSR_DIRECTORY_WRITERS && cell->writers[i]; i++) {
        if (!of->is_fresh(of->context, cell->writers[i]))
            continue;
        add_part(survey, cell->writers[i], fresh ? 0 : bytes, fresh ? of->copies : cell->holders & of->copies);
        fresh = true;
    }
    for (uint32_t lacking = fresh ? 0 : of->copies & ~cell->holders; lacking; lacking &= lacking - 1)
        survey->constants[__builtin_ctz(lacking)] += bytes;
}

static void survey_range(const struct tsr_directory *directory, uint64_t first, uint64_t end, const struct tsr_survey_of *of,
                         struct tsr_survey *survey)
{
    for (size_t i = find(directory, first); i < directory->cells.count && directory->cells.data[i].first < end; i++) {
        const struct tsr_cell *cell = &directory->cells.data[i];
        uint64_t last = end_of(directory, i), begin = cell->first > first ? cell->first : first;
        survey_cell(cell, (last < end ? last : end) - begin, of, survey);
    }
}

void tsr_directory_survey(const struct tsr_directory *directory, const struct tsr_use *use, const struct tsr_survey_of *of,
                          struct tsr_survey *survey)
{
    if (use->first >= use->end || !(use->pulls || has_gaps(use)))
        return;
    if (!has_gaps(use) || (use->end - use->first) / use->stride > MOST_GAPS) {
        survey_range(directory, use->first, use->end, of, survey);
        return;
    }
    for (uint64_t at = use->first + use->width; at < use->end; at += use->stride) {
        uint64_t gap = use->stride - use->width, left = use->end - at;
        survey_range(directory, at, at + (gap < left ? gap : left), of, survey);
    }
}
