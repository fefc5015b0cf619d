/*
 * Launches: a function's lane was decided when the application looked the function up; here the launch is posted or forwarded.
 * What the application launches on another GPU than home stays where it is, and is none of a policy's business.
 * What cannot be posted (during capture, launch attributes, parameters of unknown layout, a module whose variables the application
 * uses) runs at home after joining, and is counted.
 */
#include <string.h>

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

static CUresult post(struct tsr_function_record *function, struct tsr_lane_record *record, CUstream stream, bool per_thread,
                     const uint8_t *block)
{
    CUresult result = tsr_function_send(function);
    if (result == CUDA_SUCCESS)
        result = tsr_order_depart(stream, per_thread, function->lane, &record->stream);
    return result == CUDA_SUCCESS ? tsr_lane_post(function->lane, record, block) : result;
}

static CUresult launch(CUfunction handle, struct tsr_lane_record *record, CUstream stream, bool per_thread, void **params,
                       void **extra, bool *taken)
{
    struct tsr_session *session = tsr_session();
    struct tsr_function_record *function = session ? tsr_function_find(handle) : NULL;
    uint32_t gpu = session ? tsr_place_of(stream) : 0;
    *taken = false;
    CUresult result = CUDA_SUCCESS;
    if (function && function->lane && gpu == session->policy->home) {
        uint8_t block[MOST_PARAM_BYTES] __attribute__((aligned(16)));
        if (!tsr_function_at_home(function) && function->param_bytes <= MOST_PARAM_BYTES && shape_is_valid(function, record) &&
            !capturing(stream, per_thread) && gather(function, params, extra, block, &record->param_bytes) &&
            tsr_home_only_scan(block, record->param_bytes) == TSR_REASON_NONE) {
            record->kind = TSR_LANE_LAUNCH;
            record->function = function->id;
            result = post(function, record, stream, per_thread, block);
            *taken = true;
            gpu = function->device;
        } else {
            __atomic_fetch_add(&session->policy->kept_home, 1, __ATOMIC_RELAXED);
        }
    }
    if (session && result == CUDA_SUCCESS && gpu < 16)
        __atomic_fetch_add(&session->policy->launches[gpu], 1, __ATOMIC_RELAXED);
    return *taken || result != CUDA_SUCCESS ? result : tsr_order_join(stream, per_thread);
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
        CUresult result = launch(f, &record, hStream, per_thread, kernelParams, extra, &taken);                                 \
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
        bool taken = false;                                                                                                    \
        CUresult result = CUDA_SUCCESS;                                                                                        \
        if (config && config->numAttrs == 0) {                                                                                 \
            struct tsr_lane_record record = {.grid = {config->gridDimX, config->gridDimY, config->gridDimZ},                         \
                                        .block = {config->blockDimX, config->blockDimY, config->blockDimZ},                     \
                                        .shared_bytes = config->sharedMemBytes};                                               \
            result = launch(f, &record, config->hStream, per_thread, kernelParams, extra, &taken);                              \
        } else if (config) {                                                                                                   \
            result = tsr_order_join(config->hStream, per_thread);                                                              \
        }                                                                                                                      \
        return taken || result != CUDA_SUCCESS ? result : tsr_real.symbol(config, f, kernelParams, extra);                      \
    }

LAUNCH_KERNEL_EX(cuLaunchKernelEx, false)
LAUNCH_KERNEL_EX(cuLaunchKernelEx_ptsz, true)
