/* Access between devices. */
#include "contract.h"

GROUP(peer, use_primary)

static int devices(void)
{
    int count = 0;
    OK(cuDeviceGetCount(&count));
    return count;
}

static int reachable(void)
{
    int can = 0;
    OK(cuDeviceCanAccessPeer(&can, 0, 1));
    return can;
}

TEST(copies_between_devices)
{
    SKIP_UNLESS(devices() > 1, "one device");
    CUcontext first = NULL, second = NULL;
    CUdeviceptr here = device_words(256, 61), there = 0;
    OK(cuCtxGetCurrent(&first));
    NEED_OK(cuDevicePrimaryCtxRetain(&second, 1));
    OK(cuCtxPushCurrent(second));
    there = device_words(256, 0);
    OK(cuMemcpyPeer(there, second, here, first, 1024));
    OK(cuCtxSynchronize());
    TRUE(device_holds(there, 256, 61));
    int ordinal = -1;
    OK(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, there));
    EQ(ordinal, 1);
    OK(cuMemsetD32(there, 62, 256));
    OK(cuCtxPopCurrent(NULL));
    OK(cuMemcpyDtoD(here, there, 1024));
    OK(cuCtxSynchronize());
    TRUE(device_holds(here, 256, 62));
    OK(cuMemFree(there));
    OK(cuMemFree(here));
    OK(cuDevicePrimaryCtxRelease(1));
}

TEST(enabled_and_disabled)
{
    SKIP_UNLESS(devices() > 1 && reachable(), "no second device with peer access");
    CUcontext first = NULL, second = NULL;
    OK(cuCtxGetCurrent(&first));
    NEED_OK(cuDevicePrimaryCtxRetain(&second, 1));
    OK(cuCtxEnablePeerAccess(second, 0));
    EXPECT_SURE(cuCtxEnablePeerAccess(second, 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    EXPECT_SURE(cuCtxEnablePeerAccess(second, 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuCtxEnablePeerAccess(first, 0), CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
    OK(cuCtxDisablePeerAccess(second));
    EXPECT_SURE(cuCtxDisablePeerAccess(second), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
    OK(cuDevicePrimaryCtxRelease(1));
}

TEST(kernel_writes_on_the_other_device)
{
    SKIP_UNLESS(devices() > 1 && reachable(), "no second device with peer access");
    CUcontext second = NULL;
    CUdeviceptr there = 0;
    uint32_t value = 19, words = 64;
    NEED_OK(cuDevicePrimaryCtxRetain(&second, 1));
    OK(cuCtxPushCurrent(second));
    there = device_words(64, 0);
    OK(cuCtxSynchronize());
    OK(cuCtxPopCurrent(NULL));
    OK(cuCtxEnablePeerAccess(second, 0));
    void *arguments[] = {&there, &value, &words};
    OK(cuLaunchKernel(contract_kernel("fill"), 2, 1, 1, 32, 1, 1, 0, NULL, arguments, NULL));
    OK(cuCtxSynchronize());
    TRUE(device_holds(there, 64, 19));
    OK(cuCtxDisablePeerAccess(second));
    OK(cuMemFree(there));
    OK(cuDevicePrimaryCtxRelease(1));
}

TEST(attributes_agree_with_access)
{
    SKIP_UNLESS(devices() > 1, "one device");
    int supported = -1, rank = -1;
    OK(cuDeviceGetP2PAttribute(&supported, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 1));
    EQ(supported, reachable());
    OK(cuDeviceGetP2PAttribute(&rank, CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK, 0, 1));
    TRUE(rank >= 0);
}

TEST(mapped_for_both_devices)
{
    SKIP_UNLESS(devices() > 1 && reachable(), "no second device with peer access");
    size_t size = 2 << 20;
    CUmemAllocationProp prop;
    CUmemAccessDesc access[2];
    CUmemGenericAllocationHandle handle = 0;
    CUcontext second = NULL;
    CUmodule module = NULL;
    CUfunction fill = NULL;
    CUdeviceptr memory = 0;
    uint32_t value = 23, words = 64;
    void *arguments[] = {&memory, &value, &words};
    memset(&prop, 0, sizeof(prop));
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    memset(access, 0, sizeof(access));
    for (int i = 0; i < 2; i++) {
        access[i].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        access[i].location.id = i;
        access[i].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    }
    NEED_OK(cuDevicePrimaryCtxRetain(&second, 1));
    NEED_OK(cuMemCreate(&handle, size, &prop, 0));
    NEED_OK(cuMemAddressReserve(&memory, size, 0, 0, 0));
    NEED_OK(cuMemMap(memory, size, 0, handle, 0));
    OK(cuMemSetAccess(memory, size, access, 2));
    OK(cuMemsetD32(memory, 1, 64));
    OK(cuCtxSynchronize());
    OK(cuCtxPushCurrent(second));
    OK(cuModuleLoadData(&module, contract_ptx));
    OK(cuModuleGetFunction(&fill, module, "fill"));
    OK(cuLaunchKernel(fill, 2, 1, 1, 32, 1, 1, 0, NULL, arguments, NULL));
    OK(cuCtxSynchronize());
    OK(cuModuleUnload(module));
    OK(cuCtxPopCurrent(NULL));
    TRUE(device_holds(memory, 64, 23));
    OK(cuMemUnmap(memory, size));
    OK(cuMemAddressFree(memory, size));
    OK(cuMemRelease(handle));
    OK(cuDevicePrimaryCtxRelease(1));
}

/* Of other memory drivers copy any device's. */
TEST(mapped_memory_is_copied_by_who_may_access_it)
{
    SKIP_UNLESS(devices() > 1, "one device");
    size_t size = 2 << 20;
    CUmemAllocationProp prop;
    CUmemAccessDesc access;
    CUmemGenericAllocationHandle handle = 0;
    CUcontext first = NULL, second = NULL;
    CUdeviceptr memory = 0, other = 0;
    memset(&prop, 0, sizeof(prop));
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    memset(&access, 0, sizeof(access));
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    NEED_OK(cuCtxGetCurrent(&first));
    NEED_OK(cuDevicePrimaryCtxRetain(&second, 1));
    NEED_OK(cuMemCreate(&handle, size, &prop, 0));
    NEED_OK(cuMemAddressReserve(&memory, size, 0, 0, 0));
    NEED_OK(cuMemMap(memory, size, 0, handle, 0));
    OK(cuMemSetAccess(memory, size, &access, 1));
    OK(cuMemsetD32(memory, 29, 64));
    OK(cuCtxSynchronize());
    OK(cuCtxPushCurrent(second));
    OK(cuMemAlloc(&other, 4096));
    EXPECT_GUESS(cuMemcpyDtoD(other, memory, 256), CUDA_ERROR_INVALID_VALUE);
    EXPECT_GUESS(cuMemcpyDtoD(memory, other, 256), CUDA_ERROR_INVALID_VALUE);
    EXPECT_GUESS(cuMemsetD32(memory, 1, 64), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemcpyPeer(other, second, memory, first, 256));
    OK(cuCtxSynchronize());
    TRUE(device_holds(other, 64, 29));
    OK(cuMemFree(other));
    OK(cuCtxPopCurrent(NULL));
    TRUE(device_holds(memory, 64, 29));
    OK(cuMemUnmap(memory, size));
    OK(cuMemAddressFree(memory, size));
    OK(cuMemRelease(handle));
    OK(cuDevicePrimaryCtxRelease(1));
}
