/* cuGetProcAddress of the emulated driver. The first form reports a name or version that is missing as CUDA_ERROR_NOT_FOUND. */
#include "api/look_up.h"

CUresult CUDAAPI cuGetProcAddress_v2(const char *symbol, void **pfn, int version, cuuint64_t flags,
                                     CUdriverProcAddressQueryResult *symbol_status)
{
    return tsr_driver_look_up(symbol, pfn, version, flags, symbol_status);
}

CUresult CUDAAPI cuGetProcAddress(const char *symbol, void **pfn, int version, cuuint64_t flags)
{
    CUresult result = tsr_driver_look_up(symbol, pfn, version, flags, NULL);
    return result == CUDA_SUCCESS && !*pfn ? CUDA_ERROR_NOT_FOUND : result;
}
