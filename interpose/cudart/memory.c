/* Allocation and what is known about addresses. Copies are in copy.c, pools in pool.c. */
#include <string.h>

#include "cudart/state.h"

cudaError_t cudaMalloc(void **pointer, size_t bytes)
{
    if (!pointer)
        return tsr_cudart_result(cudaErrorInvalidValue);
    *pointer = NULL;
    return bytes ? TSR_CALL(cuMemAlloc((CUdeviceptr *)pointer, bytes)) : tsr_cudart_result(tsr_cudart_enter());
}

cudaError_t cudaFree(void *pointer)
{
    return pointer ? TSR_CALL(cuMemFree((CUdeviceptr)pointer)) : tsr_cudart_result(tsr_cudart_enter());
}

cudaError_t cudaMallocPitch(void **pointer, size_t *pitch, size_t width, size_t height)
{
    if (!pointer || !pitch)
        return tsr_cudart_result(cudaErrorInvalidValue);
    if (width == 0 || height == 0) {
        *pointer = NULL;
        *pitch = 0;
        return tsr_cudart_result(tsr_cudart_enter());
    }
    return TSR_CALL(cuMemAllocPitch((CUdeviceptr *)pointer, pitch, width, height, 4));
}

cudaError_t cudaMalloc3D(struct cudaPitchedPtr *pitched, struct cudaExtent extent)
{
    if (!pitched)
        return tsr_cudart_result(cudaErrorInvalidValue);
    *pitched = (struct cudaPitchedPtr){.xsize = extent.width, .ysize = extent.height};
    return cudaMallocPitch(&pitched->ptr, &pitched->pitch, extent.width, extent.height * extent.depth);
}

cudaError_t cudaMallocManaged(void **pointer, size_t bytes, unsigned int flags)
{
    return TSR_CALL(cuMemAllocManaged((CUdeviceptr *)pointer, bytes, flags));
}

cudaError_t cudaHostAlloc(void **pointer, size_t bytes, unsigned int flags)
{
    if (!pointer)
        return tsr_cudart_result(cudaErrorInvalidValue);
    *pointer = NULL;
    return bytes ? TSR_CALL(cuMemHostAlloc(pointer, bytes, flags)) : tsr_cudart_result(tsr_cudart_enter());
}

cudaError_t cudaMallocHost(void **pointer, size_t bytes)
{
    return cudaHostAlloc(pointer, bytes, cudaHostAllocDefault);
}

cudaError_t cudaFreeHost(void *pointer)
{
    return pointer ? TSR_CALL(cuMemFreeHost(pointer)) : tsr_cudart_result(tsr_cudart_enter());
}

cudaError_t cudaHostRegister(void *pointer, size_t bytes, unsigned int flags)
{
    return TSR_CALL(cuMemHostRegister(pointer, bytes, flags));
}

cudaError_t cudaHostUnregister(void *pointer)
{
    return TSR_CALL(cuMemHostUnregister(pointer));
}

cudaError_t cudaHostGetDevicePointer(void **device, void *host, unsigned int flags)
{
    return TSR_CALL(cuMemHostGetDevicePointer((CUdeviceptr *)device, host, flags));
}

cudaError_t cudaHostGetFlags(unsigned int *flags, void *host)
{
    return TSR_CALL(cuMemHostGetFlags(flags, host));
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    return TSR_CALL(cuMemGetInfo(free_bytes, total_bytes));
}

static CUmemLocation driver_location(struct cudaMemLocation location)
{
    CUmemLocation out;
    memset(&out, 0, sizeof(out));
    out.type = (CUmemLocationType)location.type;
    out.id = location.id;
    return out;
}

cudaError_t cudaMemAdvise(const void *pointer, size_t bytes, enum cudaMemoryAdvise advice, struct cudaMemLocation location)
{
    return TSR_CALL(cuMemAdvise((CUdeviceptr)pointer, bytes, (CUmem_advise)advice, driver_location(location)));
}

cudaError_t cudaMemPrefetchAsync(const void *pointer, size_t bytes, struct cudaMemLocation location, unsigned int flags,
                                 cudaStream_t stream)
{
    return TSR_CALL(cuMemPrefetchAsync((CUdeviceptr)pointer, bytes, driver_location(location), flags, stream));
}

TSR_CUDART_EXPORT cudaError_t cudaMemPrefetchAsync_ptsz(const void *, size_t, struct cudaMemLocation, unsigned int,
                                                        cudaStream_t);
cudaError_t cudaMemPrefetchAsync_ptsz(const void *pointer, size_t bytes, struct cudaMemLocation location, unsigned int flags,
                                      cudaStream_t stream)
{
    return cudaMemPrefetchAsync(pointer, bytes, location, flags, tsr_cudart_per_thread(stream));
}

cudaError_t cudaMemRangeGetAttribute(void *data, size_t data_bytes, enum cudaMemRangeAttribute attribute, const void *pointer,
                                     size_t bytes)
{
    return TSR_CALL(cuMemRangeGetAttribute(data, data_bytes, (CUmem_range_attribute)attribute, (CUdeviceptr)pointer, bytes));
}

cudaError_t cudaMemRangeGetAttributes(void **data, size_t *data_bytes, enum cudaMemRangeAttribute *attributes, size_t count,
                                      const void *pointer, size_t bytes)
{
    return TSR_CALL(
        cuMemRangeGetAttributes(data, data_bytes, (CUmem_range_attribute *)attributes, count, (CUdeviceptr)pointer, bytes));
}

/* 13 appended reserved words to the structure that callers of 12 provide. */
#if TSR_CUDART_MAJOR == 12
enum { POINTER_ATTRIBUTES_BYTES = offsetof(struct cudaPointerAttributes, reserved) };
#else
enum { POINTER_ATTRIBUTES_BYTES = sizeof(struct cudaPointerAttributes) };
#endif

static enum cudaMemoryType memory_type(unsigned driver_type, int managed)
{
    if (managed)
        return cudaMemoryTypeManaged;
    switch (driver_type) {
    case CU_MEMORYTYPE_HOST:
        return cudaMemoryTypeHost;
    case CU_MEMORYTYPE_DEVICE:
        return cudaMemoryTypeDevice;
    default:
        return cudaMemoryTypeUnregistered;
    }
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *pointer)
{
    CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                    CU_POINTER_ATTRIBUTE_DEVICE_POINTER, CU_POINTER_ATTRIBUTE_HOST_POINTER,
                                    CU_POINTER_ATTRIBUTE_IS_MANAGED};
    unsigned type = 0, managed = 0;
    int device = cudaInvalidDeviceId;
    void *device_pointer = NULL, *host_pointer = NULL;
    void *answers[] = {&type, &device, &device_pointer, &host_pointer, &managed};
    if (!attributes)
        return tsr_cudart_result(cudaErrorInvalidValue);
    cudaError_t status = TSR_CALL(cuPointerGetAttributes(5, wanted, answers, (CUdeviceptr)pointer));
    if (status != cudaSuccess)
        return status;
    memset(attributes, 0, POINTER_ATTRIBUTES_BYTES);
    attributes->type = memory_type(type, (int)managed);
    int known = attributes->type != cudaMemoryTypeUnregistered;
    attributes->device = known ? device : cudaInvalidDeviceId;
    attributes->devicePointer = known ? device_pointer : NULL;
    attributes->hostPointer = known ? host_pointer : (void *)pointer;
    return cudaSuccess;
}
