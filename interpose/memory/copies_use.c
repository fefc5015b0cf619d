/* See copies.h. One use: which work it has to wait for, what is pulled for it, and recording it. */
#include "memory/copies.h"

#include <pthread.h>

#include "base/log.h"
#include "driver/real.h"
#include "driver/stream_handle.h"
#include "lane/lane_client.h"
#include "memory/arena.h"
#include "memory/copies_parts.h"
#include "memory/directory_cells.h"
#include "memory/home_only.h"
#include "memory/host_space.h"
#include "memory/owners.h"
#include "memory/pairs.h"
#include "memory/pull_seen.h"
#include "memory/relay.h"
#include "memory/spill.h"
#include "memory/staging.h"
#include "memory/transfer.h"
#include "object/session.h"

#define CELLS_PER_TOUCH 2u /* that a touch may add to a directory; twice as many if an extent's beginning cuts its rows */

uint64_t tsr_copies_uses;
const struct tsr_pull_listener *tsr_pull_listener;

struct inquiry {
    struct tsr_copies_waits waits;
    const struct tsr_copies_use *use;
    const struct tsr_copies *copies;
    const struct tsr_order_hold *hold; /* of its stream; NULL: the stream is not held, nothing is changed */
    uint32_t slot;
    uint64_t ticket; /* of the use, once it is applied */
    uint64_t pulls, bytes, through_host;
    uint64_t gathered;          /* of these bytes, those pulled for lack of room in a directory */
    bool gathers;               /* is pulling for that reason now */
    bool changes;               /* the use changes a directory */
    bool shared_reads;          /* it reads memory without a directory, which other strands of its stream may use as well; */
    bool shared_writes;         /* it writes such memory */
    bool many_leave_gaps;       /* several of its touches */
    bool exposed;               /* the host can see what it writes, or change what it reads */
    uint32_t ties;              /* bit n: it needs a tie to strand n */
    uint64_t tied[TSR_STRANDS]; /* by strand: up to which number */
    struct tsr_broadcast broadcast; /* to other copies than the use's own */
    const struct tsr_survey_of *survey_of;
    struct tsr_survey *survey;
    uint64_t needs[TSR_STRANDS];  /* by strand: up to which number its work is needed; 0: none is known */
    uint64_t guards[TSR_STRANDS]; /* by strand: up to which number its pulls must have been made */
    struct tsr_relay relay;       /* for pulls from GPUs whose memory this one cannot access */
    CUresult result;
};

static struct tsr_staging_use staging; /* copies' lock; of the use that is being applied */

/* True: the ticket is of another strand of the same stream, so a tie will do. */
static bool note_tie(struct inquiry *inquiry, uint64_t ticket)
{
    uint32_t strand = tsr_ticket_other_strand_locked(&inquiry->waits.asker, ticket);
    if (strand == TSR_STRANDS || !inquiry->hold)
        return strand < TSR_STRANDS;
    uint64_t number = tsr_ticket_number_of_locked(ticket);
    if (inquiry->needs[strand] < number)
        inquiry->needs[strand] = number;
    if (tsr_ticket_is_tied_locked(&inquiry->waits.asker, ticket))
        return true;
    inquiry->ties |= 1u << strand;
    if (inquiry->tied[strand] < number)
        inquiry->tied[strand] = number;
    return true;
}

/* What the strand's pulls read is overwritten. Different streams are ordered by the program: only strands of one stream need this. */
static void note_guard(void *context, uint64_t ticket)
{
    struct inquiry *inquiry = context;
    uint32_t strand = tsr_ticket_other_strand_locked(&inquiry->waits.asker, ticket);
    if (strand == TSR_STRANDS || !inquiry->hold || tsr_ticket_is_tied_locked(&inquiry->waits.asker, ticket))
        return;
    uint64_t number = tsr_ticket_number_of_locked(ticket);
    if (inquiry->guards[strand] < number)
        inquiry->guards[strand] = number;
}

static void note_wait(void *context, uint64_t ticket)
{
    struct inquiry *inquiry = context;
    if (note_tie(inquiry, ticket))
        return;
    if (ticket != tsr_tickets.before_all && tsr_tickets.before_all)
        note_wait(context, tsr_tickets.before_all);
    struct tsr_copies_waits *waits = &inquiry->waits;
    if (tsr_ticket_is_satisfied_locked(&waits->asker, ticket))
        return;
    uint32_t at = 0;
    while (at < waits->count && tsr_ticket_queue_of(waits->tickets[at]) != tsr_ticket_queue_of(ticket))
        at++;
    if (at == waits->count && waits->count < TSR_COPIES_MOST_WAITS)
        waits->tickets[waits->count++] = ticket;
    else if (at < waits->count && waits->tickets[at] < ticket)
        waits->tickets[at] = ticket;
}

static void ignore_pull(void *context, const struct tsr_pull *pull)
{
    (void)context;
    (void)pull;
}

static CUresult relay_pull(struct inquiry *inquiry, const struct tsr_pull *pull, const struct tsr_lane_copy *what,
                           uint16_t time)
{
    const struct tsr_copies_use *use = inquiry->use;
    const struct tsr_relay_pull relayed = {.to = what->to,
                                           .from = what->from,
                                           .bytes = what->width,
                                           .rows = what->height,
                                           .stride = pull->stride,
                                           .time = time,
                                           .stream = use->stream,
                                           .per_thread = use->per_thread,
                                           .puller = use->lane,
                                           .source = pull->from ? tsr_session()->lanes[pull->from - 1] : NULL};
    inquiry->through_host += tsr_pull_bytes(pull);
    return tsr_relay_pull(&inquiry->relay, &relayed);
}

/* When the strand gets there. */
static CUresult pull_in_turn(struct inquiry *inquiry, const struct tsr_pull *pull, const struct tsr_lane_copy *what,
                             const struct tsr_pull_seen *seen)
{
    const struct tsr_copies_use *use = inquiry->use;
    const struct tsr_asker *asker = &inquiry->waits.asker;
    const struct tsr_transfer by = {
        .lane = use->lane, .slot = inquiry->slot, .time = seen->time, .stream = tsr_stream_named(use->stream, use->per_thread)};
    tsr_tickets.queues.data[asker->queue]->strands[asker->strand].pulled = inquiry->ticket & TSR_TICKET_LATEST;
    return seen->through_host ? relay_pull(inquiry, pull, what, seen->time) : tsr_transfer(&by, what);
}

static enum tsr_pull_cause cause_of(const struct inquiry *inquiry)
{
    return inquiry->gathers ? TSR_PULL_DIRECTORY : inquiry->use->everything ? TSR_PULL_UNKNOWN : inquiry->use->cause;
}

/* A pull as it is recorded. */
static struct tsr_pull_seen seen_locked(const struct inquiry *inquiry, const struct tsr_pull *pull)
{
    const struct tsr_copies_use *use = inquiry->use;
    uint32_t writer = tsr_ticket_queue_of(pull->writer);
    bool known = pull->writer && writer < tsr_tickets.queues.count;
    return (struct tsr_pull_seen){.address = inquiry->copies->address + pull->first,
                                  .bytes = tsr_pull_bytes(pull),
                                  .from = tsr_session_gpu(tsr_session(), pull->from),
                                  .to = tsr_session_gpu(tsr_session(), tsr_lane_rank(use->lane)),
                                  .cause = cause_of(inquiry),
                                  .stream = tsr_stream_named(use->stream, use->per_thread),
                                  .lane = use->lane,
                                  .writer = known ? (uintptr_t)tsr_tickets.queues.data[writer]->handle : 0,
                                  .ticket = (uint16_t)pull->writer};
}

/* Whether a GPU that had no room for a copy uses home's. */
static bool is_shared(const struct tsr_copies *copies)
{
    return (copies->replicas.ready & ~copies->replicas.own) != 0;
}

static void issue_pull(void *context, const struct tsr_pull *pull)
{
    struct inquiry *inquiry = context;
    const struct tsr_copies_use *use = inquiry->use;
    struct tsr_pull_seen seen = seen_locked(inquiry, pull);
    CUdeviceptr at = inquiry->copies->address + pull->first;
    struct tsr_lane_copy what = tsr_transfer_of(pull, tsr_window_at(pull->to, at), tsr_window_at(pull->from, at));
    CUresult result = CUDA_ERROR_NOT_SUPPORTED;
    seen.through_host = !tsr_pair_is_direct(tsr_lane_rank(use->lane), pull->from);
    tsr_pull_begins(&seen);
    if (!seen.through_host && !is_shared(inquiry->copies))
        result = tsr_staging_pull(&staging, pull->from, &what, seen.time);
    if (result == CUDA_ERROR_NOT_SUPPORTED)
        result = pull_in_turn(inquiry, pull, &what, &seen);
    tsr_pull_ended(&seen, result);
    if (inquiry->result == CUDA_SUCCESS)
        inquiry->result = result;
    inquiry->pulls++;
    inquiry->bytes += tsr_pull_bytes(pull);
}

static uint8_t copy_of(const struct tsr_copies *copies, const struct tsr_copies_use *use)
{
    return copies->replicas.used_by[tsr_lane_rank(use->lane)];
}

/* Of memory that no directory knows; what is neither in the arena nor the host's is a module's. */
static void note_shared(struct inquiry *inquiry, const struct tsr_touch *touch, uint64_t at)
{
    bool host = tsr_host_covers(at) || tsr_home_only_reason(at) != TSR_REASON_NONE;
    inquiry->shared_reads |= !touch->writes;
    inquiry->shared_writes |= touch->writes;
    inquiry->exposed |= touch->writes || host;
}

typedef void visit_locked(struct tsr_copies *copies, const struct tsr_use *use, struct inquiry *inquiry);

static void visit_parts_locked(struct tsr_copies *copies, struct tsr_use *use, struct inquiry *inquiry, visit_locked *visit)
{
    struct tsr_use parts[2];
    use->copy = copy_of(copies, inquiry->use);
    unsigned count = tsr_use_cut(use, copies->address, copies->address + copies->bytes, parts);
    for (unsigned i = 0; i < count; i++) {
        parts[i].first -= copies->address;
        parts[i].end -= copies->address;
        visit(copies, &parts[i], inquiry);
    }
}

/* Visits each extent's part of a touch. */
static void split_locked(const struct tsr_touch *touch, struct inquiry *inquiry, uint64_t ticket, visit_locked *visit)
{
    struct tsr_use use = {.first = touch->first,
                          .end = touch->end,
                          .ticket = ticket,
                          .pulls = touch->pulls,
                          .writes = touch->writes,
                          .repeats = inquiry->use->proof != NULL,
                          .stride = touch->stride,
                          .width = touch->width,
                          .others_leave_gaps = inquiry->many_leave_gaps,
                          .broadcast = inquiry->broadcast.copies ? &inquiry->broadcast : NULL};
    if (inquiry->survey_of && inquiry->survey_of->in_pool)
        tsr_copies_survey_mapped(touch->first, touch->end, inquiry->survey_of, inquiry->survey);
    for (uint64_t at = touch->first; at < touch->end && at - TSR_ARENA_ADDRESS < TSR_ARENA_BYTES;) {
        struct tsr_copies *copies = tsr_copies_at_locked(at);
        uint64_t end = copies ? copies->address + copies->bytes : at / TSR_ARENA_PAGE * TSR_ARENA_PAGE + TSR_ARENA_PAGE;
        if (copies)
            visit_parts_locked(copies, &use, inquiry, visit);
        else
            note_shared(inquiry, touch, at);
        at = end;
    }
    if (touch->first - TSR_ARENA_ADDRESS >= TSR_ARENA_BYTES || touch->end - TSR_ARENA_ADDRESS > TSR_ARENA_BYTES)
        note_shared(inquiry, touch, touch->first);
}

static bool is_full_locked(struct tsr_copies *copies, const struct inquiry *inquiry)
{
    uint32_t parts = inquiry->use->count + 1;
    for (uint32_t i = 0; i < inquiry->use->count; i++)
        parts += inquiry->use->touches[i].stride && inquiry->use->touches[i].first < copies->address;
    return !tsr_directory_has_room(&copies->directory, CELLS_PER_TOUCH * parts);
}

/* In a pool: the GPU is to have its own copy; and whether that is worth waiting for. */
static bool wants_own_locked(struct tsr_copies *copies, const struct tsr_use *use, const struct inquiry *inquiry, uint32_t gpu)
{
    bool launches = inquiry->use->cause == TSR_PULL_LAUNCH && (inquiry->use->lane || inquiry->use->tracked);
    bool wants = tsr_copies_deserves_own_locked(copies, use, gpu);
    copies->wanted = (uint16_t)((copies->wanted & ~(1u << gpu)) | (wants ? 1u << gpu : 0));
    return wants && launches && !inquiry->use->locked;
}

/* In a pool: who uses the same copy on another GPU comes before. */
static void note_sharers_locked(const struct tsr_copies *copies, const struct tsr_use *use, struct inquiry *inquiry)
{
    uint32_t gpu = tsr_lane_rank(inquiry->use->lane);
    bool writes = use->writes || (use->copy != gpu && tsr_directory_look(&copies->directory, use) != TSR_DIRECTORY_SAME);
    for (uint32_t other = 0; other <= tsr_session()->lane_count; other++) {
        if (other == gpu || !(copies->replicas.ready >> other & 1) || copies->replicas.used_by[other] != use->copy)
            continue;
        inquiry->shared_writes |= inquiry->use->lanes != NULL; /* it is done once, and not by each GPU */
        if (copies->written_by[other])
            note_tie(inquiry, copies->written_by[other]);
        if (writes && copies->read_by[other])
            note_tie(inquiry, copies->read_by[other]);
    }
}

/* The host owns what is used; NULL: all of it, by work that may touch anything. */
static void note_spilled_locked(struct tsr_copies *copies, const struct tsr_use *part, const struct inquiry *inquiry)
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
static void note_use_locked(struct tsr_copies *copies, const struct tsr_use *use, struct inquiry *inquiry)
{
    uint32_t gpu = tsr_lane_rank(inquiry->use->lane);
    bool writes = use->writes || (use->copy != gpu && tsr_directory_look(&copies->directory, use) != TSR_DIRECTORY_SAME);
    *(writes ? &copies->written_by[gpu] : &copies->read_by[gpu]) = use->ticket;
    if (use->writes)
        copies->written_at = tsr_copies_uses;
    if (tsr_copies_host_owns(copies))
        note_spilled_locked(copies, use, inquiry);
}

static void refuse(struct inquiry *inquiry, enum tsr_reason reason)
{
    inquiry->result = CUDA_ERROR_NOT_SUPPORTED;
    if (inquiry->use->reason)
        *inquiry->use->reason = reason;
}

/* False: the use's GPU cannot use the extent (result), or has no copy of it yet (waits.missing). */
static bool is_usable_locked(struct tsr_copies *copies, const struct tsr_use *use, struct inquiry *inquiry)
{
    uint32_t gpu = tsr_lane_rank(inquiry->use->lane);
    bool wants = tsr_owners_have_begun() && wants_own_locked(copies, use, inquiry, gpu);
    copies->used_at[gpu] = tsr_copies_uses;
    wants |= copies->spilled.moving;
    if (inquiry->use->lane && (copies->fixed || copies->refused >> gpu & 1))
        refuse(inquiry, copies->fixed ? TSR_REASON_MEMORY_FIXED : TSR_REASON_MEMORY_NOT_SHARED);
    else if (!(copies->replicas.ready >> gpu & 1) || wants)
        inquiry->waits.missing = copies->address;
    else
        return true;
    return false;
}

static void ask_locked(struct tsr_copies *copies, const struct tsr_use *use, struct inquiry *inquiry)
{
    struct tsr_directory_listener waits = {
        .pull = ignore_pull, .wait = note_wait, .guard = tsr_order_by_data ? note_guard : NULL, .context = inquiry};
    if (!is_usable_locked(copies, use, inquiry))
        return;
    if (tsr_owners_have_begun())
        note_sharers_locked(copies, use, inquiry);
    else
        inquiry->shared_writes |= is_shared(copies); /* also what it reads may be pulled there */
    if (inquiry->use->lane && tsr_tickets.before_all)
        note_wait(inquiry, tsr_tickets.before_all);
    copies->full = is_full_locked(copies, inquiry);
    if (!copies->full)
        tsr_directory_ask(&copies->directory, use, &waits);
    else
        tsr_directory_ask_all(&copies->directory, use->copy, &waits);
}

/* From here on repeated uses are looked at again, and the numbers of their tickets are known. */
static void freeze_locked(struct tsr_copies *copies)
{
    tsr_copies_change(tsr_copies_state(copies));
    tsr_directory_freeze(&copies->directory, tsr_ticket_last_locked);
}

/* Like ask_locked, immediately before the use is applied: makes repeats of other uses look again if their proofs would not hold. */
static void announce_locked(struct tsr_copies *copies, const struct tsr_use *use, struct inquiry *inquiry)
{
    if (!is_usable_locked(copies, use, inquiry))
        return;
    enum tsr_directory_change change = is_full_locked(copies, inquiry) || inquiry->use->lanes
                                           ? TSR_DIRECTORY_HOLDS
                                           : tsr_directory_look(&copies->directory, use);
    if (change == TSR_DIRECTORY_HOLDS)
        freeze_locked(copies);
    inquiry->changes |= change != TSR_DIRECTORY_SAME;
    ask_locked(copies, use, inquiry);
}

static void apply_locked(struct tsr_copies *copies, const struct tsr_use *use, struct inquiry *inquiry)
{
    struct tsr_directory_listener pulls = {.pull = issue_pull, .context = inquiry};
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

/* Touches that only overwrite come last: the launch may also read the same bytes. */
static void each_locked(struct inquiry *inquiry, uint64_t ticket, visit_locked *visit)
{
    const struct tsr_copies_use *use = inquiry->use;
    for (int pulling = 1; pulling >= 0; pulling--)
        for (uint32_t i = 0; i < use->count; i++)
            if (use->touches[i].pulls == pulling)
                split_locked(&use->touches[i], inquiry, ticket, visit);
}

static void announce_everything_locked(struct inquiry *inquiry)
{
    for (size_t i = 0; i < tsr_copies_all.count; i++)
        freeze_locked(tsr_copies_all.data[i]);
    inquiry->changes = true;
}

static void ask_everything_locked(struct inquiry *inquiry)
{
    struct tsr_directory_listener waits = {.pull = ignore_pull, .wait = note_wait, .context = inquiry};
    for (size_t i = 0; i < tsr_copies_all.count; i++)
        if (tsr_copies_all.data[i]->spilled.moving)
            inquiry->waits.missing = tsr_copies_all.data[i]->address;
    for (size_t i = 0; i < tsr_copies_all.count; i++)
        tsr_directory_ask_all(&tsr_copies_all.data[i]->directory, tsr_copies_all.data[i]->replicas.used_by[0], &waits);
}

static void apply_everything_locked(struct inquiry *inquiry, uint64_t ticket)
{
    struct tsr_directory_listener pulls = {.pull = issue_pull, .context = inquiry};
    for (size_t i = 0; i < tsr_copies_all.count; i++) {
        inquiry->copies = tsr_copies_all.data[i];
        if (tsr_copies_host_owns(inquiry->copies))
            note_spilled_locked(tsr_copies_all.data[i], NULL, inquiry);
        tsr_directory_gather(&tsr_copies_all.data[i]->directory, tsr_copies_all.data[i]->replicas.used_by[0], ticket, &pulls);
        tsr_copies_tell_directory_locked(tsr_copies_all.data[i], false);
    }
}

static bool many_leave_gaps(const struct tsr_copies_use *use)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < use->count; i++)
        count += use->touches[i].stride != 0;
    return count > 1;
}

/* False: no memory. */
static bool begin_locked(struct inquiry *inquiry, const struct tsr_copies_use *use, const struct tsr_order_hold *hold,
                         uint32_t slot)
{
    tsr_copies_uses++;
    *inquiry = (struct inquiry){
        .use = use, .hold = hold, .slot = slot, .many_leave_gaps = many_leave_gaps(use), .result = tsr_copies_failed};
    return tsr_asker_init_locked(&inquiry->waits.asker, tsr_stream_named(use->stream, use->per_thread), use->lane);
}

/* In the place of a ticket that has not been taken yet: only its queue counts. */
static uint64_t no_ticket(const struct inquiry *inquiry)
{
    return (uint64_t)(inquiry->waits.asker.queue + inquiry->waits.asker.strand) << TSR_TICKET_SHIFT;
}

static void find_waits_locked(struct inquiry *inquiry)
{
    if (inquiry->use->everything)
        ask_everything_locked(inquiry);
    else
        each_locked(inquiry, no_ticket(inquiry), ask_locked);
}

static void report_locked(const struct inquiry *inquiry)
{
    struct tsr_session *session = tsr_session();
    struct tsr_policy *policy = session->policy;
    const struct tsr_copies_use *use = inquiry->use;
    uint32_t gpu = use->lane ? session->lane_device[tsr_lane_number(use->lane)] : policy->home;
    if (!inquiry->pulls)
        return;
    tsr_copies_count(&policy->pulls[gpu % TSR_GPUS], inquiry->pulls);
    tsr_copies_count(&policy->pulled_bytes[gpu % TSR_GPUS], inquiry->bytes);
    tsr_copies_count(&policy->through_host_bytes[gpu % TSR_GPUS], inquiry->through_host);
    tsr_copies_count(&policy->pulled_for[use->everything ? TSR_PULL_UNKNOWN : use->cause], inquiry->bytes - inquiry->gathered);
    tsr_copies_count(&policy->pulled_for[TSR_PULL_DIRECTORY], inquiry->gathered);
    if (use->everything) {
        tsr_copies_count(&policy->brought_home, 1);
        tsr_copies_count(&policy->brought_home_bytes, inquiry->bytes);
    }
}

/* The same, immediately before the use is applied, which it is if there are no waits. */
static void find_last_waits_locked(struct inquiry *inquiry)
{
    if (inquiry->use->everything) {
        announce_everything_locked(inquiry);
        ask_everything_locked(inquiry);
    } else {
        each_locked(inquiry, no_ticket(inquiry), announce_locked);
    }
}

static void remember_locked(struct tsr_copies *copies, const struct tsr_use *use, struct inquiry *inquiry)
{
    struct tsr_copies_proof *proof = inquiry->use->proof;
    uint64_t page = tsr_copies_page(copies->address);
    uint32_t at = proof->count;
    while (at > 0 && tsr_proof_extent(proof, at - 1)->page != page)
        at--;
    at = at ? at - 1 : proof->count;
    if (at == TSR_PROOF_EXTENTS + proof->more_room || tsr_directory_look(&copies->directory, use) != TSR_DIRECTORY_SAME) {
        proof->queue = NULL;
        return;
    }
    *tsr_proof_extent(proof, at) = (struct tsr_proof_extent){.page = page, .state = *tsr_copies_state(copies)};
    proof->count += at == proof->count;
}

/* The use has been applied, so a repetition needs nothing, unless it changed more than its own bytes. */
static void fill_proof_locked(struct inquiry *inquiry)
{
    struct tsr_copies_proof *proof = inquiry->use->proof;
    proof->queue = ((inquiry->shared_reads || inquiry->shared_writes) && tsr_order_by_data) || tsr_owners_have_begun()
                       ? NULL
                       : tsr_tickets.queues.data[inquiry->waits.asker.queue];
    proof->strand = inquiry->waits.asker.strand;
    proof->generation = tsr_copies_generation;
    proof->count = 0;
    each_locked(inquiry, no_ticket(inquiry), remember_locked);
}

/* The strand's pulls, or the first steps of those that are staged, come before. */
static void guard_locked(struct inquiry *inquiry, struct tsr_stream *stream, uint32_t strand)
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
static void tie_locked(struct inquiry *inquiry)
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
            note_tie(inquiry, (uint64_t)(asker->queue + strand) << TSR_TICKET_SHIFT | number);
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

static void note_shared_locked(const struct inquiry *inquiry, uint64_t ticket)
{
    const struct tsr_asker *asker = &inquiry->waits.asker;
    struct tsr_ticket_strand *strand = &tsr_tickets.queues.data[asker->queue]->strands[asker->strand];
    if (inquiry->shared_reads)
        strand->shared_read = ticket & TSR_TICKET_LATEST;
    if (inquiry->shared_writes)
        strand->shared_write = ticket & TSR_TICKET_LATEST;
}

/* The GPU has a copy of its own of what is touched, and there is nothing to wait for on the host. */
static bool takes_part(const struct inquiry *inquiry)
{
    return inquiry->result == CUDA_SUCCESS && !inquiry->waits.count && !inquiry->waits.missing && !inquiry->shared_writes;
}

/* The stream does the same on the lane: there, too, it comes after what has used the bytes. */
static void add_lane_locked(struct inquiry *inquiry, struct tsr_lane_client *lane)
{
    struct tsr_copies_use use = *inquiry->use;
    struct inquiry there;
    uint32_t rank = tsr_lane_rank(lane);
    use.lane = lane;
    if (!begin_locked(&there, &use, inquiry->hold, 0))
        return;
    find_waits_locked(&there);
    if (!takes_part(&there))
        return;
    tie_locked(&there);
    inquiry->result = there.result;
    if (there.result != CUDA_SUCCESS)
        return;
    tsr_strands_go_on(inquiry->hold->stream, lane);
    inquiry->broadcast.copies |= (uint16_t)(1u << rank);
    inquiry->broadcast.tickets[rank] = tsr_ticket_take_locked(&there.waits.asker);
    note_shared_locked(&there, inquiry->broadcast.tickets[rank]);
    if (tsr_owners_have_begun())
        each_locked(&there, inquiry->broadcast.tickets[rank], note_use_locked);
    *inquiry->use->lanes |= 1u << (rank - 1);
}

/* Lanes that the stream uses, and to which it has forked: others come after the work at home when it does. */
static void add_lanes_locked(struct inquiry *inquiry)
{
    const struct tsr_session *session = tsr_session();
    struct tsr_stream *stream = inquiry->hold->stream;
    const struct tsr_asker *asker = &inquiry->waits.asker;
    struct tsr_ticket_queue *queue = tsr_tickets.queues.data[asker->queue];
    if (inquiry->use->lanes)
        queue->broadcasts++;
    else
        queue->strands[asker->strand].used_at = queue->broadcasts;
    if (!inquiry->use->lanes || !stream || !tsr_strands_are_apart(stream))
        return;
    for (uint32_t i = 0; i < session->lane_count && inquiry->result == CUDA_SUCCESS; i++)
        if (tsr_order_is_there(stream, session->lanes[i]) && (inquiry->use->on_all || tsr_ticket_strand_is_used(queue, i + 1)))
            add_lane_locked(inquiry, session->lanes[i]);
}

static void begin_staging_locked(const struct inquiry *inquiry)
{
    const struct tsr_asker *asker = &inquiry->waits.asker;
    const struct tsr_copies_use *use = inquiry->use;
    bool possible = use->stages && tsr_tickets.strands > 1 && !asker->own && inquiry->hold && !use->everything;
    staging.stream = possible ? inquiry->hold->stream : NULL;
    staging.queue = tsr_tickets.queues.data[asker->queue];
    staging.lane = use->lane;
    staging.number = inquiry->ticket & TSR_TICKET_LATEST;
    staging.needs = inquiry->needs;
    tsr_staging_begin(&staging);
}

/* The caller gives the use's strands its work next, even if what the use waits for has made one of them signal meanwhile. */
static void announce_work(const struct inquiry *inquiry)
{
    const struct tsr_copies_use *use = inquiry->use;
    struct tsr_stream *stream = inquiry->hold ? inquiry->hold->stream : NULL;
    uint32_t lanes = (use->lanes ? *use->lanes : 0) | (use->lane ? 1u << tsr_lane_number(use->lane) : 0);
    if (stream)
        tsr_strands_give(stream, lanes);
}

/* Home alone holds everything, and nothing is under way elsewhere: the queue's work found that before, and no lane has been given anything since. */
static bool is_all_home_locked(const struct inquiry *inquiry)
{
    const struct tsr_asker *asker = &inquiry->waits.asker;
    return inquiry->use->everything && !asker->own &&
           __atomic_load_n(&tsr_lanes_quiet_for, __ATOMIC_SEQ_CST) == tsr_tickets.queues.data[asker->queue];
}

/* Not of a queue that shares its place with others, nor where memory itself moves. */
static void note_all_home_locked(const struct inquiry *inquiry)
{
    const struct tsr_asker *asker = &inquiry->waits.asker;
    if (inquiry->use->everything && !asker->own && !tsr_owners_have_begun())
        __atomic_store_n(&tsr_lanes_quiet_for, tsr_tickets.queues.data[asker->queue], __ATOMIC_SEQ_CST);
}

static CUresult go_on_at_home_locked(struct inquiry *inquiry)
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

static CUresult pull_locked(struct inquiry *inquiry)
{
    if (inquiry->result != CUDA_SUCCESS)
        return inquiry->result;
    if (is_all_home_locked(inquiry))
        return go_on_at_home_locked(inquiry);
    find_last_waits_locked(inquiry);
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
        each_locked(inquiry, ticket, note_use_locked);
    begin_staging_locked(inquiry);
    if (inquiry->use->everything)
        apply_everything_locked(inquiry, ticket);
    else if (inquiry->changes)
        each_locked(inquiry, ticket, apply_locked);
    CUresult ended = tsr_relay_end(&inquiry->relay);
    if (inquiry->result == CUDA_SUCCESS)
        inquiry->result = tsr_staging_end(&staging);
    if (inquiry->result == CUDA_SUCCESS)
        inquiry->result = ended;
    announce_work(inquiry);
    report_locked(inquiry);
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
    struct inquiry inquiry;
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&tsr_copies_lock);
    if (!tsr_copies_use_in_place_locked(use, hold))
        result = begin_locked(&inquiry, use, hold, slot) ? pull_locked(&inquiry) : CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_unlock(&tsr_copies_lock);
    return result;
}

static void survey_locked(struct tsr_copies *copies, const struct tsr_use *use, struct inquiry *inquiry)
{
    if (inquiry->survey_of->in_pool)
        tsr_copies_survey_in_pool_locked(copies, use, inquiry->survey_of, inquiry->survey);
    else
        tsr_directory_survey(&copies->directory, use, inquiry->survey_of, inquiry->survey);
}

/* The touch as one that only reads. NULL: it has more than one cell. */
static const struct tsr_cell *cell_read_locked(const struct tsr_touch *touch)
{
    struct tsr_touch read = {.first = touch->first, .end = touch->end, .pulls = true};
    struct tsr_copies *copies;
    return tsr_copies_cell_locked(&read, &copies);
}

/* What is read of bytes, rather than of some rows of them. */
static void survey_read_locked(const struct tsr_touch *touch, const struct tsr_survey_of *of, struct tsr_survey *survey)
{
    const struct tsr_cell *cell = cell_read_locked(touch);
    if (cell) {
        tsr_part_survey(&cell->parts[0], touch->end - touch->first, of, survey);
        return;
    }
    for (uint64_t at = touch->first, next; at < touch->end && at - TSR_ARENA_ADDRESS < TSR_ARENA_BYTES; at = next) {
        const struct tsr_copies *copies = tsr_copies_at_locked(at);
        next = copies ? copies->address + copies->bytes : at / TSR_ARENA_PAGE * TSR_ARENA_PAGE + TSR_ARENA_PAGE;
        if (!copies)
            continue;
        struct tsr_use use = {
            .first = at - copies->address, .end = tsr_least(touch->end, next) - copies->address, .pulls = true};
        tsr_directory_survey(&copies->directory, &use, of, survey);
    }
}

/* Also of rows that are overwritten, where that brings those between them to the GPU; and in a pool. */
static void survey_each_locked(const struct tsr_touch *touches, uint32_t count, const struct tsr_survey_of *of,
                               struct tsr_survey *survey)
{
    struct tsr_copies_use use = {.touches = touches, .count = count};
    struct inquiry inquiry = {.use = &use, .survey_of = of, .survey = survey};
    each_locked(&inquiry, 0, survey_locked);
}

void tsr_copies_survey(const struct tsr_touch *touches, uint32_t count, const struct tsr_survey_of *of,
                       struct tsr_survey *survey)
{
    bool each = of->in_pool;
    for (uint32_t i = 0; i < count; i++)
        each |= touches[i].stride != 0;
    pthread_mutex_lock(&tsr_copies_lock);
    for (uint32_t i = 0; i < count && !each; i++)
        if (touches[i].pulls)
            survey_read_locked(&touches[i], of, survey);
    if (each)
        survey_each_locked(touches, count, of, survey);
    pthread_mutex_unlock(&tsr_copies_lock);
}

CUresult tsr_copies_ask(const struct tsr_copies_use *use, struct tsr_copies_waits *out)
{
    struct inquiry inquiry;
    pthread_mutex_lock(&tsr_copies_lock);
    bool known = begin_locked(&inquiry, use, NULL, 0);
    if (known)
        find_waits_locked(&inquiry);
    pthread_mutex_unlock(&tsr_copies_lock);
    *out = inquiry.waits;
    return known ? inquiry.result : CUDA_ERROR_OUT_OF_MEMORY;
}
