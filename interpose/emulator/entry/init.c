/* cuInit and the version. */
#include "guard.h"

CUresult CUDAAPI cuInit(unsigned int flags)
{
    TSR_REQUIRE(flags == 0, CUDA_ERROR_INVALID_VALUE);
    return tsr_driver_init();
}

CUresult CUDAAPI cuDriverGetVersion(int *version)
{
    TSR_REQUIRE(version, CUDA_ERROR_INVALID_VALUE);
    *version = CUDA_VERSION;
    return CUDA_SUCCESS;
}
