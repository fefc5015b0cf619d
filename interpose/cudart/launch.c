/* Launches: nvcc's call configuration, plain, cooperative and extended launches. */
#include "cudart/register.h"

_Static_assert(sizeof(cudaLaunchAttribute) == sizeof(CUlaunchAttribute), "one layout");
_Static_assert(offsetof(cudaLaunchAttribute, val) == offsetof(CUlaunchAttribute, value), "one layout");

/* kernel<<<grid, block, shared, stream>>>(...) pushes; the stub that nvcc generates for the kernel pops. Calls may nest while the
   arguments are evaluated. */
enum { MOST_NESTED = 32 };

struct configuration {
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
};

static __thread struct configuration pushed[MOST_NESTED];
static __thread int depth;

TSR_CUDART_EXPORT unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream);
TSR_CUDART_EXPORT cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream);
TSR_CUDART_EXPORT cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments, size_t shared,
                                                 cudaStream_t stream);

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream)
{
    if (depth == MOST_NESTED)
        return (unsigned)tsr_cudart_result(cudaErrorInvalidConfiguration);
    pushed[depth++] = (struct configuration){grid, block, shared, stream};
    return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream)
{
    if (depth == 0)
        return tsr_cudart_result(cudaErrorMissingConfiguration);
    const struct configuration *top = &pushed[--depth];
    *grid = top->grid;
    *block = top->block;
    *shared = top->shared;
    *(cudaStream_t *)stream = top->stream;
    return cudaSuccess;
}

#if TSR_CUDART_MAJOR == 12
/* Whether no launch on the current device can have these sizes. */
static int impossible(dim3 grid, dim3 block)
{
    static const CUdevice_attribute limits[] = {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X,       CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y,
                                                CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z,       CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X,
                                                CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y,      CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z,
                                                CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK};
    const unsigned long long sizes[] = {
        grid.x, grid.y, grid.z, block.x, block.y, block.z, (unsigned long long)block.x * block.y * block.z};
    int device, limit;
    if (tsr_cudart_device(&device) != cudaSuccess)
        return 0;
    for (int i = 0; i < 7; i++)
        if (sizes[i] == 0 || (tsr_driver.cuDeviceGetAttribute(&limit, limits[i], device) == CUDA_SUCCESS &&
                              sizes[i] > (unsigned long long)limit))
            return 1;
    return 0;
}
#endif

/* The error of a launch that the driver refused. 12 has its own for sizes that are out of range; 13 answers as the driver does. */
static cudaError_t refused(CUresult status, dim3 grid, dim3 block)
{
#if TSR_CUDART_MAJOR == 12
    if (status == CUDA_ERROR_INVALID_VALUE && impossible(grid, block))
        return cudaErrorInvalidConfiguration;
#else
    (void)grid, (void)block;
#endif
    return tsr_cudart_error(status);
}

static cudaError_t launch(const void *function, dim3 grid, dim3 block, void **arguments, size_t shared, cudaStream_t stream,
                          int cooperative)
{
    CUkernel kernel;
    cudaError_t status = tsr_cudart_enter();
    if (status == cudaSuccess)
        status = tsr_cudart_kernel(function, &kernel);
    if (status == cudaSuccess && shared > UINT32_MAX)
        status = cudaErrorInvalidValue;
    if (status != cudaSuccess)
        return tsr_cudart_result(status);
    unsigned bytes = (unsigned)shared;
    CUresult result = cooperative ? tsr_driver.cuLaunchCooperativeKernel((CUfunction)kernel, grid.x, grid.y, grid.z, block.x,
                                                                         block.y, block.z, bytes, stream, arguments)
                                  : tsr_driver.cuLaunchKernel((CUfunction)kernel, grid.x, grid.y, grid.z, block.x, block.y,
                                                              block.z, bytes, stream, arguments, NULL);
    return result == CUDA_SUCCESS ? cudaSuccess : tsr_cudart_result(refused(result, grid, block));
}

cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments, size_t shared, cudaStream_t stream)
{
    return launch(function, grid, block, arguments, shared, stream, 0);
}

/* nvcc's stub asks for the handle once per kernel and launches whatever it got; without a handle the reason is the last error. */
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments, size_t shared, cudaStream_t stream)
{
    if (!kernel && tsr_cudart_thread.last_error != cudaSuccess)
        return tsr_cudart_thread.last_error;
    return launch(kernel, grid, block, arguments, shared, stream, 0);
}

cudaError_t cudaLaunchCooperativeKernel(const void *function, dim3 grid, dim3 block, void **arguments, size_t shared,
                                        cudaStream_t stream)
{
    return launch(function, grid, block, arguments, shared, stream, 1);
}

CUlaunchConfig tsr_cudart_launch_config(const cudaLaunchConfig_t *config)
{
    return (CUlaunchConfig){
        .gridDimX = config->gridDim.x,
        .gridDimY = config->gridDim.y,
        .gridDimZ = config->gridDim.z,
        .blockDimX = config->blockDim.x,
        .blockDimY = config->blockDim.y,
        .blockDimZ = config->blockDim.z,
        .sharedMemBytes = (unsigned)config->dynamicSmemBytes,
        .hStream = config->stream,
        .attrs = (CUlaunchAttribute *)config->attrs,
        .numAttrs = config->numAttrs,
    };
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *function, void **arguments)
{
    CUkernel kernel;
    cudaError_t status = config ? tsr_cudart_enter() : cudaErrorInvalidValue;
    if (status == cudaSuccess)
        status = tsr_cudart_kernel(function, &kernel);
    if (status != cudaSuccess)
        return tsr_cudart_result(status);
    CUlaunchConfig driver_config = tsr_cudart_launch_config(config);
    CUresult result = tsr_driver.cuLaunchKernelEx(&driver_config, (CUfunction)kernel, arguments, NULL);
    return result == CUDA_SUCCESS ? cudaSuccess : tsr_cudart_result(refused(result, config->gridDim, config->blockDim));
}

#define LAUNCH_PARAMETERS (const void *function, dim3 grid, dim3 block, void **arguments, size_t shared, cudaStream_t stream)
#define LAUNCH_ARGUMENTS function, grid, block, arguments, shared, tsr_cudart_per_thread(stream)

TSR_CUDART_PER_THREAD(cudaLaunchKernel, LAUNCH_PARAMETERS, LAUNCH_ARGUMENTS)
TSR_CUDART_PER_THREAD(cudaLaunchCooperativeKernel, LAUNCH_PARAMETERS, LAUNCH_ARGUMENTS)
TSR_CUDART_PER_THREAD(__cudaLaunchKernel,
                      (cudaKernel_t function, dim3 grid, dim3 block, void **arguments, size_t shared, cudaStream_t stream),
                      LAUNCH_ARGUMENTS)

TSR_CUDART_EXPORT cudaError_t cudaLaunchKernelExC_ptsz(const cudaLaunchConfig_t *, const void *, void **);
cudaError_t cudaLaunchKernelExC_ptsz(const cudaLaunchConfig_t *config, const void *function, void **arguments)
{
    if (!config)
        return tsr_cudart_result(cudaErrorInvalidValue);
    cudaLaunchConfig_t own = *config;
    own.stream = tsr_cudart_per_thread(config->stream);
    return cudaLaunchKernelExC(&own, function, arguments);
}
