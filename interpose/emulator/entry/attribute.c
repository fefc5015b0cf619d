/*
 * See attribute.h. Attributes that follow from the device's description are computed; the others are constants of the emulated driver:
 * limits that hardware of compute capability 8.0 to 9.0 shares, and 0 for features that are not emulated (textures have limits all the
 * same, because programs divide by them).
 */
#include "attribute.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define A(name) CU_DEVICE_ATTRIBUTE_##name

struct constant {
    int attribute, value;
};

static const struct constant constants[] = {
    {A(MAX_THREADS_PER_BLOCK), 1024},
    {A(MAX_BLOCK_DIM_X), 1024},
    {A(MAX_BLOCK_DIM_Y), 1024},
    {A(MAX_BLOCK_DIM_Z), 64},
    {A(MAX_GRID_DIM_X), 2147483647},
    {A(MAX_GRID_DIM_Y), 65535},
    {A(MAX_GRID_DIM_Z), 65535},
    {A(TOTAL_CONSTANT_MEMORY), 65536},
    {A(WARP_SIZE), 32},
    {A(MAX_PITCH), 2147483647},
    {A(TEXTURE_ALIGNMENT), 512},
    {A(GPU_OVERLAP), 1},
    {A(KERNEL_EXEC_TIMEOUT), 0},
    {A(INTEGRATED), 0},
    {A(CAN_MAP_HOST_MEMORY), 1},
    {A(COMPUTE_MODE), CU_COMPUTEMODE_DEFAULT},
    {A(MAXIMUM_TEXTURE1D_WIDTH), 131072},
    {A(MAXIMUM_TEXTURE2D_WIDTH), 131072},
    {A(MAXIMUM_TEXTURE2D_HEIGHT), 65536},
    {A(MAXIMUM_TEXTURE3D_WIDTH), 16384},
    {A(MAXIMUM_TEXTURE3D_HEIGHT), 16384},
    {A(MAXIMUM_TEXTURE3D_DEPTH), 16384},
    {A(MAXIMUM_TEXTURE2D_LAYERED_WIDTH), 32768},
    {A(MAXIMUM_TEXTURE2D_LAYERED_HEIGHT), 32768},
    {A(MAXIMUM_TEXTURE2D_LAYERED_LAYERS), 2048},
    {A(SURFACE_ALIGNMENT), 512},
    {A(CONCURRENT_KERNELS), 1},
    {A(ECC_ENABLED), 1},
    {A(TCC_DRIVER), 0},
    {A(UNIFIED_ADDRESSING), 1},
    {A(MAXIMUM_TEXTURE1D_LAYERED_WIDTH), 32768},
    {A(MAXIMUM_TEXTURE1D_LAYERED_LAYERS), 2048},
    {A(CAN_TEX2D_GATHER), 1},
    {A(MAXIMUM_TEXTURE2D_GATHER_WIDTH), 32768},
    {A(MAXIMUM_TEXTURE2D_GATHER_HEIGHT), 32768},
    {A(MAXIMUM_TEXTURE3D_WIDTH_ALTERNATE), 8192},
    {A(MAXIMUM_TEXTURE3D_HEIGHT_ALTERNATE), 8192},
    {A(MAXIMUM_TEXTURE3D_DEPTH_ALTERNATE), 32768},
    {A(TEXTURE_PITCH_ALIGNMENT), 32},
    {A(MAXIMUM_TEXTURECUBEMAP_WIDTH), 32768},
    {A(MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH), 32768},
    {A(MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS), 2046},
    {A(MAXIMUM_SURFACE1D_WIDTH), 32768},
    {A(MAXIMUM_SURFACE2D_WIDTH), 131072},
    {A(MAXIMUM_SURFACE2D_HEIGHT), 65536},
    {A(MAXIMUM_SURFACE3D_WIDTH), 16384},
    {A(MAXIMUM_SURFACE3D_HEIGHT), 16384},
    {A(MAXIMUM_SURFACE3D_DEPTH), 16384},
    {A(MAXIMUM_SURFACE1D_LAYERED_WIDTH), 32768},
    {A(MAXIMUM_SURFACE1D_LAYERED_LAYERS), 2048},
    {A(MAXIMUM_SURFACE2D_LAYERED_WIDTH), 32768},
    {A(MAXIMUM_SURFACE2D_LAYERED_HEIGHT), 32768},
    {A(MAXIMUM_SURFACE2D_LAYERED_LAYERS), 2048},
    {A(MAXIMUM_SURFACECUBEMAP_WIDTH), 32768},
    {A(MAXIMUM_SURFACECUBEMAP_LAYERED_WIDTH), 32768},
    {A(MAXIMUM_SURFACECUBEMAP_LAYERED_LAYERS), 2046},
    {A(MAXIMUM_TEXTURE1D_LINEAR_WIDTH), 268435456},
    {A(MAXIMUM_TEXTURE2D_LINEAR_WIDTH), 131072},
    {A(MAXIMUM_TEXTURE2D_LINEAR_HEIGHT), 65000},
    {A(MAXIMUM_TEXTURE2D_LINEAR_PITCH), 2097120},
    {A(MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH), 32768},
    {A(MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT), 32768},
    {A(MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH), 32768},
    {A(STREAM_PRIORITIES_SUPPORTED), 1},
    {A(GLOBAL_L1_CACHE_SUPPORTED), 1},
    {A(LOCAL_L1_CACHE_SUPPORTED), 1},
    {A(MANAGED_MEMORY), 1},
    {A(MULTI_GPU_BOARD), 0},
    {A(HOST_NATIVE_ATOMIC_SUPPORTED), 0},
    {A(PAGEABLE_MEMORY_ACCESS), 0},
    {A(CONCURRENT_MANAGED_ACCESS), 1},
    {A(COMPUTE_PREEMPTION_SUPPORTED), 1},
    {A(CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM), 1},
    {A(CAN_USE_STREAM_MEM_OPS_V1), 1},
    {A(CAN_USE_64_BIT_STREAM_MEM_OPS_V1), 1},
    {A(CAN_USE_STREAM_WAIT_VALUE_NOR_V1), 1},
    {A(COOPERATIVE_LAUNCH), 1},
    {A(COOPERATIVE_MULTI_DEVICE_LAUNCH), 0},
    {A(CAN_FLUSH_REMOTE_WRITES), 0},
    {A(HOST_REGISTER_SUPPORTED), 1},
    {A(PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES), 0},
    {A(DIRECT_MANAGED_MEM_ACCESS_FROM_HOST), 0},
    {A(VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED), 1},
    {A(HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED), 1},
    {A(HANDLE_TYPE_WIN32_HANDLE_SUPPORTED), 0},
    {A(HANDLE_TYPE_WIN32_KMT_HANDLE_SUPPORTED), 0},
    {A(GENERIC_COMPRESSION_SUPPORTED), 0},
    {A(GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED), 0},
    {A(MAX_ACCESS_POLICY_WINDOW_SIZE), 134213632},
    {A(RESERVED_SHARED_MEMORY_PER_BLOCK), 1024},
    {A(SPARSE_CUDA_ARRAY_SUPPORTED), 0},
    {A(READ_ONLY_HOST_REGISTER_SUPPORTED), 1},
    {A(TIMELINE_SEMAPHORE_INTEROP_SUPPORTED), 0},
    {A(MEMORY_POOLS_SUPPORTED), 1},
    {A(GPU_DIRECT_RDMA_SUPPORTED), 0},
    {117, 0}, /* flush options of GPUDirect RDMA */
    {A(GPU_DIRECT_RDMA_WRITES_ORDERING), 0},
    {A(MEMPOOL_SUPPORTED_HANDLE_TYPES), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR},
    {A(DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED), 0},
    {A(CAN_USE_64_BIT_STREAM_MEM_OPS), 1},
    {A(CAN_USE_STREAM_WAIT_VALUE_NOR), 1},
    {A(DMA_BUF_SUPPORTED), 0},
    {A(IPC_EVENT_SUPPORTED), 1},
    {A(HANDLE_TYPE_FABRIC_SUPPORTED), 0},
    {A(UNIFIED_FUNCTION_POINTERS), 0},
    {A(NUMA_CONFIG), 0},
    {A(NUMA_ID), -1},
    {A(MULTICAST_SUPPORTED), 0},
    {A(MPS_ENABLED), 0},
    {A(HOST_NUMA_ID), 0},
    {A(D3D12_CIG_SUPPORTED), 0},
    {A(MEM_DECOMPRESS_ALGORITHM_MASK), 0},
    {A(MEM_DECOMPRESS_MAXIMUM_LENGTH), 0},
    {A(VULKAN_CIG_SUPPORTED), 0},
    {A(GPU_PCI_DEVICE_ID), 0},
    {A(GPU_PCI_SUBSYSTEM_ID), 0},
    {A(HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED), 1},
    {A(HOST_NUMA_MEMORY_POOLS_SUPPORTED), 0},
    {A(HOST_NUMA_MULTINODE_IPC_SUPPORTED), 0},
    {A(HOST_MEMORY_POOLS_SUPPORTED), 0},
    {A(HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED), 0},
    {A(HOST_ALLOC_DMA_BUF_SUPPORTED), 0},
    {A(ONLY_PARTIAL_HOST_NATIVE_ATOMIC_SUPPORTED), 0},
};

struct field {
    int attribute;
    size_t offset; /* of a uint32_t in struct tsr_device_desc */
};

#define FIELD(name, member) {A(name), offsetof(struct tsr_device_desc, member)}

static const struct field fields[] = {
    FIELD(MAX_SHARED_MEMORY_PER_BLOCK, shared_per_block_bytes),
    FIELD(MAX_REGISTERS_PER_BLOCK, registers_per_sm),
    FIELD(CLOCK_RATE, clock_khz),
    FIELD(MULTIPROCESSOR_COUNT, sm_count),
    FIELD(PCI_BUS_ID, pci_bus),
    FIELD(PCI_DEVICE_ID, pci_device),
    FIELD(PCI_DOMAIN_ID, pci_domain),
    FIELD(MEMORY_CLOCK_RATE, memory_clock_khz),
    FIELD(GLOBAL_MEMORY_BUS_WIDTH, memory_bus_bits),
    FIELD(MAX_THREADS_PER_MULTIPROCESSOR, max_threads_per_sm),
    FIELD(ASYNC_ENGINE_COUNT, copy_engines),
    FIELD(COMPUTE_CAPABILITY_MAJOR, compute_major),
    FIELD(COMPUTE_CAPABILITY_MINOR, compute_minor),
    FIELD(MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, shared_per_sm_bytes),
    FIELD(MAX_REGISTERS_PER_MULTIPROCESSOR, registers_per_sm),
    FIELD(MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, shared_per_block_optin_bytes),
    FIELD(MAX_BLOCKS_PER_MULTIPROCESSOR, max_blocks_per_sm),
    FIELD(MULTI_GPU_BOARD_GROUP_ID, pci_bus),
};

static int described(const struct tsr_device_desc *desc, int attribute, int *value)
{
    for (unsigned i = 0; i < sizeof fields / sizeof fields[0]; i++)
        if (fields[i].attribute == attribute) {
            uint32_t number;
            memcpy(&number, (const char *)desc + fields[i].offset, sizeof number);
            *value = (int)number;
            return 1;
        }
    return 0;
}

static int derived(const struct tsr_device_desc *desc, int attribute, int *value)
{
    const int hopper = desc->compute_major >= 9;
    switch (attribute) {
    case A(L2_CACHE_SIZE):
        *value = (int)desc->l2_bytes;
        return 1;
    case A(MAX_PERSISTING_L2_CACHE_SIZE):
        *value = (int)(desc->l2_bytes / 8 * 5);
        return 1;
    case A(SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO):
        *value = desc->fp64_ops_per_sm_clk ? (int)(desc->fp32_ops_per_sm_clk / desc->fp64_ops_per_sm_clk) : 0;
        return 1;
    case A(CLUSTER_LAUNCH):
    case A(TENSOR_MAP_ACCESS_SUPPORTED):
        *value = hopper;
        return 1;
    case A(MEM_SYNC_DOMAIN_COUNT):
        *value = hopper ? 4 : 1;
        return 1;
    default:
        return 0;
    }
}

int tsr_device_attribute(const struct tsr_device_desc *desc, int attribute, int *value)
{
    if (described(desc, attribute, value) || derived(desc, attribute, value))
        return 1;
    for (unsigned i = 0; i < sizeof constants / sizeof constants[0]; i++)
        if (constants[i].attribute == attribute) {
            *value = constants[i].value;
            return 1;
        }
    return 0;
}
