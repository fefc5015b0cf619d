/*
 * The functions whose results programs go on with: look-ups, versions, one device of compute capability 9.0, handles. Every handle is
 * a new number, every kernel has four parameters of eight bytes, every stream is idle.
 */
#include "calls.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/look_up.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

#define DRIVER_VERSION 13000
#define MEMORY_BYTES (80ull << 30)
#define PARAMETERS 4

static uint64_t last_handle = 0x7000000000;

static CUresult give_handle(void *place)
{
    uint64_t handle = __atomic_add_fetch(&last_handle, 0x1000, __ATOMIC_RELAXED);
    memcpy(place, &handle, sizeof handle);
    return CUDA_SUCCESS;
}

static CUresult give_text(char *place, int bytes, const char *text)
{
    if (bytes > 0) {
        strncpy(place, text, (size_t)bytes);
        place[bytes - 1] = 0;
    }
    return CUDA_SUCCESS;
}

TSR_DRIVER_EXPORT CUresult CUDAAPI cuNullFuture(int *answer);
CUresult CUDAAPI cuNullFuture(int *answer)
{
    __atomic_fetch_add(&null_counters[EXTRA_FUTURE], 1, __ATOMIC_RELAXED);
    *answer = 580;
    return CUDA_SUCCESS;
}

/* Look-ups */

static void note_caller(const void *caller)
{
    Dl_info object;
    const char *name = dladdr(caller, &object) && object.dli_fname ? strrchr(object.dli_fname, '/') : NULL;
    if (!name || strncmp(name, "/libcuda.so", strlen("/libcuda.so")) != 0)
        __atomic_fetch_add(&null_counters[EXTRA_STRANGERS], 1, __ATOMIC_RELAXED);
}

static void note_look_up(const char *symbol, int version, cuuint64_t flags)
{
    const char *path = getenv("TESSERA_NULL_LOOK_UPS");
    int file = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
    if (file < 0)
        return;
    char line[256];
    int length = snprintf(line, sizeof line, "%d %llu %s\n", version, (unsigned long long)flags, symbol ? symbol : "");
    if (write(file, line, (size_t)length) != length)
        null_counters[EXTRA_STRANGERS] = UINT64_MAX; /* the record is worthless: no test may pass on it */
    close(file);
}

static CUresult look_up(const void *caller, const char *symbol, void **function, int version, cuuint64_t flags,
                        CUdriverProcAddressQueryResult *status)
{
    note_caller(caller);
    note_look_up(symbol, version, flags);
    CUresult result = tsr_driver_look_up(symbol, function, version, flags, status);
    if (result == CUDA_SUCCESS && !*function && strcmp(symbol, "cuNullFuture") == 0) {
        *function = (void *)cuNullFuture;
        if (status)
            *status = CU_GET_PROC_ADDRESS_SUCCESS;
    }
    return result;
}

CUresult CUDAAPI cuGetProcAddress(const char *symbol, void **function, int version, cuuint64_t flags)
{
    CALLED(cuGetProcAddress);
    CUresult result = look_up(__builtin_return_address(0), symbol, function, version, flags, NULL);
    return result == CUDA_SUCCESS && !*function ? CUDA_ERROR_NOT_FOUND : result;
}

CUresult CUDAAPI cuGetProcAddress_v2(const char *symbol, void **function, int version, cuuint64_t flags,
                                     CUdriverProcAddressQueryResult *status)
{
    CALLED(cuGetProcAddress_v2);
    return look_up(__builtin_return_address(0), symbol, function, version, flags, status);
}

CUresult CUDAAPI cuGetExportTable(const void **table, const CUuuid *id)
{
    CALLED(cuGetExportTable);
    return CUDA_ERROR_NOT_FOUND;
}

/* The driver and its device */

CUresult CUDAAPI cuDriverGetVersion(int *version)
{
    CALLED(cuDriverGetVersion);
    *version = DRIVER_VERSION;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGetErrorName(CUresult error, const char **name)
{
    CALLED(cuGetErrorName);
    *name = error == CUDA_SUCCESS ? "CUDA_SUCCESS" : "CUDA_ERROR_UNKNOWN";
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGetErrorString(CUresult error, const char **text)
{
    CALLED(cuGetErrorString);
    *text = error == CUDA_SUCCESS ? "no error" : "unknown error";
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetCount(int *count)
{
    CALLED(cuDeviceGetCount);
    *count = 1;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGet(CUdevice *device, int ordinal)
{
    CALLED(cuDeviceGet);
    *device = ordinal;
    return ordinal == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult CUDAAPI cuDeviceGetName(char *name, int bytes, CUdevice device)
{
    CALLED(cuDeviceGetName);
    return give_text(name, bytes, "Null device");
}

CUresult CUDAAPI cuDeviceGetPCIBusId(char *name, int bytes, CUdevice device)
{
    CALLED(cuDeviceGetPCIBusId);
    return give_text(name, bytes, "0000:01:00.0");
}

CUresult CUDAAPI cuDeviceGetUuid(CUuuid *id, CUdevice device)
{
    CALLED(cuDeviceGetUuid);
    memset(id, 0x42, sizeof *id);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetUuid_v2(CUuuid *id, CUdevice device)
{
    CALLED(cuDeviceGetUuid_v2);
    memset(id, 0x42, sizeof *id);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    CALLED(cuDeviceTotalMem_v2);
    *bytes = MEMORY_BYTES;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemGetInfo_v2(size_t *free_bytes, size_t *bytes)
{
    CALLED(cuMemGetInfo_v2);
    *free_bytes = *bytes = MEMORY_BYTES;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    CALLED(cuDeviceGetAttribute);
    switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        *value = 9;
        break;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
        *value = 1024;
        break;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
        *value = 32;
        break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        *value = 132;
        break;
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
        *value = 1;
        break;
    default:
        *value = 0;
    }
    return CUDA_SUCCESS;
}

/* Contexts */

static CUcontext context_now = (CUcontext)(uintptr_t)0x6000000000;

CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    CALLED(cuDevicePrimaryCtxRetain);
    *context = context_now;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetCurrent(CUcontext *context)
{
    CALLED(cuCtxGetCurrent);
    *context = context_now;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetDevice(CUdevice *device)
{
    CALLED(cuCtxGetDevice);
    *device = 0;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetId(CUcontext context, unsigned long long *id)
{
    CALLED(cuCtxGetId);
    *id = 1;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetApiVersion(CUcontext context, unsigned int *version)
{
    CALLED(cuCtxGetApiVersion);
    *version = 3020;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    CALLED(cuCtxGetStreamPriorityRange);
    *least = 0;
    *greatest = -5;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device)
{
    CALLED(cuCtxCreate_v2);
    return give_handle(context);
}

CUresult CUDAAPI cuCtxCreate_v4(CUcontext *context, CUctxCreateParams *parameters, unsigned int flags, CUdevice device)
{
    CALLED(cuCtxCreate_v4);
    return give_handle(context);
}

/* Code */

CUresult CUDAAPI cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
    CALLED(cuModuleGetLoadingMode);
    *mode = CU_MODULE_LAZY_LOADING;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuModuleLoadData(CUmodule *module, const void *image)
{
    CALLED(cuModuleLoadData);
    return give_handle(module);
}

CUresult CUDAAPI cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int count, CUjit_option *options,
                                    void **values)
{
    CALLED(cuModuleLoadDataEx);
    return give_handle(module);
}

CUresult CUDAAPI cuModuleLoadFatBinary(CUmodule *module, const void *image)
{
    CALLED(cuModuleLoadFatBinary);
    return give_handle(module);
}

CUresult CUDAAPI cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    CALLED(cuModuleGetFunction);
    return give_handle(function);
}

CUresult CUDAAPI cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *bytes, CUmodule module, const char *name)
{
    CALLED(cuModuleGetGlobal_v2);
    if (bytes)
        *bytes = 8;
    return address ? give_handle(address) : CUDA_SUCCESS;
}

CUresult CUDAAPI cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jit_options, void **jit_values,
                                   unsigned int jit_count, CUlibraryOption *options, void **values, unsigned int count)
{
    CALLED(cuLibraryLoadData);
    return give_handle(library);
}

CUresult CUDAAPI cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name)
{
    CALLED(cuLibraryGetKernel);
    return give_handle(kernel);
}

CUresult CUDAAPI cuLibraryGetModule(CUmodule *module, CUlibrary library)
{
    CALLED(cuLibraryGetModule);
    return give_handle(module);
}

CUresult CUDAAPI cuKernelGetFunction(CUfunction *function, CUkernel kernel)
{
    CALLED(cuKernelGetFunction);
    return give_handle(function);
}

CUresult CUDAAPI cuFuncGetModule(CUmodule *module, CUfunction function)
{
    CALLED(cuFuncGetModule);
    return give_handle(module);
}

CUresult CUDAAPI cuFuncGetName(const char **name, CUfunction function)
{
    CALLED(cuFuncGetName);
    *name = "null_kernel";
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuKernelGetName(const char **name, CUkernel kernel)
{
    CALLED(cuKernelGetName);
    *name = "null_kernel";
    return CUDA_SUCCESS;
}

static CUresult parameter(size_t index, size_t *offset, size_t *bytes)
{
    if (index >= PARAMETERS)
        return CUDA_ERROR_INVALID_VALUE;
    *offset = 8 * index;
    if (bytes)
        *bytes = 8;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuFuncGetParamInfo(CUfunction function, size_t index, size_t *offset, size_t *bytes)
{
    CALLED(cuFuncGetParamInfo);
    return parameter(index, offset, bytes);
}

CUresult CUDAAPI cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t *offset, size_t *bytes)
{
    CALLED(cuKernelGetParamInfo);
    return parameter(index, offset, bytes);
}

CUresult CUDAAPI cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function)
{
    CALLED(cuFuncGetAttribute);
    *value = attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 1024 : 0;
    return CUDA_SUCCESS;
}

/* Memory */

CUresult CUDAAPI cuMemAlloc_v2(CUdeviceptr *address, size_t bytes)
{
    CALLED(cuMemAlloc_v2);
    return give_handle(address);
}

CUresult CUDAAPI cuMemAllocAsync(CUdeviceptr *address, size_t bytes, CUstream stream)
{
    CALLED(cuMemAllocAsync);
    return give_handle(address);
}

CUresult CUDAAPI cuMemAllocAsync_ptsz(CUdeviceptr *address, size_t bytes, CUstream stream)
{
    CALLED(cuMemAllocAsync_ptsz);
    return give_handle(address);
}

CUresult CUDAAPI cuMemAllocHost_v2(void **memory, size_t bytes)
{
    CALLED(cuMemAllocHost_v2);
    *memory = malloc(bytes);
    return *memory ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult CUDAAPI cuMemHostAlloc(void **memory, size_t bytes, unsigned int flags)
{
    CALLED(cuMemHostAlloc);
    *memory = malloc(bytes);
    return *memory ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult CUDAAPI cuMemFreeHost(void *memory)
{
    CALLED(cuMemFreeHost);
    free(memory);
    return CUDA_SUCCESS;
}

/* Streams, events, graphs */

CUresult CUDAAPI cuStreamCreate(CUstream *stream, unsigned int flags)
{
    CALLED(cuStreamCreate);
    return give_handle(stream);
}

CUresult CUDAAPI cuStreamCreateWithPriority(CUstream *stream, unsigned int flags, int priority)
{
    CALLED(cuStreamCreateWithPriority);
    return give_handle(stream);
}

CUresult CUDAAPI cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status)
{
    CALLED(cuStreamIsCapturing);
    *status = CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamIsCapturing_ptsz(CUstream stream, CUstreamCaptureStatus *status)
{
    CALLED(cuStreamIsCapturing_ptsz);
    *status = CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamGetCtx(CUstream stream, CUcontext *context)
{
    CALLED(cuStreamGetCtx);
    *context = context_now;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamGetId(CUstream stream, unsigned long long *id)
{
    CALLED(cuStreamGetId);
    *id = (uintptr_t)stream;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuEventCreate(CUevent *event, unsigned int flags)
{
    CALLED(cuEventCreate);
    return give_handle(event);
}

CUresult CUDAAPI cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end)
{
    CALLED(cuEventElapsedTime);
    *milliseconds = 0;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuEventElapsedTime_v2(float *milliseconds, CUevent start, CUevent end)
{
    CALLED(cuEventElapsedTime_v2);
    *milliseconds = 0;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphCreate(CUgraph *graph, unsigned int flags)
{
    CALLED(cuGraphCreate);
    return give_handle(graph);
}

CUresult CUDAAPI cuGraphInstantiateWithFlags(CUgraphExec *executable, CUgraph graph, unsigned long long flags)
{
    CALLED(cuGraphInstantiateWithFlags);
    return give_handle(executable);
}
