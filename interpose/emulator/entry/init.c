/* cuInit and the version. */
#include "guard.h"

#include <pthread.h>

#include "trace.h"

CUresult CUDAAPI cuInit(unsigned int flags)
{
    TSR_REQUIRE(flags == 0, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(tsr_driver_init());
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, tsr_trace_start);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDriverGetVersion(int *version)
{
    TSR_REQUIRE(version, CUDA_ERROR_INVALID_VALUE);
    *version = CUDA_VERSION;
    return CUDA_SUCCESS;
}
