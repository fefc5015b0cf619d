/*
 * Launches that run elsewhere: decide.c says where one runs; here it is posted.
 * What the application launches on another GPU than home stays where it is, and is none of a policy's business.
 * What cannot be posted (during capture, some launch attributes, parameters of unknown layout, functions that write variables of their
 * module) runs at home after joining, and is counted.
 */
#include <string.h>

#include "shim/launch/attributes.h"
#include "shim/record/capture.h"
#include "shim/launch/decide.h"
#include "shim/launch/functions.h"
#include "shim/memory/home_only.h"
#include "shim/memory/uses.h"
#include "shim/order/lane_client.h"
#include "shim/launch/launch.h"
#include "shim/order/order.h"
#include "shim/launch/place.h"
#include "shim/entry/real.h"
#include "shim/launch/session.h"
#include "shim/launch/verify.h"

#define MOST_PARAM_BYTES 4096u

/* Gathers the parameter block from either form the caller may use; false: it cannot. */
static bool gather(const struct tsr_function_record *function, void **params, void **extra, uint8_t *block, uint32_t *bytes)
{
    *bytes = function->param_bytes;
    if (params) {
        for (uint32_t i = 0; i < function->param_count; i++)
            memcpy(block + function->param_offsets[i], params[i], function->param_sizes[i]);
        return true;
    }
    const void *buffer = NULL;
    const size_t *size = NULL;
    for (void **at = extra; at && *at != CU_LAUNCH_PARAM_END; at += 2) {
        if (*at == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = at[1];
        else if (*at == CU_LAUNCH_PARAM_BUFFER_SIZE)
            size = at[1];
        else
            return false;
    }
    if (!buffer || !size)
        return function->param_count == 0;
    if (*size > MOST_PARAM_BYTES)
        return false;
    *bytes = (uint32_t)*size;
    memcpy(block, buffer, *size);
    return true;
}

/* What the home driver would refuse is left to it, so that the application gets its error. */
static bool shape_is_valid(const struct tsr_function_record *function, const struct tsr_lane_record *record)
{
    uint64_t threads = (uint64_t)record->block[0] * record->block[1] * record->block[2];
    return threads > 0 && threads <= function->max_threads && record->block[2] <= 64 && record->grid[0] > 0 &&
           record->grid[0] <= INT32_MAX && record->grid[1] > 0 && record->grid[1] <= UINT16_MAX && record->grid[2] > 0 &&
           record->grid[2] <= UINT16_MAX && record->shared_bytes <= function->most_shared_bytes;
}

static CUresult post(struct tsr_function_record *function, struct tsr_lane_client *lane, struct tsr_lane_record *record,
                     CUstream stream, const uint8_t *block)
{
    record->kind = TSR_LANE_LAUNCH;
    record->function = function->id;
    CUresult result = tsr_function_send(function, lane);
    if (result != CUDA_SUCCESS && tsr_lane_state(lane) == CUDA_SUCCESS)
        return CUDA_ERROR_NOT_SUPPORTED;
    struct tsr_order_hold hold;
    if (result == CUDA_SUCCESS)
        result = tsr_order_depart(stream, false, lane, &record->stream, &hold);
    if (result != CUDA_SUCCESS)
        return result;
    result = tsr_lane_post(lane, record, block);
    tsr_order_leave(&hold);
    return result;
}

static enum tsr_reason add_attributes(const struct tsr_launch *launch, uint32_t device, struct tsr_lane_record *record,
                                      uint8_t *block)
{
    CUlaunchAttribute attributes[TSR_MOST_ATTRIBUTES];
    uint32_t count, bytes = record->param_bytes;
    if (!launch->cooperative && launch->attribute_count == 0)
        return TSR_REASON_NONE;
    enum tsr_reason reason = tsr_attributes_translate(launch, device, attributes, &count);
    if (reason || count == 0)
        return reason;
    memcpy(block + (bytes + 7) / 8 * 8, attributes, count * sizeof attributes[0]);
    record->param_bytes = (uint32_t)((bytes + 7) / 8 * 8 + count * sizeof attributes[0]);
    record->value = tsr_lane_shape(bytes, count);
    return TSR_REASON_NONE;
}

/* Why the launch cannot be posted; TSR_REASON_NONE: it can, and its parameters and attributes are in block. */
static enum tsr_reason hindrance(struct tsr_function_record *function, const struct tsr_launch *launch,
                                 const struct tsr_decision *decision, struct tsr_lane_record *record, uint8_t *block)
{
    if (__atomic_load_n(&function->different, __ATOMIC_RELAXED))
        return TSR_REASON_VERIFY;
    if (!tsr_function_sendable(function))
        return TSR_REASON_MODULE;
    if (!shape_is_valid(function, record))
        return TSR_REASON_SHAPE;
    if (tsr_is_capturing(launch->stream))
        return TSR_REASON_CAPTURE;
    if (launch->params && launch->extra)
        return TSR_REASON_SHAPE;
    if (launch->opaque || !function->parameters_known || function->param_bytes > MOST_PARAM_BYTES ||
        !gather(function, launch->params, launch->extra, block, &record->param_bytes))
        return TSR_REASON_PARAMETERS;
    enum tsr_reason reason = tsr_home_only_scan(block, record->param_bytes);
    if (!reason && tsr_function_send(function, decision->lane) == CUDA_SUCCESS)
        reason = tsr_function_hindrance(function);
    return reason ? reason : add_attributes(launch, decision->device, record, block);
}

static void count(struct tsr_session *session, uint32_t gpu)
{
    if (gpu < 16)
        __atomic_fetch_add(&session->policy->launches[gpu], 1, __ATOMIC_RELAXED);
}

static CUresult take(struct tsr_launch *launch, struct tsr_function_record *function, struct tsr_session *session)
{
    struct tsr_decide_launch asked = {.grid = launch->grid, .block = launch->block, .stream = launch->stream};
    struct tsr_decision decision = tsr_decide(function, &asked);
    if (!decision.lane)
        return CUDA_SUCCESS;
    struct tsr_lane_record record = {.grid = {launch->grid[0], launch->grid[1], launch->grid[2]},
                                     .block = {launch->block[0], launch->block[1], launch->block[2]},
                                     .shared_bytes = launch->shared_bytes};
    uint8_t block[MOST_PARAM_BYTES + TSR_MOST_ATTRIBUTES * sizeof(CUlaunchAttribute)] __attribute__((aligned(16)));
    launch->reason = hindrance(function, launch, &decision, &record, block);
    if (launch->reason) {
        tsr_decide_kept(launch->reason);
        return CUDA_SUCCESS;
    }
    struct tsr_verify_launch verified = {.function = function,
                                         .handle = launch->function,
                                         .lane = decision.lane,
                                         .record = &record,
                                         .block = block,
                                         .stream = launch->stream,
                                         .device = decision.device,
                                         .limit_bytes = decision.verify_limit_bytes,
                                         .post = post};
    bool verify = decision.verify && !record.value;
    CUresult result = verify ? tsr_verify(&verified) : post(function, decision.lane, &record, launch->stream, block);
    if (result == CUDA_ERROR_NOT_SUPPORTED) {
        launch->reason = TSR_REASON_EXECUTOR;
        tsr_decide_kept(launch->reason);
        return CUDA_SUCCESS;
    }
    launch->taken = true;
    launch->device = (uint8_t)decision.device;
    if (result == CUDA_SUCCESS) {
        count(session, decision.device);
        tsr_uses_count(block, record.value ? (uint32_t)(record.value >> 32) : record.param_bytes, decision.device);
    }
    return result;
}

/* What a launch uses that stays home. */
static void count_uses(const struct tsr_launch *launch, const struct tsr_function_record *function, uint32_t gpu)
{
    uint8_t block[MOST_PARAM_BYTES] __attribute__((aligned(16)));
    uint32_t bytes;
    if (tsr_uses_pages && function && !launch->opaque && function->parameters_known &&
        function->param_bytes <= MOST_PARAM_BYTES && gather(function, launch->params, launch->extra, block, &bytes))
        tsr_uses_count(block, bytes, gpu);
}

CUresult tsr_redirect(struct tsr_launch *launch)
{
    struct tsr_session *session = tsr_session();
    if (!session)
        return CUDA_SUCCESS;
    uint32_t gpu = tsr_place_of(launch->stream);
    struct tsr_function_record *function = gpu == session->policy->home ? tsr_function_find(launch->function) : NULL;
    CUresult result = function ? take(launch, function, session) : CUDA_SUCCESS;
    if (launch->taken)
        return result;
    count(session, gpu);
    count_uses(launch, function, gpu);
    return tsr_order_enter(launch->stream, false, &launch->hold);
}
