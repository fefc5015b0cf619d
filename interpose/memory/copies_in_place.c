/*
 * See copies_parts.h. Uses that find everything in place, as nearly all do: the GPU's copy holds what they touch, nobody else holds what they
 * write, and they come after all work that they have to. Each range is then a cell of its own, or lies in one, and only the writers change.
 */
#include "memory/copies_parts.h"

#include "lane/lane_client.h"
#include "lane/streams.h"
#include "memory/directory_cells.h"
#include "memory/owners.h"
#include "object/session.h"

#define MOST_WRITTEN 64u /* ranges, of one use */

struct found {
    bool waits;     /* it comes after some work, which it does already */
    uint32_t count; /* ranges that it writes */
    uint64_t *writers[MOST_WRITTEN];
};

/* The stream has had work with tickets before. */
static bool knows_asker(const struct tsr_copies_use *use, const struct tsr_stream *stream, struct tsr_asker *asker)
{
    const struct tsr_ticket_queue *queue = stream ? stream->queue : NULL;
    if (!queue || stream->kind == TSR_STREAM_OWN || queue->gone || queue->dead || queue->handle != stream->handle ||
        queue->context != stream->context || tsr_tickets.strands == 1)
        return false;
    uint32_t strand = tsr_lane_rank(use->lane);
    *asker = (struct tsr_asker){.queue = queue->place, .strand = strand, .id = queue->place + strand};
    return true;
}

/* 0: no ticket. */
static bool comes_after_locked(const struct tsr_asker *asker, uint64_t ticket)
{
    if (!ticket || tsr_ticket_queue_of(ticket) == asker->queue + asker->strand)
        return true;
    return tsr_ticket_other_strand_locked(asker, ticket) < TSR_STRANDS ? tsr_ticket_is_tied_locked(asker, ticket)
                                                                       : tsr_ticket_is_satisfied_locked(asker, ticket);
}

static bool comes_after_all_locked(const struct tsr_asker *asker, struct tsr_ticket_queue *queue)
{
    uint64_t *known = &queue->strands[asker->strand].after_all, before_all = tsr_tickets.before_all;
    if (*known != before_all && comes_after_locked(asker, before_all))
        *known = before_all;
    return *known == before_all;
}

/* Pulls from the copy that other strands of the stream have made; of other streams the program's order says it. */
static bool comes_after_pulls_locked(const struct tsr_asker *asker, const struct tsr_cell *cell, uint8_t copy)
{
    for (unsigned other = 0; other <= tsr_session()->lane_count; other++)
        if (cell->origins[other] >> copy & 1 && cell->arrivals[other] &&
            tsr_ticket_other_strand_locked(asker, cell->arrivals[other]) < TSR_STRANDS &&
            !tsr_ticket_is_tied_locked(asker, cell->arrivals[other]))
            return false;
    return true;
}

/* Where the ticket of who writes the cell goes; NULL: more than that would change. */
static uint64_t *writer_locked(const struct tsr_asker *asker, struct tsr_cell *cell, uint8_t copy)
{
    struct tsr_part *part = &cell->parts[0];
    uint32_t at = tsr_part_writer(part, asker->queue + asker->strand);
    bool in_place = part->holders == 1u << copy && part->source == copy && at < TSR_DIRECTORY_WRITERS &&
                    (part->writers[at] & TSR_TICKET_LATEST) != TSR_TICKET_LATEST && comes_after_pulls_locked(asker, cell, copy);
    return in_place ? &part->writers[at] : NULL;
}

struct tsr_cell *tsr_copies_cell_locked(const struct tsr_touch *touch, struct tsr_copies **copies)
{
    struct tsr_copies *of = *copies = tsr_copies_at_locked(touch->first);
    if (!of || touch->stride || touch->first >= touch->end || touch->end > of->address + of->bytes)
        return NULL;
    uint64_t first = touch->first - of->address, end = touch->end - of->address;
    size_t index = tsr_cell_find(&of->directory, first);
    struct tsr_cell *cell = &of->directory.cells.data[index];
    uint64_t cell_end = tsr_cell_end(&of->directory, index);
    bool fits = end == cell_end ? cell->first == first || !touch->writes : end < cell_end && !touch->writes;
    return fits && !cell->rows.stride ? cell : NULL;
}

static bool is_in_place_locked(const struct tsr_copies_use *use, const struct tsr_touch *touch, const struct tsr_asker *asker,
                               struct found *found)
{
    uint32_t gpu = asker->strand;
    struct tsr_copies *copies;
    struct tsr_cell *cell = tsr_copies_cell_locked(touch, &copies);
    if (!cell || copies->fixed || (use->lane && copies->refused >> gpu & 1) || !(copies->replicas.ready >> gpu & 1) ||
        copies->replicas.ready & ~copies->replicas.own)
        return false;
    uint8_t copy = copies->replicas.used_by[gpu];
    if (!tsr_part_has(&cell->parts[0], copy) || !comes_after_locked(asker, cell->arrivals[copy]))
        return false;
    found->waits |= cell->arrivals[copy] != 0;
    copies->used_at[gpu] = tsr_copies_uses;
    if (!touch->writes)
        return true;
    uint64_t *writer = found->count < MOST_WRITTEN ? writer_locked(asker, cell, copy) : NULL;
    if (writer)
        found->writers[found->count++] = writer;
    return writer;
}

/* Neighbours that become equal are joined by who changes cells. */
bool tsr_copies_use_in_place_locked(const struct tsr_copies_use *use, const struct tsr_order_hold *hold)
{
    struct tsr_asker asker;
    struct found found;
    if (use->everything || use->proof || use->lanes || tsr_copies_failed || tsr_owners_have_begun() ||
        !knows_asker(use, hold->stream, &asker))
        return false;
    struct tsr_ticket_queue *queue = hold->stream->queue;
    found.count = 0;
    found.waits = use->lane != NULL;
    tsr_copies_uses++;
    for (uint32_t i = 0; i < use->count; i++)
        if (!is_in_place_locked(use, &use->touches[i], &asker, &found))
            return false;
    if (found.waits && !comes_after_all_locked(&asker, queue))
        return false;
    queue->strands[asker.strand].used_at = queue->broadcasts;
    uint64_t ticket = tsr_ticket_take_locked(&asker);
    for (uint32_t i = 0; i < found.count; i++)
        *found.writers[i] = ticket;
    if (use->ticket)
        *use->ticket = ticket;
    return true;
}
