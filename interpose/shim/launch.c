/* The wrappers of all forms of launch. */
#include "launch/launch.h"

#include "check/check.h"
#include "launch/call_memory.h"
#include "memory/copies.h"
#include "object/place.h"
#include "object/registry.h"
#include "object/session.h"
#include "order/order.h"
#include "driver/real.h"
#include "record/launch_record.h"
#include "record/recorder.h"
#include "schedule/automatic.h"
#include "shim/deferred.h"
#include "shim/redirect.h"
#include "driver/stream_handle.h"

static inline CUresult begin(struct tsr_launch *launch)
{
    launch->start = tsr_record_start();
    launch->known = tsr_function_find(launch->function);
    launch->session = tsr_session_counting();
    CUresult result = launch->session ? tsr_redirect(launch) : CUDA_SUCCESS;
    if (launch->due) /* preparing the check is not part of the launch's time */
        launch->start = tsr_record_start();
    if (launch->start)
        tsr_launch_prepare(launch);
    return result;
}

static inline CUresult end(struct tsr_launch *launch, CUresult result)
{
    if (__builtin_expect(launch->automatic, 0) && !launch->taken && result == CUDA_SUCCESS)
        tsr_redirect_launched(launch);
    else if (__builtin_expect(launch->automatic, 0) && !launch->taken)
        tsr_automatic_ends(launch->stream, true);
    if (!launch->taken) /* else nothing is held any more */
        tsr_order_leave(&launch->hold);
    if (launch->session)
        tsr_redirect_finish(launch, result);
    if (result == CUDA_SUCCESS)
        tsr_deferred_note(launch);
    if (launch->start)
        tsr_launch_record(launch, result);
    else if (result == CUDA_SUCCESS && tsr_has_role(TSR_DEFINING))
        tsr_launch_define(launch);
    if (__builtin_expect(launch->due != TSR_CHECK_DUE_NONE, 0))
        tsr_check_finish(launch, result);
    tsr_call_enqueued();
    return result;
}

/* Defines a wrapper: the parameters, and the arguments of the call, both in parentheses; then the fields of the launch. */
#define LAUNCH(symbol, parameters, arguments, ...)                                                                             \
    TSR_ENGAGED(symbol) parameters                                                                                             \
    {                                                                                                                          \
        struct tsr_gathered gathered;                                                                                 \
        struct tsr_launch launch = {.row = TSR_ROW_##symbol, .gathered = &gathered, __VA_ARGS__};                                    \
        CUresult result;                                                                                                       \
        gathered.done = false;                                                                                                 \
        if (tsr_deferred_launch(&launch, &result))                                                                               \
            return result;                                                                                                     \
        result = begin(&launch);                                                                                      \
        if (__builtin_expect(launch.clone != NULL, 0) && result == CUDA_SUCCESS) {                                              \
            f = launch.clone;                                                                                                   \
            if ((result = tsr_real.symbol arguments) == CUDA_SUCCESS)                                                          \
                return end(&launch, result);                                                                                   \
            f = launch.function;                                                                                               \
            launch.clone = NULL;                                                                                                \
            result = CUDA_SUCCESS;                                                                                             \
        }                                                                                                                      \
        if (result == CUDA_SUCCESS && !launch.taken)                                                                           \
            result = tsr_real.symbol arguments;                                                                                \
        return end(&launch, result);                                                                                           \
    }

#define SHAPE_PARAMETERS                                                                                                       \
    CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ, unsigned int blockDimX,                 \
        unsigned int blockDimY, unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream, void **kernelParams
#define SHAPE_ARGUMENTS                                                                                                        \
    f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes, hStream, kernelParams
#define SHAPE(per_thread)                                                                                                      \
    .function = f, .grid = {gridDimX, gridDimY, gridDimZ}, .block = {blockDimX, blockDimY, blockDimZ},                         \
    .shared_bytes = sharedMemBytes, .stream = tsr_stream_named(hStream, per_thread), .params = kernelParams

#define KERNEL_PARAMETERS (SHAPE_PARAMETERS, void **extra)
#define KERNEL_ARGUMENTS (SHAPE_ARGUMENTS, extra)
LAUNCH(cuLaunchKernel, KERNEL_PARAMETERS, KERNEL_ARGUMENTS, SHAPE(false), .extra = extra)
LAUNCH(cuLaunchKernel_ptsz, KERNEL_PARAMETERS, KERNEL_ARGUMENTS, SHAPE(true), .extra = extra)

#define COOPERATIVE_PARAMETERS (SHAPE_PARAMETERS)
#define COOPERATIVE_ARGUMENTS (SHAPE_ARGUMENTS)
LAUNCH(cuLaunchCooperativeKernel, COOPERATIVE_PARAMETERS, COOPERATIVE_ARGUMENTS, SHAPE(false), .cooperative = true)
LAUNCH(cuLaunchCooperativeKernel_ptsz, COOPERATIVE_PARAMETERS, COOPERATIVE_ARGUMENTS, SHAPE(true), .cooperative = true)

static const CUlaunchConfig no_config; /* in the place of NULL; the driver decides about that */

static inline const CUlaunchConfig *or_none(const CUlaunchConfig *config)
{
    return config ? config : &no_config;
}

#define EX_PARAMETERS (const CUlaunchConfig *config, CUfunction f, void **kernelParams, void **extra)
#define EX_ARGUMENTS (config, f, kernelParams, extra)
#define EX(per_thread)                                                                                                         \
    .function = f, .grid = {or_none(config)->gridDimX, or_none(config)->gridDimY, or_none(config)->gridDimZ},                  \
    .block = {or_none(config)->blockDimX, or_none(config)->blockDimY, or_none(config)->blockDimZ},                             \
    .shared_bytes = or_none(config)->sharedMemBytes, .stream = tsr_stream_named(or_none(config)->hStream, per_thread),         \
    .params = kernelParams, .extra = extra, .attributes = or_none(config)->attrs,                                              \
    .attribute_count = or_none(config)->attrs ? or_none(config)->numAttrs : 0
LAUNCH(cuLaunchKernelEx, EX_PARAMETERS, EX_ARGUMENTS, EX(false))
LAUNCH(cuLaunchKernelEx_ptsz, EX_PARAMETERS, EX_ARGUMENTS, EX(true))

/* The forms of launch whose block, shared memory and parameters are set beforehand. */
static const struct tsr_function_record *set_beforehand(CUfunction function)
{
    static const struct tsr_function_record nothing;
    const struct tsr_function_record *known = tsr_function_find(function);
    return known ? known : &nothing;
}

#define BEFOREHAND(width, height, on)                                                                                          \
    .opaque = true, .function = f, .grid = {(uint32_t)(width), (uint32_t)(height), 1},                                         \
    .block = {set_beforehand(f)->block[0], set_beforehand(f)->block[1], set_beforehand(f)->block[2]},                          \
    .shared_bytes = set_beforehand(f)->shared_bytes, .stream = on
#define GRID_PARAMETERS (CUfunction f, int grid_width, int grid_height)
#define GRID_ARGUMENTS (f, grid_width, grid_height)
#define ASYNC_PARAMETERS (CUfunction f, int grid_width, int grid_height, CUstream hStream)
#define ASYNC_ARGUMENTS (f, grid_width, grid_height, hStream)
LAUNCH(cuLaunch, (CUfunction f), (f), BEFOREHAND(1, 1, CU_STREAM_LEGACY))
LAUNCH(cuLaunchGrid, GRID_PARAMETERS, GRID_ARGUMENTS, BEFOREHAND(grid_width, grid_height, CU_STREAM_LEGACY))
LAUNCH(cuLaunchGridAsync, ASYNC_PARAMETERS, ASYNC_ARGUMENTS,
       BEFOREHAND(grid_width, grid_height, tsr_stream_named(hStream, false)))

TSR_ENGAGED(cuFuncSetBlockShape)(CUfunction hfunc, int x, int y, int z)
{
    CUresult result = tsr_real.cuFuncSetBlockShape(hfunc, x, y, z);
    struct tsr_function_record *known = result == CUDA_SUCCESS ? tsr_function_find(hfunc) : NULL;
    if (known) {
        known->block[0] = (uint32_t)x;
        known->block[1] = (uint32_t)y;
        known->block[2] = (uint32_t)z;
    }
    return result;
}

TSR_ENGAGED(cuFuncSetSharedSize)(CUfunction hfunc, unsigned int bytes)
{
    CUresult result = tsr_real.cuFuncSetSharedSize(hfunc, bytes);
    struct tsr_function_record *known = result == CUDA_SUCCESS ? tsr_function_find(hfunc) : NULL;
    if (known)
        known->shared_bytes = bytes;
    return result;
}

/* What they touch is not asked: all bytes come home. */
static CUresult enter_each(const CUDA_LAUNCH_PARAMS *list, unsigned count)
{
    CUresult result = CUDA_SUCCESS;
    for (unsigned i = 0; list && i < count && result == CUDA_SUCCESS; i++) {
        struct tsr_order_hold hold;
        result = tsr_copies_enter_all(list[i].hStream, false, &hold);
        if (result == CUDA_SUCCESS)
            tsr_order_leave(&hold);
    }
    return result;
}

static void count_each(uint64_t start, const CUDA_LAUNCH_PARAMS *list, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        const CUDA_LAUNCH_PARAMS *one = &list[i];
        struct tsr_launch launch = {.row = TSR_ROW_cuLaunchCooperativeKernelMultiDevice,
                                    .cooperative = true,
                                    .function = one->function,
                                    .grid = {one->gridDimX, one->gridDimY, one->gridDimZ},
                                    .block = {one->blockDimX, one->blockDimY, one->blockDimZ},
                                    .shared_bytes = one->sharedMemBytes,
                                    .stream = tsr_stream_named(one->hStream, false),
                                    .known = tsr_function_find(one->function),
                                    .session = tsr_session_counting(),
                                    .gpu = tsr_place_of(one->hStream),
                                    .start = start};
        if (launch.session)
            tsr_redirect_finish(&launch, CUDA_SUCCESS);
        if (start) {
            tsr_launch_note(&launch);
            tsr_launch_record(&launch, CUDA_SUCCESS);
        } else if (tsr_has_role(TSR_DEFINING)) {
            tsr_launch_define(&launch);
        }
    }
}

TSR_ENGAGED(cuLaunchCooperativeKernelMultiDevice)(CUDA_LAUNCH_PARAMS *list, unsigned int count, unsigned int flags)
{
    uint64_t start = tsr_record_start();
    CUresult result = enter_each(list, count);
    if (result == CUDA_SUCCESS)
        result = tsr_real.cuLaunchCooperativeKernelMultiDevice(list, count, flags);
    if (result == CUDA_SUCCESS)
        count_each(start, list, count);
    tsr_record_failure(TSR_ROW_cuLaunchCooperativeKernelMultiDevice, result);
    return result;
}
