// Byte histogram: shared-memory atomics per block, merged with global atomics; against global atomics only.
#include "check.h"

__global__ void histogram_shared(const unsigned char *bytes, int count, unsigned *bins)
{
    __shared__ unsigned local[256];
    for (int i = threadIdx.x; i < 256; i += blockDim.x)
        local[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
        atomicAdd(&local[bytes[i]], 1u);
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += blockDim.x)
        atomicAdd(&bins[i], local[i]);
}

__global__ void histogram_global(const unsigned char *bytes, int count, unsigned *bins)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        atomicAdd(&bins[bytes[i]], 1u);
}

int main()
{
    const int count = 60007;
    Random random(9);
    std::vector<unsigned char> bytes(count);
    std::vector<unsigned> want(256);
    for (unsigned char &byte : bytes) {
        byte = (unsigned char)(random.below(16) * random.below(16));
        want[byte]++;
    }
    unsigned char *device_bytes = upload(bytes);
    unsigned *bins = device_array<unsigned>(256);
    CUDA(cudaMemset(bins, 0, 256 * sizeof(unsigned)));
    histogram_shared<<<12, 192>>>(device_bytes, count, bins);
    CUDA(cudaGetLastError());
    expect_equal("shared atomics", download(bins, 256), want);
    CUDA(cudaMemset(bins, 0, 256 * sizeof(unsigned)));
    histogram_global<<<(count + 127) / 128, 128>>>(device_bytes, count, bins);
    CUDA(cudaGetLastError());
    expect_equal("global atomics", download(bins, 256), want);
    return finish();
}
