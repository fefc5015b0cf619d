/* See copies_inquiry.h. What is pulled for a use, and by whom. */
#include "driver/stream_handle.h"
#include "lane/lane_client.h"
#include "memory/copies_inquiry.h"
#include "memory/pairs.h"
#include "memory/pull_seen.h"
#include "memory/relay.h"
#include "memory/staging.h"
#include "memory/transfer.h"
#include "object/session.h"

const struct tsr_pull_listener *tsr_pull_listener;

static struct tsr_staging_use staging; /* copies' lock; of the use that is being applied */

void tsr_inquiry_begin_pulls_locked(const struct tsr_inquiry *inquiry)
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

void tsr_inquiry_end_pulls_locked(struct tsr_inquiry *inquiry)
{
    CUresult relayed = tsr_relay_end(&inquiry->relay);
    if (inquiry->result == CUDA_SUCCESS)
        inquiry->result = tsr_staging_end(&staging);
    if (inquiry->result == CUDA_SUCCESS)
        inquiry->result = relayed;
}

static CUresult relay_pull(struct tsr_inquiry *inquiry, const struct tsr_pull *pull, const struct tsr_lane_copy *what,
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
static CUresult pull_in_turn(struct tsr_inquiry *inquiry, const struct tsr_pull *pull, const struct tsr_lane_copy *what,
                             const struct tsr_pull_seen *seen)
{
    const struct tsr_copies_use *use = inquiry->use;
    const struct tsr_asker *asker = &inquiry->waits.asker;
    const struct tsr_transfer by = {
        .lane = use->lane, .slot = inquiry->slot, .time = seen->time, .stream = tsr_stream_named(use->stream, use->per_thread)};
    tsr_tickets.queues.data[asker->queue]->strands[asker->strand].pulled = inquiry->ticket & TSR_TICKET_LATEST;
    return seen->through_host ? relay_pull(inquiry, pull, what, seen->time) : tsr_transfer(&by, what);
}

static enum tsr_pull_cause cause_of(const struct tsr_inquiry *inquiry)
{
    return inquiry->gathers ? TSR_PULL_DIRECTORY : inquiry->use->everything ? TSR_PULL_UNKNOWN : inquiry->use->cause;
}

/* A pull as it is recorded. */
static struct tsr_pull_seen seen_locked(const struct tsr_inquiry *inquiry, const struct tsr_pull *pull)
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

void tsr_inquiry_pull(void *context, const struct tsr_pull *pull)
{
    struct tsr_inquiry *inquiry = context;
    const struct tsr_copies_use *use = inquiry->use;
    struct tsr_pull_seen seen = seen_locked(inquiry, pull);
    CUdeviceptr at = inquiry->copies->address + pull->first;
    struct tsr_lane_copy what = tsr_transfer_of(pull, tsr_window_at(pull->to, at), tsr_window_at(pull->from, at));
    CUresult result = CUDA_ERROR_NOT_SUPPORTED;
    seen.through_host = !tsr_pair_is_direct(tsr_lane_rank(use->lane), pull->from);
    tsr_pull_begins(&seen);
    if (!seen.through_host && !tsr_copies_are_shared(inquiry->copies))
        result = tsr_staging_pull(&staging, pull->from, &what, seen.time);
    if (result == CUDA_ERROR_NOT_SUPPORTED)
        result = pull_in_turn(inquiry, pull, &what, &seen);
    tsr_pull_ended(&seen, result);
    if (inquiry->result == CUDA_SUCCESS)
        inquiry->result = result;
    inquiry->pulls++;
    inquiry->bytes += tsr_pull_bytes(pull);
}

void tsr_inquiry_report_locked(const struct tsr_inquiry *inquiry)
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
