/* See share.h. */
#include "executor/share.h"

#include "base/options.h"

static uint32_t own_gpu;                   /* set before there are threads */
static uint64_t memory_limit = UINT64_MAX; /* the same */
static uint64_t memory_taken;              /* atomic */

static uint64_t parts(void)
{
    return tsr_options()->split ? tsr_options()->split : 1;
}

CUresult tsr_share_device(uint32_t gpu, CUdevice *out)
{
    return cuDeviceGet(out, (int)(gpu / parts()));
}

static CUresult split(CUdevice device, unsigned sm_limit, CUdevResource *part)
{
    CUdevResource all;
    unsigned groups = 1;
    CUresult result = cuDeviceGetDevResource(device, &all, CU_DEV_RESOURCE_TYPE_SM);
    if (result == CUDA_SUCCESS)
        result = cuDevSmResourceSplitByCount(part, &groups, &all, NULL, 0, sm_limit);
    if (result != CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION || sm_limit > all.sm.smCount)
        return result;
    *part = all; /* rounded up it is more than there is */
    return CUDA_SUCCESS;
}

static CUresult open_green(CUdevice device, unsigned sm_limit, CUcontext *out)
{
    CUdevResource part;
    CUdevResourceDesc description;
    CUgreenCtx green;
    CUresult result = split(device, sm_limit, &part);
    if (result == CUDA_SUCCESS)
        result = cuDevResourceGenerateDesc(&description, &part, 1);
    if (result == CUDA_SUCCESS)
        result = cuGreenCtxCreate(&green, description, device, CU_GREEN_CTX_DEFAULT_STREAM);
    return result == CUDA_SUCCESS ? cuCtxFromGreenCtx(out, green) : result;
}

CUresult tsr_share_open(uint32_t gpu, unsigned sm_limit, CUdevice *device, CUcontext *out)
{
    own_gpu = gpu;
    CUresult result = tsr_share_device(gpu, device);
    if (result == CUDA_SUCCESS)
        result = sm_limit ? open_green(*device, sm_limit, out) : cuDevicePrimaryCtxRetain(out, *device);
    return result == CUDA_SUCCESS ? cuCtxSetCurrent(*out) : result;
}

uint32_t tsr_share_gpu(void)
{
    return own_gpu;
}

void tsr_share_limit_memory(CUdevice device, uint64_t bytes)
{
    size_t all;
    if (!bytes && parts() > 1 && cuDeviceTotalMem(&all, device) == CUDA_SUCCESS)
        bytes = all / parts();
    memory_limit = bytes ? bytes : UINT64_MAX;
}

bool tsr_share_take(uint64_t bytes)
{
    uint64_t taken = __atomic_add_fetch(&memory_taken, bytes, __ATOMIC_RELAXED);
    if (taken >= bytes && taken <= memory_limit)
        return true;
    tsr_share_give(bytes);
    return false;
}

void tsr_share_give(uint64_t bytes)
{
    __atomic_sub_fetch(&memory_taken, bytes, __ATOMIC_RELAXED);
}
