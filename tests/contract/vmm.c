/* Virtual memory management: reserve, create, map, set access, export, import. */
#include "contract.h"

#include <unistd.h>

GROUP(vmm, use_primary)

#define MIB (1ull << 20)

static CUmemAllocationProp pinned_prop(void)
{
    CUmemAllocationProp prop;
    memset(&prop, 0, sizeof(prop));
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    return prop;
}

static CUmemAccessDesc access_desc(CUmemAccess_flags flags)
{
    CUmemAccessDesc desc;
    memset(&desc, 0, sizeof(desc));
    desc.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    desc.flags = flags;
    return desc;
}

/* Maps `handle` at a fresh range with read and write access; 0 after a failed check. */
static CUdeviceptr map_anywhere(CUmemGenericAllocationHandle handle, size_t size)
{
    CUdeviceptr address = 0;
    CUmemAccessDesc desc = access_desc(CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    if (!OK(cuMemAddressReserve(&address, size, 0, 0, 0)) || !OK(cuMemMap(address, size, 0, handle, 0)) ||
        !OK(cuMemSetAccess(address, size, &desc, 1)))
        return 0;
    return address;
}

static void unmap(CUdeviceptr address, size_t size)
{
    OK(cuMemUnmap(address, size));
    OK(cuMemAddressFree(address, size));
}

TEST(granularity)
{
    CUmemAllocationProp prop = pinned_prop();
    size_t least = 0, advised = 0;
    OK(cuMemGetAllocationGranularity(&least, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    OK(cuMemGetAllocationGranularity(&advised, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
    EQ(least, 2 * MIB);
    EQ(advised, 2 * MIB);
    EXPECT_SURE(cuMemGetAllocationGranularity(NULL, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuMemGetAllocationGranularity(&least, NULL, CU_MEM_ALLOC_GRANULARITY_MINIMUM), CUDA_ERROR_INVALID_VALUE);
}

TEST(reserved_at_a_hint)
{
    CUdeviceptr address = 0, hint = 0x200000000000ull;
#ifdef __SANITIZE_THREAD__ /* has that region for itself: ask again for what was given once */
    NEED_OK(cuMemAddressReserve(&hint, 64 * MIB, 0, 0, 0));
    OK(cuMemAddressFree(hint, 64 * MIB));
#endif
    NEED_OK(cuMemAddressReserve(&address, 64 * MIB, 0, hint, 0));
    EQ(address, hint);
    CUdeviceptr second = 0;
    OK(cuMemAddressReserve(&second, 2 * MIB, 0, hint, 0));
    TRUE(second != hint);
    OK(cuMemAddressFree(second, 2 * MIB));
    OK(cuMemAddressFree(address, 64 * MIB));
}

TEST(reserved_with_alignment)
{
    CUdeviceptr address = 0;
    NEED_OK(cuMemAddressReserve(&address, 2 * MIB, 1024 * MIB, 0, 0));
    EQ(address % (1024 * MIB), 0);
    OK(cuMemAddressFree(address, 2 * MIB));
}

TEST(reservation_arguments_are_checked)
{
    CUdeviceptr address = 0;
    EXPECT_SURE(cuMemAddressReserve(&address, 0, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuMemAddressReserve(&address, 12345, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuMemAddressReserve(NULL, 2 * MIB, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuMemAddressReserve(&address, 2 * MIB, 0, 0, 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuMemAddressReserve(&address, 2 * MIB, 3, 0, 0), CUDA_ERROR_INVALID_VALUE);
    NEED_OK(cuMemAddressReserve(&address, 4 * MIB, 0, 0, 0));
    EXPECT_SURE(cuMemAddressFree(address, 2 * MIB), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemAddressFree(address, 4 * MIB));
    EXPECT_SURE(cuMemAddressFree(address, 4 * MIB), CUDA_ERROR_INVALID_VALUE);
}

TEST(creation_arguments_are_checked)
{
    CUmemAllocationProp prop = pinned_prop();
    CUmemGenericAllocationHandle handle = 0;
    EXPECT_SURE(cuMemCreate(&handle, MIB, &prop, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuMemCreate(&handle, 0, &prop, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuMemCreate(&handle, 2 * MIB, NULL, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuMemCreate(NULL, 2 * MIB, &prop, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuMemCreate(&handle, 2 * MIB, &prop, 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuMemCreate(&handle, 1ull << 46, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
    prop.type = CU_MEM_ALLOCATION_TYPE_INVALID;
    EXPECT_SURE(cuMemCreate(&handle, 2 * MIB, &prop, 0), CUDA_ERROR_INVALID_VALUE);
    prop = pinned_prop();
    prop.location.id = 99;
    EXPECT_SURE(cuMemCreate(&handle, 2 * MIB, &prop, 0), CUDA_ERROR_INVALID_DEVICE);
}

TEST(mapped_memory_works)
{
    CUmemAllocationProp prop = pinned_prop(), read;
    CUmemGenericAllocationHandle handle = 0;
    CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
    unsigned long long flags = 0;
    NEED_OK(cuMemCreate(&handle, 4 * MIB, &prop, 0));
    OK(cuMemGetAllocationPropertiesFromHandle(&read, handle));
    EQ(read.type, CU_MEM_ALLOCATION_TYPE_PINNED);
    EQ(read.location.id, 0);
    EQ(read.requestedHandleTypes, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    CUdeviceptr address = map_anywhere(handle, 4 * MIB);
    OK(cuMemGetAccess(&flags, &here, address));
    EQ(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    OK(cuMemsetD32(address, 123, MIB));
    TRUE(device_holds(address + 4 * MIB - 4096, 1024, 123));
    unmap(address, 4 * MIB);
    OK(cuMemRelease(handle));
}

TEST(memory_lives_until_unmapped)
{
    CUmemAllocationProp prop = pinned_prop();
    CUmemGenericAllocationHandle handle = 0;
    NEED_OK(cuMemCreate(&handle, 2 * MIB, &prop, 0));
    CUdeviceptr address = map_anywhere(handle, 2 * MIB);
    OK(cuMemRelease(handle));
    OK(cuMemsetD32(address, 9, 64));
    TRUE(device_holds(address, 64, 9));
    unmap(address, 2 * MIB);
}

TEST(one_memory_at_two_addresses)
{
    CUmemAllocationProp prop = pinned_prop();
    CUmemGenericAllocationHandle handle = 0;
    NEED_OK(cuMemCreate(&handle, 2 * MIB, &prop, 0));
    CUdeviceptr a = map_anywhere(handle, 2 * MIB), b = map_anywhere(handle, 2 * MIB);
    TRUE(a != b);
    OK(cuMemsetD32(a, 31, 1024));
    OK(cuCtxSynchronize());
    TRUE(device_holds(b, 1024, 31));
    unmap(a, 2 * MIB);
    TRUE(device_holds(b, 1024, 31));
    unmap(b, 2 * MIB);
    OK(cuMemRelease(handle));
}

TEST(two_memories_side_by_side)
{
    CUmemAllocationProp prop = pinned_prop();
    CUmemGenericAllocationHandle first = 0, second = 0;
    CUmemAccessDesc desc = access_desc(CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    CUdeviceptr address = 0;
    NEED_OK(cuMemCreate(&first, 2 * MIB, &prop, 0));
    NEED_OK(cuMemCreate(&second, 2 * MIB, &prop, 0));
    NEED_OK(cuMemAddressReserve(&address, 4 * MIB, 0, 0, 0));
    OK(cuMemMap(address, 2 * MIB, 0, first, 0));
    OK(cuMemMap(address + 2 * MIB, 2 * MIB, 0, second, 0));
    OK(cuMemSetAccess(address, 4 * MIB, &desc, 1));
    OK(cuMemsetD32(address, 3, MIB));
    TRUE(device_holds(address, MIB, 3));
    OK(cuMemUnmap(address, 2 * MIB));
    OK(cuMemUnmap(address + 2 * MIB, 2 * MIB));
    OK(cuMemAddressFree(address, 4 * MIB));
    OK(cuMemRelease(first));
    OK(cuMemRelease(second));
}

TEST(mapping_arguments_are_checked)
{
    CUmemAllocationProp prop = pinned_prop();
    CUmemGenericAllocationHandle handle = 0;
    CUmemAccessDesc desc = access_desc(CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    CUdeviceptr address = 0;
    NEED_OK(cuMemCreate(&handle, 2 * MIB, &prop, 0));
    NEED_OK(cuMemAddressReserve(&address, 4 * MIB, 0, 0, 0));
    EXPECT_SURE(cuMemMap(address, 4 * MIB, 0, handle, 0), CUDA_ERROR_NOT_SUPPORTED);
    EXPECT_SURE(cuMemMap(address, 2 * MIB, 2 * MIB, handle, 0), CUDA_ERROR_NOT_SUPPORTED);
    EXPECT_SURE(cuMemMap(address, 2 * MIB, 0, handle, 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuMemMap(address + 4 * MIB, 2 * MIB, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuMemSetAccess(address, 2 * MIB, &desc, 1), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemMap(address, 2 * MIB, 0, handle, 0));
    EXPECT_SURE(cuMemMap(address, 2 * MIB, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuMemAddressFree(address, 4 * MIB), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemUnmap(address, 2 * MIB));
    OK(cuMemUnmap(address, 2 * MIB));
    OK(cuMemAddressFree(address, 4 * MIB));
    OK(cuMemRelease(handle));
    EXPECT_SURE(cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
}

TEST(read_only_access_is_told)
{
    CUmemAllocationProp prop = pinned_prop();
    CUmemGenericAllocationHandle handle = 0;
    CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
    unsigned long long flags = 0;
    NEED_OK(cuMemCreate(&handle, 2 * MIB, &prop, 0));
    CUdeviceptr address = map_anywhere(handle, 2 * MIB);
    CUmemAccessDesc desc = access_desc(CU_MEM_ACCESS_FLAGS_PROT_READ);
    OK(cuMemsetD32(address, 55, 64));
    OK(cuCtxSynchronize());
    OK(cuMemSetAccess(address, 2 * MIB, &desc, 1));
    OK(cuMemGetAccess(&flags, &here, address));
    EQ(flags, CU_MEM_ACCESS_FLAGS_PROT_READ);
    TRUE(device_holds(address, 64, 55));
    unmap(address, 2 * MIB);
    OK(cuMemRelease(handle));
}

TEST(handle_of_an_address)
{
    CUmemAllocationProp prop = pinned_prop();
    CUmemGenericAllocationHandle handle = 0, same = 0;
    NEED_OK(cuMemCreate(&handle, 2 * MIB, &prop, 0));
    CUdeviceptr address = map_anywhere(handle, 2 * MIB), plain = 0;
    OK(cuMemRetainAllocationHandle(&same, (void *)(uintptr_t)(address + 4096)));
    EQ(same, handle);
    OK(cuMemRelease(same));
    OK(cuMemAlloc(&plain, 4096));
    EXPECT_SURE(cuMemRetainAllocationHandle(&same, (void *)(uintptr_t)plain), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree(plain));
    unmap(address, 2 * MIB);
    OK(cuMemRelease(handle));
}

TEST(attributes_of_mapped_memory)
{
    CUmemAllocationProp prop = pinned_prop();
    CUmemGenericAllocationHandle handle = 0;
    CUmemorytype type = 0;
    CUdeviceptr base = 0;
    CUipcMemHandle ipc;
    size_t size = 0;
    int capable = 9;
    unsigned long long kinds = 0;
    NEED_OK(cuMemCreate(&handle, 4 * MIB, &prop, 0));
    CUdeviceptr address = map_anywhere(handle, 4 * MIB);
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address));
    EQ(type, CU_MEMORYTYPE_DEVICE);
    OK(cuPointerGetAttribute(&capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, address));
    EQ(capable & 1, 0);
    OK(cuPointerGetAttribute(&kinds, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, address));
    EQ(kinds & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    OK(cuMemGetAddressRange(&base, &size, address + MIB));
    EQ(base, address);
    EQ(size, 4 * MIB);
    EXPECT_SURE(cuIpcGetMemHandle(&ipc, address), CUDA_ERROR_INVALID_VALUE);
    unmap(address, 4 * MIB);
    OK(cuMemRelease(handle));
}

TEST(imported_in_the_same_process)
{
    CUmemAllocationProp prop = pinned_prop();
    CUmemGenericAllocationHandle handle = 0, imported = 0;
    int descriptor = -1;
    NEED_OK(cuMemCreate(&handle, 2 * MIB, &prop, 0));
    NEED_OK(cuMemExportToShareableHandle(&descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    TRUE(descriptor >= 0);
    NEED_OK(cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)descriptor, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    close(descriptor);
    CUdeviceptr a = map_anywhere(handle, 2 * MIB), b = map_anywhere(imported, 2 * MIB);
    OK(cuMemsetD32(a, 808, 256));
    OK(cuCtxSynchronize());
    TRUE(device_holds(b, 256, 808));
    unmap(a, 2 * MIB);
    unmap(b, 2 * MIB);
    OK(cuMemRelease(imported));
    OK(cuMemRelease(handle));
}

TEST(export_needs_the_handle_type)
{
    CUmemAllocationProp prop = pinned_prop();
    CUmemGenericAllocationHandle handle = 0;
    int descriptor = -1;
    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
    NEED_OK(cuMemCreate(&handle, 2 * MIB, &prop, 0));
    EXPECT_SURE(cuMemExportToShareableHandle(&descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
                CUDA_ERROR_INVALID_VALUE);
    OK(cuMemRelease(handle));
    TRUE(cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)-1, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) !=
         CUDA_SUCCESS);
}

ROLE(vmm_peer)
{
    CUmemGenericAllocationHandle handle = 0;
    CUmemAccessDesc desc = access_desc(CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    CUcontext context;
    CUdeviceptr address = 0;
    uint32_t word = 0;
    if (count < 1 || cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context))
        return 1;
    role_say("import", cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)atoi(words[0]),
                                                      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    role_say("reserve", cuMemAddressReserve(&address, 2 * MIB, 0, 0, 0));
    role_say("map", cuMemMap(address, 2 * MIB, 0, handle, 0));
    role_say("access", cuMemSetAccess(address, 2 * MIB, &desc, 1));
    role_say("read", cuMemcpyDtoH(&word, address + 4096, 4));
    role_say("word", word);
    role_say("write", cuMemsetD32(address, word + 1, 64));
    role_say("sync", cuCtxSynchronize());
    return 0;
}

TEST(shared_with_another_process)
{
    CUmemAllocationProp prop = pinned_prop();
    CUmemGenericAllocationHandle handle = 0;
    int exported = -1;
    char text[16];
    NEED_OK(cuMemCreate(&handle, 2 * MIB, &prop, 0));
    CUdeviceptr address = map_anywhere(handle, 2 * MIB);
    OK(cuMemsetD32(address, 4711, MIB / 2));
    OK(cuCtxSynchronize());
    NEED_OK(cuMemExportToShareableHandle(&exported, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    int inherited = dup(exported);
    snprintf(text, sizeof(text), "%d", inherited);
    struct role_end end = role_run("vmm_peer", text, NULL);
    EQ(end.code, 0);
    EQ(role_heard(&end, "import"), 0);
    EQ(role_heard(&end, "map"), 0);
    EQ(role_heard(&end, "access"), 0);
    EQ(role_heard(&end, "word"), 4711);
    EQ(role_heard(&end, "sync"), 0);
    TRUE(device_holds(address, 64, 4712));
    close(inherited);
    close(exported);
    unmap(address, 2 * MIB);
    OK(cuMemRelease(handle));
}
