// Extended launches with attributes, function attributes, occupancy, launches that must be refused.
#include "check.h"

__global__ void __launch_bounds__(256) record(int *out)
{
    if (threadIdx.x == 0)
        out[blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z)] =
            (int)(blockDim.x * 10000 + blockDim.y * 100 + blockDim.z);
}

int main()
{
    int *out = device_array<int>(24);
    cudaStream_t stream;
    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(4, 3, 2);
    config.blockDim = dim3(8, 4, 2);
    config.stream = stream;
    cudaLaunchAttribute attributes[2] = {};
    attributes[0].id = cudaLaunchAttributePriority;
    attributes[0].val.priority = 0;
    attributes[1].id = cudaLaunchAttributeCooperative;
    attributes[1].val.cooperative = 1;
    config.attrs = attributes;
    config.numAttrs = 2;
    CUDA(cudaLaunchKernelEx(&config, record, out));
    CUDA(cudaStreamSynchronize(stream));
    expect_equal("extended launch", download(out, 24), std::vector<int>(24, 80402));
    void *arguments[] = {&out};
    CUDA(cudaLaunchKernel((void *)record, dim3(24), dim3(5), arguments, 0, stream));
    CUDA(cudaStreamSynchronize(stream));
    expect_equal("plain launch", download(out, 24), std::vector<int>(24, 50101));

    cudaFuncAttributes function;
    CUDA(cudaFuncGetAttributes(&function, record));
    EXPECT(function.maxThreadsPerBlock == 256);
    EXPECT(function.numRegs > 0 && function.sharedSizeBytes == 0);
    int blocks = 0, minimum_grid = 0, block_size = 0;
    CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, record, 256, 0));
    EXPECT(blocks >= 1 && blocks <= 32);
    CUDA(cudaOccupancyMaxPotentialBlockSize(&minimum_grid, &block_size, record));
    EXPECT(block_size == 256 && minimum_grid > 0);

    // A refused launch is reported once and does not spoil the device.
    record<<<1, 257>>>(out);
    EXPECT_STATUS(cudaPeekAtLastError(), cudaErrorInvalidValue);
    EXPECT_STATUS(cudaGetLastError(), cudaErrorInvalidValue);
    EXPECT_STATUS(cudaGetLastError(), cudaSuccess);
    record<<<1, 1025>>>(out);
    EXPECT_STATUS(cudaGetLastError(), cudaErrorInvalidValue);
    record<<<0, 32>>>(out);
    EXPECT_STATUS(cudaGetLastError(), cudaErrorInvalidValue);
    record<<<dim3(1, 65536), 32>>>(out);
    EXPECT_STATUS(cudaGetLastError(), cudaErrorInvalidValue);
    EXPECT_STATUS(cudaDeviceSynchronize(), cudaSuccess);
    record<<<24, 64>>>(out);
    CUDA(cudaStreamSynchronize(nullptr));
    expect_equal("after refusals", download(out, 24), std::vector<int>(24, 640101));
    return finish();
}
