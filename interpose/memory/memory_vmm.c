/* Wrappers of the application's own virtual memory management (vmm.h). */
#include "memory/allocation.h"
#include "memory/arena.h"
#include "memory/backing.h"
#include "memory/home_only.h"
#include "driver/engaged.h"
#include "driver/gpus.h"
#include "memory/home.h"
#include "memory/memory.h"
#include "memory/migrate.h"
#include "order/order.h"
#include "driver/real.h"
#include "memory/owners.h"
#include "memory/physical.h"
#include "object/session.h"
#include "memory/room.h"
#include "memory/vmm.h"

TSR_REDIRECTED(cuMemAddressReserve)(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr, unsigned long long flags)
{
    bool plain = ptr && size && size % TSR_ARENA_PAGE == 0 && !(alignment & (alignment - 1)) && !flags;
    CUresult result = plain ? tsr_vmm_reserve(size, alignment, addr, ptr) : CUDA_ERROR_NOT_SUPPORTED;
    if (result != CUDA_ERROR_NOT_SUPPORTED)
        return result;
    result = tsr_real.cuMemAddressReserve(ptr, size, alignment, addr, flags);
    if (result == CUDA_SUCCESS)
        tsr_vmm_reserved(*ptr, size);
    return result;
}

TSR_REDIRECTED(cuMemAddressFree)(CUdeviceptr ptr, size_t size)
{
    CUresult result = tsr_arena_covers(ptr) ? CUDA_ERROR_INVALID_VALUE : tsr_vmm_free(ptr, size);
    if (result != CUDA_ERROR_NOT_SUPPORTED)
        return result;
    struct tsr_home_only taken = tsr_home_only_take(ptr);
    result = tsr_real.cuMemAddressFree(ptr, size);
    tsr_home_only_put_back(taken, result);
    return result;
}

/* Whether the range is the application's to map something in, as far as that is not for the driver to say. */
static bool may_map(CUdeviceptr ptr, size_t size)
{
    CUdeviceptr base;
    uint64_t bytes;
    if (tsr_arena_covers(ptr))
        return false;
    return !tsr_vmm_find(ptr, &base, &bytes) || (base && ptr - base < bytes && size <= bytes - (ptr - base));
}

/* Memory of the home GPU that lies elsewhere takes room all the same. */
static bool has_room(const CUmemLocation *location, size_t size)
{
    tsr_memory_lock();
    bool fits = !tsr_memory_is_home(location) || !tsr_backing_away_bytes() || tsr_backing_fits(size);
    tsr_memory_unlock();
    return fits;
}

static CUresult create(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *prop,
                       unsigned long long flags)
{
    bool on_device = prop && prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
    struct tsr_room room = {.device = on_device ? prop->location.id : TSR_ROOM_ANY, .bytes = size};
    CUresult result;
    do
        result = tsr_real.cuMemCreate(handle, size, prop, flags);
    while (tsr_room_is_made(&room, result));
    return result;
}

static CUmemLocation on_gpu(uint32_t gpu)
{
    return (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = tsr_gpu_device(gpu)};
}

struct request {
    const CUmemAllocationProp *prop; /* such that executors can have it */
    size_t size;
    CUmemAllocationHandleType types; /* as the application asked for */
    bool reclaimed;                  /* there is nothing to take back any more */
};

/* TSR_OWNERS_NONE: none of them that has not been tried has room. */
static uint32_t next_owner(const struct request *request, uint32_t tried)
{
    tsr_memory_lock();
    tsr_owners_hold_host_back(!request->reclaimed);
    uint32_t rank = tsr_owners_next(request->size, tried);
    tsr_owners_hold_host_back(false);
    tsr_memory_unlock();
    return rank;
}

static CUresult create_on_host(CUmemGenericAllocationHandle *handle, const struct request *request)
{
    CUmemAllocationProp properties = *request->prop;
    properties.location = tsr_backing_host();
    properties.allocFlags = (typeof(properties.allocFlags)){0};
    CUresult result = tsr_real.cuMemCreate(handle, request->size, &properties, 0);
    if (result == CUDA_SUCCESS)
        return result;
    tsr_memory_lock();
    tsr_owners_host_refused((int)result);
    tsr_memory_unlock();
    return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult create_on(uint32_t gpu, CUmemGenericAllocationHandle *handle, const struct request *request)
{
    CUmemAllocationProp properties = *request->prop;
    if (gpu == TSR_GPU_HOST)
        return create_on_host(handle, request);
    properties.location = on_gpu(gpu);
    return create(handle, request->size, &properties, 0);
}

/* On the first GPU that has room. NOT_SUPPORTED: there is no pool, it is none of the home GPU's memory, or the driver has no such handles. */
static CUresult create_in_pool(CUmemGenericAllocationHandle *handle, const struct request *request)
{
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    bool host_can = request->prop->requestedHandleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    uint32_t tried = host_can ? 0 : 1u << tsr_session_host(tsr_session()), rank;
    tsr_memory_lock();
    bool pooled = tsr_memory_is_home(&request->prop->location) && tsr_owners_are_on();
    tsr_memory_unlock();
    if (!pooled)
        return CUDA_ERROR_NOT_SUPPORTED;
    while (result == CUDA_ERROR_OUT_OF_MEMORY && (rank = next_owner(request, tried)) != TSR_OWNERS_NONE) {
        tried |= 1u << rank;
        result = create_on(tsr_session_gpu(tsr_session(), rank), handle, request);
        if (result != CUDA_SUCCESS)
            continue;
        tsr_physical_created(*handle, request->types, -1);
        tsr_memory_lock();
        tsr_physical_owned_locked(*handle, rank, request->size);
        tsr_memory_unlock();
    }
    return result;
}

/*
 * Memory that the application does not mean to share is made such that it can be. What it may share is its own affair, but in a pool: there allocators that
 * always ask for handles would have to do with the home GPU.
 */
static CUresult create_shareable(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *prop,
                                 bool reclaimed)
{
    CUmemAllocationProp shareable = *prop;
    bool is_private = prop->requestedHandleTypes == CU_MEM_HANDLE_TYPE_NONE;
    if (prop->type != CU_MEM_ALLOCATION_TYPE_PINNED || prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        prop->allocFlags.compressionType)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (is_private && !has_room(&prop->location, size))
        return CUDA_ERROR_OUT_OF_MEMORY;
    shareable.requestedHandleTypes =
        (CUmemAllocationHandleType)((unsigned)prop->requestedHandleTypes | CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    const struct request request = {&shareable, size, prop->requestedHandleTypes, reclaimed};
    CUresult result = create_in_pool(handle, &request);
    if (result != CUDA_ERROR_NOT_SUPPORTED || !is_private)
        return result;
    result = create(handle, size, &shareable, 0);
    if (result == CUDA_SUCCESS)
        tsr_physical_created(*handle, CU_MEM_HANDLE_TYPE_NONE, -1);
    return result;
}

TSR_REDIRECTED(cuMemCreate)(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *prop,
                            unsigned long long flags)
{
    CUresult result = handle && prop && !flags ? create_shareable(handle, size, prop, false) : CUDA_ERROR_NOT_SUPPORTED;
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        tsr_memory_reclaim();
        result = create_shareable(handle, size, prop, true);
    }
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        tsr_owners_refused();
    if (result == CUDA_SUCCESS || result == CUDA_ERROR_OUT_OF_MEMORY)
        return result;
    result = create(handle, size, prop, flags);
    if (result == CUDA_SUCCESS)
        tsr_physical_created(*handle, prop->requestedHandleTypes, -1);
    return result;
}

TSR_REDIRECTED(cuMemRelease)(CUmemGenericAllocationHandle handle)
{
    tsr_memory_lock(); /* another thread may get the handle at once, and notes it under the lock */
    CUresult result = tsr_real.cuMemRelease(handle);
    if (result == CUDA_SUCCESS)
        tsr_physical_released_locked(handle);
    tsr_memory_unlock();
    return result;
}

TSR_REDIRECTED(cuMemMap)(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                         unsigned long long flags)
{
    if (!may_map(ptr, size))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = tsr_real.cuMemMap(ptr, size, offset, handle, flags);
    if (result == CUDA_SUCCESS)
        tsr_vmm_mapped(ptr, size, handle);
    return result;
}

/* Under the lock: who verifies or moves memory copies what is noted as mapped. */
TSR_REDIRECTED(cuMemUnmap)(CUdeviceptr ptr, size_t size)
{
    if (tsr_arena_covers(ptr))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = tsr_order_join_all();
    if (result != CUDA_SUCCESS)
        return result;
    tsr_memory_lock();
    result = tsr_real.cuMemUnmap(ptr, size);
    if (result == CUDA_SUCCESS)
        tsr_vmm_unmapped_locked(ptr, size);
    tsr_memory_unlock();
    return result;
}

TSR_REDIRECTED(cuMemSetAccess)(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count)
{
    if (tsr_arena_covers(ptr))
        return CUDA_ERROR_INVALID_VALUE;
    tsr_memory_lock();
    CUresult result = tsr_real.cuMemSetAccess(ptr, size, desc, count);
    for (size_t i = 0; result == CUDA_SUCCESS && i < count; i++)
        if (tsr_memory_is_home(&desc[i].location))
            tsr_vmm_access_locked(ptr, size, desc[i].flags);
    tsr_memory_unlock();
    return result;
}

TSR_REDIRECTED(cuMemGetAccess)(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr ptr)
{
    return tsr_arena_covers(ptr) ? CUDA_ERROR_INVALID_VALUE : tsr_real.cuMemGetAccess(flags, location, ptr);
}

static CUresult fix_range_locked(CUdeviceptr begin, size_t bytes)
{
    CUresult result = CUDA_SUCCESS;
    for (uint64_t at = 0; at < bytes && tsr_arena_covers(begin + at); at += TSR_ARENA_PAGE) {
        const struct tsr_extent *extent = tsr_arena_find(begin + at);
        if (extent && !tsr_migrate_can_fix(extent))
            return CUDA_ERROR_NOT_SUPPORTED;
    }
    for (uint64_t at = 0; at < bytes && tsr_arena_covers(begin + at) && result == CUDA_SUCCESS; at += TSR_ARENA_PAGE) {
        struct tsr_extent *extent = tsr_arena_find(begin + at);
        if (extent)
            result = tsr_migrate_fix_locked(extent);
    }
    return result;
}

/* The receiver of such a handle has the physical memory. */
TSR_REDIRECTED(cuMemGetHandleForAddressRange)(void *handle, CUdeviceptr dptr, size_t size, CUmemRangeHandleType handleType,
                                              unsigned long long flags)
{
    tsr_memory_lock();
    CUresult result = fix_range_locked(dptr, size);
    tsr_memory_unlock();
    if (result != CUDA_SUCCESS)
        return result;
    return tsr_real.cuMemGetHandleForAddressRange(handle, dptr, size, handleType, flags);
}

TSR_REDIRECTED(cuMemRetainAllocationHandle)(CUmemGenericAllocationHandle *handle, void *addr)
{
    CUdeviceptr address = (CUdeviceptr)(uintptr_t)addr;
    if (tsr_arena_covers(address))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = tsr_real.cuMemRetainAllocationHandle(handle, addr);
    if (result == CUDA_SUCCESS)
        tsr_vmm_retained(*handle, address);
    return result;
}

TSR_REDIRECTED(cuMemExportToShareableHandle)(void *shareableHandle, CUmemGenericAllocationHandle handle,
                                             CUmemAllocationHandleType handleType, unsigned long long flags)
{
    CUmemAllocationHandleType types;
    if (tsr_physical_types_of(handle, &types) && !((unsigned)types & (unsigned)handleType))
        return CUDA_ERROR_INVALID_VALUE;
    tsr_physical_offered(handle);
    return tsr_real.cuMemExportToShareableHandle(shareableHandle, handle, handleType, flags);
}

TSR_REDIRECTED(cuMemImportFromShareableHandle)(CUmemGenericAllocationHandle *handle, void *osHandle,
                                               CUmemAllocationHandleType shHandleType)
{
    CUresult result = tsr_real.cuMemImportFromShareableHandle(handle, osHandle, shHandleType);
    if (result != CUDA_SUCCESS)
        return result;
    bool is_file = shHandleType == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    tsr_physical_created(*handle, shHandleType, is_file ? (int)(intptr_t)osHandle : -1);
    tsr_physical_offered(*handle);
    return CUDA_SUCCESS;
}

static bool is_owned(CUmemGenericAllocationHandle handle)
{
    tsr_memory_lock();
    bool owned = tsr_physical_owner_locked(tsr_physical_find_locked(handle)) != TSR_OWNERS_NONE;
    tsr_memory_unlock();
    return owned;
}

TSR_REDIRECTED(cuMemGetAllocationPropertiesFromHandle)(CUmemAllocationProp *prop, CUmemGenericAllocationHandle handle)
{
    CUmemAllocationHandleType types;
    CUresult result = tsr_real.cuMemGetAllocationPropertiesFromHandle(prop, handle);
    if (result == CUDA_SUCCESS && tsr_physical_types_of(handle, &types))
        prop->requestedHandleTypes = types;
    if (result == CUDA_SUCCESS && is_owned(handle))
        prop->location = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = tsr_session()->home};
    return result;
}
