// Bitonic sort: one launch per compare-exchange distance that leaves a block, the rest in shared memory.
#include <algorithm>

#include "check.h"

constexpr int BLOCK = 512;

__device__ void exchange(unsigned &low, unsigned &high, bool ascending)
{
    if ((low > high) == ascending) {
        unsigned kept = low;
        low = high;
        high = kept;
    }
}

__global__ void merge_global(unsigned *keys, int size, int distance)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int partner = i ^ distance;
    if (partner > i)
        exchange(keys[i], keys[partner], (i & size) == 0);
}

__global__ void merge_shared(unsigned *keys, int first_size, int last_size)
{
    __shared__ unsigned tile[BLOCK];
    int i = blockIdx.x * BLOCK + threadIdx.x;
    tile[threadIdx.x] = keys[i];
    __syncthreads();
    for (int size = first_size; size <= last_size; size *= 2)
        for (int distance = min(size / 2, BLOCK / 2); distance > 0; distance /= 2) {
            int partner = threadIdx.x ^ distance;
            if (partner > threadIdx.x)
                exchange(tile[threadIdx.x], tile[partner], (i & size) == 0);
            __syncthreads();
        }
    keys[i] = tile[threadIdx.x];
}

int main()
{
    const int count = 16384;
    Random random(7);
    std::vector<unsigned> keys(count);
    for (unsigned &key : keys)
        key = (unsigned)random.bits();
    unsigned *device_keys = upload(keys);
    merge_shared<<<count / BLOCK, BLOCK>>>(device_keys, 2, BLOCK);
    for (int size = 2 * BLOCK; size <= count; size *= 2) {
        for (int distance = size / 2; distance >= BLOCK; distance /= 2)
            merge_global<<<count / BLOCK, BLOCK>>>(device_keys, size, distance);
        merge_shared<<<count / BLOCK, BLOCK>>>(device_keys, size, size);
    }
    CUDA(cudaGetLastError());
    std::sort(keys.begin(), keys.end());
    expect_equal("sorted", download(device_keys, count), keys);
    return finish();
}
