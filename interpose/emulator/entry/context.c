/* Contexts: primary and created ones, each thread's stack of them, their settings. Waiting for their work: stream.c. */
#include "guard.h"

#include "../context/context_object.h"
#include "../context/handles.h"
#include "../stream/work.h"

#define KNOWN_FLAGS (CU_CTX_SCHED_MASK | CU_CTX_MAP_HOST | CU_CTX_LMEM_RESIZE_TO_MAX | CU_CTX_COREDUMP_ENABLE | CU_CTX_USER_COREDUMP_ENABLE | CU_CTX_SYNC_MEMOPS)

static CUresult flags_check(unsigned flags)
{
    unsigned schedule = flags & CU_CTX_SCHED_MASK;
    TSR_REQUIRE(!(flags & ~KNOWN_FLAGS), CUDA_ERROR_INVALID_VALUE);
    TSR_REQUIRE(schedule == 0 || schedule == CU_CTX_SCHED_SPIN || schedule == CU_CTX_SCHED_YIELD ||
                    schedule == CU_CTX_SCHED_BLOCKING_SYNC,
                CUDA_ERROR_INVALID_VALUE);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev)
{
    struct tsr_context *context;
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(pctx, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(tsr_device_check(dev));
    TSR_TRY(tsr_primary_retain((uint32_t)dev, &context));
    *pctx = tsr_context_handle(context);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
    TSR_TRY(tsr_device_check(dev));
    return tsr_primary_release((uint32_t)dev);
}

CUresult CUDAAPI cuDevicePrimaryCtxRelease(CUdevice dev)
{
    return cuDevicePrimaryCtxRelease_v2(dev);
}

CUresult CUDAAPI cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
    TSR_TRY(tsr_device_check(dev));
    return tsr_primary_reset((uint32_t)dev);
}

CUresult CUDAAPI cuDevicePrimaryCtxReset(CUdevice dev)
{
    return cuDevicePrimaryCtxReset_v2(dev);
}

CUresult CUDAAPI cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags)
{
    TSR_TRY(tsr_device_check(dev));
    TSR_TRY(flags_check(flags));
    tsr_primary_flags_set((uint32_t)dev, flags);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned int flags)
{
    bool active;
    unsigned before;
    TSR_TRY(tsr_device_check(dev));
    tsr_primary_state((uint32_t)dev, &before, &active);
    TSR_REQUIRE(!active, CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE);
    return cuDevicePrimaryCtxSetFlags_v2(dev, flags);
}

CUresult CUDAAPI cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags, int *active)
{
    bool is_active;
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(flags && active, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(tsr_device_check(dev));
    tsr_primary_state((uint32_t)dev, flags, &is_active);
    *active = is_active;
    return CUDA_SUCCESS;
}

static CUresult create(CUcontext *pctx, unsigned flags, CUdevice dev, unsigned api_version)
{
    struct tsr_context *context;
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(pctx, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(tsr_device_check(dev));
    TSR_TRY(flags_check(flags));
    TSR_TRY(tsr_context_create((uint32_t)dev, flags, api_version, &context));
    CUresult result = tsr_current_push(context);
    if (result != CUDA_SUCCESS) {
        tsr_context_destroy(context);
        return result;
    }
    *pctx = tsr_context_handle(context);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxCreate(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
    return create(pctx, flags, dev, 3010);
}

CUresult CUDAAPI cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
    return create(pctx, flags, dev, 3020);
}

CUresult CUDAAPI cuCtxCreate_v3(CUcontext *pctx, CUexecAffinityParam *paramsArray, int numParams, unsigned int flags,
                                CUdevice dev)
{
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(numParams >= 0 && (paramsArray || !numParams), CUDA_ERROR_INVALID_VALUE);
    TSR_REQUIRE(!numParams, CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY);
    return create(pctx, flags, dev, 3020);
}

CUresult CUDAAPI cuCtxCreate_v4(CUcontext *pctx, CUctxCreateParams *ctxCreateParams, unsigned int flags, CUdevice dev)
{
    TSR_TRY(tsr_driver_ready());
    if (ctxCreateParams && ctxCreateParams->numExecAffinityParams)
        return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
    TSR_REQUIRE(!ctxCreateParams || !ctxCreateParams->cigParams, CUDA_ERROR_NOT_SUPPORTED);
    return create(pctx, flags, dev, 3020);
}

CUresult CUDAAPI cuCtxDestroy_v2(CUcontext ctx)
{
    struct tsr_context *context, *popped;
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(ctx, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(tsr_context_find(ctx, &context));
    TSR_REQUIRE(!tsr_context_is_primary(context), CUDA_ERROR_INVALID_CONTEXT);
    tsr_context_ref(context);
    CUresult result = tsr_context_destroy(context);
    if (tsr_current_top() == context && tsr_current_pop(&popped) == CUDA_SUCCESS)
        tsr_context_unref(popped);
    tsr_context_unref(context);
    return result;
}

CUresult CUDAAPI cuCtxDestroy(CUcontext ctx)
{
    return cuCtxDestroy_v2(ctx);
}

CUresult CUDAAPI cuCtxPushCurrent_v2(CUcontext ctx)
{
    struct tsr_context *context;
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(ctx, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(tsr_context_find(ctx, &context));
    return tsr_current_push(context);
}

CUresult CUDAAPI cuCtxPushCurrent(CUcontext ctx)
{
    return cuCtxPushCurrent_v2(ctx);
}

CUresult CUDAAPI cuCtxPopCurrent_v2(CUcontext *pctx)
{
    struct tsr_context *context;
    TSR_TRY(tsr_driver_ready());
    TSR_TRY(tsr_current_pop(&context));
    if (pctx)
        *pctx = tsr_context_handle(context);
    tsr_context_unref(context);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxPopCurrent(CUcontext *pctx)
{
    return cuCtxPopCurrent_v2(pctx);
}

CUresult CUDAAPI cuCtxSetCurrent(CUcontext ctx)
{
    struct tsr_context *context = NULL;
    TSR_TRY(tsr_driver_ready());
    if (ctx)
        TSR_TRY(tsr_context_find(ctx, &context));
    return tsr_current_set(context);
}

CUresult CUDAAPI cuCtxGetCurrent(CUcontext *pctx)
{
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(pctx, CUDA_ERROR_INVALID_VALUE);
    struct tsr_context *context = tsr_current_top();
    *pctx = context ? tsr_context_handle(context) : NULL;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetDevice(CUdevice *device)
{
    struct tsr_context *context;
    TSR_TRY(tsr_context_current_any(&context));
    TSR_REQUIRE(device, CUDA_ERROR_INVALID_VALUE);
    *device = (CUdevice)tsr_emulated_context_device(context);
    return CUDA_SUCCESS;
}

/* ctx, or the current one; sticky errors do not matter. */
static CUresult find_or_current(CUcontext ctx, struct tsr_context **out)
{
    return ctx ? tsr_context_find(ctx, out) : tsr_context_current_any(out);
}

CUresult CUDAAPI cuCtxGetDevice_v2(CUdevice *device, CUcontext ctx)
{
    struct tsr_context *context;
    TSR_TRY(find_or_current(ctx, &context));
    TSR_REQUIRE(device, CUDA_ERROR_INVALID_VALUE);
    *device = (CUdevice)tsr_emulated_context_device(context);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetFlags(unsigned int *flags)
{
    struct tsr_context *context;
    TSR_TRY(tsr_context_current_any(&context));
    TSR_REQUIRE(flags, CUDA_ERROR_INVALID_VALUE);
    *flags = tsr_context_flags(context);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxSetFlags(unsigned int flags)
{
    struct tsr_context *context;
    TSR_TRY(tsr_context_current(&context));
    TSR_TRY(flags_check(flags));
    tsr_context_flags_set(context, flags);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetId(CUcontext ctx, unsigned long long *ctxId)
{
    struct tsr_context *context;
    TSR_TRY(find_or_current(ctx, &context));
    TSR_REQUIRE(ctxId, CUDA_ERROR_INVALID_VALUE);
    *ctxId = tsr_context_id(context);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetApiVersion(CUcontext ctx, unsigned int *version)
{
    struct tsr_context *context;
    TSR_TRY(find_or_current(ctx, &context));
    TSR_REQUIRE(version, CUDA_ERROR_INVALID_VALUE);
    *version = tsr_context_settings(context)->api_version;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetStreamPriorityRange(int *leastPriority, int *greatestPriority)
{
    struct tsr_context *context;
    TSR_TRY(tsr_context_current(&context));
    if (leastPriority)
        *leastPriority = 0;
    if (greatestPriority)
        *greatestPriority = -5;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetCacheConfig(CUfunc_cache *pconfig)
{
    struct tsr_context *context;
    TSR_TRY(tsr_context_current(&context));
    TSR_REQUIRE(pconfig, CUDA_ERROR_INVALID_VALUE);
    *pconfig = tsr_context_settings(context)->cache;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxSetCacheConfig(CUfunc_cache config)
{
    struct tsr_context *context;
    TSR_TRY(tsr_context_current(&context));
    TSR_REQUIRE((int)config >= 0 && config <= CU_FUNC_CACHE_PREFER_EQUAL, CUDA_ERROR_INVALID_VALUE);
    tsr_context_settings(context)->cache = config;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetSharedMemConfig(CUsharedconfig *pConfig)
{
    struct tsr_context *context;
    TSR_TRY(tsr_context_current(&context));
    TSR_REQUIRE(pConfig, CUDA_ERROR_INVALID_VALUE);
    *pConfig = tsr_context_settings(context)->shared;
    return CUDA_SUCCESS;
}

/* Accepted and without effect, as on every device since compute capability 5.0. */
CUresult CUDAAPI cuCtxSetSharedMemConfig(CUsharedconfig config)
{
    struct tsr_context *context;
    TSR_TRY(tsr_context_current(&context));
    TSR_REQUIRE((int)config >= 0 && config <= CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE, CUDA_ERROR_INVALID_VALUE);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetExecAffinity(CUexecAffinityParam *pExecAffinity, CUexecAffinityType type)
{
    struct tsr_context *context;
    TSR_TRY(tsr_context_current(&context));
    TSR_REQUIRE(pExecAffinity && (int)type >= 0 && type < CU_EXEC_AFFINITY_TYPE_MAX, CUDA_ERROR_INVALID_VALUE);
    return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
}

CUresult CUDAAPI cuCtxResetPersistingL2Cache(void)
{
    struct tsr_context *context;
    return tsr_context_current(&context);
}
