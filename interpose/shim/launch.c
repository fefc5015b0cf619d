/*
 * Launches: decide.c says where one runs; here it is posted or forwarded.
 * What the application launches on another GPU than home stays where it is, and is none of a policy's business.
 * What cannot be posted (during capture, launch attributes, parameters of unknown layout, a module whose variables the application
 * uses) runs at home after joining, and is counted.
 */
#include <string.h>

#include "shim/decide.h"
#include "shim/functions.h"
#include "shim/home_only.h"
#include "shim/lane_client.h"
#include "shim/order.h"
#include "shim/place.h"
#include "shim/real.h"
#include "shim/session.h"

#define MOST_PARAM_BYTES 4096u

static bool capturing(CUstream stream, bool per_thread)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    return tsr_real.cuStreamIsCapturing(tsr_order_stream(stream, per_thread), &status) != CUDA_SUCCESS ||
           status != CU_STREAM_CAPTURE_STATUS_NONE;
}

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
                     CUstream stream, bool per_thread, const uint8_t *block)
{
    record->kind = TSR_LANE_LAUNCH;
    record->function = function->id;
    CUresult result = tsr_function_send(function, lane);
    if (result == CUDA_SUCCESS)
        result = tsr_order_depart(stream, per_thread, lane, &record->stream);
    return result == CUDA_SUCCESS ? tsr_lane_post(lane, record, block) : result;
}

/* Why the launch cannot be posted; TSR_REASON_NONE: it can, and its parameters are in block. */
static enum tsr_reason hindrance(const struct tsr_function_record *function, struct tsr_lane_record *record, CUstream stream,
                                 bool per_thread, void **params, void **extra, uint8_t *block)
{
    if (!tsr_function_sendable(function) || tsr_function_at_home(function))
        return TSR_REASON_MODULE;
    if (!shape_is_valid(function, record))
        return TSR_REASON_SHAPE;
    if (capturing(stream, per_thread))
        return TSR_REASON_CAPTURE;
    if (!function->parameters_known || function->param_bytes > MOST_PARAM_BYTES ||
        !gather(function, params, extra, block, &record->param_bytes))
        return TSR_REASON_PARAMETERS;
    return tsr_home_only_scan(block, record->param_bytes);
}

static void count(struct tsr_session *session, uint32_t gpu)
{
    if (gpu < 16)
        __atomic_fetch_add(&session->policy->launches[gpu], 1, __ATOMIC_RELAXED);
}

/* At home the caller forwards the launch: taken says whether it went elsewhere instead. */
static CUresult launch(CUfunction handle, struct tsr_lane_record *record, CUstream stream, bool per_thread, void **params,
                       void **extra, unsigned attributes, bool *taken)
{
    struct tsr_session *session = tsr_session();
    *taken = false;
    if (!session)
        return CUDA_SUCCESS;
    uint32_t gpu = tsr_place_of(stream);
    struct tsr_function_record *function = gpu == session->policy->home ? tsr_function_find(handle) : NULL;
    if (function) {
        struct tsr_decide_launch asked = {.grid = record->grid, .block = record->block, .stream = stream};
        struct tsr_decision decision = tsr_decide(function, &asked);
        uint8_t block[MOST_PARAM_BYTES] __attribute__((aligned(16)));
        enum tsr_reason reason = !decision.lane ? TSR_REASON_NONE
                                 : attributes   ? TSR_REASON_ATTRIBUTE
                                                : hindrance(function, record, stream, per_thread, params, extra, block);
        if (reason)
            tsr_decide_kept(reason);
        *taken = decision.lane && !reason;
        if (*taken) {
            CUresult result = post(function, decision.lane, record, stream, per_thread, block);
            if (result == CUDA_SUCCESS)
                count(session, decision.device);
            return result;
        }
    }
    count(session, gpu);
    return tsr_order_join(stream, per_thread);
}

#define LAUNCH_KERNEL(symbol, per_thread)                                                                                      \
    CUresult CUDAAPI symbol(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,                  \
                            unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ,                             \
                            unsigned int sharedMemBytes, CUstream hStream, void **kernelParams, void **extra)                   \
    {                                                                                                                          \
        struct tsr_lane_record record = {.grid = {gridDimX, gridDimY, gridDimZ},                                                     \
                                    .block = {blockDimX, blockDimY, blockDimZ},                                                 \
                                    .shared_bytes = sharedMemBytes};                                                           \
        bool taken;                                                                                                            \
        CUresult result = launch(f, &record, hStream, per_thread, kernelParams, extra, 0, &taken);                                 \
        if (taken || result != CUDA_SUCCESS)                                                                                   \
            return result == CUDA_SUCCESS ? tsr_order_state() : result;                                                                                                     \
        return tsr_real.symbol(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes, hStream,       \
                               kernelParams, extra);                                                                           \
    }

LAUNCH_KERNEL(cuLaunchKernel, false)
LAUNCH_KERNEL(cuLaunchKernel_ptsz, true)

#define LAUNCH_KERNEL_EX(symbol, per_thread)                                                                                   \
    CUresult CUDAAPI symbol(const CUlaunchConfig *config, CUfunction f, void **kernelParams, void **extra)                      \
    {                                                                                                                          \
        if (!config)                                                                                                           \
            return tsr_real.symbol(config, f, kernelParams, extra);                                                            \
        bool taken;                                                                                                            \
        struct tsr_lane_record record = {.grid = {config->gridDimX, config->gridDimY, config->gridDimZ},                       \
                                         .block = {config->blockDimX, config->blockDimY, config->blockDimZ},                   \
                                         .shared_bytes = config->sharedMemBytes};                                              \
        CUresult result =                                                                                                      \
            launch(f, &record, config->hStream, per_thread, kernelParams, extra, config->numAttrs, &taken);                    \
        if (taken || result != CUDA_SUCCESS)                                                                                   \
            return result == CUDA_SUCCESS ? tsr_order_state() : result;                                                        \
        return tsr_real.symbol(config, f, kernelParams, extra);                                                                \
    }

LAUNCH_KERNEL_EX(cuLaunchKernelEx, false)
LAUNCH_KERNEL_EX(cuLaunchKernelEx_ptsz, true)
