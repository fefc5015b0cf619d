/* Page-locked host memory. Its device address is its host address. */
#include "guard.h"

#include "../memory/alloc.h"
#include "../stream/work.h"
#include "settle.h"

#define ALLOC_FLAGS (CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED)
#define REGISTER_FLAGS                                                                                                         \
    (CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY)

CUresult CUDAAPI cuMemHostAlloc(void **pp, size_t bytesize, unsigned int Flags)
{
    struct tsr_context *context;
    uint64_t address;
    TSR_TRY(tsr_context_current(&context));
    TSR_REQUIRE(pp && bytesize && !(Flags & ~(unsigned)ALLOC_FLAGS), CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(tsr_capture_check_unsafe_call(context));
    TSR_TRY(tsr_memory_alloc_host(context, bytesize, Flags | CU_MEMHOSTALLOC_DEVICEMAP, &address));
    *pp = (void *)(uintptr_t)address;
    return CUDA_SUCCESS;
}

/* Nothing is a valid amount here, but not above. */
CUresult CUDAAPI cuMemAllocHost_v2(void **pp, size_t bytesize)
{
    struct tsr_context *context;
    TSR_TRY(tsr_context_current(&context));
    TSR_REQUIRE(pp, CUDA_ERROR_INVALID_VALUE);
    if (!bytesize) {
        *pp = NULL;
        return CUDA_SUCCESS;
    }
    return cuMemHostAlloc(pp, bytesize, 0);
}

/* The host allocation or registration that holds the pointer. */
static CUresult find(const void *p, struct tsr_range *range, struct tsr_emulated_allocation *allocation)
{
    TSR_REQUIRE(tsr_emulated_allocation_find((uint64_t)(uintptr_t)p, range, allocation) && range->kind == TSR_RANGE_HOST,
                CUDA_ERROR_INVALID_VALUE);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemFreeHost(void *p)
{
    struct tsr_context *context;
    struct tsr_range range;
    struct tsr_emulated_allocation allocation;
    TSR_TRY(tsr_context_current(&context));
    if (!p)
        return CUDA_SUCCESS;
    TSR_TRY(find(p, &range, &allocation));
    TSR_REQUIRE(range.base == (uint64_t)(uintptr_t)p && !allocation.registered, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(tsr_capture_check_unsafe_call(context));
    TSR_TRY(tsr_settle(allocation.context));
    return tsr_memory_release(range.base, TSR_RANGE_HOST) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuMemHostRegister_v2(void *p, size_t bytesize, unsigned int Flags)
{
    struct tsr_context *context;
    TSR_TRY(tsr_context_current(&context));
    TSR_REQUIRE(p && bytesize && !(Flags & ~(unsigned)REGISTER_FLAGS), CUDA_ERROR_INVALID_VALUE);
    TSR_REQUIRE(!(Flags & CU_MEMHOSTREGISTER_IOMEMORY), CUDA_ERROR_NOT_SUPPORTED);
    TSR_TRY(tsr_capture_check_unsafe_call(context));
    return tsr_memory_register(context, (uint64_t)(uintptr_t)p, bytesize, Flags);
}

CUresult CUDAAPI cuMemHostUnregister(void *p)
{
    struct tsr_context *context;
    struct tsr_range range;
    struct tsr_emulated_allocation allocation;
    TSR_TRY(tsr_context_current(&context));
    TSR_REQUIRE(p, CUDA_ERROR_INVALID_VALUE);
    TSR_REQUIRE(tsr_emulated_allocation_find((uint64_t)(uintptr_t)p, &range, &allocation) && range.kind == TSR_RANGE_HOST &&
                    allocation.registered,
                CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    TSR_REQUIRE(allocation.user_base == (uint64_t)(uintptr_t)p, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(tsr_capture_check_unsafe_call(context));
    TSR_TRY(tsr_settle(allocation.context));
    return tsr_memory_release(range.base, TSR_RANGE_HOST) ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

CUresult CUDAAPI cuMemHostGetDevicePointer_v2(CUdeviceptr *pdptr, void *p, unsigned int Flags)
{
    struct tsr_context *context;
    struct tsr_range range;
    struct tsr_emulated_allocation allocation;
    TSR_TRY(tsr_context_current(&context));
    TSR_REQUIRE(pdptr && p && Flags == 0, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(find(p, &range, &allocation));
    *pdptr = (CUdeviceptr)(uintptr_t)p;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemHostGetFlags(unsigned int *pFlags, void *p)
{
    struct tsr_context *context;
    struct tsr_range range;
    struct tsr_emulated_allocation allocation;
    TSR_TRY(tsr_context_current(&context));
    TSR_REQUIRE(pFlags && p, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(find(p, &range, &allocation));
    TSR_REQUIRE(!allocation.registered, CUDA_ERROR_INVALID_VALUE);
    *pFlags = allocation.flags;
    return CUDA_SUCCESS;
}
