/* See copies_inquiry.h. Which work a use comes after. */
#include <pthread.h>

#include "driver/stream_handle.h"
#include "memory/copies_inquiry.h"
#include "memory/directory_cells.h"
#include "memory/home_only.h"
#include "memory/host_space.h"
#include "memory/owners.h"
#include "object/session.h"

#define CELLS_PER_TOUCH 2u /* that a touch may add to a directory; twice as many if an extent's beginning cuts its rows */

uint64_t tsr_copies_uses;

bool tsr_inquiry_tie(struct tsr_inquiry *inquiry, uint64_t ticket)
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
    struct tsr_inquiry *inquiry = context;
    uint32_t strand = tsr_ticket_other_strand_locked(&inquiry->waits.asker, ticket);
    if (strand == TSR_STRANDS || !inquiry->hold || tsr_ticket_is_tied_locked(&inquiry->waits.asker, ticket))
        return;
    uint64_t number = tsr_ticket_number_of_locked(ticket);
    if (inquiry->guards[strand] < number)
        inquiry->guards[strand] = number;
}

static void note_wait(void *context, uint64_t ticket)
{
    struct tsr_inquiry *inquiry = context;
    if (tsr_inquiry_tie(inquiry, ticket))
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

static uint8_t copy_of(const struct tsr_copies *copies, const struct tsr_copies_use *use)
{
    return copies->replicas.used_by[tsr_lane_rank(use->lane)];
}

/* Of memory that no directory knows; what is neither in the arena, nor mapped, nor the host's, is a module's. Mapped memory may be another process', too. */
static void note_shared(struct tsr_inquiry *inquiry, const struct tsr_touch *touch, uint64_t at)
{
    bool mapped = at - TSR_RESERVE_ADDRESS < TSR_RESERVE_BYTES;
    bool host = tsr_host_covers(at) || tsr_home_only_reason(at) != TSR_REASON_NONE;
    inquiry->shared_reads |= !touch->writes;
    inquiry->shared_writes |= touch->writes;
    inquiry->exposed |= touch->writes || host || mapped;
}

static void visit_parts_locked(struct tsr_copies *copies, struct tsr_use *use, struct tsr_inquiry *inquiry,
                               tsr_inquiry_visit_locked *visit)
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
static void split_locked(const struct tsr_touch *touch, struct tsr_inquiry *inquiry, uint64_t ticket,
                         tsr_inquiry_visit_locked *visit)
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

void tsr_inquiry_each_locked(struct tsr_inquiry *inquiry, uint64_t ticket, tsr_inquiry_visit_locked *visit)
{
    const struct tsr_copies_use *use = inquiry->use;
    for (int pulling = 1; pulling >= 0; pulling--)
        for (uint32_t i = 0; i < use->count; i++)
            if (use->touches[i].pulls == pulling)
                split_locked(&use->touches[i], inquiry, ticket, visit);
}

/* Only for the extent's own touches: a graph has thousands, most of them elsewhere. */
static bool is_full_locked(struct tsr_copies *copies, const struct tsr_inquiry *inquiry)
{
    const struct tsr_directory *directory = &copies->directory;
    uint64_t parts = 1, enough = directory->cells.count + (uint64_t)CELLS_PER_TOUCH * (2 * (uint64_t)inquiry->use->count + 1);
    if (enough <= directory->cells.capacity && enough <= directory->most)
        return false;
    for (uint32_t i = 0; i < inquiry->use->count; i++) {
        const struct tsr_touch *touch = &inquiry->use->touches[i];
        if (touch->first < copies->address + copies->bytes && touch->end > copies->address)
            parts += 1 + (touch->stride && touch->first < copies->address);
    }
    return !tsr_directory_has_room(&copies->directory, CELLS_PER_TOUCH * parts);
}

/* In a pool: the GPU is to have its own copy; and whether that is worth waiting for. */
static bool wants_own_locked(struct tsr_copies *copies, const struct tsr_use *use, const struct tsr_inquiry *inquiry,
                             uint32_t gpu)
{
    bool launches = inquiry->use->cause == TSR_PULL_LAUNCH && (inquiry->use->lane || inquiry->use->tracked);
    bool wants = tsr_copies_deserves_own_locked(copies, use, gpu);
    copies->wanted = (uint16_t)((copies->wanted & ~(1u << gpu)) | (wants ? 1u << gpu : 0));
    return wants && launches && !inquiry->use->locked;
}

/* In a pool: who uses the same copy on another GPU comes before. */
static void note_sharers_locked(const struct tsr_copies *copies, const struct tsr_use *use, struct tsr_inquiry *inquiry)
{
    uint32_t gpu = tsr_lane_rank(inquiry->use->lane);
    bool writes = use->writes || (use->copy != gpu && tsr_directory_look(&copies->directory, use) != TSR_DIRECTORY_SAME);
    for (uint32_t other = 0; other <= tsr_session()->lane_count; other++) {
        if (other == gpu || !(copies->replicas.ready >> other & 1) || copies->replicas.used_by[other] != use->copy)
            continue;
        inquiry->shared_writes |= inquiry->use->lanes != NULL; /* it is done once, and not by each GPU */
        if (copies->written_by[other])
            tsr_inquiry_tie(inquiry, copies->written_by[other]);
        if (writes && copies->read_by[other])
            tsr_inquiry_tie(inquiry, copies->read_by[other]);
    }
}

static void refuse(struct tsr_inquiry *inquiry, enum tsr_reason reason)
{
    inquiry->result = CUDA_ERROR_NOT_SUPPORTED;
    if (inquiry->use->reason)
        *inquiry->use->reason = reason;
}

/* False: the use's GPU cannot use the extent (result), or has no copy of it yet (waits.missing). */
static bool is_usable_locked(struct tsr_copies *copies, const struct tsr_use *use, struct tsr_inquiry *inquiry)
{
    uint32_t gpu = tsr_lane_rank(inquiry->use->lane);
    bool wants = tsr_owners_have_begun() && wants_own_locked(copies, use, inquiry, gpu);
    copies->used_at[gpu] = tsr_copies_uses;
    inquiry->exposed |= copies->fixed; /* others than GPUs may be given it */
    wants |= copies->spilled.moving;
    if (inquiry->use->lane && (copies->fixed || copies->refused >> gpu & 1))
        refuse(inquiry, copies->fixed ? TSR_REASON_MEMORY_FIXED : TSR_REASON_MEMORY_NOT_SHARED);
    else if (!(copies->replicas.ready >> gpu & 1) || wants)
        inquiry->waits.missing = copies->address;
    else
        return true;
    return false;
}

static void ask_locked(struct tsr_copies *copies, const struct tsr_use *use, struct tsr_inquiry *inquiry)
{
    struct tsr_directory_listener waits = {
        .pull = ignore_pull, .wait = note_wait, .guard = tsr_order_by_data ? note_guard : NULL, .context = inquiry};
    if (!is_usable_locked(copies, use, inquiry))
        return;
    if (tsr_owners_have_begun())
        note_sharers_locked(copies, use, inquiry);
    else
        inquiry->shared_writes |= tsr_copies_are_shared(copies); /* also what it reads may be pulled there */
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
static void announce_locked(struct tsr_copies *copies, const struct tsr_use *use, struct tsr_inquiry *inquiry)
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

static void announce_everything_locked(struct tsr_inquiry *inquiry)
{
    for (size_t i = 0; i < tsr_copies_all.count; i++)
        freeze_locked(tsr_copies_all.data[i]);
    inquiry->changes = true;
}

static void ask_everything_locked(struct tsr_inquiry *inquiry)
{
    struct tsr_directory_listener waits = {.pull = ignore_pull, .wait = note_wait, .context = inquiry};
    for (size_t i = 0; i < tsr_copies_all.count; i++)
        if (tsr_copies_all.data[i]->spilled.moving)
            inquiry->waits.missing = tsr_copies_all.data[i]->address;
    for (size_t i = 0; i < tsr_copies_all.count; i++)
        tsr_directory_ask_all(&tsr_copies_all.data[i]->directory, tsr_copies_all.data[i]->replicas.used_by[0], &waits);
}

static bool many_leave_gaps(const struct tsr_copies_use *use)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < use->count; i++)
        count += use->touches[i].stride != 0;
    return count > 1;
}

bool tsr_inquiry_begin_locked(struct tsr_inquiry *inquiry, const struct tsr_copies_use *use, const struct tsr_order_hold *hold,
                              uint32_t slot)
{
    tsr_copies_uses++;
    *inquiry = (struct tsr_inquiry){
        .use = use, .hold = hold, .slot = slot, .many_leave_gaps = many_leave_gaps(use), .result = tsr_copies_failed};
    return tsr_asker_init_locked(&inquiry->waits.asker, tsr_stream_named(use->stream, use->per_thread), use->lane);
}

void tsr_inquiry_waits_locked(struct tsr_inquiry *inquiry)
{
    if (inquiry->use->everything)
        ask_everything_locked(inquiry);
    else
        tsr_inquiry_each_locked(inquiry, tsr_inquiry_no_ticket(inquiry), ask_locked);
}

void tsr_inquiry_last_waits_locked(struct tsr_inquiry *inquiry)
{
    if (inquiry->use->everything) {
        announce_everything_locked(inquiry);
        ask_everything_locked(inquiry);
    } else {
        tsr_inquiry_each_locked(inquiry, tsr_inquiry_no_ticket(inquiry), announce_locked);
    }
}

CUresult tsr_copies_ask(const struct tsr_copies_use *use, struct tsr_copies_waits *out)
{
    struct tsr_inquiry inquiry;
    pthread_mutex_lock(&tsr_copies_lock);
    bool known = tsr_inquiry_begin_locked(&inquiry, use, NULL, 0);
    if (known)
        tsr_inquiry_waits_locked(&inquiry);
    pthread_mutex_unlock(&tsr_copies_lock);
    *out = inquiry.waits;
    return known ? inquiry.result : CUDA_ERROR_OUT_OF_MEMORY;
}
