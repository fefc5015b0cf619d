/*
 * Launches that run elsewhere: decide.c says where one runs; here it is posted.
 * What the application launches on another GPU than home stays where it is, and is none of a policy's business.
 * What cannot be posted (during capture, some launch attributes, parameters of unknown layout, functions that write variables of their
 * module) runs at home after joining, and is counted.
 */
#include "shim/redirect.h"

#include <string.h>

#include "driver/engaged.h"
#include "launch/attributes.h"
#include "launch/captured_calls.h"
#include "launch/repeats.h"
#include "launch/touches.h"
#include "carry/record.h"
#include "check/check.h"
#include "object/collective.h"
#include "object/capture.h"
#include "schedule/automatic.h"
#include "schedule/decide.h"
#include "calls/calls.h"
#include "lane/functions.h"
#include "memory/home_only.h"
#include "memory/heat.h"
#include "memory/memory.h"
#include "lane/lane_client.h"
#include "lane/prepared.h"
#include "lane/failover.h"
#include "lane/streams.h"
#include "launch/launch.h"
#include "order/order.h"
#include "order/strands.h"
#include "object/place.h"
#include "driver/real.h"
#include "record/launch_record.h"
#include "record/recorder.h"
#include "object/session.h"
#include "check/verify.h"

#define MOST_TRIES 100u /* to be faster than other threads */

/* What the home driver would refuse is left to it, so that the application gets its error. */
bool tsr_redirect_shape_is_valid(const struct tsr_function_record *function, const struct tsr_launch *launch)
{
    const uint32_t *grid = launch->grid, *block = launch->block;
    uint64_t threads = (uint64_t)block[0] * block[1] * block[2];
    return threads > 0 && threads <= function->max_threads && block[2] <= 64 && grid[0] > 0 && grid[0] <= INT32_MAX &&
           grid[1] > 0 && grid[1] <= UINT16_MAX && grid[2] > 0 && grid[2] <= UINT16_MAX &&
           launch->shared_bytes <= function->most_shared_bytes;
}

static uint32_t attributes_begin(const struct tsr_gathered *gathered)
{
    return (gathered->bytes + 7) / 8 * 8;
}

/* After the parameters in the block; the record then describes them, too. */
static enum tsr_reason add_attributes(const struct tsr_launch *launch, uint32_t device, struct tsr_lane_record *record)
{
    CUlaunchAttribute attributes[TSR_MOST_ATTRIBUTES];
    uint32_t count, begin = attributes_begin(launch->gathered);
    enum tsr_reason reason = tsr_attributes_translate(launch, device, attributes, &count);
    if (reason || count == 0)
        return reason;
    memcpy(launch->gathered->values + begin, attributes, count * sizeof attributes[0]);
    record->param_bytes = (uint32_t)(begin + count * sizeof attributes[0]);
    record->value = tsr_lane_shape(launch->gathered->bytes, count);
    return TSR_REASON_NONE;
}

/* Why it stays home, of what is asked before anything is gathered. */
static enum tsr_reason reason_of_request(const struct tsr_launch *launch, bool fit)
{
    enum tsr_reason reason = fit ? TSR_REASON_NONE : tsr_function_reason_unsent(launch->known);
    if (reason)
        return reason;
    if (tessera_library_call && tsr_is_collective_call())
        return TSR_REASON_OTHER_GPUS;
    if (!tsr_redirect_shape_is_valid(launch->known, launch))
        return TSR_REASON_SHAPE;
    if (launch->captured)
        return TSR_REASON_CAPTURE;
    return launch->params && launch->extra ? TSR_REASON_SHAPE : TSR_REASON_NONE;
}

/*
 * Why the launch cannot be posted (launch->reason); NONE: it can, and the record and the block are complete. Errors: of an executor that
 * has failed.
 */
static CUresult examine(struct tsr_launch *launch, const struct tsr_decision *decision, struct tsr_lane_record *record)
{
    struct tsr_function_record *function = launch->known;
    CUresult result = CUDA_SUCCESS;
    bool fit = tsr_function_is_fit(function, decision->lane_number);
    enum tsr_reason reason = reason_of_request(launch, fit);
    if (!reason && !tsr_launch_gather(launch))
        reason = TSR_REASON_PARAMETERS;
    if (!reason)
        reason = tsr_home_only_scan(launch->gathered->values, launch->gathered->bytes);
    if (!reason && !fit)
        result = tsr_function_prepare(function, decision->lane, &reason);
    if (!reason && result == CUDA_SUCCESS)
        reason = tsr_function_reason_with(function, launch->gathered->values, launch->gathered->bytes);
    if (!reason && result == CUDA_SUCCESS && (launch->cooperative || launch->attribute_count))
        reason = add_attributes(launch, decision->device, record);
    launch->reason = reason;
    return result;
}

/* So that others can come after it, and not after what its GPU is given next. */
static CUresult mark(const struct tsr_order_hold *hold, const struct tsr_lane_client *lane, uint64_t ticket)
{
    CUresult result = tsr_copies_mark(hold, lane);
    if (result == CUDA_SUCCESS && hold->stream)
        tsr_automatic_marked(lane, ticket, hold->stream);
    return result;
}

/* The stream has departed: what the lane is given next has not been signalled. */
static CUresult mark_lane_before(const struct tsr_order_hold *hold, const struct tsr_lane_client *lane)
{
    CUresult result = tsr_copies_mark(hold, lane);
    if (hold->stream)
        tsr_strands_give(hold->stream, 1u << tsr_lane_number(lane));
    return result;
}

/* Pulls alone, where nothing is launched: a record without a kind. */
static inline __attribute__((always_inline)) CUresult post_found(const struct tsr_stream_found *place,
                                                                 const struct tsr_launch *launch, struct tsr_lane_client *lane,
                                                                 struct tsr_lane_record *record,
                                                                 const struct tsr_copies_use *use)
{
    struct tsr_order_hold hold;
    CUresult result = tsr_order_depart_found(place, launch->stream, lane, &record->stream, &hold);
    if (result != CUDA_SUCCESS)
        return result;
    if (use && launch->automatic && tsr_automatic_marks_before(lane))
        result = mark_lane_before(&hold, lane);
    if (use && result == CUDA_SUCCESS)
        result = tsr_copies_pull(use, &hold, record->stream);
    if (use && result == CUDA_SUCCESS)
        tsr_copies_prove(use->proof, &hold);
    if (result == CUDA_SUCCESS && record->kind != TSR_LANE_SKIP)
        result = tsr_lane_append(lane, record, launch->gathered->values);
    if (result == CUDA_SUCCESS && launch->automatic && tsr_automatic_marks(lane))
        result = mark(&hold, lane, launch->ticket);
    tsr_order_leave(&hold); /* gives back the stream's lock */
    tsr_lane_wake(lane);
    return result;
}

static CUresult post(const struct tsr_launch *launch, struct tsr_lane_client *lane, struct tsr_lane_record *record)
{
    return post_found(&launch->place, launch, lane, record, NULL);
}

/* The same where GPUs have copies of what the launch touches. `result`: of preparing the use. */
static CUresult post_prepared(const struct tsr_launch *launch, struct tsr_lane_record *record, const struct tsr_copies_use *use,
                              CUresult result)
{
    struct tsr_stream_found place;
    for (unsigned i = 0; i < MOST_TRIES && result == CUDA_SUCCESS; i++) {
        tsr_stream_place(launch->stream, &place); /* coming after others may have moved it */
        result = post_found(&place, launch, use->lane, record, use);
        if (result != CUDA_ERROR_NOT_READY)
            return result;
        result = tsr_copies_prepare(use);
    }
    return result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_READY ? CUDA_ERROR_NOT_SUPPORTED : result;
}

CUresult tsr_redirect_post(const struct tsr_launch *launch, struct tsr_lane_record *record, const struct tsr_copies_use *use)
{
    CUresult result =
        tsr_order_is_there(launch->place.stream, use->lane) ? tsr_copies_prepare_lightly(use) : tsr_copies_prepare(use);
    return post_prepared(launch, record, use, result);
}

static CUresult post_with_pulls(struct tsr_launch *launch, struct tsr_lane_client *lane, struct tsr_lane_record *record,
                                struct tsr_copies_proof *proof)
{
    const struct tsr_touches *touches = tsr_touches_of(launch);
    if (!touches) {
        launch->reason = TSR_REASON_RANGES;
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    struct tsr_copies_use use = {.touches = touches->all,
                                 .count = touches->count,
                                 .stream = launch->stream,
                                 .lane = lane,
                                 .proof = proof,
                                 .stages = tsr_automatic_stages(launch->automatic),
                                 .ticket = &launch->ticket,
                                 .reason = &launch->reason};
    return tsr_redirect_post(launch, record, &use);
}

/* What the launch reads and has long been there is copied to the GPU, which so can take those that are like it. */
void tsr_redirect_fetch(const struct tsr_launch *launch, const struct tsr_touch *touches, uint32_t count,
                        struct tsr_lane_client *lane)
{
    struct tsr_lane_record record = {0};
    struct tsr_copies_use use = {
        .touches = touches, .count = count, .stream = launch->stream, .lane = lane, .cause = TSR_PULL_CONSTANT};
    if (tsr_redirect_post(launch, &record, &use) == CUDA_SUCCESS)
        tsr_automatic_fetched();
}

/* The launch was made there before, and needed nothing. False: that may not be so any more. */
bool tsr_redirect_again(const struct tsr_launch *launch, struct tsr_lane_client *lane, struct tsr_lane_record *record,
                        const struct tsr_copies_proof *last, CUresult *result)
{
    struct tsr_order_hold hold;
    if (!last || tsr_order_depart_found(&launch->place, launch->stream, lane, &record->stream, &hold) != CUDA_SUCCESS)
        return false;
    bool is_valid = tsr_copies_repeat(last, &hold);
    if (is_valid)
        *result = tsr_lane_append(lane, record, launch->gathered->values);
    tsr_order_leave(&hold); /* gives back the stream's lock */
    tsr_lane_wake(lane);
    return is_valid;
}

static CUresult post_with_copies(struct tsr_launch *launch, struct tsr_lane_client *lane, struct tsr_lane_record *record)
{
    if (launch->automatic) /* whoever repeats has no ticket of his own */
        return post_with_pulls(launch, lane, record, NULL);
    struct tsr_repeat repeat = tsr_repeat_find(launch, lane);
    struct tsr_copies_proof proof = {0};
    CUresult result;
    if (tsr_redirect_again(launch, lane, record, repeat.last, &result))
        return result;
    result = post_with_pulls(launch, lane, record, repeat.entry ? &proof : NULL);
    if (result == CUDA_SUCCESS)
        tsr_repeat_keep(&repeat, launch, lane, &proof);
    return result;
}

/* use: where GPUs have copies of memory; else NULL. */
static CUresult post_verified_use(const struct tsr_launch *launch, const struct tsr_decision *decision,
                                  struct tsr_lane_record *record, struct tsr_copies_use *use)
{
    const struct tsr_gathered *gathered = launch->gathered;
    struct tsr_verify_launch verified = {.function = launch->known,
                                         .handle = launch->function,
                                         .record = record,
                                         .block = gathered->values,
                                         .parameter_bytes = gathered->bytes,
                                         .attributes =
                                             (const CUlaunchAttribute *)(gathered->values + attributes_begin(gathered)),
                                         .attribute_count = (uint32_t)record->value,
                                         .stream = launch->stream,
                                         .device = decision->device,
                                         .limit_bytes = decision->verify_limit_bytes,
                                         .use = use};
    bool verifies = tsr_verify_begin(&verified);
    if (use)
        use->locked = verifies;
    CUresult result = use ? post_prepared(launch, record, use, CUDA_SUCCESS) : post(launch, decision->lane, record);
    return verifies ? tsr_verify_end(&verified, result) : result;
}

/*
 * There, and, if that is possible, at home from the same bytes: also of what it only overwrites, since the first launch of a library's call is
 * said to overwrite what a later one does.
 */
static CUresult post_verified(struct tsr_launch *launch, const struct tsr_decision *decision, struct tsr_lane_record *record)
{
    if (!tsr_copies_are_on())
        return post_verified_use(launch, decision, record, NULL);
    const struct tsr_touches *found = tsr_touches_of(launch);
    if (!found) {
        launch->reason = TSR_REASON_RANGES;
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    struct tsr_touches touches = *found;
    for (uint32_t i = 0; i < touches.count; i++)
        touches.all[i].pulls = true;
    struct tsr_copies_use use = {.touches = touches.all,
                                 .count = touches.count,
                                 .stream = launch->stream,
                                 .lane = decision->lane,
                                 .ticket = &launch->ticket,
                                 .reason = &launch->reason};
    CUresult result = tsr_copies_prepare(&use);
    return result == CUDA_SUCCESS ? post_verified_use(launch, decision, record, &use) : result;
}

static struct tsr_decide_launch asked_of(const struct tsr_launch *launch)
{
    return (struct tsr_decide_launch){.grid = launch->grid,
                                      .block = launch->block,
                                      .stream = launch->stream,
                                      .record = launch->place.stream,
                                      .captured = launch->captured};
}

/* Why it cannot leave, as far as is known before its function has been sent anywhere. Its parameters have been gathered. */
static enum tsr_reason reason_known(const struct tsr_launch *launch)
{
    const struct tsr_gathered *gathered = launch->gathered;
    enum tsr_reason reason = reason_of_request(launch, false);
    if (!reason)
        reason = tsr_home_only_scan(gathered->values, gathered->bytes);
    if (!reason)
        reason = tsr_function_reason_sent(launch->known);
    return reason ? reason : tsr_function_reason_with(launch->known, gathered->values, gathered->bytes);
}

/* Where no rule holds. What cannot leave is reported to it nevertheless: others read what it writes. */
static void place(struct tsr_launch *launch, struct tsr_decision *decision)
{
    struct tsr_automatic_launch automatic = {.function = launch->known,
                                             .grid = launch->grid,
                                             .block = launch->block,
                                             .shared_bytes = launch->shared_bytes,
                                             .stream = launch->stream};
    if (launch->captured || !tsr_automatic_is_on)
        return;
    launch->unseen = tsr_automatic_sleeps();
    if (launch->unseen)
        return;
    launch->automatic = true;
    tsr_automatic_in(&automatic, launch->place.stream);
    automatic.unprepared = tsr_unprepared_lanes(launch->known);
    const struct tsr_touches *touches = tsr_launch_gather(launch) ? tsr_touches_of(launch) : NULL;
    if (touches) {
        automatic.touches = touches->all;
        automatic.count = touches->count;
        automatic.stays = reason_known(launch) != TSR_REASON_NONE;
    }
    decision->lane = tsr_automatic_choose(&automatic);
    if (!decision->lane) {
        struct tsr_touch constants[TSR_PREDICTED_RANGES];
        struct tsr_lane_client *lane;
        uint32_t count = tsr_automatic_fetches(&automatic, constants, &lane);
        if (count)
            tsr_redirect_fetch(launch, constants, count, lane);
        return;
    }
    decision->lane_number = tsr_lane_number(decision->lane);
    decision->device = launch->session->lane_device[decision->lane_number];
    decision->leaves = true;
}

static CUresult take(struct tsr_launch *launch)
{
    struct tsr_decide_launch asked = asked_of(launch);
    struct tsr_decision decision = tsr_decide(launch->session, launch->known, &asked);
    launch->decided = true;
    if (decision.automatic)
        place(launch, &decision);
    if (!decision.lane) {
        if (decision.leaves && launch->captured)
            launch->reason = TSR_REASON_CAPTURE;
        return CUDA_SUCCESS;
    }
    struct tsr_lane_record record = {.kind = TSR_LANE_LAUNCH,
                                     .function = launch->known->id,
                                     .grid = {launch->grid[0], launch->grid[1], launch->grid[2]},
                                     .block = {launch->block[0], launch->block[1], launch->block[2]},
                                     .shared_bytes = launch->shared_bytes};
    CUresult result = examine(launch, &decision, &record);
    if (launch->reason)
        return CUDA_SUCCESS;
    if (!record.param_bytes)
        record.param_bytes = launch->gathered->bytes;
    if (launch->start && result == CUDA_SUCCESS)
        tsr_launch_time_away(launch, decision.lane);
    record.time = launch->time || !launch->automatic ? launch->time : tsr_automatic_sample(decision.lane);
    if (result == CUDA_SUCCESS)
        result = tsr_order_state(); /* before it is posted: its own fault is reported by later calls */
    if (result == CUDA_SUCCESS)
        result = decision.verify       ? post_verified(launch, &decision, &record)
                 : tsr_copies_are_on() ? post_with_copies(launch, decision.lane, &record)
                                       : post(launch, decision.lane, &record);
    if (result == CUDA_ERROR_NOT_SUPPORTED) {
        if (!launch->reason)
            launch->reason = tsr_function_refusal(launch->known, decision.lane);
        return CUDA_SUCCESS;
    }
    launch->taken = true;
    launch->gpu = decision.device;
    if (launch->automatic)
        tsr_automatic_went(decision.lane, launch->ticket);
    uint32_t counts_for = result == CUDA_SUCCESS ? tsr_heat_weight() : 0;
    if (counts_for)
        tsr_heat_count(launch->gathered->values, launch->gathered->bytes, counts_for, decision.device);
    return result;
}

/* Of a launch that stays home: what it uses, and, if it is its turn, what it writes. */
static void sample_at_home(struct tsr_launch *launch, struct tsr_function_record *function)
{
    uint32_t counts_for = function ? tsr_heat_weight() : 0;
    if (counts_for && tsr_launch_gather(launch))
        tsr_heat_count(launch->gathered->values, launch->gathered->bytes, counts_for, launch->gpu);
    if (tsr_check_is_due(function, launch))
        tsr_check_begin(launch);
}

/* Nothing but the bytes that it writes tells that it has run: no event is recorded with it, and nothing is compared. */
static bool is_tracked(const struct tsr_launch *launch)
{
    for (uint32_t i = 0; i < launch->attribute_count; i++)
        if (!tsr_record_attribute_goes(launch->attributes[i].id))
            return false;
    return !launch->due;
}

/* Before it runs at home: other GPUs may have copies of what it touches. */
static CUresult enter_with_pulls(struct tsr_launch *launch, bool known, struct tsr_copies_proof *proof)
{
    const struct tsr_touches *touches = known ? tsr_touches_of(launch) : NULL;
    struct tsr_copies_use use = {.touches = touches ? touches->all : NULL,
                                 .count = touches ? touches->count : 0,
                                 .everything = !touches,
                                 .stream = launch->stream,
                                 .proof = proof,
                                 .stages = tsr_automatic_stages(launch->automatic),
                                 .ticket = &launch->ticket};
    use.tracked = !use.everything && is_tracked(launch);
    if (use.everything)
        use.proof = NULL;
    CUresult result =
        use.everything ? tsr_copies_enter(&use, &launch->hold) : tsr_copies_enter_found(&use, &launch->place, &launch->hold);
    if (result == CUDA_SUCCESS && use.proof)
        tsr_copies_prove(proof, &launch->hold);
    return result;
}

/* It ran there before, and needed nothing. False: that may not be so any more; nothing is held. */
static bool enter_again(struct tsr_launch *launch, const struct tsr_copies_proof *last)
{
    if (!last || !tsr_order_enter_found(&launch->place, is_tracked(launch), &launch->hold))
        return false;
    bool is_valid = tsr_copies_repeat(last, &launch->hold);
    if (!is_valid)
        tsr_order_leave(&launch->hold);
    return is_valid;
}

static CUresult enter_with_copies(struct tsr_launch *launch, bool ours)
{
    bool known = ours && !launch->unseen && tsr_launch_gather(launch);
    if (launch->automatic || launch->unseen)
        return enter_with_pulls(launch, known, NULL);
    struct tsr_repeat repeat = known ? tsr_repeat_find(launch, NULL) : (struct tsr_repeat){0};
    struct tsr_copies_proof proof = {0};
    if (enter_again(launch, repeat.last))
        return CUDA_SUCCESS;
    CUresult result = enter_with_pulls(launch, known, repeat.entry ? &proof : NULL);
    if (result == CUDA_SUCCESS)
        tsr_repeat_keep(&repeat, launch, NULL, &proof);
    return result;
}

static CUresult enter(struct tsr_launch *launch, bool ours)
{
    bool concerned = !launch->captured && launch->gpu == launch->session->policy->home;
    if (!concerned || !tsr_copies_matter()) {
        CUresult result = tsr_order_enter(launch->stream, false, &launch->hold);
        if (!concerned || result != CUDA_SUCCESS || !tsr_copies_matter()) /* who begins to note waits for us from here on */
            return result;
        tsr_order_leave(&launch->hold);
    }
    return enter_with_copies(launch, ours);
}

static CUresult mark_home_before(const struct tsr_launch *launch)
{
    struct tsr_order_hold hold;
    CUresult result = tsr_order_enter_tracked(launch->stream, false, &hold);
    if (result != CUDA_SUCCESS)
        return result;
    result = tsr_copies_mark(&hold, NULL);
    tsr_order_leave(&hold);
    return result;
}

/* Other GPUs come after what the stream has been given so far, before it is given more: not after that too, when they get something. */
CUresult tsr_redirect_fork_early(const struct tsr_launch *launch)
{
    const struct tsr_session *session = launch->session;
    CUresult result = CUDA_SUCCESS;
    if (!launch->automatic || !tsr_copies_matter() || !tsr_automatic_may_leave())
        return CUDA_SUCCESS;
    for (uint32_t i = 0; i < session->lane_count && result == CUDA_SUCCESS; i++) {
        struct tsr_order_hold hold;
        uint32_t slot;
        if (tsr_order_is_there(launch->place.stream, session->lanes[i]))
            continue;
        result = tsr_order_depart_found(&launch->place, launch->stream, session->lanes[i], &slot, &hold);
        if (result == CUDA_SUCCESS)
            tsr_order_leave(&hold);
    }
    if (result == CUDA_SUCCESS && tsr_automatic_marks_before(NULL))
        result = mark_home_before(launch);
    return result == CUDA_ERROR_NOT_SUPPORTED ? CUDA_SUCCESS : result;
}

/* Its call may say what it touches when its graph runs. */
static bool becomes_known_node(const struct tsr_launch *launch)
{
    return launch->captured && launch->gpu == launch->session->policy->home && launch->known && launch->known->module &&
           tsr_copies_are_on();
}

CUresult tsr_redirect(struct tsr_launch *launch)
{
    bool redirecting = tsr_has_role(TSR_REDIRECTING);
    launch->gpu = redirecting ? tsr_stream_place(launch->stream, &launch->place) : tsr_place_of(launch->stream);
    launch->captured = tsr_is_capturing(launch->stream);
    if (!redirecting)
        return CUDA_SUCCESS;
    bool at_home = launch->gpu == launch->session->policy->home, ours = at_home && launch->known && launch->known->module;
    if (!at_home)
        tsr_memory_open_for_work(launch->stream);
    CUresult result = CUDA_SUCCESS;
    if (ours) {
        tsr_function_describe(launch->known);
        if (becomes_known_node(launch))
            tsr_captured_call_keep(launch);
        result = take(launch);
    }
    if (launch->taken)
        return result;
    if (at_home)
        sample_at_home(launch, ours ? launch->known : NULL);
    if (result == CUDA_SUCCESS)
        result = tsr_redirect_fork_early(launch);
    if (result == CUDA_SUCCESS)
        result = enter(launch, ours);
    if (launch->automatic && result == CUDA_SUCCESS) {
        tsr_automatic_went(NULL, launch->ticket);
        tsr_automatic_begins(launch->stream);
    }
    return result;
}

void tsr_redirect_launched(struct tsr_launch *launch)
{
    tsr_automatic_ends(launch->stream, false);
    if (tsr_copies_matter() && tsr_automatic_marks(NULL))
        mark(&launch->hold, NULL, launch->ticket); /* an error is the next call's */
}

/* A function whose handle the shim has not seen. The driver has just launched it, and so knows it. */
static struct tsr_function_record *note_unseen(CUfunction handle)
{
    const char *name = NULL;
    if (tsr_real.cuFuncGetName(&name, handle) != CUDA_SUCCESS || !name)
        name = "";
    tsr_function_note(handle, NULL, name, false);
    return tsr_function_find(handle);
}

/* Why a launch stayed home of which nobody has asked the rules before. */
static enum tsr_reason late_reason(struct tsr_launch *launch)
{
    struct tsr_decide_launch asked = asked_of(launch);
    if (!launch->known)
        launch->known = note_unseen(launch->function);
    if (!launch->known || !tsr_decide(launch->session, launch->known, &asked).leaves)
        return TSR_REASON_NONE;
    if (!tsr_has_role(TSR_REDIRECTING))
        return TSR_REASON_EXECUTOR;
    return launch->known->module ? TSR_REASON_ATTRIBUTE : TSR_REASON_MODULE; /* the former: cooperation of several GPUs */
}

void tsr_redirect_finish(struct tsr_launch *launch, CUresult result)
{
    const struct tsr_session *session = launch->session;
    if (result != CUDA_SUCCESS)
        return;
    if (becomes_known_node(launch))
        tsr_captured_call_keep_node(launch);
    if (!launch->decided && launch->gpu == session->policy->home)
        launch->reason = late_reason(launch);
    if (!launch->captured && launch->gpu < TSR_GPUS)
        tsr_session_count(&tsr_session_counts(session)->launches[launch->gpu], 1);
    if (launch->reason)
        tsr_decide_kept(launch->reason);
}

static void came_back(uint32_t gpu)
{
    tsr_decide_kept(TSR_REASON_EXECUTOR);
    tsr_record_came_back(gpu, tsr_session()->policy->home);
}

void tsr_redirect_start(void)
{
    tsr_failover_listen(came_back);
}
