/* Devices and their attributes. */
#include "contract.h"

GROUP(device, use_init)

TEST(counted_and_numbered)
{
    int count = 0;
    CUdevice device = -1;
    NEED_OK(cuDeviceGetCount(&count));
    TRUE(count >= 1);
    EXPECT_SURE(cuDeviceGetCount(NULL), CUDA_ERROR_INVALID_VALUE);
    OK(cuDeviceGet(&device, 0));
    EQ(device, 0);
    OK(cuDeviceGet(&device, count - 1));
    EQ(device, count - 1);
    EXPECT_SURE(cuDeviceGet(&device, count), CUDA_ERROR_INVALID_DEVICE);
    EXPECT_SURE(cuDeviceGet(&device, -1), CUDA_ERROR_INVALID_DEVICE);
    EXPECT_SURE(cuDeviceGet(NULL, 0), CUDA_ERROR_INVALID_VALUE);
}

TEST(named)
{
    char name[128] = "";
    char part[5] = "....";
    OK(cuDeviceGetName(name, sizeof(name), 0));
    TRUE(strlen(name) > 0 && strlen(name) < sizeof(name));
    OK(cuDeviceGetName(part, 4, 0));
    TRUE(strlen(part) == 3 && strncmp(part, name, 3) == 0);
    EXPECT_SURE(cuDeviceGetName(name, sizeof(name), 99), CUDA_ERROR_INVALID_DEVICE);
}

TEST(identified)
{
    CUuuid uuid, again, zero;
    memset(&zero, 0, sizeof(zero));
    memset(&uuid, 0, sizeof(uuid));
    OK(cuDeviceGetUuid(&uuid, 0));
    TRUE(memcmp(&uuid, &zero, sizeof(uuid)) != 0);
    OK(cuDeviceGetUuid(&again, 0));
    BYTES(&again, &uuid, sizeof(uuid));
    EXPECT_SURE(cuDeviceGetUuid(&uuid, 99), CUDA_ERROR_INVALID_DEVICE);
    EXPECT_SURE(cuDeviceGetUuid(NULL, 0), CUDA_ERROR_INVALID_VALUE);
}

TEST(found_by_bus_id)
{
    char id[32] = "";
    CUdevice device = -1;
    unsigned domain, bus, slot, function;
    OK(cuDeviceGetPCIBusId(id, sizeof(id), 0));
    EQ(sscanf(id, "%x:%x:%x.%x", &domain, &bus, &slot, &function), 4);
    EQ(bus, device_attribute(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID));
    EQ(slot, device_attribute(CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID));
    EQ(domain, device_attribute(CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID));
    OK(cuDeviceGetByPCIBusId(&device, id));
    EQ(device, 0);
    EXPECT_SURE(cuDeviceGetByPCIBusId(&device, "7777:77:77.0"), CUDA_ERROR_INVALID_DEVICE);
    EXPECT_SURE(cuDeviceGetByPCIBusId(&device, "nowhere"), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuDeviceGetByPCIBusId(NULL, id), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuDeviceGetPCIBusId(NULL, 16, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuDeviceGetPCIBusId(id, sizeof(id), 99), CUDA_ERROR_INVALID_DEVICE);
}

TEST(has_memory)
{
    size_t bytes = 0;
    OK(cuDeviceTotalMem(&bytes, 0));
    TRUE(bytes >= 1ull << 30);
    EXPECT_SURE(cuDeviceTotalMem(NULL, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuDeviceTotalMem(&bytes, 99), CUDA_ERROR_INVALID_DEVICE);
}

TEST(limits_of_a_block)
{
    EQ(device_attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE), 32);
    EQ(device_attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK), 1024);
    EQ(device_attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X), 1024);
    EQ(device_attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y), 1024);
    EQ(device_attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z), 64);
    EQ(device_attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X), 2147483647);
    EQ(device_attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y), 65535);
    EQ(device_attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z), 65535);
    EQ(device_attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK), 49152);
    EQ(device_attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK), 65536);
    EQ(device_attribute(CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY), 65536);
    EQ(device_attribute(CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK), 1024);
}

TEST(limits_of_a_multiprocessor)
{
    int threads = device_attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
    int shared = device_attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
    int opt_in = device_attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
    TRUE(device_attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT) >= 1);
    TRUE(threads >= 1024 && threads % 32 == 0);
    TRUE(opt_in > 49152);
    EQ(shared - opt_in, 1024);
    EQ(device_attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR), 65536);
    TRUE(device_attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR) >= 16);
    TRUE(device_attribute(CU_DEVICE_ATTRIBUTE_CLOCK_RATE) > 0);
    TRUE(device_attribute(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE) > 0);
    TRUE(device_attribute(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH) > 0);
    TRUE(device_attribute(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE) > 0);
}

TEST(features)
{
    TRUE(device_attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) >= 8);
    EQ(device_attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_MODE), CU_COMPUTEMODE_DEFAULT);
    EQ(device_attribute(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING), 1);
    EQ(device_attribute(CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY), 1);
    EQ(device_attribute(CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY), 1);
    EQ(device_attribute(CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS), 1);
    EQ(device_attribute(CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH), 1);
    EQ(device_attribute(CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED), 1);
    EQ(device_attribute(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED), 1);
    EQ(device_attribute(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED), 1);
    EQ(device_attribute(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED), 1);
    EQ(device_attribute(CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM), 1);
    EQ(device_attribute(CU_DEVICE_ATTRIBUTE_INTEGRATED), 0);
    EQ(device_attribute(CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED), 1);
    EQ(device_attribute(CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS), 1);
    EQ(device_attribute(CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR), 1);
    EQ(device_attribute(CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT), 0);
    EQ(device_attribute(CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT), 512);
    EQ(device_attribute(CU_DEVICE_ATTRIBUTE_MAX_PITCH), 2147483647);
}

TEST(attributes_are_checked)
{
    int value = 0;
    EXPECT_SURE(cuDeviceGetAttribute(&value, (CUdevice_attribute)9999, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuDeviceGetAttribute(NULL, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 99), CUDA_ERROR_INVALID_DEVICE);
    EXPECT_SURE(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, -1), CUDA_ERROR_INVALID_DEVICE);
}

TEST(old_queries_agree)
{
    int major = 0, minor = 0;
    CUdevprop properties;
    memset(&properties, 0, sizeof(properties));
    OK(cuDeviceComputeCapability(&major, &minor, 0));
    EQ(major, device_attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR));
    EQ(minor, device_attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
    OK(cuDeviceGetProperties(&properties, 0));
    EQ(properties.maxThreadsPerBlock, 1024);
    EQ(properties.SIMDWidth, 32);
    EQ(properties.sharedMemPerBlock, 49152);
    EQ(properties.maxThreadsDim[2], 64);
}

TEST(execution_affinity_is_answered)
{
    int supported = -1;
    OK(cuDeviceGetExecAffinitySupport(&supported, CU_EXEC_AFFINITY_TYPE_SM_COUNT, 0));
    TRUE(supported == 0 || supported == 1);
}

TEST(no_luid_on_linux)
{
    char luid[8];
    unsigned mask = 0;
    EXPECT_SURE(cuDeviceGetLuid(luid, &mask, 0), CUDA_ERROR_NOT_SUPPORTED);
}

TEST(a_device_is_no_peer_of_itself)
{
    int can = -1, value = -1;
    OK(cuDeviceCanAccessPeer(&can, 0, 0));
    EQ(can, 0);
    EXPECT_SURE(cuDeviceGetP2PAttribute(&value, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 0), CUDA_ERROR_INVALID_DEVICE);
    EXPECT_SURE(cuDeviceCanAccessPeer(&can, 0, 99), CUDA_ERROR_INVALID_DEVICE);
    EXPECT_SURE(cuDeviceCanAccessPeer(NULL, 0, 0), CUDA_ERROR_INVALID_VALUE);
}
