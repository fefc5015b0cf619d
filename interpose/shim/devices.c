/* Devices, where the program gets at one only (driver/shown.h): it has the handle of no other. */
#include "driver/engaged.h"
#include "driver/real.h"
#include "driver/shown.h"

TSR_REDIRECTED(cuDeviceGetCount)(int *count)
{
    CUresult result = tsr_real.cuDeviceGetCount(count);
    if (result == CUDA_SUCCESS && tsr_shown_is_one() && *count > 1)
        *count = 1;
    return result;
}

TSR_REDIRECTED(cuDeviceGet)(CUdevice *device, int ordinal)
{
    return ordinal > 0 && tsr_shown_is_one() ? CUDA_ERROR_INVALID_DEVICE : tsr_real.cuDeviceGet(device, ordinal);
}

TSR_REDIRECTED(cuDeviceGetByPCIBusId)(CUdevice *dev, const char *pciBusId)
{
    CUdevice found, first;
    if (!dev || !tsr_shown_is_one())
        return tsr_real.cuDeviceGetByPCIBusId(dev, pciBusId);
    CUresult result = tsr_real.cuDeviceGetByPCIBusId(&found, pciBusId);
    if (result == CUDA_SUCCESS)
        result = tsr_real.cuDeviceGet(&first, 0);
    if (result != CUDA_SUCCESS)
        return result;
    if (found != first)
        return CUDA_ERROR_INVALID_DEVICE;
    *dev = found;
    return CUDA_SUCCESS;
}
