/* Limits of a context: kept and read back. The stack limit does not bound emulated threads, which have what their code declares. */
#include "guard.h"

#include "../context/context_object.h"

static CUresult supported(CUlimit limit, size_t value)
{
    switch (limit) {
    case CU_LIMIT_STACK_SIZE:
        return value <= 512 << 10 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_LIMIT_PRINTF_FIFO_SIZE:
    case CU_LIMIT_MALLOC_HEAP_SIZE:
    case CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT:
    case CU_LIMIT_PERSISTING_L2_CACHE_SIZE:
        return CUDA_SUCCESS;
    case CU_LIMIT_MAX_L2_FETCH_GRANULARITY:
        return value <= 128 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH:
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    default:
        return (int)limit >= 0 && limit < CU_LIMIT_MAX ? CUDA_ERROR_UNSUPPORTED_LIMIT : CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult CUDAAPI cuCtxSetLimit(CUlimit limit, size_t value)
{
    struct tsr_context *context;
    TSR_TRY(tsr_context_current(&context));
    TSR_TRY(supported(limit, value));
    struct tsr_context_settings *settings = tsr_context_settings(context);
    pthread_mutex_lock(&settings->lock);
    settings->limits[limit] = value;
    pthread_mutex_unlock(&settings->lock);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetLimit(size_t *pvalue, CUlimit limit)
{
    struct tsr_context *context;
    TSR_TRY(tsr_context_current(&context));
    TSR_REQUIRE(pvalue, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(supported(limit, 0));
    struct tsr_context_settings *settings = tsr_context_settings(context);
    pthread_mutex_lock(&settings->lock);
    *pvalue = settings->limits[limit];
    pthread_mutex_unlock(&settings->lock);
    return CUDA_SUCCESS;
}
