/* Virtual memory management: reservations, physical memory, mappings, access, sharing by descriptor. */
#include "guard.h"

#include <stdint.h>
#include <string.h>

#include "../memory/alloc.h"
#include "../memory/vmm.h"

/* The host is one NUMA node, whose number is 0. */
static bool is_host(const CUmemAllocationProp *prop)
{
    return prop->location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
}

static CUresult prop_check(const CUmemAllocationProp *prop, bool check_device)
{
    TSR_REQUIRE(prop->type == CU_MEM_ALLOCATION_TYPE_PINNED, CUDA_ERROR_INVALID_VALUE);
    TSR_REQUIRE(is_host(prop) || prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE, CUDA_ERROR_NOT_SUPPORTED);
    if (is_host(prop))
        TSR_REQUIRE(prop->location.id == 0, CUDA_ERROR_INVALID_VALUE);
    else if (check_device)
        TSR_TRY(tsr_device_check(prop->location.id));
    TSR_REQUIRE(!((unsigned)prop->requestedHandleTypes & ~(unsigned)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
                CUDA_ERROR_NOT_SUPPORTED);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
                                               CUmemAllocationGranularity_flags option)
{
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(granularity && prop, CUDA_ERROR_INVALID_VALUE);
    TSR_REQUIRE(option == CU_MEM_ALLOC_GRANULARITY_MINIMUM || option == CU_MEM_ALLOC_GRANULARITY_RECOMMENDED,
                CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(prop_check(prop, false));
    *granularity = TSR_PHYSICAL_GRANULARITY;
    return CUDA_SUCCESS;
}

/* A question that programs ask before they look whether a device supports multicast objects; the emulated ones do not. */
CUresult CUDAAPI cuMulticastGetGranularity(size_t *granularity, const CUmulticastObjectProp *prop,
                                           CUmulticastGranularity_flags option)
{
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(granularity && prop && prop->numDevices, CUDA_ERROR_INVALID_VALUE);
    TSR_REQUIRE(option == CU_MULTICAST_GRANULARITY_MINIMUM || option == CU_MULTICAST_GRANULARITY_RECOMMENDED,
                CUDA_ERROR_INVALID_VALUE);
    *granularity = TSR_PHYSICAL_GRANULARITY;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *prop,
                             unsigned long long flags)
{
    struct tsr_emulated_physical *physical;
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(handle && prop && !flags && size && size % TSR_PHYSICAL_GRANULARITY == 0, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(prop_check(prop, true));
    uint32_t location = is_host(prop) ? TSR_LOCATION_HOST : (uint32_t)prop->location.id;
    TSR_TRY(tsr_physical_create(location, size, (unsigned)prop->requestedHandleTypes, &physical));
    *handle = tsr_physical_handle(physical);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemRelease(CUmemGenericAllocationHandle handle)
{
    TSR_TRY(tsr_driver_ready());
    return tsr_physical_release(handle);
}

CUresult CUDAAPI cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr,
                                     unsigned long long flags)
{
    uint64_t address;
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(ptr && !flags, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(tsr_emulated_vmm_reserve(size, alignment, addr, &address));
    *ptr = address;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemAddressFree(CUdeviceptr ptr, size_t size)
{
    TSR_TRY(tsr_driver_ready());
    return tsr_emulated_vmm_free(ptr, size);
}

static CUresult find(CUmemGenericAllocationHandle handle, struct tsr_emulated_physical **out)
{
    TSR_TRY(tsr_driver_ready());
    *out = tsr_physical_find(handle);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                          unsigned long long flags)
{
    struct tsr_emulated_physical *physical;
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(!flags, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(find(handle, &physical));
    CUresult result = tsr_vmm_map(ptr, size, offset, physical);
    tsr_physical_unref(physical);
    return result;
}

CUresult CUDAAPI cuMemUnmap(CUdeviceptr ptr, size_t size)
{
    TSR_TRY(tsr_driver_ready());
    return tsr_vmm_unmap(ptr, size);
}

static CUresult access_check(CUdeviceptr ptr, const CUmemAccessDesc *desc)
{
    struct tsr_range range;
    TSR_REQUIRE(desc->location.type == CU_MEM_LOCATION_TYPE_DEVICE, CUDA_ERROR_NOT_SUPPORTED);
    TSR_TRY(tsr_device_check(desc->location.id));
    TSR_REQUIRE(desc->flags == CU_MEM_ACCESS_FLAGS_PROT_NONE || desc->flags == CU_MEM_ACCESS_FLAGS_PROT_READ ||
                    desc->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
                CUDA_ERROR_INVALID_VALUE);
    TSR_REQUIRE(tsr_space_lookup(tsr_space_instance(), ptr, &range), CUDA_ERROR_INVALID_VALUE);
    uint32_t from = (uint32_t)desc->location.id, to = range.location;
    TSR_REQUIRE(from == to || to == TSR_LOCATION_HOST ||
                    tsr_machine_instance()->links[from * TSR_MACHINE_DEVICES + to].peer_access,
                CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count)
{
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(desc && count && size && size % TSR_PHYSICAL_GRANULARITY == 0, CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < count; i++)
        TSR_TRY(access_check(ptr, &desc[i]));
    for (size_t i = 0; i < count; i++)
        TSR_TRY(tsr_vmm_access_set(ptr, size, (uint32_t)desc[i].location.id, desc[i].flags));
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr ptr)
{
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(flags && location && location->type == CU_MEM_LOCATION_TYPE_DEVICE, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(tsr_device_check(location->id));
    return tsr_vmm_access_get(ptr, (uint32_t)location->id, flags);
}

CUresult CUDAAPI cuMemExportToShareableHandle(void *shareableHandle, CUmemGenericAllocationHandle handle,
                                              CUmemAllocationHandleType handleType, unsigned long long flags)
{
    struct tsr_emulated_physical *physical;
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(shareableHandle && !flags && handleType == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(find(handle, &physical));
    bool allowed = (tsr_physical_handle_types(physical) & (unsigned)handleType) != 0;
    int descriptor = allowed ? tsr_physical_export(physical) : -1;
    tsr_physical_unref(physical);
    TSR_REQUIRE(allowed, CUDA_ERROR_INVALID_VALUE);
    TSR_REQUIRE(descriptor >= 0, CUDA_ERROR_OPERATING_SYSTEM);
    memcpy(shareableHandle, &descriptor, sizeof descriptor);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *osHandle,
                                                CUmemAllocationHandleType shHandleType)
{
    struct tsr_emulated_physical *physical;
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(handle && shHandleType == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, CUDA_ERROR_INVALID_VALUE);
    TSR_REQUIRE((uintptr_t)osHandle <= INT32_MAX, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(tsr_physical_import((int)(uintptr_t)osHandle, &physical));
    *handle = tsr_physical_handle(physical);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop, CUmemGenericAllocationHandle handle)
{
    struct tsr_emulated_physical *physical;
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(prop, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(find(handle, &physical));
    bool host = tsr_physical_device(physical) == TSR_LOCATION_HOST;
    *prop = (CUmemAllocationProp){
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .requestedHandleTypes = (CUmemAllocationHandleType)tsr_physical_handle_types(physical),
        .location = {host ? CU_MEM_LOCATION_TYPE_HOST_NUMA : CU_MEM_LOCATION_TYPE_DEVICE,
                     host ? 0 : (int)tsr_physical_device(physical)},
    };
    tsr_physical_unref(physical);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr)
{
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(handle && addr, CUDA_ERROR_INVALID_VALUE);
    struct tsr_emulated_physical *physical = tsr_vmm_physical((uint64_t)(uintptr_t)addr);
    TSR_REQUIRE(physical, CUDA_ERROR_INVALID_VALUE);
    CUresult result = tsr_physical_retain(physical, handle);
    tsr_physical_unref(physical);
    return result;
}
