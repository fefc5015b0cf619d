/* The current device of each thread and the primary contexts. */
#include "cudart/state.h"

#include <pthread.h>

enum { MOST_DEVICES = 256 };

__thread struct tsr_cudart_thread tsr_cudart_thread __attribute__((tls_model("initial-exec")));

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static CUcontext primary[MOST_DEVICES]; /* lock for writing; set once */

cudaError_t tsr_cudart_primary(int device, CUcontext *context)
{
    CUdevice handle;
    if (device < 0 || device >= MOST_DEVICES)
        return cudaErrorInvalidDevice;
    *context = __atomic_load_n(&primary[device], __ATOMIC_ACQUIRE);
    if (*context)
        return cudaSuccess;
    cudaError_t status = tsr_cudart_error(tsr_driver.cuDeviceGet(&handle, device));
    if (status != cudaSuccess)
        return status;
    pthread_mutex_lock(&lock);
    if (!primary[device])
        status = tsr_cudart_error(tsr_driver.cuDevicePrimaryCtxRetain(context, handle));
    if (status == cudaSuccess && !primary[device])
        __atomic_store_n(&primary[device], *context, __ATOMIC_RELEASE);
    *context = primary[device];
    pthread_mutex_unlock(&lock);
    return status;
}

cudaError_t tsr_cudart_choose(int device)
{
    CUcontext context;
    cudaError_t status = tsr_cudart_primary(device, &context);
    if (status == cudaSuccess)
        status = tsr_cudart_error(tsr_driver.cuCtxSetCurrent(context));
    if (status == cudaSuccess)
        tsr_cudart_thread.device = device;
    return status;
}

cudaError_t tsr_cudart_enter(void)
{
    CUcontext current = NULL;
    cudaError_t status = tsr_cudart_start();
    if (status != cudaSuccess)
        return status;
    if (tsr_driver.cuCtxGetCurrent(&current) == CUDA_SUCCESS && current)
        return cudaSuccess;
    return tsr_cudart_choose(tsr_cudart_thread.device);
}

cudaError_t tsr_cudart_device(int *device)
{
    CUcontext current = NULL;
    CUdevice handle;
    if (tsr_driver.cuCtxGetCurrent(&current) != CUDA_SUCCESS || !current) {
        *device = tsr_cudart_thread.device;
        return cudaSuccess;
    }
    cudaError_t status = tsr_cudart_error(tsr_driver.cuCtxGetDevice(&handle));
    if (status == cudaSuccess)
        *device = handle;
    return status;
}
