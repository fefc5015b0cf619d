/* The current device of each thread and the primary contexts. */
#include "cudart/state.h"

#include <pthread.h>
#include <stdbool.h>

enum { MOST_DEVICES = 256 };

__thread struct tsr_cudart_thread tsr_cudart_thread __attribute__((tls_model("initial-exec")));

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static CUcontext primary[MOST_DEVICES]; /* atomic; lock for writing; NULL until it is needed, and after a reset */
static unsigned resets;                 /* atomic; how often a device has been reset */

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

/* Whether the current context still is one: asked once after each reset of a device. */
static bool is_alive(void)
{
    CUdevice handle;
    unsigned now = __atomic_load_n(&resets, __ATOMIC_ACQUIRE);
    if (tsr_cudart_thread.resets == now)
        return true;
    if (tsr_driver.cuCtxGetDevice(&handle) != CUDA_SUCCESS)
        return false;
    tsr_cudart_thread.resets = now;
    return true;
}

cudaError_t tsr_cudart_enter(void)
{
    CUcontext current = NULL;
    cudaError_t status = tsr_cudart_start();
    if (status != cudaSuccess)
        return status;
    if (tsr_driver.cuCtxGetCurrent(&current) == CUDA_SUCCESS && current && is_alive())
        return cudaSuccess;
    return tsr_cudart_choose(tsr_cudart_thread.device);
}

cudaError_t tsr_cudart_reset(int device)
{
    CUdevice handle;
    cudaError_t status = tsr_cudart_error(tsr_driver.cuDeviceGet(&handle, device));
    if (status != cudaSuccess)
        return status;
    pthread_mutex_lock(&lock);
    status = tsr_cudart_error(tsr_driver.cuDevicePrimaryCtxReset(handle));
    if (status == cudaSuccess && device < MOST_DEVICES && primary[device]) {
        tsr_driver.cuDevicePrimaryCtxRelease(handle); /* our reference; the next use retains it again */
        __atomic_store_n(&primary[device], NULL, __ATOMIC_RELEASE);
    }
    __atomic_fetch_add(&resets, 1, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&lock);
    return status;
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
    *device = status == cudaSuccess ? handle : tsr_cudart_thread.device;
    return status == cudaErrorContextIsDestroyed ? cudaSuccess : status;
}
