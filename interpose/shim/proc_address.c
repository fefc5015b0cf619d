/*
 * cuGetProcAddress by pointer identity: the real driver answers; when the answer is a function that the shim wraps, ours is given
 * instead. Versions, stream flags, missing names and status values are the driver's own, and nothing is offered that it lacks.
 */
#include "driver/real.h"
#include "shim/seen.h"
#include "driver/wrapped.h"

static CUresult routed(CUresult result, void **function)
{
    void *real = result == CUDA_SUCCESS && function ? *function : NULL;
    if (real)
        *function = tsr_real_route(real);
    tsr_seen_look_up(real && *function != real);
    return result;
}

CUresult CUDAAPI cuGetProcAddress(const char *symbol, void **function, int version, cuuint64_t flags)
{
    if (!tsr_real_open())
        return CUDA_ERROR_NO_DEVICE;
    return routed(tsr_real.cuGetProcAddress(symbol, function, version, flags), function);
}

CUresult CUDAAPI cuGetProcAddress_v2(const char *symbol, void **function, int version, cuuint64_t flags,
                                     CUdriverProcAddressQueryResult *status)
{
    if (!tsr_real_open())
        return CUDA_ERROR_NO_DEVICE;
    return routed(tsr_real.cuGetProcAddress_v2(symbol, function, version, flags, status), function);
}
