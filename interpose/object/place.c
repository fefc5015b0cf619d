/* See place.h. */
#include "object/place.h"

#include "driver/gpus.h"
#include "object/capture.h"
#include "driver/real.h"
#include "driver/stream_handle.h"

uint32_t tsr_place_of(CUstream stream)
{
    CUdevice device;
    /* Asking for the device of a stream that is being captured spoils the capture (580); launches there are the current context's. */
    bool is_current = tsr_stream_is_default(stream) || tsr_is_capturing(stream);
    CUresult result = is_current ? tsr_real.cuCtxGetDevice(&device) : tsr_real.cuStreamGetDevice(stream, &device);
    if (result != CUDA_SUCCESS) /* cuStreamGetDevice is of 12.8, and may fail for reasons of its own */
        result = tsr_real.cuCtxGetDevice(&device);
    return result == CUDA_SUCCESS ? tsr_gpu_of(device) : TSR_PLACE_UNKNOWN;
}
