/* See copies.h. A use is made: tied to other strands, given its ticket, recorded in directories, and kept for its repetitions. */
#include "memory/copies.h"

#include <pthread.h>

#include "driver/stream_handle.h"
#include "memory/copies_inquiry.h"
#include "memory/owners.h"
#include "memory/spill.h"
#include "memory/staging.h"
#include "object/session.h"

/* The host owns what is used; NULL: all of it, by work that may touch anything. */
static void note_spilled_locked(struct tsr_copies *copies, const struct tsr_use *part, const struct tsr_inquiry *inquiry)
{
    const struct tsr_copies_use *use = inquiry->use;
    struct tsr_spill_use spilled = {.queue = inquiry->waits.asker.queue,
                                    .counts = part && use->cause == TSR_PULL_LAUNCH,
                                    .whole = part && part->pulls && part->end - part->first == copies->bytes};
    if (use->lane || inquiry->waits.asker.own)
        tsr_spill_used_away_locked(copies);
    else if (use->cause != TSR_PULL_CONSTANT)
        tsr_spill_used_locked(copies, &spilled);
}

/* In a pool: the use has its ticket. */
static void note_use_locked(struct tsr_copies *copies, const struct tsr_use *use, struct tsr_inquiry *inquiry)
{
    uint32_t gpu = tsr_lane_rank(inquiry->use->lane);
    bool writes = use->writes || (use->copy != gpu && tsr_directory_look(&copies->directory, use) != TSR_DIRECTORY_SAME);
    *(writes ? &copies->written_by[gpu] : &copies->read_by[gpu]) = use->ticket;
    if (use->writes)
        copies->written_at = tsr_copies_uses;
    if (tsr_copies_host_owns(copies))
        note_spilled_locked(copies, use, inquiry);
}

static void apply_locked(struct tsr_copies *copies, const struct tsr_use *use, struct tsr_inquiry *inquiry)
{
    struct tsr_directory_listener pulls = {.pull = tsr_inquiry_pull, .context = inquiry};
    inquiry->copies = copies;
    uint64_t before = inquiry->bytes;
    inquiry->gathers = copies->full;
    if (copies->full)
        tsr_directory_gather(&copies->directory, use->copy, use->ticket, &pulls);
    inquiry->gathers = false;
    inquiry->gathered += inquiry->bytes - before;
    copies->full = false;
    tsr_directory_apply(&copies->directory, use, &pulls);
    tsr_copies_tell_directory_locked(copies, false);
}

static void apply_everything_locked(struct tsr_inquiry *inquiry, uint64_t ticket)
{
    struct tsr_directory_listener pulls = {.pull = tsr_inquiry_pull, .context = inquiry};
    for (size_t i = 0; i < tsr_copies_all.count; i++) {
        inquiry->copies = tsr_copies_all.data[i];
        if (tsr_copies_host_owns(inquiry->copies))
            note_spilled_locked(tsr_copies_all.data[i], NULL, inquiry);
        tsr_directory_gather(&tsr_copies_all.data[i]->directory, tsr_copies_all.data[i]->replicas.used_by[0], ticket, &pulls);
        tsr_copies_tell_directory_locked(tsr_copies_all.data[i], false);
    }
}

static void remember_locked(struct tsr_copies *copies, const struct tsr_use *use, struct tsr_inquiry *inquiry)
{
    struct tsr_copies_proof *proof = inquiry->use->proof;
    uint64_t page = tsr_copies_page(copies->address);
    uint32_t at = proof->count;
    while (at > 0 && tsr_proof_extent(proof, at - 1)->page != page)
        at--;
    at = at ? at - 1 : proof->count;
    if (copies->fixed || at == TSR_PROOF_EXTENTS + proof->more_room ||
        tsr_directory_look(&copies->directory, use) != TSR_DIRECTORY_SAME) {
        proof->queue = NULL;
        return;
    }
    *tsr_proof_extent(proof, at) = (struct tsr_proof_extent){.page = page, .state = *tsr_copies_state(copies)};
    proof->count += at == proof->count;
}

/* The use has been applied, so a repetition needs nothing, unless it changed more than its own bytes. */
static void fill_proof_locked(struct tsr_inquiry *inquiry)
{
    struct tsr_copies_proof *proof = inquiry->use->proof;
    proof->queue = ((inquiry->shared_reads || inquiry->shared_writes) && tsr_order_by_data) || tsr_owners_have_begun()
                       ? NULL
                       : tsr_tickets.queues.data[inquiry->waits.asker.queue];
    proof->strand = inquiry->waits.asker.strand;
    proof->generation = tsr_copies_generation;
    proof->count = 0;
    tsr_inquiry_each_locked(inquiry, tsr_inquiry_no_ticket(inquiry), remember_locked);
}

/* The strand's pulls, or the first steps of those that are staged, come before. */
static void guard_locked(struct tsr_inquiry *inquiry, struct tsr_stream *stream, uint32_t strand)
{
    const struct tsr_asker *asker = &inquiry->waits.asker;
    uint64_t number = tsr_staging_guard(stream, asker->strand, strand, inquiry->guards[strand], &inquiry->result);
    uint64_t ticket = (uint64_t)(asker->queue + strand) << TSR_TICKET_SHIFT | number;
    if (!number || tsr_ticket_is_tied_locked(asker, ticket))
        return;
    inquiry->ties |= 1u << strand;
    if (inquiry->tied[strand] < number)
        inquiry->tied[strand] = number;
}

/* Memory without a directory that strands of the stream share is used in stream order. */
static void tie_locked(struct tsr_inquiry *inquiry)
{
    const struct tsr_asker *asker = &inquiry->waits.asker;
    struct tsr_stream *stream = inquiry->hold->stream;
    if (!stream || tsr_tickets.strands == 1 || asker->own)
        return;
    stream->queue = tsr_tickets.queues.data[asker->queue];
    for (uint32_t strand = 0; strand < tsr_tickets.strands && (inquiry->shared_reads || inquiry->shared_writes); strand++) {
        const struct tsr_ticket_strand *other = &stream->queue->strands[strand];
        bool also_reads = inquiry->shared_writes && other->shared_read > other->shared_write;
        uint64_t number = also_reads ? other->shared_read : other->shared_write;
        if (number)
            tsr_inquiry_tie(inquiry, (uint64_t)(asker->queue + strand) << TSR_TICKET_SHIFT | number);
    }
    for (uint32_t strand = 0; strand < tsr_tickets.strands && inquiry->result == CUDA_SUCCESS; strand++) {
        if (inquiry->guards[strand])
            guard_locked(inquiry, stream, strand);
        if (!(inquiry->ties >> strand & 1))
            continue;
        inquiry->result = tsr_tickets_tie_locked(asker, stream, strand, inquiry->tied[strand]);
        tsr_copies_count(&tsr_session()->policy->ties, 1);
    }
}

static void note_shared_locked(const struct tsr_inquiry *inquiry, uint64_t ticket)
{
    const struct tsr_asker *asker = &inquiry->waits.asker;
    struct tsr_ticket_strand *strand = &tsr_tickets.queues.data[asker->queue]->strands[asker->strand];
    if (inquiry->shared_reads)
        strand->shared_read = ticket & TSR_TICKET_LATEST;
    if (inquiry->shared_writes)
        strand->shared_write = ticket & TSR_TICKET_LATEST;
}

/* The GPU has a copy of its own of what is touched, and there is nothing to wait for on the host. */
static bool takes_part(const struct tsr_inquiry *inquiry)
{
    return inquiry->result == CUDA_SUCCESS && !inquiry->waits.count && !inquiry->waits.missing && !inquiry->shared_writes;
}

/* The stream does the same on the lane: there, too, it comes after what has used the bytes. False: not there. */
static bool joins_locked(struct tsr_inquiry *inquiry, struct tsr_copies_use *use, struct tsr_inquiry *there)
{
    if (!tsr_inquiry_begin_locked(there, use, inquiry->hold, 0))
        return false;
    tsr_inquiry_waits_locked(there);
    if (!takes_part(there))
        return false;
    tie_locked(there);
    inquiry->result = there->result;
    return there->result == CUDA_SUCCESS;
}

static void add_lane_locked(struct tsr_inquiry *inquiry, struct tsr_inquiry *there)
{
    uint32_t rank = tsr_lane_rank(there->use->lane);
    tsr_strands_go_on(inquiry->hold->stream, there->use->lane);
    inquiry->broadcast.copies |= (uint16_t)(1u << rank);
    inquiry->broadcast.tickets[rank] = tsr_ticket_take_locked(&there->waits.asker);
    note_shared_locked(there, inquiry->broadcast.tickets[rank]);
    if (tsr_owners_have_begun())
        tsr_inquiry_each_locked(there, inquiry->broadcast.tickets[rank], note_use_locked);
    *inquiry->use->lanes |= 1u << (rank - 1);
}

/*
 * Lanes that the stream uses, and to which it has forked: others come after the work at home when it does. All ties come before all tickets: a tie signals what a lane was
 * given, and the work of these tickets is given to it only when all are taken.
 */
static __attribute__((noinline)) void broadcast_locked(struct tsr_inquiry *inquiry, struct tsr_stream *stream,
                                                       const struct tsr_ticket_queue *queue)
{
    const struct tsr_session *session = tsr_session();
    struct tsr_copies_use uses[TSR_STRANDS];
    struct tsr_inquiry there[TSR_STRANDS];
    uint32_t count = 0;
    for (uint32_t i = 0; i < session->lane_count && inquiry->result == CUDA_SUCCESS; i++) {
        uses[count] = *inquiry->use;
        uses[count].lane = session->lanes[i];
        if (tsr_order_is_there(stream, session->lanes[i]) && (inquiry->use->on_all || tsr_ticket_strand_is_used(queue, i + 1)))
            count += joins_locked(inquiry, &uses[count], &there[count]);
    }
    for (uint32_t i = 0; i < count && inquiry->result == CUDA_SUCCESS; i++)
        add_lane_locked(inquiry, &there[i]);
}

static void add_lanes_locked(struct tsr_inquiry *inquiry)
{
    struct tsr_stream *stream = inquiry->hold->stream;
    const struct tsr_asker *asker = &inquiry->waits.asker;
    struct tsr_ticket_queue *queue = tsr_tickets.queues.data[asker->queue];
    if (inquiry->use->lanes)
        queue->broadcasts++;
    else
        queue->strands[asker->strand].used_at = queue->broadcasts;
    if (inquiry->use->lanes && stream && tsr_strands_are_apart(stream))
        broadcast_locked(inquiry, stream, queue);
}

/* The caller gives the use's strands its work next, even if what the use waits for has made one of them signal meanwhile. */
static void announce_work(const struct tsr_inquiry *inquiry)
{
    const struct tsr_copies_use *use = inquiry->use;
    struct tsr_stream *stream = inquiry->hold ? inquiry->hold->stream : NULL;
    uint32_t lanes = (use->lanes ? *use->lanes : 0) | (use->lane ? 1u << tsr_lane_number(use->lane) : 0);
    if (stream)
        tsr_strands_give(stream, lanes);
}

/* Home alone holds everything, and nothing is under way elsewhere: the queue's work found that before, and no lane has been given anything since. */
static bool is_all_home_locked(const struct tsr_inquiry *inquiry)
{
    const struct tsr_asker *asker = &inquiry->waits.asker;
    return inquiry->use->everything && !asker->own &&
           __atomic_load_n(&tsr_lanes_quiet_for, __ATOMIC_SEQ_CST) == tsr_tickets.queues.data[asker->queue];
}

/* Not of a queue that shares its place with others, nor where memory itself moves. */
static void note_all_home_locked(const struct tsr_inquiry *inquiry)
{
    const struct tsr_asker *asker = &inquiry->waits.asker;
    if (inquiry->use->everything && !asker->own && !tsr_owners_have_begun())
        __atomic_store_n(&tsr_lanes_quiet_for, tsr_tickets.queues.data[asker->queue], __ATOMIC_SEQ_CST);
}

static CUresult go_on_at_home_locked(struct tsr_inquiry *inquiry)
{
    const struct tsr_asker *asker = &inquiry->waits.asker;
    struct tsr_ticket_queue *queue = tsr_tickets.queues.data[asker->queue];
    queue->strands[asker->strand].used_at = queue->broadcasts;
    uint64_t ticket = tsr_ticket_take_locked(asker);
    if (inquiry->use->ticket)
        *inquiry->use->ticket = ticket;
    announce_work(inquiry);
    return CUDA_SUCCESS;
}

static CUresult pull_locked(struct tsr_inquiry *inquiry)
{
    if (inquiry->result != CUDA_SUCCESS)
        return inquiry->result;
    if (is_all_home_locked(inquiry))
        return go_on_at_home_locked(inquiry);
    tsr_inquiry_last_waits_locked(inquiry);
    if (inquiry->result != CUDA_SUCCESS || inquiry->waits.count || inquiry->waits.missing)
        return inquiry->result != CUDA_SUCCESS ? inquiry->result : CUDA_ERROR_NOT_READY;
    if (inquiry->exposed)
        tsr_order_expose();
    tie_locked(inquiry);
    if (inquiry->result != CUDA_SUCCESS)
        return inquiry->result;
    add_lanes_locked(inquiry);
    if (inquiry->result != CUDA_SUCCESS)
        return inquiry->result;
    if (tsr_owners_have_host() && !inquiry->use->lane && inquiry->hold)
        tsr_spill_mark_locked(tsr_stream_named(inquiry->use->stream, inquiry->use->per_thread), inquiry->waits.asker.queue);
    uint64_t ticket = inquiry->ticket = tsr_ticket_take_locked(&inquiry->waits.asker);
    note_shared_locked(inquiry, ticket);
    if (inquiry->use->ticket)
        *inquiry->use->ticket = ticket;
    if (tsr_owners_have_begun())
        tsr_inquiry_each_locked(inquiry, ticket, note_use_locked);
    tsr_inquiry_begin_pulls_locked(inquiry);
    if (inquiry->use->everything)
        apply_everything_locked(inquiry, ticket);
    else if (inquiry->changes)
        tsr_inquiry_each_locked(inquiry, ticket, apply_locked);
    tsr_inquiry_end_pulls_locked(inquiry);
    announce_work(inquiry);
    tsr_inquiry_report_locked(inquiry);
    if (inquiry->result != CUDA_SUCCESS)
        tsr_copies_fail_locked(inquiry->result, "bytes could not be pulled");
    else if (inquiry->use->proof)
        fill_proof_locked(inquiry);
    if (inquiry->result == CUDA_SUCCESS)
        note_all_home_locked(inquiry);
    return inquiry->result;
}

CUresult tsr_copies_pull(const struct tsr_copies_use *use, const struct tsr_order_hold *hold, uint32_t slot)
{
    struct tsr_inquiry inquiry;
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&tsr_copies_lock);
    if (!tsr_copies_use_in_place_locked(use, hold))
        result = tsr_inquiry_begin_locked(&inquiry, use, hold, slot) ? pull_locked(&inquiry) : CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_unlock(&tsr_copies_lock);
    return result;
}
