/* Managed memory: sharing, advice, prefetch, range attributes. */
#include <time.h>

#include "contract.h"

GROUP(managed, use_primary)

TEST(shared_by_host_and_device)
{
    CUdeviceptr device = 0;
    unsigned is_managed = 0;
    NEED_OK(cuMemAllocManaged(&device, 4096, CU_MEM_ATTACH_GLOBAL));
    uint32_t *host = (uint32_t *)(uintptr_t)device;
    OK(cuPointerGetAttribute(&is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, device));
    EQ(is_managed & 1, 1);
    host[3] = 4;
    OK(cuMemsetD32(device, 6, 3));
    OK(cuCtxSynchronize());
    EQ(host[0], 6);
    EQ(host[3], 4);
    OK(cuMemFree(device));
    EXPECT_SURE(cuMemAllocManaged(&device, 4096, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuMemAllocManaged(&device, 4096, 8), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuMemAllocManaged(&device, 0, CU_MEM_ATTACH_GLOBAL), CUDA_ERROR_INVALID_VALUE);
}

TEST(advice_and_prefetch)
{
    CUdeviceptr device = 0;
    CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
    int mostly = 0;
    NEED_OK(cuMemAllocManaged(&device, 1 << 20, CU_MEM_ATTACH_GLOBAL));
    OK(cuMemAdvise(device, 1 << 20, CU_MEM_ADVISE_SET_READ_MOSTLY, here));
    OK(cuMemRangeGetAttribute(&mostly, sizeof(mostly), CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, device, 1 << 20));
    EQ(mostly, 1);
    OK(cuMemAdvise(device, 1 << 20, CU_MEM_ADVISE_UNSET_READ_MOSTLY, here));
    OK(cuMemPrefetchAsync(device, 1 << 20, here, 0, NULL));
    OK(cuCtxSynchronize());
    OK(cuMemFree(device));
}

static void CUDA_CB finish_late(void *done)
{
    struct timespec time = {.tv_nsec = 30000000};
    nanosleep(&time, NULL);
    __atomic_store_n((int *)done, 1, __ATOMIC_SEQ_CST);
}

TEST(prefetch_is_work_of_its_stream)
{
    CUdeviceptr device = 0;
    CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
    CUstream blocking;
    int done = 0;
    SKIP_UNLESS(device_attribute(CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS), "no concurrent managed access");
    NEED_OK(cuMemAllocManaged(&device, 1 << 20, CU_MEM_ATTACH_GLOBAL));
    OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    OK(cuLaunchHostFunc(CU_STREAM_LEGACY, finish_late, &done));
    OK(cuMemPrefetchAsync(device, 1 << 20, here, 0, blocking)); /* which comes after the legacy stream's */
    OK(cuStreamSynchronize(blocking));
    EQ(__atomic_load_n(&done, __ATOMIC_SEQ_CST), 1);
    OK(cuCtxSynchronize());
    OK(cuStreamDestroy(blocking));
    OK(cuMemFree(device));
}

TEST(advice_is_told_back)
{
    CUdeviceptr device = 0;
    CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}, host = {.type = CU_MEM_LOCATION_TYPE_HOST, .id = 0};
    size_t size = 1 << 20;
    int mostly = -9, preferred = -9, prefetched = -9, accessed[3] = {-9, -9, -9};
    SKIP_UNLESS(device_attribute(CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS), "no concurrent managed access");
    NEED_OK(cuMemAllocManaged(&device, size, CU_MEM_ATTACH_GLOBAL));
    OK(cuMemRangeGetAttribute(&preferred, 4, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, device, size));
    EQ(preferred, CU_DEVICE_INVALID);
    OK(cuMemAdvise(device, size, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, host));
    OK(cuMemAdvise(device, size, CU_MEM_ADVISE_SET_ACCESSED_BY, here));
    OK(cuMemRangeGetAttribute(&mostly, 4, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, device, size));
    EQ(mostly, 0);
    OK(cuMemRangeGetAttribute(&preferred, 4, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, device, size));
    EQ(preferred, CU_DEVICE_CPU);
    OK(cuMemRangeGetAttribute(accessed, 12, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, device, size));
    EQ(accessed[0], 0);
    EQ(accessed[1], CU_DEVICE_INVALID);
    OK(cuMemRangeGetAttribute(&prefetched, 4, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, device, size));
    EQ(prefetched, CU_DEVICE_INVALID);
    OK(cuMemPrefetchAsync(device, size, here, 0, NULL));
    OK(cuCtxSynchronize());
    OK(cuMemRangeGetAttribute(&prefetched, 4, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, device, size));
    EQ(prefetched, 0);
    OK(cuMemFree(device));
}

TEST(several_range_attributes)
{
    CUdeviceptr device = 0;
    CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
    int mostly = -9, preferred = -9;
    void *values[] = {&mostly, &preferred};
    size_t sizes[] = {4, 4};
    CUmem_range_attribute names[] = {CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION};
    NEED_OK(cuMemAllocManaged(&device, 1 << 16, CU_MEM_ATTACH_GLOBAL));
    OK(cuMemAdvise(device, 1 << 16, CU_MEM_ADVISE_SET_READ_MOSTLY, here));
    OK(cuMemRangeGetAttributes(values, sizes, names, 2, device, 1 << 16));
    EQ(mostly, 1);
    EQ(preferred, CU_DEVICE_INVALID);
    OK(cuMemFree(device));
}

TEST(advice_needs_managed_memory)
{
    CUdeviceptr plain = device_words(1024, 0);
    CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
    int mostly = 0;
    EXPECT_SURE(cuMemAdvise(plain, 4096, CU_MEM_ADVISE_SET_READ_MOSTLY, here), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuMemPrefetchAsync(plain, 4096, here, 0, NULL), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuMemRangeGetAttribute(&mostly, 4, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, plain, 4096), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree(plain));
}

TEST(every_attribute_of_a_managed_pointer)
{
    CUdeviceptr device = 0;
    unsigned value = 9;
    void *host = NULL;
    CUmemoryPool pool = (CUmemoryPool)1;
    NEED_OK(cuMemAllocManaged(&device, 4096, CU_MEM_ATTACH_GLOBAL));
    OK(cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, device));
    EQ((uintptr_t)host, device);
    OK(cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, device));
    EQ(value & 1, 0);
    OK(cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_MAPPED, device));
    EQ(value & 1, 1);
    OK(cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, device));
    EQ(value, CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE);
    OK(cuPointerGetAttribute(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, device));
    TRUE(pool == NULL);
    OK(cuMemFree(device));
}
