/*
 * Managed memory lives in host memory that every device may use; moving it is not emulated. What cuMemAdvise and the prefetches say is kept and
 * read back.
 */
#include "guard.h"

#include <string.h>

#include "../memory/alloc.h"
#include "../stream/work.h"

CUresult CUDAAPI cuMemAllocManaged(CUdeviceptr *dptr, size_t bytesize, unsigned int flags)
{
    struct tsr_context *context;
    uint64_t address;
    TSR_TRY(tsr_context_current(&context));
    TSR_REQUIRE(dptr && bytesize, CUDA_ERROR_INVALID_VALUE);
    TSR_REQUIRE(flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(tsr_capture_check_unsafe_call(context));
    TSR_TRY(tsr_memory_alloc_managed(context, bytesize, flags, &address));
    *dptr = address;
    return CUDA_SUCCESS;
}

/* count bytes from the pointer on must lie in one managed allocation. */
static CUresult find(CUdeviceptr ptr, size_t count, struct tsr_range *range, struct tsr_emulated_allocation *allocation)
{
    TSR_REQUIRE(count && tsr_emulated_allocation_find(ptr, range, allocation) && range->kind == TSR_RANGE_MANAGED,
                CUDA_ERROR_INVALID_VALUE);
    TSR_REQUIRE(count <= range->base + range->bytes - ptr, CUDA_ERROR_INVALID_VALUE);
    return CUDA_SUCCESS;
}

static CUresult location_of(CUmemLocation location, int *out)
{
    switch ((int)location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
        TSR_TRY(tsr_device_check(location.id));
        *out = location.id;
        return CUDA_SUCCESS;
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
        *out = CU_DEVICE_CPU;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

struct advice {
    CUmem_advise advice;
    int location;
};

static void apply(struct tsr_emulated_allocation *allocation, void *argument)
{
    const struct advice *advice = argument;
    uint32_t bit = advice->location >= 0 ? 1u << advice->location : 1u << 31;
    switch (advice->advice) {
    case CU_MEM_ADVISE_SET_READ_MOSTLY:
        allocation->read_mostly = true;
        break;
    case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
        allocation->read_mostly = false;
        break;
    case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
        allocation->preferred_location = advice->location;
        break;
    case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
        allocation->preferred_location = CU_DEVICE_INVALID;
        break;
    case CU_MEM_ADVISE_SET_ACCESSED_BY:
        allocation->accessed_by |= bit;
        break;
    default:
        allocation->accessed_by &= ~bit;
    }
}

CUresult CUDAAPI cuMemAdvise_v2(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUmemLocation location)
{
    struct tsr_range range;
    struct tsr_emulated_allocation allocation;
    struct advice given = {.advice = advice, .location = CU_DEVICE_INVALID};
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE((int)advice >= CU_MEM_ADVISE_SET_READ_MOSTLY && advice <= CU_MEM_ADVISE_UNSET_ACCESSED_BY,
                CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(find(devPtr, count, &range, &allocation));
    if (advice == CU_MEM_ADVISE_SET_PREFERRED_LOCATION || advice >= CU_MEM_ADVISE_SET_ACCESSED_BY)
        TSR_TRY(location_of(location, &given.location));
    tsr_allocation_change(devPtr, apply, &given);
    return CUDA_SUCCESS;
}

static CUmemLocation location_from(CUdevice device)
{
    return device == CU_DEVICE_CPU ? (CUmemLocation){CU_MEM_LOCATION_TYPE_HOST, 0}
                                   : (CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE, device};
}

CUresult CUDAAPI cuMemAdvise(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUdevice device)
{
    return cuMemAdvise_v2(devPtr, count, advice, location_from(device));
}

static void prefetched(struct tsr_emulated_allocation *allocation, void *argument)
{
    allocation->last_prefetch = *(const int *)argument;
}

CUresult CUDAAPI cuMemPrefetchAsync_v2(CUdeviceptr devPtr, size_t count, CUmemLocation location, unsigned int flags,
                                       CUstream hStream)
{
    struct tsr_range range;
    struct tsr_emulated_allocation allocation;
    struct tsr_emulated_stream *stream;
    int to;
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(flags == 0, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(location_of(location, &to));
    TSR_TRY(find(devPtr, count, &range, &allocation));
    TSR_TRY(tsr_stream_get(tsr_driver_stream(hStream), &stream));
    struct tsr_work nothing = {.kind = TSR_WORK_EMPTY}; /* work of the stream's all the same: it comes after other streams' */
    CUresult result = tsr_stream_submit(stream, &nothing);
    tsr_stream_put(stream);
    if (result == CUDA_SUCCESS)
        tsr_allocation_change(devPtr, prefetched, &to);
    return result;
}

CUresult CUDAAPI cuMemPrefetchAsync(CUdeviceptr devPtr, size_t count, CUdevice dstDevice, CUstream hStream)
{
    return cuMemPrefetchAsync_v2(devPtr, count, location_from(dstDevice), 0, hStream);
}

static CUresult accessed_by(const struct tsr_emulated_allocation *allocation, int *data, size_t size)
{
    size_t room = size / sizeof *data, filled = 0;
    TSR_REQUIRE(size && size % sizeof *data == 0, CUDA_ERROR_INVALID_VALUE);
    for (int device = 0; device < TSR_MACHINE_DEVICES && filled < room; device++)
        if (allocation->accessed_by >> device & 1)
            data[filled++] = device;
    if (allocation->accessed_by >> 31 && filled < room)
        data[filled++] = CU_DEVICE_CPU;
    while (filled < room)
        data[filled++] = CU_DEVICE_INVALID;
    return CUDA_SUCCESS;
}

static CUresult attribute_get(const struct tsr_emulated_allocation *allocation, CUmem_range_attribute attribute, void *data,
                              size_t size)
{
    int value;
    switch ((int)attribute) {
    case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
        value = allocation->read_mostly;
        break;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
        value = allocation->preferred_location;
        break;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
        value = allocation->last_prefetch;
        break;
    case CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY:
        return accessed_by(allocation, data, size);
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
    TSR_REQUIRE(size == sizeof value, CUDA_ERROR_INVALID_VALUE);
    memcpy(data, &value, sizeof value);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemRangeGetAttribute(void *data, size_t dataSize, CUmem_range_attribute attribute, CUdeviceptr devPtr,
                                        size_t count)
{
    struct tsr_range range;
    struct tsr_emulated_allocation allocation;
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(data, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(find(devPtr, count, &range, &allocation));
    return attribute_get(&allocation, attribute, data, dataSize);
}

CUresult CUDAAPI cuMemRangeGetAttributes(void **data, size_t *dataSizes, CUmem_range_attribute *attributes,
                                         size_t numAttributes, CUdeviceptr devPtr, size_t count)
{
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(data && dataSizes && attributes && numAttributes, CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < numAttributes; i++)
        TSR_TRY(cuMemRangeGetAttribute(data[i], dataSizes[i], attributes[i], devPtr, count));
    return CUDA_SUCCESS;
}
