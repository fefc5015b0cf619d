/* Ordinary device memory: cuMemAlloc and what belongs to it. */
#include "guard.h"

#include "../memory/alloc.h"
#include "../memory/heap.h"
#include "../memory/pool.h"
#include "../memory/share.h"
#include "../stream/work.h"
#include "settle.h"

#define PITCH_ALIGNMENT 512u

CUresult CUDAAPI cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
    struct tsr_context *context;
    TSR_TRY(tsr_context_current(&context));
    uint64_t capacity = tsr_context_desc(context)->memory_bytes,
             used = tsr_device_memory_used(tsr_emulated_context_device(context));
    if (free_bytes)
        *free_bytes = used < capacity ? capacity - used : 0;
    if (total)
        *total = capacity;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize)
{
    struct tsr_context *context;
    uint64_t address;
    TSR_TRY(tsr_context_current(&context));
    TSR_REQUIRE(dptr && bytesize, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(tsr_capture_check_unsafe_call(context));
    TSR_TRY(tsr_memory_alloc(context, bytesize, TSR_RANGE_PLAIN, &address));
    *dptr = address;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes, size_t Height,
                                    unsigned int ElementSizeBytes)
{
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(dptr && pPitch && WidthInBytes && Height, CUDA_ERROR_INVALID_VALUE);
    TSR_REQUIRE(ElementSizeBytes == 4 || ElementSizeBytes == 8 || ElementSizeBytes == 16, CUDA_ERROR_INVALID_VALUE);
    TSR_REQUIRE(WidthInBytes <= 0x7fffffffu, CUDA_ERROR_INVALID_VALUE);
    size_t pitch = (WidthInBytes + PITCH_ALIGNMENT - 1) / PITCH_ALIGNMENT * PITCH_ALIGNMENT, bytes;
    TSR_REQUIRE(!__builtin_mul_overflow(pitch, Height, &bytes), CUDA_ERROR_OUT_OF_MEMORY);
    TSR_TRY(cuMemAlloc_v2(dptr, bytes));
    *pPitch = pitch;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemFree_v2(CUdeviceptr dptr)
{
    struct tsr_context *context;
    struct tsr_range range;
    struct tsr_emulated_allocation allocation;
    TSR_TRY(tsr_context_current(&context));
    if (!dptr)
        return CUDA_SUCCESS;
    TSR_REQUIRE(tsr_emulated_allocation_find(dptr, &range, &allocation) && range.base == dptr, CUDA_ERROR_INVALID_VALUE);
    bool imported = range.kind == TSR_RANGE_IPC && allocation.detail;
    TSR_REQUIRE(range.kind == TSR_RANGE_PLAIN || range.kind == TSR_RANGE_POOL || imported ||
                    (range.kind == TSR_RANGE_MANAGED &&
                     !allocation.detail), /* a module's variable is not for the application to free */
                CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(tsr_capture_check_unsafe_call(context));
    TSR_TRY(tsr_settle(allocation.context ? allocation.context : context));
    if (imported)
        return tsr_share_close(dptr);
    bool freed = range.kind == TSR_RANGE_POOL ? tsr_pool_free_now(dptr) : tsr_memory_release(dptr, range.kind);
    return freed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuMemGetAddressRange_v2(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr)
{
    struct tsr_context *context;
    struct tsr_range range;
    struct tsr_emulated_allocation allocation;
    TSR_TRY(tsr_context_current(&context));
    TSR_REQUIRE(tsr_emulated_allocation_find(dptr, &range, &allocation), CUDA_ERROR_NOT_FOUND);
    TSR_REQUIRE(dptr - allocation.user_base < range.requested_bytes, CUDA_ERROR_NOT_FOUND);
    if (pbase)
        *pbase = allocation.user_base;
    if (psize)
        *psize = range.requested_bytes;
    return CUDA_SUCCESS;
}
