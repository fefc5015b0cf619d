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
#include "check/check.h"
#include "object/collective.h"
#include "object/capture.h"
#include "schedule/decide.h"
#include "lane/functions.h"
#include "memory/home_only.h"
#include "memory/heat.h"
#include "lane/lane_client.h"
#include "lane/failover.h"
#include "lane/streams.h"
#include "launch/launch.h"
#include "order/order.h"
#include "object/place.h"
#include "driver/real.h"
#include "record/launch_record.h"
#include "record/recorder.h"
#include "object/session.h"
#include "check/verify.h"

/* A launch as a lane takes it: its record, and the parameters and attributes that follow it. */
struct parcel {
    struct tsr_lane_record record;
    bool gathered;            /* the parameters are in the block: */
    uint32_t parameter_bytes; /* so much of it */
    uint8_t block[TSR_PARAMETER_BYTES + TSR_MOST_ATTRIBUTES * sizeof(CUlaunchAttribute)] __attribute__((aligned(16)));
};

static bool gather(const struct tsr_launch *launch, const struct tsr_function_record *function, struct parcel *parcel)
{
    if (!parcel->gathered && !launch->opaque)
        parcel->gathered = tsr_parameters_gather(&function->parameters, launch->params, launch->extra, parcel->block,
                                                 &parcel->parameter_bytes);
    return parcel->gathered;
}

/* What the home driver would refuse is left to it, so that the application gets its error. */
static bool shape_is_valid(const struct tsr_function_record *function, const struct tsr_lane_record *record)
{
    uint64_t threads = (uint64_t)record->block[0] * record->block[1] * record->block[2];
    return threads > 0 && threads <= function->max_threads && record->block[2] <= 64 && record->grid[0] > 0 &&
           record->grid[0] <= INT32_MAX && record->grid[1] > 0 && record->grid[1] <= UINT16_MAX && record->grid[2] > 0 &&
           record->grid[2] <= UINT16_MAX && record->shared_bytes <= function->most_shared_bytes;
}

static CUresult post_found(struct tsr_function_record *function, struct tsr_lane_client *lane, struct tsr_lane_record *record,
                           CUstream stream, const struct tsr_stream_found *found, const uint8_t *block)
{
    record->kind = TSR_LANE_LAUNCH;
    record->function = function->id;
    CUresult result = tsr_function_send(function, lane);
    if (result != CUDA_SUCCESS && tsr_lane_state(lane) == CUDA_SUCCESS)
        return CUDA_ERROR_NOT_SUPPORTED;
    struct tsr_order_hold hold;
    if (result == CUDA_SUCCESS)
        result = tsr_order_depart_found(found, stream, lane, &record->stream, &hold);
    if (result != CUDA_SUCCESS)
        return result;
    result = tsr_lane_post(lane, record, block);
    tsr_order_leave(&hold);
    return result;
}

static CUresult post(struct tsr_function_record *function, struct tsr_lane_client *lane, struct tsr_lane_record *record,
                     CUstream stream, const uint8_t *block)
{
    struct tsr_stream_found found;
    tsr_stream_place(stream, &found);
    return post_found(function, lane, record, stream, &found, block);
}

static uint32_t attributes_begin(const struct parcel *parcel)
{
    return (parcel->parameter_bytes + 7) / 8 * 8;
}

static const CUlaunchAttribute *attributes_of(const struct parcel *parcel)
{
    return (const CUlaunchAttribute *)(parcel->block + attributes_begin(parcel));
}

static enum tsr_reason add_attributes(const struct tsr_launch *launch, uint32_t device, struct parcel *parcel)
{
    CUlaunchAttribute attributes[TSR_MOST_ATTRIBUTES];
    uint32_t count, begin = attributes_begin(parcel);
    if (!launch->cooperative && launch->attribute_count == 0)
        return TSR_REASON_NONE;
    enum tsr_reason reason = tsr_attributes_translate(launch, device, attributes, &count);
    if (reason || count == 0)
        return reason;
    memcpy(parcel->block + begin, attributes, count * sizeof attributes[0]);
    parcel->record.param_bytes = (uint32_t)(begin + count * sizeof attributes[0]);
    parcel->record.value = tsr_lane_shape(parcel->parameter_bytes, count);
    return TSR_REASON_NONE;
}

/* Why the launch cannot be posted; TSR_REASON_NONE: it can, and the parcel is complete. */
static enum tsr_reason hindrance(struct tsr_function_record *function, const struct tsr_launch *launch,
                                 const struct tsr_decision *decision, struct parcel *parcel)
{
    if (__atomic_load_n(&function->different, __ATOMIC_RELAXED))
        return TSR_REASON_VERIFY;
    if (tsr_is_collective(function))
        return TSR_REASON_OTHER_GPUS;
    if (!tsr_function_sendable(function))
        return TSR_REASON_MODULE;
    if (!shape_is_valid(function, &parcel->record))
        return TSR_REASON_SHAPE;
    if (launch->captured)
        return TSR_REASON_CAPTURE;
    if (launch->params && launch->extra)
        return TSR_REASON_SHAPE;
    if (!gather(launch, function, parcel))
        return TSR_REASON_PARAMETERS;
    parcel->record.param_bytes = parcel->parameter_bytes;
    enum tsr_reason reason = tsr_home_only_scan(parcel->block, parcel->parameter_bytes);
    if (!reason && tsr_function_send(function, decision->lane) == CUDA_SUCCESS)
        reason = tsr_function_hindrance(function);
    if (!reason)
        reason = tsr_function_hindrance_given(function, parcel->block, parcel->parameter_bytes);
    return reason ? reason : add_attributes(launch, decision->device, parcel);
}

static CUresult verify(const struct tsr_launch *launch, struct tsr_function_record *function,
                       const struct tsr_decision *decision, struct parcel *parcel)
{
    struct tsr_verify_launch verified = {.function = function,
                                         .handle = launch->function,
                                         .lane = decision->lane,
                                         .record = &parcel->record,
                                         .block = parcel->block,
                                         .parameter_bytes = parcel->parameter_bytes,
                                         .attributes = attributes_of(parcel),
                                         .attribute_count = (uint32_t)parcel->record.value,
                                         .stream = launch->stream,
                                         .device = decision->device,
                                         .limit_bytes = decision->verify_limit_bytes,
                                         .post = post};
    return tsr_verify(&verified);
}

static CUresult take(struct tsr_launch *launch, struct tsr_function_record *function, const struct tsr_stream_found *found,
                     struct parcel *parcel)
{
    struct tsr_decide_launch asked = {.grid = launch->grid, .block = launch->block, .stream = launch->stream};
    struct tsr_decision decision = tsr_decide(function, &asked);
    launch->decided = true;
    if (!decision.lane)
        return CUDA_SUCCESS;
    parcel->record = (struct tsr_lane_record){.grid = {launch->grid[0], launch->grid[1], launch->grid[2]},
                                              .block = {launch->block[0], launch->block[1], launch->block[2]},
                                              .shared_bytes = launch->shared_bytes};
    launch->reason = hindrance(function, launch, &decision, parcel);
    if (launch->reason)
        return CUDA_SUCCESS;
    if (launch->start)
        tsr_launch_time_away(launch, decision.lane);
    parcel->record.time = launch->time;
    CUresult result = tsr_order_state(); /* before it is posted: its own fault is told by later calls */
    if (result == CUDA_SUCCESS)
        result = decision.verify ? verify(launch, function, &decision, parcel)
                                 : post_found(function, decision.lane, &parcel->record, launch->stream, found, parcel->block);
    if (result == CUDA_ERROR_NOT_SUPPORTED) {
        launch->reason = tsr_function_refusal(function, decision.lane);
        return CUDA_SUCCESS;
    }
    launch->taken = true;
    launch->gpu = decision.device;
    if (result == CUDA_SUCCESS)
        tsr_heat_count(parcel->block, parcel->parameter_bytes, decision.device);
    return result;
}

/* Of a launch that stays home: what it uses, and, if it is its turn, what it writes. */
static void look_at(struct tsr_launch *launch, struct tsr_function_record *function, struct parcel *parcel, uint32_t gpu)
{
    bool uses = tsr_heat_pages && function, check = gpu == tsr_session()->policy->home && tsr_check_is_turn(function, launch);
    bool gathered = (uses || check) && gather(launch, function, parcel);
    if (uses && gathered)
        tsr_heat_count(parcel->block, parcel->parameter_bytes, gpu);
    if (check)
        tsr_check_begin(launch, function, gathered ? parcel->block : NULL, parcel->parameter_bytes);
}

CUresult tsr_redirect(struct tsr_launch *launch)
{
    const struct tsr_session *session = tsr_session_counting();
    if (!session)
        return CUDA_SUCCESS;
    bool redirecting = tsr_has_role(TSR_REDIRECTING);
    struct tsr_stream_found found;
    uint32_t gpu = redirecting ? tsr_stream_place(launch->stream, &found) : tsr_place_of(launch->stream);
    launch->gpu = gpu;
    launch->captured = tsr_is_capturing(launch->stream);
    if (!redirecting)
        return CUDA_SUCCESS;
    bool may_leave = gpu == session->policy->home && launch->known && launch->known->module;
    struct tsr_function_record *function = may_leave ? launch->known : NULL;
    struct parcel parcel;
    parcel.gathered = false;
    if (function)
        tsr_function_describe(function);
    CUresult result = function ? take(launch, function, &found, &parcel) : CUDA_SUCCESS;
    if (launch->taken)
        return result;
    look_at(launch, function, &parcel, gpu);
    return tsr_order_enter(launch->stream, false, &launch->hold);
}

/* A function that came in a way the shim does not know. The driver has just launched it, and so knows the handle. */
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
    struct tsr_decide_launch asked = {.grid = launch->grid, .block = launch->block, .stream = launch->stream};
    if (!launch->known)
        launch->known = note_unseen(launch->function);
    if (!launch->known || !tsr_decide(launch->known, &asked).leaves)
        return TSR_REASON_NONE;
    if (!tsr_has_role(TSR_REDIRECTING))
        return TSR_REASON_EXECUTOR;
    return launch->known->module ? TSR_REASON_ATTRIBUTE : TSR_REASON_MODULE; /* the former: cooperation of several GPUs */
}

void tsr_redirect_finish(struct tsr_launch *launch, CUresult result)
{
    const struct tsr_session *session = tsr_session_counting();
    if (!session || result != CUDA_SUCCESS)
        return;
    if (!launch->decided && launch->gpu == session->policy->home)
        launch->reason = late_reason(launch);
    if (!launch->captured && launch->gpu < 16)
        __atomic_fetch_add(&tsr_session_counts(session)->launches[launch->gpu], 1, __ATOMIC_RELAXED);
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
