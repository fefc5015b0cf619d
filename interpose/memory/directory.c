/* See directory.h. */
#include "memory/directory.h"

#include <string.h>

#define SPLITS 2u /* cells that one range can add */
#define MOST_STRIDE INT32_MAX /* that drivers copy rows with */
#ifndef TSR_DIRECTORY_LEAST_ROW
#define TSR_DIRECTORY_LEAST_ROW 256u /* bytes of a row, and of a gap: shorter ones are slow to copy by themselves */
#endif

bool tsr_directory_start(struct tsr_directory *directory, uint64_t bytes, uint16_t holders)
{
    *directory = (struct tsr_directory){.most = TSR_DIRECTORY_CELLS};
    if (!bytes || !holders || !tsr_vec_reserve(&directory->cells, 1))
        return false;
    directory->bytes = bytes;
    directory->cells.count = 1;
    directory->cells.data[0] = (struct tsr_cell){.parts[0] = {.holders = holders, .source = (uint8_t)__builtin_ctz(holders)}};
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

static unsigned parts_of(const struct tsr_cell *cell)
{
    return cell->rows.stride ? 2 : 1;
}

static struct tsr_rows rows_of(const struct tsr_cell *cell, unsigned part)
{
    return part ? tsr_rows_gaps(cell->rows) : cell->rows;
}

static bool has(const struct tsr_part *part, uint8_t copy)
{
    return part->holders >> copy & 1;
}

/* Bit n: part n has some of bytes first to end. */
static uint8_t parts_among(const struct tsr_cell *cell, uint64_t first, uint64_t end)
{
    uint8_t parts = cell->rows.stride ? 0 : 1;
    for (unsigned part = 0; part < 2 && cell->rows.stride; part++)
        parts |= (uint8_t)(tsr_rows_meet(rows_of(cell, part), first, end) << part);
    return parts;
}

/* Of these parts, those that the copy does not hold. */
static uint8_t lacking_of(const struct tsr_cell *cell, uint8_t parts, uint8_t copy)
{
    uint8_t lacking = 0;
    for (unsigned part = 0; part < 2; part++)
        lacking |= (uint8_t)(!has(&cell->parts[part], copy) << part);
    return lacking & parts;
}

/* What a use does with a cell, or as much of it as it uses. */
struct plan {
    uint8_t parts; /* bit n: it uses part n */
    bool pulls;    /* what is missing of them */
    bool layers;   /* its rows become a part of their own: the cell has one part, and that is missing */
};

static bool has_gaps(const struct tsr_use *use)
{
    return !use->pulls && use->writes && use->stride > use->width;
}

unsigned tsr_use_cut(const struct tsr_use *use, uint64_t first, uint64_t end, struct tsr_use out[2])
{
    struct tsr_use part = *use;
    unsigned count = 0;
    part.first = use->first > first ? use->first : first;
    part.end = use->end < end ? use->end : end;
    uint64_t behind = has_gaps(use) && part.first < part.end ? (part.first - use->first) % use->stride : 0;
    if (behind && behind < use->width) {
        struct tsr_use *rest = &out[count++];
        *rest = part;
        rest->stride = rest->width = 0;
        rest->end = part.first + use->width - behind < part.end ? part.first + use->width - behind : part.end;
    }
    if (behind)
        part.first += use->stride - behind;
    if (part.first < part.end)
        out[count++] = part;
    return count;
}

static struct tsr_rows rows_used(const struct tsr_use *use)
{
    return (struct tsr_rows){use->stride, use->width, use->first % use->stride};
}

/* Of bytes first to end of the cell, all of which are between the use's ends. */
static struct plan plan_of(const struct tsr_cell *cell, uint64_t first, uint64_t end, const struct tsr_use *use)
{
    uint8_t parts = parts_among(cell, first, end);
    struct plan whole = {.parts = parts, .pulls = use->pulls}, careful = {.parts = parts, .pulls = true};
    if (!has_gaps(use) || !tsr_rows_meet(tsr_rows_gaps(rows_used(use)), first, end))
        return whole;
    struct tsr_rows used = rows_used(use);
    if (!tsr_rows_meet(used, first, end))
        return (struct plan){0};
    for (unsigned part = 0; part < parts_of(cell) && cell->rows.stride; part++)
        if (tsr_rows_are_same(rows_of(cell, part), used))
            return (struct plan){.parts = (uint8_t)(1u << part)};
    if (!lacking_of(cell, parts, use->copy))
        return whole;
    bool wide = used.width >= TSR_DIRECTORY_LEAST_ROW && used.stride - used.width >= TSR_DIRECTORY_LEAST_ROW &&
                used.stride <= MOST_STRIDE;
    return cell->rows.stride || !wide ? careful : (struct plan){.parts = 1, .layers = true};
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

static void tell_writers(const struct tsr_directory_listener *listener, const struct tsr_part *part)
{
    for (uint32_t i = 0; i < TSR_DIRECTORY_WRITERS && part->writers[i]; i++)
        listener->wait(listener->context, part->writers[i]);
}

/* Where the queue is among the writers, or has room; TSR_DIRECTORY_WRITERS: there is none. */
static uint32_t writer_at(const struct tsr_part *part, uint32_t queue)
{
    uint32_t at = 0;
    while (at < TSR_DIRECTORY_WRITERS && part->writers[at] && tsr_ticket_queue_of(part->writers[at]) != queue)
        at++;
    return at;
}

/* Who writes where others have, with no room to remember them, comes after them. */
static bool must_follow_writers(const struct tsr_part *part, const struct tsr_use *use)
{
    return use->writes && part->source == use->copy &&
           writer_at(part, tsr_ticket_queue_of(use->ticket)) == TSR_DIRECTORY_WRITERS;
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

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Of the bytes that `all` is about, those in rows: what is left of the first one, the whole ones, the beginning of the last one. */
static void pull_rows(struct tsr_pull *open, const struct tsr_pull *all, struct tsr_rows rows,
                      const struct tsr_directory_listener *listener)
{
    struct tsr_pull more = *all;
    uint64_t at = tsr_rows_next(rows, all->first), behind = tsr_rows_behind(rows, at);
    if (behind) {
        more.first = at;
        more.end = least(at + rows.width - behind, all->end);
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
    more.end = least(at + rows.width, all->end);
    more.stride = more.width = 0;
    pull_more(open, &more, listener);
}

/* Of bytes first to end, what the copy lacks of the parts. */
static void pull_parts(struct tsr_pull *open, const struct tsr_cell *cell, uint64_t first, uint64_t end, uint8_t lacking,
                       uint8_t copy, const struct tsr_directory_listener *listener)
{
    for (unsigned i = 0; i < parts_of(cell); i++) {
        const struct tsr_part *part = &cell->parts[i];
        struct tsr_pull all = {.first = first, .end = end, .from = part->source, .to = copy, .writer = part->writers[0]};
        bool both = lacking == 3 && cell->parts[0].source == cell->parts[1].source;
        if (i == 0 && (both || !cell->rows.stride) && lacking & 1)
            pull_more(open, &all, listener);
        else if (!both && lacking >> i & 1)
            pull_rows(open, &all, rows_of(cell, i), listener);
    }
}

/* Who makes rows a part of their own comes after the gaps' writers, too: other rows of the same launch may have the gaps pulled. */
static void ask_cell(const struct tsr_cell *cell, uint64_t first, uint64_t end, const struct tsr_use *use,
                     struct tsr_pull *open, const struct tsr_directory_listener *listener)
{
    struct plan plan = plan_of(cell, first, end, use);
    uint8_t copy = use->copy, lacking = plan.pulls ? lacking_of(cell, plan.parts, copy) : 0;
    if (!plan.parts)
        return;
    tell_wait(listener, cell->arrivals[copy]);
    for (unsigned i = 0; i < parts_of(cell); i++) {
        const struct tsr_part *part = &cell->parts[i];
        if (lacking >> i & 1 || plan.layers || (plan.parts >> i & 1 && must_follow_writers(part, use)))
            tell_writers(listener, part);
    }
    if (lacking || use->writes)
        tell_guards(listener, cell, copy);
    if (lacking)
        pull_parts(open, cell, first, end, lacking, copy, listener);
}

void tsr_directory_ask(const struct tsr_directory *directory, const struct tsr_use *use,
                       const struct tsr_directory_listener *listener)
{
    struct tsr_pull open = {0};
    if (use->first >= use->end)
        return;
    for (size_t i = find(directory, use->first); i < directory->cells.count && directory->cells.data[i].first < use->end; i++) {
        const struct tsr_cell *cell = &directory->cells.data[i];
        uint64_t first = cell->first > use->first ? cell->first : use->first;
        ask_cell(cell, first, least(end_of(directory, i), use->end), use, &open, listener);
    }
    if (open.end > open.first)
        listener->pull(listener->context, &open);
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

/* The writers of both, if there is room for them. */
static bool add_writers(struct tsr_part *to, const struct tsr_part *from)
{
    struct tsr_part both = *to;
    for (uint32_t i = 0; i < TSR_DIRECTORY_WRITERS && from->writers[i]; i++) {
        uint32_t at = writer_at(&both, tsr_ticket_queue_of(from->writers[i]));
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
    uint64_t end = end_of(directory, index);
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

/* Like neighbours among the cells from `begin` to `end`, and at its edges, which may have been cut, become one. */
static void join(struct tsr_directory *directory, size_t begin, size_t end)
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

/* Who repeats still does, whatever else of his comes. */
static void note_writer(struct tsr_part *part, const struct tsr_use *use)
{
    uint32_t at = writer_at(part, tsr_ticket_queue_of(use->ticket));
    if (part->source != use->copy || at == TSR_DIRECTORY_WRITERS) {
        memset(part->writers, 0, sizeof part->writers);
        at = 0;
    }
    uint64_t ticket = use->ticket | (use->repeats ? TSR_TICKET_LATEST : 0);
    if (ticket > part->writers[at])
        part->writers[at] = ticket;
}

static void change_part(struct tsr_part *part, const struct tsr_use *use)
{
    part->holders |= (uint16_t)(1u << use->copy);
    if (!use->writes)
        return;
    note_writer(part, use);
    part->holders = (uint16_t)(1u << use->copy);
    part->source = use->copy;
}

/* All of the cell is between the use's ends. */
static void change(struct tsr_cell *cell, const struct tsr_use *use, struct plan plan)
{
    if (plan.layers) {
        cell->rows = rows_used(use);
        cell->parts[1] = cell->parts[0];
    }
    for (unsigned i = 0; i < parts_of(cell); i++) {
        struct tsr_part *part = &cell->parts[i];
        if (!(plan.parts >> i & 1))
            continue;
        if (plan.pulls && !has(part, use->copy)) {
            cell->arrivals[use->copy] = use->ticket;
            cell->origins[use->copy] |= (uint16_t)(1u << part->source);
        }
        change_part(part, use);
    }
}

bool tsr_directory_has_room(struct tsr_directory *directory, size_t cells)
{
    size_t wanted = directory->cells.count + cells;
    return wanted <= directory->most && tsr_vec_reserve(&directory->cells, wanted);
}

void tsr_directory_ask_all(const struct tsr_directory *directory, uint8_t copy, const struct tsr_directory_listener *listener)
{
    struct tsr_use all = {.end = directory->bytes, .copy = copy, .pulls = true};
    tsr_directory_ask(directory, &all, listener);
    for (size_t i = 0; i < directory->cells.count; i++) {
        tell_writers(listener, &directory->cells.data[i].parts[0]);
        tell_writers(listener, &directory->cells.data[i].parts[1]);
        for (unsigned other = 0; other < TSR_DIRECTORY_COPIES; other++)
            tell_wait(listener, directory->cells.data[i].arrivals[other]);
    }
}

void tsr_directory_gather(struct tsr_directory *directory, uint8_t copy, uint64_t ticket,
                          const struct tsr_directory_listener *listener)
{
    struct tsr_cell *cells = directory->cells.data;
    tsr_directory_ask_all(directory, copy, listener);
    cells[0] = (struct tsr_cell){.parts[0] = {.writers = {ticket}, .holders = (uint16_t)(1u << copy), .source = copy}};
    for (unsigned other = 0; other < TSR_DIRECTORY_COPIES; other++) {
        cells[0].arrivals[other] = ticket;
        cells[0].origins[other] = UINT16_MAX;
    }
    directory->cells.count = 1;
}

static enum tsr_directory_change change_of(const struct tsr_part *part, const struct tsr_use *use)
{
    if (!has(part, use->copy) || (use->writes && part->holders != 1u << use->copy))
        return TSR_DIRECTORY_HOLDS;
    if (!use->writes)
        return TSR_DIRECTORY_SAME;
    uint32_t at = writer_at(part, tsr_ticket_queue_of(use->ticket));
    if (at == TSR_DIRECTORY_WRITERS)
        return TSR_DIRECTORY_HOLDS;
    return (part->writers[at] & TSR_TICKET_LATEST) == TSR_TICKET_LATEST ? TSR_DIRECTORY_SAME : TSR_DIRECTORY_WRITES;
}

enum tsr_directory_change tsr_directory_look(const struct tsr_directory *directory, const struct tsr_use *use)
{
    enum tsr_directory_change most = TSR_DIRECTORY_SAME;
    if (use->first >= use->end)
        return most;
    for (size_t i = find(directory, use->first); i < directory->cells.count && directory->cells.data[i].first < use->end; i++) {
        const struct tsr_cell *cell = &directory->cells.data[i];
        uint64_t first = cell->first > use->first ? cell->first : use->first;
        struct plan plan = plan_of(cell, first, least(end_of(directory, i), use->end), use);
        for (unsigned part = 0; part < parts_of(cell); part++) {
            enum tsr_directory_change of = plan.parts >> part & 1 ? change_of(&cell->parts[part], use) : TSR_DIRECTORY_SAME;
            most = of > most ? of : most;
        }
    }
    return most;
}

static void freeze_part(struct tsr_part *part, uint64_t (*last)(uint32_t queue))
{
    uint64_t *writers = part->writers;
    for (uint32_t at = 0; at < TSR_DIRECTORY_WRITERS && writers[at]; at++)
        if ((writers[at] & TSR_TICKET_LATEST) == TSR_TICKET_LATEST)
            writers[at] = (writers[at] & ~TSR_TICKET_LATEST) | last(tsr_ticket_queue_of(writers[at]));
}

void tsr_directory_freeze(struct tsr_directory *directory, uint64_t (*last)(uint32_t queue))
{
    if (!directory->repeats)
        return;
    for (size_t i = 0; i < directory->cells.count; i++) {
        struct tsr_cell *cell = &directory->cells.data[i];
        for (unsigned part = 0; part < parts_of(cell); part++)
            freeze_part(&cell->parts[part], last);
    }
    directory->repeats = false;
}

void tsr_directory_settle(struct tsr_directory *directory)
{
    for (size_t i = 0; i < directory->cells.count; i++) {
        struct tsr_cell *cell = &directory->cells.data[i];
        memset(cell->parts[0].writers, 0, sizeof cell->parts[0].writers);
        memset(cell->parts[1].writers, 0, sizeof cell->parts[1].writers);
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
    for (size_t i = begin; i < end; i++) {
        struct tsr_cell *cell = &directory->cells.data[i];
        change(cell, use, plan_of(cell, cell->first, end_of(directory, i), use));
    }
    join(directory, begin, end);
}

void tsr_directory_forget(struct tsr_directory *directory, uint64_t first, uint64_t end, uint16_t holders)
{
    if (first >= end || !tsr_directory_has_room(directory, SPLITS))
        return; /* they stay what they are */
    size_t begin = split(directory, first), stop = split(directory, end);
    for (size_t i = begin; i < stop; i++)
        for (unsigned part = 0; part < parts_of(&directory->cells.data[i]); part++) {
            struct tsr_part *of = &directory->cells.data[i].parts[part];
            of->holders = holders | (uint16_t)(1u << of->source);
        }
    join(directory, begin, stop);
}

enum tsr_directory_keeps tsr_directory_keeps(const struct tsr_directory *directory, uint8_t copy)
{
    enum tsr_directory_keeps most = TSR_DIRECTORY_KEEPS_NOTHING;
    for (size_t i = 0; i < directory->cells.count; i++) {
        const struct tsr_cell *cell = &directory->cells.data[i];
        for (unsigned part = 0; part < parts_of(cell); part++) {
            if (cell->parts[part].holders == 1u << copy)
                return TSR_DIRECTORY_KEEPS_ONLY_ONES;
            if (has(&cell->parts[part], copy))
                most = TSR_DIRECTORY_KEEPS_DOUBLES;
        }
    }
    return most;
}

void tsr_directory_tell_held(const struct tsr_directory *directory, uint8_t copy, uint8_t to,
                             const struct tsr_directory_listener *listener)
{
    struct tsr_pull open = {0};
    for (size_t i = 0; i < directory->cells.count; i++) {
        const struct tsr_cell *cell = &directory->cells.data[i];
        struct tsr_pull all = {.first = cell->first, .end = end_of(directory, i), .from = copy, .to = to};
        uint8_t every = cell->rows.stride ? 3 : 1, held = (uint8_t)(every & ~lacking_of(cell, every, copy));
        if (held == every)
            pull_more(&open, &all, listener);
        else if (held)
            pull_rows(&open, &all, rows_of(cell, held >> 1), listener);
    }
    if (open.end > open.first)
        listener->pull(listener->context, &open);
}

void tsr_directory_lose(struct tsr_directory *directory, uint8_t copy)
{
    for (size_t i = 0; i < directory->cells.count; i++) {
        struct tsr_cell *cell = &directory->cells.data[i];
        cell->arrivals[copy] = 0;
        cell->origins[copy] = 0;
        for (unsigned n = 0; n < parts_of(cell); n++) {
            struct tsr_part *part = &cell->parts[n];
            part->holders &= (uint16_t)~(1u << copy);
            if (part->source == copy)
                part->source = (uint8_t)__builtin_ctz(part->holders);
        }
    }
    join(directory, 0, directory->cells.count);
}

bool tsr_directory_holds(const struct tsr_directory *directory, uint64_t first, uint64_t end, uint8_t copy)
{
    for (size_t i = find(directory, first); i < directory->cells.count && directory->cells.data[i].first < end; i++) {
        const struct tsr_cell *cell = &directory->cells.data[i];
        uint8_t parts = parts_among(cell, cell->first > first ? cell->first : first, least(end_of(directory, i), end));
        if (lacking_of(cell, parts, copy) || cell->arrivals[copy])
            return false;
    }
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

static void survey_part(const struct tsr_part *part, uint64_t bytes, const struct tsr_survey_of *of, struct tsr_survey *survey)
{
    bool fresh = false;
    for (uint32_t i = 0; i < TSR_DIRECTORY_WRITERS && part->writers[i]; i++) {
        if (!of->is_fresh(of->context, part->writers[i]))
            continue;
        add_part(survey, part->writers[i], fresh ? 0 : bytes, fresh ? of->copies : part->holders & of->copies);
        fresh = true;
    }
    for (uint32_t lacking = fresh ? 0 : of->copies & ~part->holders; lacking; lacking &= lacking - 1)
        survey->constants[__builtin_ctz(lacking)] += bytes;
}

void tsr_directory_survey(const struct tsr_directory *directory, const struct tsr_use *use, const struct tsr_survey_of *of,
                          struct tsr_survey *survey)
{
    struct tsr_use anywhere = *use;
    anywhere.copy = TSR_DIRECTORY_COPIES; /* no cell's holder */
    if (use->first >= use->end)
        return;
    for (size_t i = find(directory, use->first); i < directory->cells.count && directory->cells.data[i].first < use->end; i++) {
        const struct tsr_cell *cell = &directory->cells.data[i];
        uint64_t first = cell->first > use->first ? cell->first : use->first, end = least(end_of(directory, i), use->end);
        bool pulls = plan_of(cell, first, end, &anywhere).pulls;
        for (unsigned part = 0; part < parts_of(cell) && pulls; part++) {
            uint64_t bytes = cell->rows.stride ? tsr_rows_bytes(rows_of(cell, part), first, end) : end - first;
            if (bytes)
                survey_part(&cell->parts[part], bytes, of, survey);
        }
    }
}
