/* What the driver knows about an address. */
#include "guard.h"

#include <string.h>

#include "../context/context_object.h"
#include "../memory/alloc.h"
#include "../memory/pool.h"

struct place {
    struct tsr_range range;
    struct tsr_emulated_allocation allocation;
    CUdeviceptr address;
};

static bool is_device(const struct place *place)
{
    return place->range.location != TSR_LOCATION_HOST;
}

static int ordinal(const struct place *place)
{
    if (is_device(place))
        return (int)place->range.location;
    return place->allocation.context ? (int)tsr_emulated_context_device(place->allocation.context) : 0;
}

#define PUT(type, expression)                                                                                                  \
    do {                                                                                                                       \
        type put_value = (type)(expression);                                                                                   \
        memcpy(data, &put_value, sizeof put_value);                                                                            \
    } while (0)

static CUresult access_flags(const struct place *place, void *data)
{
    struct tsr_context *context;
    TSR_TRY(tsr_context_current(&context));
    unsigned bit = 1u << tsr_emulated_context_device(context);
    PUT(int, place->range.writable &bit    ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE
             : place->range.readable & bit ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READ
                                           : CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE);
    return CUDA_SUCCESS;
}

static CUresult get(const struct place *place, CUpointer_attribute attribute, void *data)
{
    const struct tsr_range *range = &place->range;
    const struct tsr_emulated_allocation *allocation = &place->allocation;
    bool legacy_ipc = range->kind == TSR_RANGE_PLAIN || range->kind == TSR_RANGE_MODULE;
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        PUT(CUcontext, allocation->context && !tsr_context_destroyed(allocation->context)
                           ? tsr_context_handle(allocation->context)
                           : NULL);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        PUT(unsigned, is_device(place) || range->kind == TSR_RANGE_MANAGED ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        PUT(CUdeviceptr, place->address);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        TSR_REQUIRE(!is_device(place), CUDA_ERROR_INVALID_VALUE);
        PUT(CUdeviceptr, place->address);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        PUT(char, allocation->sync_memops);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        PUT(unsigned long long, range->id);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        PUT(char, range->kind == TSR_RANGE_MANAGED);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        PUT(int, ordinal(place));
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        PUT(char, legacy_ipc);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        PUT(CUdeviceptr, allocation->user_base);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        PUT(size_t, range->requested_bytes);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        PUT(char, 1);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        PUT(unsigned long long, range->kind == TSR_RANGE_VMM ? allocation->flags : CU_MEM_HANDLE_TYPE_NONE);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
        PUT(char, 0);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        return access_flags(place, data);
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        PUT(CUmemoryPool, range->kind == TSR_RANGE_POOL ? tsr_emulated_pool_handle(allocation->detail) : NULL);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        PUT(unsigned long long, range->id);
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

/* What cuPointerGetAttributes answers for an address that is not CUDA's: zeros of the attribute's own type. */
static CUresult get_unknown(CUpointer_attribute attribute, void *data)
{
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        PUT(int, CU_DEVICE_INVALID);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        PUT(unsigned, 0);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
        PUT(char, 0);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_CONTEXT:
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        PUT(unsigned long long, 0);
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult CUDAAPI cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
    struct place place = {.address = ptr};
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(data, CUDA_ERROR_INVALID_VALUE);
    TSR_REQUIRE(tsr_emulated_allocation_find(ptr, &place.range, &place.allocation), CUDA_ERROR_INVALID_VALUE);
    return get(&place, attribute, data);
}

CUresult CUDAAPI cuPointerGetAttributes(unsigned int numAttributes, CUpointer_attribute *attributes, void **data,
                                        CUdeviceptr ptr)
{
    struct place place = {.address = ptr};
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(numAttributes && attributes && data, CUDA_ERROR_INVALID_VALUE);
    bool known = tsr_emulated_allocation_find(ptr, &place.range, &place.allocation);
    for (unsigned i = 0; i < numAttributes; i++) {
        TSR_REQUIRE(data[i], CUDA_ERROR_INVALID_VALUE);
        if (!known || get(&place, attributes[i], data[i]) != CUDA_SUCCESS)
            TSR_TRY(get_unknown(attributes[i], data[i]));
    }
    return CUDA_SUCCESS;
}

static void set_sync_memops(struct tsr_emulated_allocation *allocation, void *argument)
{
    allocation->sync_memops = *(const bool *)argument;
}

CUresult CUDAAPI cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr ptr)
{
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(value && attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, CUDA_ERROR_INVALID_VALUE);
    bool on = *(const unsigned *)value != 0;
    return tsr_allocation_change(ptr, set_sync_memops, &on) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
