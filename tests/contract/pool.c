/* Stream-ordered allocation and memory pools. */
#include "contract.h"

GROUP(pool, use_primary)

static CUmemoryPool default_pool(void)
{
    CUmemoryPool pool = NULL;
    OK(cuDeviceGetDefaultMemPool(&pool, 0));
    return pool;
}

static unsigned long long pool_number(CUmemoryPool pool, CUmemPool_attribute attribute)
{
    cuuint64_t value = ~0ull;
    OK(cuMemPoolGetAttribute(pool, attribute, &value));
    return value;
}

static CUmemPoolProps pool_props(void)
{
    CUmemPoolProps props;
    memset(&props, 0, sizeof(props));
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    return props;
}

TEST(each_device_has_one)
{
    CUmemoryPool pool = default_pool(), current = NULL;
    TRUE(pool != NULL);
    OK(cuDeviceGetMemPool(&current, 0));
    TRUE(current == pool);
    EQ(pool_number(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD), 0);
    EXPECT_SURE(cuDeviceGetDefaultMemPool(&pool, 99), CUDA_ERROR_INVALID_DEVICE);
    EXPECT_SURE(cuDeviceGetDefaultMemPool(NULL, 0), CUDA_ERROR_INVALID_VALUE);
}

TEST(attributes_are_kept)
{
    CUmemoryPool pool = default_pool();
    cuuint64_t threshold = 1 << 20;
    int on = -1, off = 0;
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
    EQ(pool_number(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD), 1 << 20);
    OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, &on));
    EQ(on, 1);
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, &off));
    OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, &on));
    EQ(on, 0);
    EXPECT_SURE(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &threshold), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuMemPoolSetAttribute(pool, (CUmemPool_attribute)99, &threshold), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuMemPoolGetAttribute(pool, (CUmemPool_attribute)99, &threshold), CUDA_ERROR_INVALID_VALUE);
    threshold = 0;
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
}

TEST(allocated_in_stream_order)
{
    CUdeviceptr a = 0;
    CUstream stream = NULL;
    CUmemorytype type = 0;
    NEED_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    NEED_OK(cuMemAllocAsync(&a, 1 << 20, stream));
    TRUE(a != 0 && a % 256 == 0);
    OK(cuMemsetD32Async(a, 17, 1 << 18, stream));
    OK(cuStreamSynchronize(stream));
    TRUE(device_holds(a, 1 << 18, 17));
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, a));
    EQ(type, CU_MEMORYTYPE_DEVICE);
    OK(cuMemFreeAsync(a, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuStreamDestroy(stream));
}

TEST(use_is_counted)
{
    CUmemoryPool pool = default_pool();
    CUdeviceptr a = 0;
    cuuint64_t zero = 0;
    OK(cuStreamSynchronize(NULL));
    unsigned long long before = pool_number(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
    NEED_OK(cuMemAllocAsync(&a, 3 << 20, NULL));
    OK(cuStreamSynchronize(NULL));
    TRUE(pool_number(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) >= before + (3 << 20));
    TRUE(pool_number(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) >= pool_number(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
    TRUE(pool_number(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH) >= before + (3 << 20));
    OK(cuMemFreeAsync(a, NULL));
    OK(cuStreamSynchronize(NULL));
    EQ(pool_number(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), before);
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &zero));
    EQ(pool_number(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH), before);
}

TEST(allocation_arguments_are_checked)
{
    CUdeviceptr a = 0;
    EXPECT_SURE(cuMemAllocAsync(NULL, 16, NULL), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemAllocAsync(&a, 0, NULL));
    EXPECT_SURE(cuMemAllocAsync(&a, 1ull << 46, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_SURE(cuMemFreeAsync(0x1234567800, NULL), CUDA_ERROR_INVALID_VALUE);
}

TEST(freed_by_either_call)
{
    CUdeviceptr a = 0;
    NEED_OK(cuMemAllocAsync(&a, 4096, NULL));
    OK(cuStreamSynchronize(NULL));
    OK(cuMemFree(a));
    EXPECT_SURE(cuMemFree(a), CUDA_ERROR_INVALID_VALUE);
    NEED_OK(cuMemAlloc(&a, 4096));
    OK(cuMemFreeAsync(a, NULL));
    OK(cuStreamSynchronize(NULL));
    EXPECT_SURE(cuMemFree(a), CUDA_ERROR_INVALID_VALUE);
}

TEST(created)
{
    CUmemPoolProps props = pool_props();
    CUmemoryPool pool = NULL;
    CUdeviceptr a = 0;
    CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
    CUmemAccess_flags flags = 0;
    NEED_OK(cuMemPoolCreate(&pool, &props));
    OK(cuMemPoolGetAccess(&flags, pool, &here));
    EQ(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    NEED_OK(cuMemAllocFromPoolAsync(&a, 1 << 16, pool, NULL));
    OK(cuMemsetD32Async(a, 2, 1 << 14, NULL));
    OK(cuStreamSynchronize(NULL));
    TRUE(device_holds(a, 1 << 14, 2));
    CUmemoryPool owner = NULL;
    OK(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, a));
    TRUE(owner == pool);
    OK(cuMemFreeAsync(a, NULL));
    OK(cuStreamSynchronize(NULL));
    OK(cuMemPoolTrimTo(pool, 0));
    EQ(pool_number(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0);
    OK(cuMemPoolDestroy(pool));
}

TEST(fresh_one_is_empty)
{
    CUmemPoolProps props = pool_props();
    CUmemoryPool pool = NULL;
    int on = -1;
    NEED_OK(cuMemPoolCreate(&pool, &props));
    EQ(pool_number(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD), 0);
    EQ(pool_number(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0);
    EQ(pool_number(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH), 0);
    EQ(pool_number(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0);
    OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, &on));
    EQ(on, 1);
    OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, &on));
    EQ(on, 1);
    OK(cuMemPoolDestroy(pool));
}

TEST(made_current)
{
    CUmemPoolProps props = pool_props();
    CUmemoryPool pool = NULL, current = NULL;
    CUdeviceptr a = 0;
    NEED_OK(cuMemPoolCreate(&pool, &props));
    OK(cuDeviceSetMemPool(0, pool));
    OK(cuDeviceGetMemPool(&current, 0));
    TRUE(current == pool);
    NEED_OK(cuMemAllocAsync(&a, 1 << 16, NULL));
    OK(cuStreamSynchronize(NULL));
    EQ(pool_number(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 1 << 16);
    OK(cuMemFreeAsync(a, NULL));
    OK(cuStreamSynchronize(NULL));
    OK(cuDeviceSetMemPool(0, default_pool()));
    OK(cuMemPoolDestroy(pool));
}

TEST(creation_arguments_are_checked)
{
    CUmemPoolProps props = pool_props();
    CUmemoryPool pool = NULL;
    EXPECT_SURE(cuMemPoolCreate(NULL, &props), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuMemPoolCreate(&pool, NULL), CUDA_ERROR_INVALID_VALUE);
    props.location.id = 99;
    EXPECT_SURE(cuMemPoolCreate(&pool, &props), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuMemPoolDestroy(default_pool()), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuMemPoolDestroy(NULL), CUDA_ERROR_INVALID_VALUE);
}

TEST(exported_as_a_descriptor)
{
    CUmemPoolProps props = pool_props();
    CUmemoryPool pool = NULL, imported = NULL;
    CUmemPoolPtrExportData data;
    CUdeviceptr a = 0, b = 0;
    int descriptor = -1;
    props.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    NEED_OK(cuMemPoolCreate(&pool, &props));
    NEED_OK(cuMemPoolExportToShareableHandle(&descriptor, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    NEED_OK(cuMemPoolImportFromShareableHandle(&imported, (void *)(intptr_t)descriptor,
                                               CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    NEED_OK(cuMemAllocFromPoolAsync(&a, 4096, pool, NULL));
    OK(cuMemsetD32Async(a, 64, 1024, NULL));
    OK(cuStreamSynchronize(NULL));
    OK(cuMemPoolExportPointer(&data, a));
    OK(cuMemPoolImportPointer(&b, imported, &data));
    TRUE(device_holds(b, 1024, 64));
    OK(cuMemFree(b));
    OK(cuMemFreeAsync(a, NULL));
    OK(cuStreamSynchronize(NULL));
    OK(cuMemPoolDestroy(imported));
    OK(cuMemPoolDestroy(pool));
}
