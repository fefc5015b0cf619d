/* See directory.h: what uses and other events change. */
#include "memory/directory_cells.h"

#include <string.h>

/* A writer that repeats goes on repeating, whatever else its queue does. */
static void note_writer(struct tsr_part *part, const struct tsr_use *use)
{
    uint32_t at = tsr_part_writer(part, tsr_ticket_queue_of(use->ticket));
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

/*
 * Each of these copies comes after the pulls that have read it (tsr_directory_ask has said so), and other uses of the copy after its ticket, as if it had been
 * pulled there.
 */
static void broadcast(struct tsr_cell *cell, const struct tsr_use *use)
{
    uint16_t all = use->broadcast->copies | (uint16_t)(1u << use->copy);
    for (unsigned copy = 0; copy < TSR_DIRECTORY_COPIES; copy++) {
        cell->origins[copy] &= (uint16_t)~all;
        if (use->broadcast->copies >> copy & 1)
            cell->arrivals[copy] = use->broadcast->tickets[copy];
    }
    for (unsigned part = 0; part < tsr_cell_part_count(cell); part++)
        cell->parts[part].holders |= all;
}

/* The use covers all of the cell. */
static void change_cell(struct tsr_cell *cell, const struct tsr_use *use, struct tsr_cell_plan plan)
{
    if (plan.layers) {
        cell->rows = tsr_use_rows(use);
        cell->parts[1] = cell->parts[0];
    }
    for (unsigned i = 0; i < tsr_cell_part_count(cell); i++) {
        struct tsr_part *part = &cell->parts[i];
        if (!(plan.parts >> i & 1))
            continue;
        if (plan.pulls && !tsr_part_has(part, use->copy)) {
            cell->arrivals[use->copy] = use->ticket;
            cell->origins[use->copy] |= (uint16_t)(1u << part->source);
        }
        change_part(part, use);
    }
    if (use->broadcast && plan.parts)
        broadcast(cell, use);
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
    if (!tsr_part_has(part, use->copy) || (use->writes && part->holders != 1u << use->copy))
        return TSR_DIRECTORY_HOLDS;
    if (!use->writes)
        return TSR_DIRECTORY_SAME;
    uint32_t at = tsr_part_writer(part, tsr_ticket_queue_of(use->ticket));
    if (at == TSR_DIRECTORY_WRITERS)
        return TSR_DIRECTORY_HOLDS;
    return (part->writers[at] & TSR_TICKET_LATEST) == TSR_TICKET_LATEST ? TSR_DIRECTORY_SAME : TSR_DIRECTORY_WRITES;
}

enum tsr_directory_change tsr_directory_look(const struct tsr_directory *directory, const struct tsr_use *use)
{
    enum tsr_directory_change most = use->broadcast ? TSR_DIRECTORY_HOLDS : TSR_DIRECTORY_SAME;
    if (use->first >= use->end)
        return most;
    for (size_t i = tsr_cell_find(directory, use->first);
         i < directory->cells.count && directory->cells.data[i].first < use->end; i++) {
        const struct tsr_cell *cell = &directory->cells.data[i];
        uint64_t first = cell->first > use->first ? cell->first : use->first;
        struct tsr_cell_plan plan = tsr_cell_plan(cell, first, tsr_least(tsr_cell_end(directory, i), use->end), use);
        for (unsigned part = 0; part < tsr_cell_part_count(cell); part++) {
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
        for (unsigned part = 0; part < tsr_cell_part_count(cell); part++)
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
    tsr_cells_join(directory, 0, directory->cells.count);
}

void tsr_directory_apply(struct tsr_directory *directory, const struct tsr_use *use,
                         const struct tsr_directory_listener *listener)
{
    if (use->first >= use->end)
        return;
    enum tsr_directory_change change = tsr_directory_look(directory, use);
    bool needs = change == TSR_DIRECTORY_HOLDS; /* otherwise it pulls nothing */
    if (change == TSR_DIRECTORY_SAME) {
        if (listener->wait)
            tsr_directory_ask(directory, use, listener);
        return;
    }
    directory->repeats |= use->repeats && use->writes;
    if (!tsr_directory_has_room(directory, TSR_CELL_SPLITS)) {
        tsr_directory_gather(directory, use->copy, use->ticket, listener);
        return;
    }
    if (needs || listener->wait)
        tsr_directory_ask(directory, use, listener);
    size_t begin = tsr_cell_split(directory, use->first), end = tsr_cell_split(directory, use->end);
    for (size_t i = begin; i < end; i++) {
        struct tsr_cell *cell = &directory->cells.data[i];
        change_cell(cell, use, tsr_cell_plan(cell, cell->first, tsr_cell_end(directory, i), use));
    }
    tsr_cells_join(directory, begin, end);
}

void tsr_directory_forget(struct tsr_directory *directory, uint64_t first, uint64_t end, uint16_t holders)
{
    if (first >= end || !tsr_directory_has_room(directory, TSR_CELL_SPLITS))
        return; /* they stay as they are */
    size_t begin = tsr_cell_split(directory, first), stop = tsr_cell_split(directory, end);
    for (size_t i = begin; i < stop; i++)
        for (unsigned part = 0; part < tsr_cell_part_count(&directory->cells.data[i]); part++) {
            struct tsr_part *of = &directory->cells.data[i].parts[part];
            of->holders = holders | (uint16_t)(1u << of->source);
        }
    tsr_cells_join(directory, begin, stop);
}

enum tsr_directory_keeps tsr_directory_keeps(const struct tsr_directory *directory, uint8_t copy)
{
    enum tsr_directory_keeps most = TSR_DIRECTORY_KEEPS_NOTHING;
    for (size_t i = 0; i < directory->cells.count; i++) {
        const struct tsr_cell *cell = &directory->cells.data[i];
        for (unsigned part = 0; part < tsr_cell_part_count(cell); part++) {
            if (cell->parts[part].holders == 1u << copy)
                return TSR_DIRECTORY_KEEPS_EXCLUSIVE;
            if (tsr_part_has(&cell->parts[part], copy))
                most = TSR_DIRECTORY_KEEPS_SHARED;
        }
    }
    return most;
}

void tsr_directory_lose(struct tsr_directory *directory, uint8_t copy)
{
    for (size_t i = 0; i < directory->cells.count; i++) {
        struct tsr_cell *cell = &directory->cells.data[i];
        cell->arrivals[copy] = 0;
        cell->origins[copy] = 0;
        for (unsigned n = 0; n < tsr_cell_part_count(cell); n++) {
            struct tsr_part *part = &cell->parts[n];
            part->holders &= (uint16_t)~(1u << copy);
            if (part->source == copy)
                part->source = part->holders >> directory->base & 1 ? directory->base : (uint8_t)__builtin_ctz(part->holders);
        }
    }
    tsr_cells_join(directory, 0, directory->cells.count);
}

bool tsr_directory_holds(const struct tsr_directory *directory, uint64_t first, uint64_t end, uint8_t copy)
{
    for (size_t i = tsr_cell_find(directory, first); i < directory->cells.count && directory->cells.data[i].first < end; i++) {
        const struct tsr_cell *cell = &directory->cells.data[i];
        uint8_t parts =
            tsr_cell_parts_in(cell, cell->first > first ? cell->first : first, tsr_least(tsr_cell_end(directory, i), end));
        if (tsr_cell_lacking(cell, parts, copy) || cell->arrivals[copy])
            return false;
    }
    return true;
}
