/* See share.h. */
#include "executor/share.h"

static uint64_t memory_limit = UINT64_MAX; /* set before there are threads */
static uint64_t memory_taken;              /* atomic */

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

CUresult tsr_share_open(CUdevice device, unsigned sm_limit, CUcontext *out)
{
    CUresult result = sm_limit ? open_green(device, sm_limit, out) : cuDevicePrimaryCtxRetain(out, device);
    return result == CUDA_SUCCESS ? cuCtxSetCurrent(*out) : result;
}

void tsr_share_limit_memory(uint64_t bytes)
{
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
