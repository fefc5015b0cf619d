/* See copies.h. One use: what it has to come after, what is pulled for it, and noting it. */
#include "memory/copies.h"

#include <pthread.h>

#include "base/log.h"
#include "driver/real.h"
#include "driver/stream_handle.h"
#include "lane/lane_client.h"
#include "memory/arena.h"
#include "memory/copies_parts.h"
#include "memory/pairs.h"
#include "memory/relay.h"
#include "object/session.h"

#define CELLS_PER_TOUCH 2u /* that it may add */

uint64_t tsr_copies_uses;

static uint64_t cells; /* lock; of all directories */

struct hearing {
    struct tsr_copies_waits waits;
    const struct tsr_copies_use *use;
    const struct tsr_copies *copies;
    uint32_t slot;
    uint64_t pulls, bytes, through_host;
    uint64_t gathered;      /* bytes: of these, for lack of room in a directory */
    bool changes;           /* something of what the directories know */
    struct tsr_relay relay; /* of pulls from GPUs whose memory this one does not see */
    CUresult result;
};

static void hear_wait(void *context, uint64_t ticket)
{
    struct hearing *hearing = context;
    if (ticket != tsr_tickets.before_all && tsr_tickets.before_all)
        hear_wait(context, tsr_tickets.before_all);
    struct tsr_copies_waits *waits = &hearing->waits;
    uint32_t worker = tsr_ticket_worker(ticket);
    if (tsr_ticket_is_met_locked(&waits->asker, ticket))
        return;
    for (uint32_t i = 0; i < waits->count; i++)
        if (waits->workers[i] == worker)
            return;
    if (waits->count < TSR_COPIES_MOST_WAITS)
        waits->workers[waits->count++] = worker;
}

static void hear_no_wait(void *context, uint64_t ticket)
{
    (void)context;
    (void)ticket;
}

static void hear_no_pull(void *context, const struct tsr_pull *pull)
{
    (void)context;
    (void)pull;
}

static CUresult relay_pull(struct hearing *hearing, const struct tsr_relay_pull *pull, uint32_t from)
{
    struct tsr_relay_pull relayed = *pull;
    relayed.stream = hearing->use->stream;
    relayed.per_thread = hearing->use->per_thread;
    relayed.puller = hearing->use->lane;
    relayed.holder = from ? tsr_session()->lanes[from - 1] : NULL;
    return tsr_relay_pull(&hearing->relay, &relayed);
}

static void hear_pull(void *context, const struct tsr_pull *pull)
{
    struct hearing *hearing = context;
    const struct tsr_copies_use *use = hearing->use;
    uint64_t bytes = pull->end - pull->first;
    CUdeviceptr at = hearing->copies->address + pull->first;
    CUdeviceptr to = tsr_window_at(pull->to, at), from = tsr_window_at(pull->from, at);
    CUresult result = CUDA_SUCCESS;
    if (!tsr_pair_is_direct(use->lane ? tsr_lane_number(use->lane) + 1 : 0, pull->from)) {
        hearing->through_host += bytes;
        result = relay_pull(hearing, &(struct tsr_relay_pull){.to = to, .from = from, .bytes = bytes}, pull->from);
    } else if (use->lane) {
        struct tsr_lane_copy what = {.to = to, .from = from, .width = bytes, .height = 1};
        struct tsr_lane_record record = {.kind = TSR_LANE_COPY, .stream = hearing->slot, .param_bytes = sizeof what};
        result = tsr_lane_post(use->lane, &record, &what);
    } else {
        result = tsr_real.cuMemcpyDtoDAsync_v2(to, from, bytes, tsr_stream_named(use->stream, use->per_thread));
    }
    if (hearing->result == CUDA_SUCCESS)
        hearing->result = result;
    hearing->pulls++;
    hearing->bytes += bytes;
}

static uint8_t copy_of(const struct tsr_copies *copies, const struct tsr_copies_use *use)
{
    return use->lane ? copies->replicas.used_by[tsr_lane_number(use->lane) + 1] : 0;
}

typedef void visit_locked(struct tsr_copies *copies, const struct tsr_use *use, struct hearing *hearing);

/* Each extent's part of a touch. */
static void split_locked(const struct tsr_touch *touch, struct hearing *hearing, uint64_t ticket, visit_locked *visit)
{
    for (uint64_t at = touch->first; at < touch->end && at - TSR_ARENA_ADDRESS < TSR_ARENA_BYTES;) {
        struct tsr_copies *copies = tsr_copies_at_locked(at);
        uint64_t end = copies ? copies->address + copies->bytes : at / TSR_ARENA_PAGE * TSR_ARENA_PAGE + TSR_ARENA_PAGE;
        if (copies) {
            struct tsr_use part = {.first = at - copies->address,
                                   .end = (end < touch->end ? end : touch->end) - copies->address,
                                   .ticket = ticket,
                                   .copy = copy_of(copies, hearing->use),
                                   .pulls = touch->pulls || (touch->stride && (at != touch->first || end < touch->end)),
                                   .writes = touch->writes,
                                   .repeats = hearing->use->proof != NULL,
                                   .stride = touch->stride,
                                   .width = touch->width};
            visit(copies, &part, hearing);
        }
        at = end;
    }
}

static bool is_full_locked(struct tsr_copies *copies, const struct hearing *hearing)
{
    return !tsr_directory_has_room(&copies->directory, CELLS_PER_TOUCH * (hearing->use->count + 1));
}

/* Whether the GPU that is to use it can, now or when it has a copy. */
static bool is_usable_locked(struct tsr_copies *copies, struct hearing *hearing)
{
    uint32_t gpu = hearing->use->lane ? tsr_lane_number(hearing->use->lane) + 1 : 0;
    copies->used_at[gpu] = tsr_copies_uses;
    if (hearing->use->lane && (copies->fixed || copies->refused >> gpu & 1))
        hearing->result = CUDA_ERROR_NOT_SUPPORTED;
    else if (!(copies->replicas.ready >> gpu & 1))
        hearing->waits.missing = copies->address;
    else
        return true;
    return false;
}

static void ask_locked(struct tsr_copies *copies, const struct tsr_use *use, struct hearing *hearing)
{
    struct tsr_directory_listener waits = {.pull = hear_no_pull, .wait = hear_wait, .context = hearing};
    if (!is_usable_locked(copies, hearing))
        return;
    if (hearing->use->lane && tsr_tickets.before_all)
        hear_wait(hearing, tsr_tickets.before_all);
    copies->full = is_full_locked(copies, hearing);
    if (!copies->full)
        tsr_directory_ask(&copies->directory, use, &waits);
    else
        tsr_directory_ask_all(&copies->directory, use->copy, &waits);
}

/* Who repeats uses looks again from here on, and the numbers of their tickets are known. */
static void freeze_locked(struct tsr_copies *copies)
{
    tsr_copies_change(tsr_copies_state(copies));
    tsr_directory_freeze(&copies->directory, tsr_ticket_last_locked);
}

/* What is about to be done. */
static void announce_locked(struct tsr_copies *copies, const struct tsr_use *use, struct hearing *hearing)
{
    if (!is_usable_locked(copies, hearing))
        return;
    enum tsr_directory_change change =
        is_full_locked(copies, hearing) ? TSR_DIRECTORY_HOLDS : tsr_directory_look(&copies->directory, use);
    if (change == TSR_DIRECTORY_HOLDS)
        freeze_locked(copies);
    hearing->changes |= change != TSR_DIRECTORY_SAME;
    ask_locked(copies, use, hearing);
}

static void apply_locked(struct tsr_copies *copies, const struct tsr_use *use, struct hearing *hearing)
{
    struct tsr_directory_listener pulls = {.pull = hear_pull, .wait = hear_no_wait, .context = hearing};
    hearing->copies = copies;
    cells -= copies->directory.cells.count;
    uint64_t before = hearing->bytes;
    if (copies->full)
        tsr_directory_gather(&copies->directory, use->copy, use->ticket, &pulls);
    hearing->gathered += hearing->bytes - before;
    copies->full = false;
    tsr_directory_apply(&copies->directory, use, &pulls);
    cells += copies->directory.cells.count;
}

/* What is only overwritten comes last: the launch may also read it. */
static void each_locked(struct hearing *hearing, uint64_t ticket, visit_locked *visit)
{
    const struct tsr_copies_use *use = hearing->use;
    for (int pulling = 1; pulling >= 0; pulling--)
        for (uint32_t i = 0; i < use->count; i++)
            if (use->touches[i].pulls == pulling)
                split_locked(&use->touches[i], hearing, ticket, visit);
}

static void announce_everything_locked(struct hearing *hearing)
{
    for (size_t i = 0; i < tsr_copies_all.count; i++)
        freeze_locked(tsr_copies_all.data[i]);
    hearing->changes = true;
}

static void ask_everything_locked(struct hearing *hearing)
{
    struct tsr_directory_listener waits = {.pull = hear_no_pull, .wait = hear_wait, .context = hearing};
    for (size_t i = 0; i < tsr_copies_all.count; i++)
        tsr_directory_ask_all(&tsr_copies_all.data[i]->directory, 0, &waits);
}

static void apply_everything_locked(struct hearing *hearing, uint64_t ticket)
{
    struct tsr_directory_listener pulls = {.pull = hear_pull, .wait = hear_no_wait, .context = hearing};
    for (size_t i = 0; i < tsr_copies_all.count; i++) {
        hearing->copies = tsr_copies_all.data[i];
        cells -= tsr_copies_all.data[i]->directory.cells.count;
        tsr_directory_gather(&tsr_copies_all.data[i]->directory, 0, ticket, &pulls);
        cells += 1;
    }
}

/* Who is asking; false: no memory to know it. */
static bool begin_locked(struct hearing *hearing, const struct tsr_copies_use *use, uint32_t slot)
{
    tsr_copies_uses++;
    *hearing = (struct hearing){.use = use, .slot = slot, .result = tsr_copies_failed};
    return tsr_asker_init_locked(&hearing->waits.asker, tsr_stream_named(use->stream, use->per_thread));
}

/* Of its ticket only the worker is known. */
static uint64_t no_ticket(const struct hearing *hearing)
{
    return (uint64_t)hearing->waits.asker.worker << TSR_TICKET_SHIFT;
}

static void find_waits_locked(struct hearing *hearing)
{
    if (hearing->use->everything)
        ask_everything_locked(hearing);
    else
        each_locked(hearing, no_ticket(hearing), ask_locked);
}

static void report_locked(const struct hearing *hearing)
{
    struct tsr_session *session = tsr_session();
    struct tsr_policy *policy = session->policy;
    const struct tsr_copies_use *use = hearing->use;
    uint32_t gpu = use->lane ? session->lane_device[tsr_lane_number(use->lane)] : policy->home;
    if (!hearing->pulls)
        return;
    tsr_copies_count(&policy->pulls[gpu % 16], hearing->pulls);
    tsr_copies_count(&policy->pulled_bytes[gpu % 16], hearing->bytes);
    tsr_copies_count(&policy->through_host_bytes[gpu % 16], hearing->through_host);
    tsr_copies_count(&policy->pulled_for[use->everything ? TSR_PULL_UNKNOWN : use->cause], hearing->bytes - hearing->gathered);
    tsr_copies_count(&policy->pulled_for[TSR_PULL_DIRECTORY], hearing->gathered);
    if (use->everything) {
        tsr_copies_count(&policy->brought_home, 1);
        tsr_copies_count(&policy->brought_home_bytes, hearing->bytes);
    }
    __atomic_store_n(&policy->directory_cells, cells, __ATOMIC_RELAXED);
    __atomic_store_n(&policy->directory_bytes, cells * sizeof(struct tsr_cell), __ATOMIC_RELAXED);
}

/* The same, of what is done unless there are any: who repeats uses hears of it first. */
static void find_last_waits_locked(struct hearing *hearing)
{
    if (hearing->use->everything) {
        announce_everything_locked(hearing);
        ask_everything_locked(hearing);
    } else {
        each_locked(hearing, no_ticket(hearing), announce_locked);
    }
}

static void remember_locked(struct tsr_copies *copies, const struct tsr_use *use, struct hearing *hearing)
{
    struct tsr_copies_proof *proof = hearing->use->proof;
    uint64_t page = tsr_copies_page(copies->address);
    uint32_t at = 0;
    while (at < proof->count && proof->extents[at].page != page)
        at++;
    if (at == TSR_PROOF_EXTENTS || tsr_directory_look(&copies->directory, use) != TSR_DIRECTORY_SAME) {
        proof->worker = NULL;
        return;
    }
    proof->extents[at].page = page;
    proof->extents[at].state = *tsr_copies_state(copies);
    proof->count += at == proof->count;
}

/* From here on the use needs nothing, unless it changed more than it asked for. */
static void fill_proof_locked(struct hearing *hearing)
{
    struct tsr_copies_proof *proof = hearing->use->proof;
    proof->worker = tsr_tickets.workers.data[hearing->waits.asker.worker];
    proof->generation = tsr_copies_generation;
    proof->count = 0;
    each_locked(hearing, no_ticket(hearing), remember_locked);
}

static CUresult pull_locked(struct hearing *hearing)
{
    if (hearing->result != CUDA_SUCCESS)
        return hearing->result;
    find_last_waits_locked(hearing);
    if (hearing->result != CUDA_SUCCESS || hearing->waits.count || hearing->waits.missing)
        return hearing->result != CUDA_SUCCESS ? hearing->result : CUDA_ERROR_NOT_READY;
    uint64_t ticket = tsr_ticket_take_locked(&hearing->waits.asker);
    if (hearing->use->everything)
        apply_everything_locked(hearing, ticket);
    else if (hearing->changes)
        each_locked(hearing, ticket, apply_locked);
    CUresult ended = tsr_relay_end(&hearing->relay);
    if (hearing->result == CUDA_SUCCESS)
        hearing->result = ended;
    report_locked(hearing);
    if (hearing->result != CUDA_SUCCESS)
        tsr_copies_fail_locked(hearing->result, "bytes could not be pulled");
    else if (hearing->use->proof)
        fill_proof_locked(hearing);
    return hearing->result;
}

CUresult tsr_copies_pull(const struct tsr_copies_use *use, uint32_t slot)
{
    struct hearing hearing;
    pthread_mutex_lock(&tsr_copies_lock);
    CUresult result = begin_locked(&hearing, use, slot) ? pull_locked(&hearing) : CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_unlock(&tsr_copies_lock);
    return result;
}

CUresult tsr_copies_ask(const struct tsr_copies_use *use, struct tsr_copies_waits *out)
{
    struct hearing hearing;
    pthread_mutex_lock(&tsr_copies_lock);
    bool known = begin_locked(&hearing, use, 0);
    if (known)
        find_waits_locked(&hearing);
    pthread_mutex_unlock(&tsr_copies_lock);
    *out = hearing.waits;
    return known ? hearing.result : CUDA_ERROR_OUT_OF_MEMORY;
}
