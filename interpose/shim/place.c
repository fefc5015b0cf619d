/* See place.h. */
#include "shim/place.h"

#include "shim/real.h"

uint32_t tsr_place_of(CUstream stream)
{
    CUdevice device;
    bool is_default = !stream || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
    CUresult result = is_default ? tsr_real.cuCtxGetDevice(&device) : tsr_real.cuStreamGetDevice(stream, &device);
    if (result == CUDA_ERROR_NOT_FOUND) /* cuStreamGetDevice is of 12.8 */
        result = tsr_real.cuCtxGetDevice(&device);
    return result == CUDA_SUCCESS ? (uint32_t)device : TSR_PLACE_UNKNOWN;
}
