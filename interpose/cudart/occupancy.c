/* Occupancy queries. The driver takes a kernel handle where its prototypes say function. */
#include "cudart/register.h"

static cudaError_t find(const void *function, CUfunction *found)
{
    CUkernel kernel = NULL;
    cudaError_t status = tsr_cudart_enter();
    if (status == cudaSuccess)
        status = tsr_cudart_kernel(function, &kernel);
    *found = (CUfunction)kernel;
    return status;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *function, int block_size,
                                                                   size_t shared, unsigned int flags)
{
    CUfunction found;
    cudaError_t status = find(function, &found);
    if (status == cudaSuccess)
        status = tsr_cudart_error(
            tsr_driver.cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, found, block_size, shared, flags));
    return tsr_cudart_result(status);
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *function, int block_size, size_t shared)
{
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, block_size, shared, cudaOccupancyDefault);
}

cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t *shared, const void *function, int blocks, int block_size)
{
    CUfunction found;
    cudaError_t status = find(function, &found);
    if (status == cudaSuccess)
        status = tsr_cudart_error(tsr_driver.cuOccupancyAvailableDynamicSMemPerBlock(shared, found, blocks, block_size));
    return tsr_cudart_result(status);
}

cudaError_t cudaOccupancyMaxPotentialClusterSize(int *size, const void *function, const cudaLaunchConfig_t *config)
{
    CUfunction found;
    cudaError_t status = config ? find(function, &found) : cudaErrorInvalidValue;
    if (status == cudaSuccess) {
        CUlaunchConfig converted = tsr_cudart_launch_config(config);
        status = tsr_cudart_error(tsr_driver.cuOccupancyMaxPotentialClusterSize(size, found, &converted));
    }
    return tsr_cudart_result(status);
}

cudaError_t cudaOccupancyMaxActiveClusters(int *count, const void *function, const cudaLaunchConfig_t *config)
{
    CUfunction found;
    cudaError_t status = config ? find(function, &found) : cudaErrorInvalidValue;
    if (status == cudaSuccess) {
        CUlaunchConfig converted = tsr_cudart_launch_config(config);
        status = tsr_cudart_error(tsr_driver.cuOccupancyMaxActiveClusters(count, found, &converted));
    }
    return tsr_cudart_result(status);
}
