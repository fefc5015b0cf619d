/* Plain, pitched, host and registered memory; what pointers tell about themselves. */
#include "contract.h"

#include <sys/mman.h>

GROUP(memory, use_primary)

TEST(allocated_and_freed)
{
    CUdeviceptr a = 0, b = 0;
    NEED_OK(cuMemAlloc(&a, 1000));
    OK(cuMemAlloc(&b, 1));
    EQ(a % 256, 0);
    EQ(b % 256, 0);
    TRUE(a + 1000 <= b || b + 1 <= a);
    OK(cuMemFree(a));
    OK(cuMemFree(b));
}

TEST(allocation_arguments_are_checked)
{
    CUdeviceptr a = 0;
    EXPECT_SURE(cuMemAlloc(&a, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuMemAlloc(NULL, 16), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuMemFree(0), CUDA_SUCCESS);
}

TEST(freed_twice_is_refused)
{
    CUdeviceptr a = 0;
    NEED_OK(cuMemAlloc(&a, 4096));
    OK(cuMemFree(a));
    EXPECT_SURE(cuMemFree(a), CUDA_ERROR_INVALID_VALUE);
}

TEST(freed_inside_is_refused)
{
    CUdeviceptr a = 0;
    NEED_OK(cuMemAlloc(&a, 4096));
    EXPECT_SURE(cuMemFree(a + 256), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree(a));
    EXPECT_SURE(cuMemFree(0x1234567800), CUDA_ERROR_INVALID_VALUE);
}

TEST(more_than_the_device_has)
{
    CUdeviceptr a = 0;
    size_t total = 0;
    OK(cuDeviceTotalMem(&total, 0));
    EXPECT_SURE(cuMemAlloc(&a, total + (1ull << 30)), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_SURE(cuMemAlloc(&a, 1ull << 46), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemAlloc(&a, 1 << 20));
    OK(cuMemFree(a));
}

TEST(information_follows_allocations)
{
    size_t before = 0, after = 0, total = 0, whole = 0;
    CUdeviceptr a = 0;
    OK(cuMemGetInfo(&before, &total));
    OK(cuDeviceTotalMem(&whole, 0));
    TRUE(before <= total);
    EQ(total, whole);
    NEED_OK(cuMemAlloc(&a, 256 << 20));
    OK(cuMemGetInfo(&after, &total));
    TRUE(before - after >= 256 << 20);
    OK(cuMemFree(a));
    OK(cuMemGetInfo(&after, NULL));
    EQ(after, before);
    OK(cuMemGetInfo(NULL, NULL));
}

TEST(pitched)
{
    CUdeviceptr a = 0;
    size_t pitch = 0;
    NEED_OK(cuMemAllocPitch(&a, &pitch, 1000, 16, 4));
    TRUE(pitch >= 1000 && pitch % 256 == 0);
    OK(cuMemsetD8(a, 1, pitch * 16));
    OK(cuMemFree(a));
    EXPECT_SURE(cuMemAllocPitch(&a, &pitch, 1000, 16, 3), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuMemAllocPitch(NULL, &pitch, 1000, 16, 4), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuMemAllocPitch(&a, NULL, 1000, 16, 4), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuMemAllocPitch(&a, &pitch, 0, 16, 4), CUDA_ERROR_INVALID_VALUE);
}

TEST(range_of_an_address)
{
    CUdeviceptr a = 0, base = 0;
    size_t size = 0;
    NEED_OK(cuMemAlloc(&a, 10000));
    OK(cuMemGetAddressRange(&base, &size, a + 5000));
    EQ(base, a);
    EQ(size, 10000);
    OK(cuMemGetAddressRange(NULL, &size, a));
    OK(cuMemGetAddressRange(&base, NULL, a));
    OK(cuMemFree(a));
    EXPECT_SURE(cuMemGetAddressRange(&base, &size, a), CUDA_ERROR_NOT_FOUND);
    EXPECT_SURE(cuMemGetAddressRange(&base, &size, (CUdeviceptr)(uintptr_t)&size), CUDA_ERROR_NOT_FOUND);
}

TEST(attributes_of_device_memory)
{
    CUdeviceptr a = 0, value = 0;
    CUcontext context = NULL, current = NULL;
    CUmemorytype type = 0;
    unsigned managed = 9, mapped = 9;
    int ordinal = -1;
    size_t size = 0;
    unsigned long long id = 0, other_id = 0;
    void *host = NULL;
    NEED_OK(cuMemAlloc(&a, 4096));
    OK(cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, a + 8));
    OK(cuCtxGetCurrent(&current));
    TRUE(context == current);
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, a));
    EQ(type, CU_MEMORYTYPE_DEVICE);
    OK(cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, a + 8));
    EQ(value, a + 8);
    EXPECT_SURE(cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, a), CUDA_ERROR_INVALID_VALUE);
    OK(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, a));
    EQ(managed, 0);
    OK(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, a));
    EQ(ordinal, 0);
    OK(cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, a + 100));
    EQ(value, a);
    OK(cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, a + 100));
    EQ(size, 4096);
    OK(cuPointerGetAttribute(&mapped, CU_POINTER_ATTRIBUTE_MAPPED, a));
    EQ(mapped & 1, 1);
    OK(cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, a));
    OK(cuMemFree(a));
    OK(cuMemAlloc(&a, 4096));
    OK(cuPointerGetAttribute(&other_id, CU_POINTER_ATTRIBUTE_BUFFER_ID, a));
    TRUE(id != other_id);
    OK(cuMemFree(a));
}

TEST(attributes_need_a_known_pointer)
{
    int local = 0;
    CUmemorytype type = 0;
    CUdeviceptr a = 0;
    EXPECT_SURE(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)(uintptr_t)&local),
                CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuPointerGetAttribute(NULL, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 0), CUDA_ERROR_INVALID_VALUE);
    NEED_OK(cuMemAlloc(&a, 16));
    EXPECT_SURE(cuPointerGetAttribute(&type, (CUpointer_attribute)999, a), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree(a));
}

TEST(several_attributes_of_any_pointer)
{
    int local = 0;
    CUmemorytype type = 7;
    CUcontext context = (CUcontext)1;
    CUdeviceptr a = 0, start = 0;
    CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_CONTEXT};
    void *values[] = {&type, &context};
    OK(cuPointerGetAttributes(2, names, values, (CUdeviceptr)(uintptr_t)&local));
    EQ(type, 0);
    TRUE(context == NULL);
    NEED_OK(cuMemAlloc(&a, 64));
    OK(cuPointerGetAttributes(2, names, values, a));
    EQ(type, CU_MEMORYTYPE_DEVICE);
    names[1] = CU_POINTER_ATTRIBUTE_RANGE_START_ADDR;
    values[1] = &start;
    OK(cuPointerGetAttributes(2, names, values, a + 4));
    EQ(start, a);
    OK(cuMemFree(a));
}

TEST(synchronous_operations_attribute)
{
    CUdeviceptr a = 0;
    int on = 1;
    unsigned value = 9;
    NEED_OK(cuMemAlloc(&a, 64));
    OK(cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, a));
    EQ(value & 1, 0);
    OK(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, a));
    OK(cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, a));
    EQ(value & 1, 1);
    EXPECT_SURE(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, a), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree(a));
}

TEST(pinned)
{
    uint32_t *host = NULL;
    CUdeviceptr device = 0, refused = 0;
    CUmemorytype type = 0;
    unsigned flags = 0;
    void *back = NULL;
    NEED_OK(cuMemAllocHost((void **)&host, 4096));
    host[0] = 11;
    OK(cuMemHostGetDevicePointer(&device, host, 0));
    EQ(device, (uintptr_t)host);
    EXPECT_SURE(cuMemHostGetDevicePointer(&refused, host, 1), CUDA_ERROR_INVALID_VALUE);
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, device));
    EQ(type, CU_MEMORYTYPE_HOST);
    OK(cuPointerGetAttribute(&back, CU_POINTER_ATTRIBUTE_HOST_POINTER, device));
    TRUE(back == host);
    OK(cuMemHostGetFlags(&flags, host));
    EQ(flags & CU_MEMHOSTALLOC_DEVICEMAP, CU_MEMHOSTALLOC_DEVICEMAP);
    OK(cuMemsetD32(device, 5, 1024));
    OK(cuCtxSynchronize());
    EQ(host[1023], 5);
    OK(cuMemFreeHost(host));
    EXPECT_SURE(cuMemFreeHost(host), CUDA_ERROR_INVALID_VALUE);
}

TEST(pinned_arguments_are_checked)
{
    void *host = NULL;
    unsigned flags = 0;
    CUdeviceptr device = 0;
    int local = 0;
    EXPECT_SURE(cuMemHostAlloc(&host, 64, 0x100), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuMemHostAlloc(NULL, 64, 0), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemAllocHost(&host, 0));
    EXPECT_SURE(cuMemHostGetFlags(&flags, &local), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuMemHostGetDevicePointer(&device, &local, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuMemFreeHost(&local), CUDA_ERROR_INVALID_VALUE);
    NEED_OK(cuMemHostAlloc(&host, 64, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_WRITECOMBINED));
    OK(cuMemHostGetFlags(&flags, host));
    EQ(flags & CU_MEMHOSTALLOC_WRITECOMBINED, CU_MEMHOSTALLOC_WRITECOMBINED);
    OK(cuMemFreeHost(host));
}

TEST(registered)
{
    size_t size = 1 << 16;
    uint32_t *host = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CUdeviceptr device = 0;
    CUmemorytype type = 0;
    NEED_OK(cuMemHostRegister(host, size, CU_MEMHOSTREGISTER_DEVICEMAP));
    OK(cuMemHostGetDevicePointer(&device, host, 0));
    EQ(device, (uintptr_t)host);
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, device));
    EQ(type, CU_MEMORYTYPE_HOST);
    OK(cuMemsetD32(device, 77, size / 4));
    OK(cuCtxSynchronize());
    EQ(host[size / 4 - 1], 77);
    EXPECT_SURE(cuMemHostRegister(host, size, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    OK(cuMemHostUnregister(host));
    EXPECT_SURE(cuMemHostUnregister(host), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    EXPECT_SURE(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, device), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuMemHostRegister(NULL, size, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuMemHostRegister(host, 0, 0), CUDA_ERROR_INVALID_VALUE);
    munmap(host, size);
}

/* The same memory, mapped twice: each context registers a mapping of its own, and the end of one is nothing to the other. */
TEST(registration_goes_with_its_context)
{
    size_t size = 1 << 16;
    CUcontext primary = NULL, created = NULL;
    CUmemorytype type = 0;
    uint32_t *kept = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint32_t *gone = mremap(kept, 0, size, MREMAP_MAYMOVE);
    CUdeviceptr kept_there = (uintptr_t)kept, gone_there = (uintptr_t)gone;
    OK(cuCtxGetCurrent(&primary));
    NEED_OK(cuMemHostRegister(kept, size, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP));
    NEED_OK(cuCtxCreate(&created, NULL, 0, 0));
    EXPECT_GUESS(cuMemHostRegister(gone, size, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP), CUDA_SUCCESS);
    OK(cuMemsetD32(gone_there, 77, size / 4));
    OK(cuCtxSynchronize());
    EQ(kept[size / 4 - 1], 77);
    OK(cuCtxDestroy(created));
    OK(cuCtxSetCurrent(primary));
    EXPECT_GUESS(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, gone_there), CUDA_ERROR_INVALID_VALUE);
    EXPECT_GUESS(cuMemHostUnregister(gone), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    OK(cuMemsetD32(kept_there, 78, size / 4));
    OK(cuCtxSynchronize());
    EQ(gone[size / 4 - 1], 78);
    OK(cuMemHostRegister(gone, size, CU_MEMHOSTREGISTER_DEVICEMAP));
    OK(cuMemHostUnregister(gone));
    OK(cuMemHostUnregister(kept));
    munmap(kept, size);
    munmap(gone, size);
}
