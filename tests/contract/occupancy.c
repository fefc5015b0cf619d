/* Occupancy queries. Exact values depend on the compiler's registers; only what must hold is asserted. */
#include "contract.h"

GROUP(occupancy, use_primary)

TEST(blocks_fit_the_multiprocessor)
{
    CUfunction empty = contract_kernel("empty");
    int small = 0, full = 0, threads = device_attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
    OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&small, empty, 32, 0));
    EQ(small, device_attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR));
    OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&full, empty, 1024, 0));
    EQ(full, threads / 1024);
    OK(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&full, empty, 256, 0, CU_OCCUPANCY_DEFAULT));
    EQ(full, threads / 256);
}

TEST(shared_memory_limits_blocks)
{
    CUfunction empty = contract_kernel("empty");
    int blocks = 0, shared = device_attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
    OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, empty, 32, 49152 - 1024));
    EQ(blocks, shared / 49152);
}

TEST(arguments_are_checked)
{
    CUfunction empty = contract_kernel("empty");
    int blocks = 9;
    EXPECT_SURE(cuOccupancyMaxActiveBlocksPerMultiprocessor(NULL, empty, 32, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, empty, 0, 0), CUDA_ERROR_INVALID_VALUE);
    OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, empty, 2048, 0));
    EQ(blocks, 0);
    EXPECT_SURE(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, empty, 32, 0, 0x80), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, NULL, 32, 0), CUDA_ERROR_INVALID_HANDLE);
}

TEST(a_block_size_is_proposed)
{
    int grid = 0, block = 0;
    OK(cuOccupancyMaxPotentialBlockSize(&grid, &block, contract_kernel("empty"), NULL, 0, 0));
    TRUE(block >= 128 && block <= 1024 && block % 32 == 0);
    TRUE(grid >= device_attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
    OK(cuOccupancyMaxPotentialBlockSize(&grid, &block, contract_kernel("empty"), NULL, 0, 64));
    EQ(block, 64);
    OK(cuOccupancyMaxPotentialBlockSizeWithFlags(&grid, &block, contract_kernel("bounded"), NULL, 0, 0, 0));
    EQ(block, 64);
}

TEST(shared_memory_left_for_blocks)
{
    size_t one = 0, four = 0;
    CUfunction reverse = contract_kernel("reverse");
    OK(cuOccupancyAvailableDynamicSMemPerBlock(&one, reverse, 1, 128));
    OK(cuOccupancyAvailableDynamicSMemPerBlock(&four, reverse, 4, 128));
    TRUE(one >= four && four >= 16384);
    TRUE((int)one <= device_attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN));
}

TEST(clusters_fit)
{
    SKIP_UNLESS(device_attribute(CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH), "the device has no clusters");
    CUlaunchConfig config;
    CUlaunchAttribute attribute;
    int clusters = 0;
    memset(&config, 0, sizeof(config));
    memset(&attribute, 0, sizeof(attribute));
    attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    attribute.value.clusterDim.x = 2;
    attribute.value.clusterDim.y = attribute.value.clusterDim.z = 1;
    config.gridDimX = 8;
    config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
    config.blockDimX = 128;
    config.attrs = &attribute;
    config.numAttrs = 1;
    OK(cuOccupancyMaxActiveClusters(&clusters, contract_kernel("empty"), &config));
    TRUE(clusters > 0);
    OK(cuOccupancyMaxPotentialClusterSize(&clusters, contract_kernel("empty"), &config));
    TRUE(clusters >= 1 && clusters <= 16);
}
