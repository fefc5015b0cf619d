/* Pointer attributes of arena memory: what they would be if the driver had allocated it. The others are the driver's to answer. */
#include <string.h>

#include "memory/allocation.h"
#include "memory/arena.h"
#include "driver/engaged.h"
#include "memory/memory.h"
#include "memory/migrate.h"
#include "memory/owners.h"
#include "memory/pool.h"
#include "driver/real.h"
#include "object/session.h"
#include "memory/vmm.h"

#define UNKNOWN_ADDRESS ((CUdeviceptr)8) /* about which the driver says what it says about memory that is not its own */

#define PUT(type, expression)                                                                                                  \
    do {                                                                                                                       \
        type put_value = (type)(expression);                                                                                   \
        memcpy(data, &put_value, sizeof put_value);                                                                            \
    } while (0)

/* False: the driver's answer is right. */
static bool answer(const struct tsr_allocation *allocation, CUpointer_attribute attribute, void *data)
{
    const struct tsr_pool *pool = allocation->heap ? allocation->heap->pool : NULL;
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        PUT(CUcontext, pool ? NULL : allocation->context);
        return true;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        PUT(int, tsr_session()->home);
        return true;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE: /* also of what lies on the host (owners.h) */
        PUT(unsigned, CU_MEMORYTYPE_DEVICE);
        return true;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        PUT(void *, NULL);
        return true;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        PUT(char, allocation->sync_memops);
        return true;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        PUT(unsigned long long, allocation->id);
        return true;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        PUT(char, !pool);
        return true;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        PUT(CUdeviceptr, allocation->address);
        return true;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        PUT(size_t, allocation->bytes);
        return true;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        PUT(unsigned long long, CU_MEM_HANDLE_TYPE_NONE);
        return true;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        PUT(CUmemoryPool, pool ? tsr_pool_handle(pool) : NULL);
        return true;
    default:
        return false;
    }
}

/* Of memory that the application has mapped in a reservation of its own; after the driver has answered. */
static void correct(CUdeviceptr ptr, CUpointer_attribute attribute, void *data)
{
    CUmemAllocationHandleType types;
    CUdeviceptr base;
    uint64_t bytes;
    bool owned = tsr_owners_is_any(ptr);
    if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL && owned)
        PUT(int, tsr_session()->home);
    if (attribute == CU_POINTER_ATTRIBUTE_MEMORY_TYPE && owned)
        PUT(unsigned, CU_MEMORYTYPE_DEVICE);
    if (attribute == CU_POINTER_ATTRIBUTE_HOST_POINTER && owned)
        PUT(void *, NULL);
    if (attribute == CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES && tsr_vmm_types_at(ptr, &types))
        PUT(unsigned long long, types);
    if (attribute == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR && tsr_vmm_find(ptr, &base, &bytes))
        PUT(CUdeviceptr, base);
    if (attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE && tsr_vmm_find(ptr, &base, &bytes))
        PUT(size_t, bytes);
}

TSR_REDIRECTED(cuPointerGetAttribute)(void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
    struct tsr_allocation found;
    bool known = data && tsr_memory_describe(ptr, &found);
    if (attribute == CU_POINTER_ATTRIBUTE_HOST_POINTER &&
        (known || tsr_owners_is_any(ptr))) /* of device memory there is none */
        return CUDA_ERROR_INVALID_VALUE;
    if (known && answer(&found, attribute, data))
        return CUDA_SUCCESS;
    if (data && !known && tsr_arena_covers(ptr))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = tsr_real.cuPointerGetAttribute(data, attribute, ptr);
    if (result == CUDA_SUCCESS && !known)
        correct(ptr, attribute, data);
    return result;
}

TSR_REDIRECTED(cuPointerGetAttributes)(unsigned int numAttributes, CUpointer_attribute *attributes, void **data,
                                       CUdeviceptr ptr)
{
    struct tsr_allocation found;
    bool known = tsr_memory_describe(ptr, &found);
    bool hidden = !known && tsr_arena_covers(ptr);
    CUresult result = tsr_real.cuPointerGetAttributes(numAttributes, attributes, data, hidden ? UNKNOWN_ADDRESS : ptr);
    CUdeviceptr base; /* without it the driver does not look */
    bool mapped = !known && !hidden && tsr_real.cuMemGetAddressRange_v2(&base, NULL, ptr) == CUDA_SUCCESS;
    for (unsigned i = 0; result == CUDA_SUCCESS && i < numAttributes; i++)
        if (known)
            answer(&found, attributes[i], data[i]);
        else if (mapped)
            correct(ptr, attributes[i], data[i]);
    return result;
}

/* What other devices are about to read and write by themselves asks for SYNC_MEMOPS. */
static CUresult set_sync_memops_locked(const void *value, CUdeviceptr ptr)
{
    struct tsr_allocation *allocation = tsr_allocation_find(ptr);
    if (allocation && !tsr_migrate_can_fix(allocation->extent))
        return CUDA_ERROR_NOT_SUPPORTED;
    CUresult result = tsr_real.cuPointerSetAttribute(value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, ptr);
    if (!allocation || result != CUDA_SUCCESS)
        return result;
    allocation->sync_memops = *(const unsigned *)value != 0;
    return tsr_migrate_fix_locked(allocation->extent);
}

TSR_REDIRECTED(cuPointerSetAttribute)(const void *value, CUpointer_attribute attribute, CUdeviceptr ptr)
{
    if (attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
        return tsr_real.cuPointerSetAttribute(value, attribute, ptr);
    tsr_memory_lock();
    CUresult result = set_sync_memops_locked(value, ptr);
    tsr_memory_unlock();
    return result;
}
