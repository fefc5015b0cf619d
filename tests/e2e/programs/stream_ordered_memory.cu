// The stream-ordered allocator: allocate, use, free and reuse in stream order; pool attributes; an explicit pool; trim.
#include "check.h"

__global__ void fill(int *data, int value, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        data[i] = value * i;
}

__global__ void add(const int *in, int *out, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        out[i] += in[i];
}

int main()
{
    const int count = 3000, blocks = (count + 127) / 128;
    cudaStream_t stream;
    CUDA(cudaStreamCreate(&stream));
    int *sum = device_array<int>(count);
    CUDA(cudaMemset(sum, 0, count * sizeof(int)));
    std::vector<int> want(count);
    for (int round = 1; round <= 6; round++) {
        int *scratch;
        CUDA(cudaMallocAsync((void **)&scratch, count * sizeof(int), stream));
        fill<<<blocks, 128, 0, stream>>>(scratch, round, count);
        add<<<blocks, 128, 0, stream>>>(scratch, sum, count);
        CUDA(cudaFreeAsync(scratch, stream));
        for (int i = 0; i < count; i++)
            want[i] += round * i;
    }
    CUDA(cudaStreamSynchronize(stream));
    expect_equal("reused", download(sum, count), want);

    cudaMemPool_t pool;
    CUDA(cudaDeviceGetDefaultMemPool(&pool, 0));
    uint64_t threshold = 1 << 20, read_back = 0, used = 1;
    CUDA(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
    CUDA(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &read_back));
    EXPECT(read_back == threshold);
    CUDA(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
    EXPECT(used == 0);

    cudaMemPoolProps properties = {};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    properties.location.id = 0;
    cudaMemPool_t own;
    CUDA(cudaMemPoolCreate(&own, &properties));
    int *block;
    CUDA(cudaMallocFromPoolAsync((void **)&block, count * sizeof(int), own, stream));
    CUDA(cudaMemPoolGetAttribute(own, cudaMemPoolAttrUsedMemCurrent, &used));
    EXPECT(used >= count * sizeof(int));
    fill<<<blocks, 128, 0, stream>>>(block, 9, count);
    CUDA(cudaStreamSynchronize(stream));
    for (int i = 0; i < count; i++)
        want[i] = 9 * i;
    expect_equal("own pool", download(block, count), want);
    CUDA(cudaFreeAsync(block, stream));
    CUDA(cudaStreamSynchronize(stream));
    CUDA(cudaMemPoolTrimTo(own, 0));
    uint64_t reserved = 1;
    CUDA(cudaMemPoolGetAttribute(own, cudaMemPoolAttrReservedMemCurrent, &reserved));
    EXPECT(reserved == 0);
    CUDA(cudaMemPoolDestroy(own));
    CUDA(cudaStreamDestroy(stream));
    return finish();
}
