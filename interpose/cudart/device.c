/* Devices: counting, choosing, limits, flags, peers, synchronising, resetting. */
#include <string.h>

#include "cudart/state.h"

/* The device a call means when it names none; its primary context current. */
static cudaError_t enter_device(int *device)
{
    cudaError_t status = tsr_cudart_enter();
    return status == cudaSuccess ? tsr_cudart_device(device) : status;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    if (!count)
        return tsr_cudart_result(cudaErrorInvalidValue);
    *count = 0;
    cudaError_t status = TSR_CALL_WITHOUT_CONTEXT(cuDeviceGetCount(count));
    return status == cudaSuccess && *count == 0 ? tsr_cudart_result(cudaErrorNoDevice) : status;
}

cudaError_t cudaGetDevice(int *device)
{
    if (!device)
        return tsr_cudart_result(cudaErrorInvalidValue);
    cudaError_t status = tsr_cudart_start();
    return tsr_cudart_result(status == cudaSuccess ? tsr_cudart_device(device) : status);
}

cudaError_t cudaSetDevice(int device)
{
    cudaError_t status = tsr_cudart_start();
    return tsr_cudart_result(status == cudaSuccess ? tsr_cudart_choose(device) : status);
}

cudaError_t cudaInitDevice(int device, unsigned int deviceFlags, unsigned int flags)
{
    CUcontext context;
    cudaError_t status = tsr_cudart_start();
    if (status == cudaSuccess && (flags & ~(unsigned)cudaInitDeviceFlagsAreValid))
        status = cudaErrorInvalidValue;
    if (status == cudaSuccess && (flags & cudaInitDeviceFlagsAreValid))
        status = tsr_cudart_error(tsr_driver.cuDevicePrimaryCtxSetFlags(device, deviceFlags));
    if (status == cudaSuccess)
        status = tsr_cudart_primary(device, &context);
    return tsr_cudart_result(status);
}

cudaError_t cudaChooseDevice(int *device, const struct cudaDeviceProp *wanted)
{
    int count;
    if (!device || !wanted)
        return tsr_cudart_result(cudaErrorInvalidValue);
    cudaError_t status = cudaGetDeviceCount(&count);
    if (status == cudaSuccess)
        *device = 0;
    return status;
}

cudaError_t cudaSetValidDevices(int *devices, int length)
{
    if (length < 0 || (length > 0 && !devices))
        return tsr_cudart_result(cudaErrorInvalidValue);
    return length > 0 ? cudaSetDevice(devices[0]) : cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    return TSR_CALL_WITHOUT_CONTEXT(cuDeviceGetAttribute(value, (CUdevice_attribute)attribute, device));
}

cudaError_t cudaDeviceSynchronize(void)
{
    return TSR_CALL(cuCtxSynchronize());
}

cudaError_t cudaDeviceReset(void)
{
    int device;
    cudaError_t status = tsr_cudart_start();
    if (status == cudaSuccess)
        status = tsr_cudart_device(&device);
    if (status == cudaSuccess)
        status = tsr_cudart_reset(device);
    return tsr_cudart_result(status);
}

cudaError_t cudaSetDeviceFlags(unsigned int flags)
{
    int device;
    cudaError_t status = tsr_cudart_start();
    if (status == cudaSuccess)
        status = tsr_cudart_device(&device);
    if (status == cudaSuccess)
        status = tsr_cudart_error(tsr_driver.cuDevicePrimaryCtxSetFlags(device, flags & ~(unsigned)cudaDeviceMapHost));
    return tsr_cudart_result(status);
}

cudaError_t cudaGetDeviceFlags(unsigned int *flags)
{
    int device, active;
    cudaError_t status = tsr_cudart_start();
    if (status == cudaSuccess)
        status = flags ? tsr_cudart_device(&device) : cudaErrorInvalidValue;
    if (status == cudaSuccess)
        status = tsr_cudart_error(tsr_driver.cuDevicePrimaryCtxGetState(device, flags, &active));
    if (status == cudaSuccess)
        *flags |= cudaDeviceMapHost;
    return tsr_cudart_result(status);
}

cudaError_t cudaDeviceSetLimit(enum cudaLimit limit, size_t value)
{
    return TSR_CALL(cuCtxSetLimit((CUlimit)limit, value));
}

cudaError_t cudaDeviceGetLimit(size_t *value, enum cudaLimit limit)
{
    return TSR_CALL(cuCtxGetLimit(value, (CUlimit)limit));
}

cudaError_t cudaDeviceGetCacheConfig(enum cudaFuncCache *config)
{
    return TSR_CALL(cuCtxGetCacheConfig((CUfunc_cache *)config));
}

cudaError_t cudaDeviceSetCacheConfig(enum cudaFuncCache config)
{
    return TSR_CALL(cuCtxSetCacheConfig((CUfunc_cache)config));
}

/* Bank sizes have had no effect on any device that still is supported. */
cudaError_t cudaDeviceGetSharedMemConfig(enum cudaSharedMemConfig *config)
{
    if (!config)
        return tsr_cudart_result(cudaErrorInvalidValue);
    *config = cudaSharedMemBankSizeFourByte;
    return cudaSuccess;
}

cudaError_t cudaDeviceSetSharedMemConfig(enum cudaSharedMemConfig config)
{
    return tsr_cudart_result(config <= cudaSharedMemBankSizeEightByte ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    return TSR_CALL(cuCtxGetStreamPriorityRange(least, greatest));
}

cudaError_t cudaCtxResetPersistingL2Cache(void)
{
    return TSR_CALL(cuCtxResetPersistingL2Cache());
}

cudaError_t cudaDeviceGetPCIBusId(char *text, int length, int device)
{
    return TSR_CALL_WITHOUT_CONTEXT(cuDeviceGetPCIBusId(text, length, device));
}

cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *text)
{
    return TSR_CALL_WITHOUT_CONTEXT(cuDeviceGetByPCIBusId(device, text));
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
    return TSR_CALL_WITHOUT_CONTEXT(cuDeviceCanAccessPeer(can, device, peer));
}

cudaError_t cudaDeviceGetP2PAttribute(int *value, enum cudaDeviceP2PAttr attribute, int source, int destination)
{
    return TSR_CALL_WITHOUT_CONTEXT(cuDeviceGetP2PAttribute(value, (CUdevice_P2PAttribute)attribute, source, destination));
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned int flags)
{
    int device;
    CUcontext context;
    cudaError_t status = enter_device(&device);
    if (status == cudaSuccess)
        status = peer == device ? cudaErrorInvalidDevice : tsr_cudart_primary(peer, &context);
    if (status == cudaSuccess)
        status = tsr_cudart_error(tsr_driver.cuCtxEnablePeerAccess(context, flags));
    return tsr_cudart_result(status);
}

cudaError_t cudaDeviceDisablePeerAccess(int peer)
{
    CUcontext context;
    cudaError_t status = tsr_cudart_enter();
    if (status == cudaSuccess)
        status = tsr_cudart_primary(peer, &context);
    if (status == cudaSuccess)
        status = tsr_cudart_error(tsr_driver.cuCtxDisablePeerAccess(context));
    return tsr_cudart_result(status);
}

cudaError_t cudaDriverGetVersion(int *version)
{
    if (!version)
        return tsr_cudart_result(cudaErrorInvalidValue);
    *version = 0;
    return tsr_cudart_start() == cudaErrorInsufficientDriver
               ? cudaSuccess
               : tsr_cudart_result(tsr_cudart_error(tsr_driver.cuDriverGetVersion(version)));
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    if (!version)
        return tsr_cudart_result(cudaErrorInvalidValue);
    *version = TSR_CUDART_VERSION;
    return cudaSuccess;
}

TSR_CUDART_EXPORT cudaError_t cudaProfilerStart(void);
cudaError_t cudaProfilerStart(void)
{
    return tsr_cudart_result(tsr_cudart_enter());
}

TSR_CUDART_EXPORT cudaError_t cudaProfilerStop(void);
cudaError_t cudaProfilerStop(void)
{
    return tsr_cudart_result(tsr_cudart_enter());
}

static cudaError_t entry_point(const char *symbol, void **function, unsigned int version, unsigned long long flags,
                               enum cudaDriverEntryPointQueryResult *answer)
{
    CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SUCCESS;
    if (!symbol || !function)
        return tsr_cudart_result(cudaErrorInvalidValue);
    cudaError_t status = TSR_CALL_WITHOUT_CONTEXT(cuGetProcAddress(symbol, function, (int)version, flags, &found));
    if (answer)
        *answer = (enum cudaDriverEntryPointQueryResult)found;
    else if (status == cudaSuccess && found != CU_GET_PROC_ADDRESS_SUCCESS)
        status = tsr_cudart_result(cudaErrorSymbolNotFound);
    return status;
}

static unsigned long long per_thread_flags(unsigned long long flags)
{
    return flags == cudaEnableDefault ? (unsigned long long)cudaEnablePerThreadDefaultStream : flags;
}

cudaError_t cudaGetDriverEntryPoint(const char *symbol, void **function, unsigned long long flags,
                                    enum cudaDriverEntryPointQueryResult *answer)
{
    return entry_point(symbol, function, TSR_CUDART_VERSION, flags, answer);
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **function, unsigned int version,
                                             unsigned long long flags, enum cudaDriverEntryPointQueryResult *answer)
{
    return entry_point(symbol, function, version, flags, answer);
}

TSR_CUDART_EXPORT cudaError_t cudaGetDriverEntryPoint_ptsz(const char *, void **, unsigned long long,
                                                           enum cudaDriverEntryPointQueryResult *);
cudaError_t cudaGetDriverEntryPoint_ptsz(const char *symbol, void **function, unsigned long long flags,
                                         enum cudaDriverEntryPointQueryResult *answer)
{
    return entry_point(symbol, function, TSR_CUDART_VERSION, per_thread_flags(flags), answer);
}

TSR_CUDART_PER_THREAD(cudaGetDriverEntryPointByVersion,
                      (const char *symbol, void **function, unsigned int version, unsigned long long flags,
                       enum cudaDriverEntryPointQueryResult *answer),
                      symbol, function, version, per_thread_flags(flags), answer)
