/* cudaGetDeviceProperties: one table of fields and the driver attributes they show. */
#include <string.h>

#include "cudart/state.h"

#if TSR_CUDART_MAJOR == 12
#include "cudart/device_prop12.h"
typedef struct device_prop12 properties;
#else
typedef struct cudaDeviceProp properties;
#endif

struct field {
    size_t offset, size;
    CUdevice_attribute attribute;
};

#define F(member, attribute) {offsetof(properties, member), sizeof(((properties *)0)->member), CU_DEVICE_ATTRIBUTE_##attribute}

static const struct field fields[] = {
    F(sharedMemPerBlock, MAX_SHARED_MEMORY_PER_BLOCK),
    F(regsPerBlock, MAX_REGISTERS_PER_BLOCK),
    F(warpSize, WARP_SIZE),
    F(memPitch, MAX_PITCH),
    F(maxThreadsPerBlock, MAX_THREADS_PER_BLOCK),
    F(maxThreadsDim[0], MAX_BLOCK_DIM_X),
    F(maxThreadsDim[1], MAX_BLOCK_DIM_Y),
    F(maxThreadsDim[2], MAX_BLOCK_DIM_Z),
    F(maxGridSize[0], MAX_GRID_DIM_X),
    F(maxGridSize[1], MAX_GRID_DIM_Y),
    F(maxGridSize[2], MAX_GRID_DIM_Z),
    F(totalConstMem, TOTAL_CONSTANT_MEMORY),
    F(major, COMPUTE_CAPABILITY_MAJOR),
    F(minor, COMPUTE_CAPABILITY_MINOR),
    F(textureAlignment, TEXTURE_ALIGNMENT),
    F(texturePitchAlignment, TEXTURE_PITCH_ALIGNMENT),
    F(multiProcessorCount, MULTIPROCESSOR_COUNT),
    F(integrated, INTEGRATED),
    F(canMapHostMemory, CAN_MAP_HOST_MEMORY),
    F(maxTexture1D, MAXIMUM_TEXTURE1D_WIDTH),
    F(maxTexture1DMipmap, MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH),
    F(maxTexture2D[0], MAXIMUM_TEXTURE2D_WIDTH),
    F(maxTexture2D[1], MAXIMUM_TEXTURE2D_HEIGHT),
    F(maxTexture2DMipmap[0], MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH),
    F(maxTexture2DMipmap[1], MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT),
    F(maxTexture2DLinear[0], MAXIMUM_TEXTURE2D_LINEAR_WIDTH),
    F(maxTexture2DLinear[1], MAXIMUM_TEXTURE2D_LINEAR_HEIGHT),
    F(maxTexture2DLinear[2], MAXIMUM_TEXTURE2D_LINEAR_PITCH),
    F(maxTexture2DGather[0], MAXIMUM_TEXTURE2D_GATHER_WIDTH),
    F(maxTexture2DGather[1], MAXIMUM_TEXTURE2D_GATHER_HEIGHT),
    F(maxTexture3D[0], MAXIMUM_TEXTURE3D_WIDTH),
    F(maxTexture3D[1], MAXIMUM_TEXTURE3D_HEIGHT),
    F(maxTexture3D[2], MAXIMUM_TEXTURE3D_DEPTH),
    F(maxTexture3DAlt[0], MAXIMUM_TEXTURE3D_WIDTH_ALTERNATE),
    F(maxTexture3DAlt[1], MAXIMUM_TEXTURE3D_HEIGHT_ALTERNATE),
    F(maxTexture3DAlt[2], MAXIMUM_TEXTURE3D_DEPTH_ALTERNATE),
    F(maxTextureCubemap, MAXIMUM_TEXTURECUBEMAP_WIDTH),
    F(maxTexture1DLayered[0], MAXIMUM_TEXTURE1D_LAYERED_WIDTH),
    F(maxTexture1DLayered[1], MAXIMUM_TEXTURE1D_LAYERED_LAYERS),
    F(maxTexture2DLayered[0], MAXIMUM_TEXTURE2D_LAYERED_WIDTH),
    F(maxTexture2DLayered[1], MAXIMUM_TEXTURE2D_LAYERED_HEIGHT),
    F(maxTexture2DLayered[2], MAXIMUM_TEXTURE2D_LAYERED_LAYERS),
    F(maxTextureCubemapLayered[0], MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH),
    F(maxTextureCubemapLayered[1], MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS),
    F(maxSurface1D, MAXIMUM_SURFACE1D_WIDTH),
    F(maxSurface2D[0], MAXIMUM_SURFACE2D_WIDTH),
    F(maxSurface2D[1], MAXIMUM_SURFACE2D_HEIGHT),
    F(maxSurface3D[0], MAXIMUM_SURFACE3D_WIDTH),
    F(maxSurface3D[1], MAXIMUM_SURFACE3D_HEIGHT),
    F(maxSurface3D[2], MAXIMUM_SURFACE3D_DEPTH),
    F(maxSurface1DLayered[0], MAXIMUM_SURFACE1D_LAYERED_WIDTH),
    F(maxSurface1DLayered[1], MAXIMUM_SURFACE1D_LAYERED_LAYERS),
    F(maxSurface2DLayered[0], MAXIMUM_SURFACE2D_LAYERED_WIDTH),
    F(maxSurface2DLayered[1], MAXIMUM_SURFACE2D_LAYERED_HEIGHT),
    F(maxSurface2DLayered[2], MAXIMUM_SURFACE2D_LAYERED_LAYERS),
    F(maxSurfaceCubemap, MAXIMUM_SURFACECUBEMAP_WIDTH),
    F(maxSurfaceCubemapLayered[0], MAXIMUM_SURFACECUBEMAP_LAYERED_WIDTH),
    F(maxSurfaceCubemapLayered[1], MAXIMUM_SURFACECUBEMAP_LAYERED_LAYERS),
    F(surfaceAlignment, SURFACE_ALIGNMENT),
    F(concurrentKernels, CONCURRENT_KERNELS),
    F(ECCEnabled, ECC_ENABLED),
    F(pciBusID, PCI_BUS_ID),
    F(pciDeviceID, PCI_DEVICE_ID),
    F(pciDomainID, PCI_DOMAIN_ID),
    F(tccDriver, TCC_DRIVER),
    F(asyncEngineCount, ASYNC_ENGINE_COUNT),
    F(unifiedAddressing, UNIFIED_ADDRESSING),
    F(memoryBusWidth, GLOBAL_MEMORY_BUS_WIDTH),
    F(l2CacheSize, L2_CACHE_SIZE),
    F(persistingL2CacheMaxSize, MAX_PERSISTING_L2_CACHE_SIZE),
    F(maxThreadsPerMultiProcessor, MAX_THREADS_PER_MULTIPROCESSOR),
    F(streamPrioritiesSupported, STREAM_PRIORITIES_SUPPORTED),
    F(globalL1CacheSupported, GLOBAL_L1_CACHE_SUPPORTED),
    F(localL1CacheSupported, LOCAL_L1_CACHE_SUPPORTED),
    F(sharedMemPerMultiprocessor, MAX_SHARED_MEMORY_PER_MULTIPROCESSOR),
    F(regsPerMultiprocessor, MAX_REGISTERS_PER_MULTIPROCESSOR),
    F(managedMemory, MANAGED_MEMORY),
    F(isMultiGpuBoard, MULTI_GPU_BOARD),
    F(multiGpuBoardGroupID, MULTI_GPU_BOARD_GROUP_ID),
    F(hostNativeAtomicSupported, HOST_NATIVE_ATOMIC_SUPPORTED),
    F(pageableMemoryAccess, PAGEABLE_MEMORY_ACCESS),
    F(concurrentManagedAccess, CONCURRENT_MANAGED_ACCESS),
    F(computePreemptionSupported, COMPUTE_PREEMPTION_SUPPORTED),
    F(canUseHostPointerForRegisteredMem, CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM),
    F(cooperativeLaunch, COOPERATIVE_LAUNCH),
    F(sharedMemPerBlockOptin, MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),
    F(pageableMemoryAccessUsesHostPageTables, PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES),
    F(directManagedMemAccessFromHost, DIRECT_MANAGED_MEM_ACCESS_FROM_HOST),
    F(maxBlocksPerMultiProcessor, MAX_BLOCKS_PER_MULTIPROCESSOR),
    F(accessPolicyMaxWindowSize, MAX_ACCESS_POLICY_WINDOW_SIZE),
    F(reservedSharedMemPerBlock, RESERVED_SHARED_MEMORY_PER_BLOCK),
    F(hostRegisterSupported, HOST_REGISTER_SUPPORTED),
    F(sparseCudaArraySupported, SPARSE_CUDA_ARRAY_SUPPORTED),
    F(hostRegisterReadOnlySupported, READ_ONLY_HOST_REGISTER_SUPPORTED),
    F(timelineSemaphoreInteropSupported, TIMELINE_SEMAPHORE_INTEROP_SUPPORTED),
    F(memoryPoolsSupported, MEMORY_POOLS_SUPPORTED),
    F(gpuDirectRDMASupported, GPU_DIRECT_RDMA_SUPPORTED),
    F(gpuDirectRDMAFlushWritesOptions, GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS),
    F(gpuDirectRDMAWritesOrdering, GPU_DIRECT_RDMA_WRITES_ORDERING),
    F(memoryPoolSupportedHandleTypes, MEMPOOL_SUPPORTED_HANDLE_TYPES),
    F(deferredMappingCudaArraySupported, DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED),
    F(ipcEventSupported, IPC_EVENT_SUPPORTED),
    F(clusterLaunch, CLUSTER_LAUNCH),
    F(unifiedFunctionPointers, UNIFIED_FUNCTION_POINTERS),
#if TSR_CUDART_MAJOR == 12
    F(clockRate, CLOCK_RATE),
    F(deviceOverlap, GPU_OVERLAP),
    F(kernelExecTimeoutEnabled, KERNEL_EXEC_TIMEOUT),
    F(computeMode, COMPUTE_MODE),
    F(maxTexture1DLinear, MAXIMUM_TEXTURE1D_LINEAR_WIDTH),
    F(memoryClockRate, MEMORY_CLOCK_RATE),
    F(singleToDoublePrecisionPerfRatio, SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO),
    F(cooperativeMultiDeviceLaunch, COOPERATIVE_MULTI_DEVICE_LAUNCH),
#else
    F(deviceNumaConfig, NUMA_CONFIG),
    F(deviceNumaId, NUMA_ID),
    F(mpsEnabled, MPS_ENABLED),
    F(hostNumaId, HOST_NUMA_ID),
    F(gpuPciDeviceID, GPU_PCI_DEVICE_ID),
    F(gpuPciSubsystemID, GPU_PCI_SUBSYSTEM_ID),
    F(hostNumaMultinodeIpcSupported, HOST_NUMA_MULTINODE_IPC_SUPPORTED),
#endif
};

/* Attributes that a driver does not know leave their field zero. */
static cudaError_t fill(properties *out, int device)
{
    CUdevice handle;
    memset(out, 0, sizeof(*out));
    cudaError_t status = tsr_cudart_error(tsr_driver.cuDeviceGet(&handle, device));
    if (status == cudaSuccess)
        status = tsr_cudart_error(tsr_driver.cuDeviceGetName(out->name, sizeof(out->name), handle));
    if (status == cudaSuccess)
        status = tsr_cudart_error(tsr_driver.cuDeviceTotalMem(&out->totalGlobalMem, handle));
    if (status != cudaSuccess)
        return status;
    tsr_driver.cuDeviceGetUuid((CUuuid *)&out->uuid, handle);
    tsr_driver.cuDeviceGetLuid(out->luid, &out->luidDeviceNodeMask, handle);
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        int value = 0;
        if (tsr_driver.cuDeviceGetAttribute(&value, fields[i].attribute, handle) != CUDA_SUCCESS)
            continue;
        size_t wide = (size_t)value;
        memcpy((char *)out + fields[i].offset, &wide, fields[i].size);
    }
    return cudaSuccess;
}

static cudaError_t get(void *out, size_t bytes, int device)
{
    properties filled;
    if (!out)
        return tsr_cudart_result(cudaErrorInvalidValue);
    cudaError_t status = tsr_cudart_start();
    if (status == cudaSuccess)
        status = fill(&filled, device);
    if (status == cudaSuccess)
        memcpy(out, &filled, bytes);
    return tsr_cudart_result(status);
}

#if TSR_CUDART_MAJOR == 12
TSR_CUDART_EXPORT cudaError_t cudaGetDeviceProperties_v2(struct device_prop12 *out, int device);
cudaError_t cudaGetDeviceProperties_v2(struct device_prop12 *out, int device)
{
    return get(out, sizeof(*out), device);
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *out, int device)
{
    return get(out, offsetof(struct device_prop12, hostRegisterSupported), device);
}
#else
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *out, int device)
{
    return get(out, sizeof(*out), device);
}
#endif
