/* The stream-ordered allocator and memory pools. Enumerations and structures have the driver's values and layout. */
#include "cudart/state.h"

_Static_assert(sizeof(struct cudaMemPoolProps) == sizeof(CUmemPoolProps), "one layout");
_Static_assert(offsetof(struct cudaMemPoolProps, maxSize) == offsetof(CUmemPoolProps, maxSize), "one layout");
_Static_assert(sizeof(struct cudaMemAccessDesc) == sizeof(CUmemAccessDesc), "one layout");
_Static_assert((int)cudaMemPoolAttrUsedMemHigh == (int)CU_MEMPOOL_ATTR_USED_MEM_HIGH, "one numbering");

cudaError_t cudaMallocAsync(void **pointer, size_t bytes, cudaStream_t stream)
{
    if (!pointer)
        return tsr_cudart_result(cudaErrorInvalidValue);
    *pointer = NULL;
    return bytes ? TSR_CALL(cuMemAllocAsync((CUdeviceptr *)pointer, bytes, stream)) : tsr_cudart_result(tsr_cudart_enter());
}

cudaError_t cudaFreeAsync(void *pointer, cudaStream_t stream)
{
    return pointer ? TSR_CALL(cuMemFreeAsync((CUdeviceptr)pointer, stream)) : tsr_cudart_result(tsr_cudart_enter());
}

cudaError_t cudaMallocFromPoolAsync(void **pointer, size_t bytes, cudaMemPool_t pool, cudaStream_t stream)
{
    return TSR_CALL(cuMemAllocFromPoolAsync((CUdeviceptr *)pointer, bytes, pool, stream));
}

TSR_CUDART_PER_THREAD(cudaMallocAsync, (void **pointer, size_t bytes, cudaStream_t stream), pointer, bytes,
                      tsr_cudart_per_thread(stream))
TSR_CUDART_PER_THREAD(cudaFreeAsync, (void *pointer, cudaStream_t stream), pointer, tsr_cudart_per_thread(stream))
TSR_CUDART_PER_THREAD(cudaMallocFromPoolAsync, (void **pointer, size_t bytes, cudaMemPool_t pool, cudaStream_t stream), pointer,
                      bytes, pool, tsr_cudart_per_thread(stream))

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int device)
{
    return TSR_CALL_WITHOUT_CONTEXT(cuDeviceGetDefaultMemPool(pool, device));
}

cudaError_t cudaDeviceGetMemPool(cudaMemPool_t *pool, int device)
{
    return TSR_CALL_WITHOUT_CONTEXT(cuDeviceGetMemPool(pool, device));
}

cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool)
{
    return TSR_CALL_WITHOUT_CONTEXT(cuDeviceSetMemPool(device, pool));
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t *pool, const struct cudaMemPoolProps *properties)
{
    return TSR_CALL_WITHOUT_CONTEXT(cuMemPoolCreate(pool, (const CUmemPoolProps *)properties));
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool)
{
    return TSR_CALL_WITHOUT_CONTEXT(cuMemPoolDestroy(pool));
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep)
{
    return TSR_CALL_WITHOUT_CONTEXT(cuMemPoolTrimTo(pool, keep));
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value)
{
    return TSR_CALL_WITHOUT_CONTEXT(cuMemPoolSetAttribute(pool, (CUmemPool_attribute)attribute, value));
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value)
{
    return TSR_CALL_WITHOUT_CONTEXT(cuMemPoolGetAttribute(pool, (CUmemPool_attribute)attribute, value));
}

cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const struct cudaMemAccessDesc *access, size_t count)
{
    return TSR_CALL_WITHOUT_CONTEXT(cuMemPoolSetAccess(pool, (const CUmemAccessDesc *)access, count));
}

cudaError_t cudaMemPoolGetAccess(enum cudaMemAccessFlags *flags, cudaMemPool_t pool, struct cudaMemLocation *location)
{
    return TSR_CALL_WITHOUT_CONTEXT(cuMemPoolGetAccess((CUmemAccess_flags *)flags, pool, (CUmemLocation *)location));
}

cudaError_t cudaMemPoolExportToShareableHandle(void *handle, cudaMemPool_t pool, enum cudaMemAllocationHandleType type,
                                               unsigned int flags)
{
    return TSR_CALL_WITHOUT_CONTEXT(cuMemPoolExportToShareableHandle(handle, pool, (CUmemAllocationHandleType)type, flags));
}

cudaError_t cudaMemPoolImportFromShareableHandle(cudaMemPool_t *pool, void *handle, enum cudaMemAllocationHandleType type,
                                                 unsigned int flags)
{
    return TSR_CALL_WITHOUT_CONTEXT(cuMemPoolImportFromShareableHandle(pool, handle, (CUmemAllocationHandleType)type, flags));
}

cudaError_t cudaMemPoolExportPointer(struct cudaMemPoolPtrExportData *data, void *pointer)
{
    return TSR_CALL(cuMemPoolExportPointer((CUmemPoolPtrExportData *)data, (CUdeviceptr)pointer));
}

cudaError_t cudaMemPoolImportPointer(void **pointer, cudaMemPool_t pool, struct cudaMemPoolPtrExportData *data)
{
    return TSR_CALL(cuMemPoolImportPointer((CUdeviceptr *)pointer, pool, (CUmemPoolPtrExportData *)data));
}
