/* Attributes, names and parameters of kernels. */
#include <string.h>

#include "cudart/register.h"

/* The kernel that `function` stands for and the current device. */
static cudaError_t find(const void *function, CUkernel *kernel, int *device)
{
    cudaError_t status = tsr_cudart_enter();
    if (status == cudaSuccess)
        status = tsr_cudart_kernel(function, kernel);
    return status == cudaSuccess ? tsr_cudart_device(device) : status;
}

/* Attributes that a driver does not know leave their field zero. */
static int attribute(CUkernel kernel, CUfunction_attribute which, int device)
{
    int value = 0;
    return tsr_driver.cuKernelGetAttribute(&value, which, kernel, device) == CUDA_SUCCESS ? value : 0;
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *out, const void *function)
{
    CUkernel kernel;
    int device;
    cudaError_t status = out ? find(function, &kernel, &device) : cudaErrorInvalidValue;
    if (status != cudaSuccess)
        return tsr_cudart_result(status);
    memset(out, 0, sizeof(*out));
    out->sharedSizeBytes = (size_t)attribute(kernel, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, device);
    out->constSizeBytes = (size_t)attribute(kernel, CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES, device);
    out->localSizeBytes = (size_t)attribute(kernel, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, device);
    out->maxThreadsPerBlock = attribute(kernel, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, device);
    out->numRegs = attribute(kernel, CU_FUNC_ATTRIBUTE_NUM_REGS, device);
    out->ptxVersion = attribute(kernel, CU_FUNC_ATTRIBUTE_PTX_VERSION, device);
    out->binaryVersion = attribute(kernel, CU_FUNC_ATTRIBUTE_BINARY_VERSION, device);
    out->cacheModeCA = attribute(kernel, CU_FUNC_ATTRIBUTE_CACHE_MODE_CA, device);
    out->maxDynamicSharedSizeBytes = attribute(kernel, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, device);
    out->preferredShmemCarveout = attribute(kernel, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, device);
    out->clusterDimMustBeSet = attribute(kernel, CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET, device);
    out->requiredClusterWidth = attribute(kernel, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, device);
    out->requiredClusterHeight = attribute(kernel, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT, device);
    out->requiredClusterDepth = attribute(kernel, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH, device);
    return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void *function, enum cudaFuncAttribute which, int value)
{
    CUkernel kernel;
    int device;
    cudaError_t status = find(function, &kernel, &device);
    if (status == cudaSuccess)
        status = tsr_cudart_error(tsr_driver.cuKernelSetAttribute((CUfunction_attribute)which, value, kernel, device));
    return tsr_cudart_result(status);
}

cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t kernel, enum cudaFuncAttribute which, int value, int device)
{
    return TSR_CALL_WITHOUT_CONTEXT(cuKernelSetAttribute((CUfunction_attribute)which, value, (CUkernel)kernel, device));
}

cudaError_t cudaFuncSetCacheConfig(const void *function, enum cudaFuncCache config)
{
    CUkernel kernel;
    int device;
    cudaError_t status = find(function, &kernel, &device);
    if (status == cudaSuccess)
        status = tsr_cudart_error(tsr_driver.cuKernelSetCacheConfig(kernel, (CUfunc_cache)config, device));
    return tsr_cudart_result(status);
}

cudaError_t cudaFuncSetSharedMemConfig(const void *function, enum cudaSharedMemConfig config)
{
    CUkernel kernel;
    int device;
    cudaError_t status = config <= cudaSharedMemBankSizeEightByte ? find(function, &kernel, &device) : cudaErrorInvalidValue;
    return tsr_cudart_result(status);
}

cudaError_t cudaFuncGetName(const char **name, const void *function)
{
    CUkernel kernel;
    int device;
    cudaError_t status = name ? find(function, &kernel, &device) : cudaErrorInvalidValue;
    if (status == cudaSuccess)
        status = tsr_cudart_error(tsr_driver.cuKernelGetName(name, kernel));
    return tsr_cudart_result(status);
}

cudaError_t cudaFuncGetParamInfo(const void *function, size_t index, size_t *offset, size_t *bytes)
{
    CUkernel kernel;
    int device;
    cudaError_t status = find(function, &kernel, &device);
    if (status == cudaSuccess)
        status = tsr_cudart_error(tsr_driver.cuKernelGetParamInfo(kernel, index, offset, bytes));
    return tsr_cudart_result(status);
}
