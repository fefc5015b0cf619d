// Inclusive prefix sums: within a block in shared memory, and over many blocks in one launch with decoupled look-back
// (each block waits, spinning on global memory, for the total of the block before it).
#include "check.h"

constexpr int BLOCK = 256;

__device__ unsigned block_scan(unsigned value, unsigned *buffer)
{
    int t = threadIdx.x;
    buffer[t] = value;
    __syncthreads();
    for (int distance = 1; distance < BLOCK; distance *= 2) {
        unsigned left = t >= distance ? buffer[t - distance] : 0;
        __syncthreads();
        buffer[t] += left;
        __syncthreads();
    }
    return buffer[t];
}

__global__ void scan_block(const unsigned *in, unsigned *out)
{
    __shared__ unsigned buffer[BLOCK];
    out[threadIdx.x] = block_scan(in[threadIdx.x], buffer);
}

__global__ void scan_chained(const unsigned *in, unsigned *out, int count, unsigned *ticket, volatile unsigned *ready,
                             volatile unsigned *totals)
{
    __shared__ unsigned buffer[BLOCK];
    __shared__ unsigned block, before;
    if (threadIdx.x == 0)
        block = atomicAdd(ticket, 1);
    __syncthreads();
    int i = block * BLOCK + threadIdx.x;
    unsigned sum = block_scan(i < count ? in[i] : 0, buffer);
    if (threadIdx.x == BLOCK - 1) {
        before = 0;
        if (block > 0) {
            while (ready[block - 1] == 0) {
            }
            __threadfence();
            before = totals[block - 1];
        }
        totals[block] = before + sum;
        __threadfence();
        ready[block] = 1;
    }
    __syncthreads();
    if (i < count)
        out[i] = before + sum;
}

int main()
{
    const int count = 50001, blocks = (count + BLOCK - 1) / BLOCK;
    Random random(6);
    std::vector<unsigned> in(count), want(count);
    unsigned total = 0;
    for (int i = 0; i < count; i++) {
        in[i] = random.below(1000);
        want[i] = total += in[i];
    }
    unsigned *device_in = upload(in), *device_out = device_array<unsigned>(count);
    scan_block<<<1, BLOCK>>>(device_in, device_out);
    CUDA(cudaGetLastError());
    expect_equal("one block", download(device_out, BLOCK), std::vector<unsigned>(want.begin(), want.begin() + BLOCK));

    unsigned *state = device_array<unsigned>(2 * blocks + 1);
    CUDA(cudaMemset(state, 0, (2 * blocks + 1) * sizeof(unsigned)));
    scan_chained<<<blocks, BLOCK>>>(device_in, device_out, count, state, state + 1, state + 1 + blocks);
    CUDA(cudaGetLastError());
    expect_equal("many blocks", download(device_out, count), want);
    return finish();
}
