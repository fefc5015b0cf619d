// What a program asks the runtime about itself: versions, device properties against attributes, memory in use, limits,
// error names and texts, driver entry points, kernels of a library loaded at run time.
#include "check.h"

static const char ptx[] = ".version 7.0\n.target sm_80\n.address_size 64\n"
                          ".visible .global .align 4 .u32 total;\n"
                          ".visible .entry store_sum(.param .u64 out, .param .u32 a, .param .u32 b)\n{\n"
                          "    .reg .u64 %p;\n    .reg .u32 %r<4>;\n"
                          "    ld.param.u64 %p, [out];\n    ld.param.u32 %r1, [a];\n    ld.param.u32 %r2, [b];\n"
                          "    add.u32 %r3, %r1, %r2;\n    st.global.u32 [%p], %r3;\n    ret;\n}\n";

static void check_properties()
{
    cudaDeviceProp properties;
    CUDA(cudaGetDeviceProperties(&properties, 0));
    int value = 0;
    const struct {
        cudaDeviceAttr attribute;
        long long field;
    } pairs[] = {{cudaDevAttrComputeCapabilityMajor, properties.major},
                 {cudaDevAttrMultiProcessorCount, properties.multiProcessorCount},
                 {cudaDevAttrMaxThreadsPerBlock, properties.maxThreadsPerBlock},
                 {cudaDevAttrMaxGridDimX, properties.maxGridSize[0]},
                 {cudaDevAttrWarpSize, properties.warpSize},
                 {cudaDevAttrL2CacheSize, properties.l2CacheSize},
                 {cudaDevAttrMaxSharedMemoryPerBlockOptin, (long long)properties.sharedMemPerBlockOptin},
                 {cudaDevAttrMaxBlocksPerMultiprocessor, properties.maxBlocksPerMultiProcessor},
                 {cudaDevAttrPciBusId, properties.pciBusID},
                 {cudaDevAttrClusterLaunch, properties.clusterLaunch}};
    for (const auto &pair : pairs) {
        CUDA(cudaDeviceGetAttribute(&value, pair.attribute, 0));
        EXPECT(value == pair.field);
    }
    EXPECT(properties.warpSize == 32 && properties.major >= 7 && strlen(properties.name) > 0);
    size_t free_bytes = 0, total_bytes = 0, after = 0;
    CUDA(cudaMemGetInfo(&free_bytes, &total_bytes));
    EXPECT(free_bytes <= total_bytes && total_bytes <= properties.totalGlobalMem);
    void *block = device_array<char>(256 << 20);
    CUDA(cudaMemGetInfo(&after, &total_bytes));
    EXPECT(after + (256 << 20) <= free_bytes);
    CUDA(cudaFree(block));
    char bus_id[32] = "";
    int device = -1;
    CUDA(cudaDeviceGetPCIBusId(bus_id, sizeof(bus_id), 0));
    CUDA(cudaDeviceGetByPCIBusId(&device, bus_id));
    EXPECT(device == 0);
}

static void check_errors()
{
    EXPECT(strcmp(cudaGetErrorName(cudaErrorMemoryAllocation), "cudaErrorMemoryAllocation") == 0);
    EXPECT(strcmp(cudaGetErrorName(cudaErrorIllegalAddress), "cudaErrorIllegalAddress") == 0);
    EXPECT(strcmp(cudaGetErrorString(cudaSuccess), "no error") == 0);
    EXPECT(strlen(cudaGetErrorString(cudaErrorIllegalAddress)) > 0);
    EXPECT(strcmp(cudaGetErrorName((cudaError_t)123456), "unrecognized error code") == 0);
    void *pointer = nullptr;
    EXPECT_STATUS(cudaMalloc(&pointer, (size_t)1 << 50), cudaErrorMemoryAllocation);
    EXPECT_STATUS(cudaPeekAtLastError(), cudaErrorMemoryAllocation);
    EXPECT_STATUS(cudaGetLastError(), cudaErrorMemoryAllocation);
    EXPECT_STATUS(cudaGetLastError(), cudaSuccess);
    EXPECT_STATUS(cudaFree(&pointer), cudaErrorInvalidValue);
    EXPECT_STATUS(cudaLaunchKernel(&pointer, dim3(1), dim3(1), nullptr, 0, nullptr),
                  CUDART_VERSION >= 13000 ? cudaErrorInvalidResourceHandle : cudaErrorInvalidDeviceFunction);
    EXPECT_STATUS(cudaMemcpyToSymbol(&pointer, &pointer, 4), cudaErrorInvalidSymbol);
    EXPECT_STATUS(cudaMemcpy(&pointer, &pointer, 4, (cudaMemcpyKind)9), cudaErrorInvalidMemcpyDirection);
    EXPECT_STATUS(cudaMalloc(&pointer, 0), cudaSuccess);
    EXPECT(pointer == nullptr);
    EXPECT_STATUS(cudaFree(nullptr), cudaSuccess);
    cudaGetLastError();
}

static void check_library()
{
    cudaLibrary_t library;
    cudaKernel_t kernel;
    unsigned count = 0, a = 40, b = 2;
    CUDA(cudaLibraryLoadData(&library, ptx, nullptr, nullptr, 0, nullptr, nullptr, 0));
    CUDA(cudaLibraryGetKernelCount(&count, library));
    EXPECT(count == 1);
    CUDA(cudaLibraryGetKernel(&kernel, library, "store_sum"));
    unsigned *out = device_array<unsigned>(1);
    void *arguments[] = {&out, &a, &b};
    CUDA(cudaLaunchKernel((const void *)kernel, dim3(1), dim3(1), arguments, 0, nullptr));
    EXPECT(download(out, 1)[0] == 42);
    void *global = nullptr;
    size_t bytes = 0;
    CUDA(cudaLibraryGetGlobal(&global, &bytes, library, "total"));
    EXPECT(global != nullptr && bytes == 4);
    EXPECT_STATUS(cudaLibraryGetKernel(&kernel, library, "absent"), cudaErrorSymbolNotFound);
    cudaGetLastError();
    CUDA(cudaLibraryUnload(library));
}

int main()
{
    int runtime = 0, driver = 0;
    CUDA(cudaRuntimeGetVersion(&runtime));
    CUDA(cudaDriverGetVersion(&driver));
    EXPECT(runtime / 1000 == CUDART_VERSION / 1000);
    EXPECT(driver >= runtime / 1000 * 1000);
    check_properties();
    check_errors();
    check_library();

    size_t stack = 0;
    CUDA(cudaDeviceSetLimit(cudaLimitStackSize, 4096));
    CUDA(cudaDeviceGetLimit(&stack, cudaLimitStackSize));
    EXPECT(stack >= 4096);
    void *entry = nullptr;
    cudaDriverEntryPointQueryResult found;
    CUDA(cudaGetDriverEntryPointByVersion("cuMemAlloc", &entry, 12000, cudaEnableDefault, &found));
    EXPECT(entry != nullptr && found == cudaDriverEntryPointSuccess);
    CUDA(cudaGetDriverEntryPointByVersion("cuNoSuchFunction", &entry, 12000, cudaEnableDefault, &found));
    EXPECT(found == cudaDriverEntryPointSymbolNotFound);
    return finish();
}
