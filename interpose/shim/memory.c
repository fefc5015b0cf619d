/* Device memory allocated by address: the wrappers around the arena. */
#include "shim/arena.h"
#include "shim/engaged.h"
#include "shim/home_only.h"
#include "shim/order.h"
#include "shim/real.h"
#include "shim/session.h"

/* Only memory of the home GPU is served from the arena: a program that drives several GPUs itself keeps its own placement on the others. */
static bool at_home(const struct tsr_session *session)
{
    CUdevice device;
    return session && tsr_real.cuCtxGetDevice(&device) == CUDA_SUCCESS && (uint32_t)device == session->policy->home;
}

TSR_REDIRECTED(cuMemAlloc_v2)(CUdeviceptr *dptr, size_t bytesize)
{
    if (dptr && bytesize && at_home(tsr_session())) {
        CUresult result = tsr_arena_alloc(bytesize, dptr);
        if (result != CUDA_ERROR_NOT_SUPPORTED)
            return result;
    }
    return tsr_real.cuMemAlloc_v2(dptr, bytesize);
}

TSR_REDIRECTED(cuMemFree_v2)(CUdeviceptr dptr)
{
    CUdeviceptr base;
    size_t bytes;
    if (!tsr_session() || !tsr_arena_find(dptr, &base, &bytes) || base != dptr) {
        CUresult joined = tsr_order_join_all();
        CUresult freed = joined == CUDA_SUCCESS ? tsr_real.cuMemFree_v2(dptr) : joined;
        if (freed == CUDA_SUCCESS && tsr_session())
            tsr_home_only_remove(dptr);
        return freed;
    }
    CUresult result = tsr_order_join_all();
    if (result == CUDA_SUCCESS)
        result = tsr_real.cuCtxSynchronize();
    if (result == CUDA_SUCCESS && !tsr_arena_free(dptr))
        result = CUDA_ERROR_INVALID_VALUE;
    return result;
}

TSR_REDIRECTED(cuMemGetAddressRange_v2)(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr)
{
    CUdeviceptr base;
    size_t bytes;
    if (!tsr_session() || !tsr_arena_find(dptr, &base, &bytes))
        return tsr_real.cuMemGetAddressRange_v2(pbase, psize, dptr);
    if (pbase)
        *pbase = base;
    if (psize)
        *psize = bytes;
    return CUDA_SUCCESS;
}
