// Copies from global to shared memory that bypass registers: every size, zero fill, several stages in flight.
#include <cuda_pipeline.h>

#include "check.h"

constexpr int STAGES = 3, BLOCK = 64;

__global__ void staged_sum(const int4 *in, int4 *out, int rounds)
{
    __shared__ int4 stages[STAGES][BLOCK];
    int t = threadIdx.x, neighbour = (t + 1) % BLOCK;
    const int4 *mine = in + blockIdx.x * rounds * BLOCK;
    for (int s = 0; s < STAGES - 1; s++) {
        if (s < rounds)
            __pipeline_memcpy_async(&stages[s][t], &mine[s * BLOCK + t], sizeof(int4));
        __pipeline_commit();
    }
    int4 sum = {0, 0, 0, 0};
    for (int r = 0; r < rounds; r++) {
        int ahead = r + STAGES - 1;
        if (ahead < rounds)
            __pipeline_memcpy_async(&stages[ahead % STAGES][t], &mine[ahead * BLOCK + t], sizeof(int4));
        __pipeline_commit();
        __pipeline_wait_prior(STAGES - 1);
        __syncthreads();
        int4 value = stages[r % STAGES][neighbour];
        sum = {sum.x + value.x, sum.y - value.y, sum.z ^ value.z, sum.w + 2 * value.w};
        __syncthreads();
    }
    out[blockIdx.x * BLOCK + t] = sum;
}

template <typename T>
__global__ void copy_with_zero_fill(const T *in, T *out)
{
    __shared__ T buffer[BLOCK];
    int t = threadIdx.x;
    buffer[t] = ~T(0);
    __syncthreads();
    __pipeline_memcpy_async(&buffer[t], &in[t], sizeof(T), t % 3 == 0 ? sizeof(T) / 2 : 0);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    out[t] = buffer[BLOCK - 1 - t];
}

template <typename T>
static void check_zero_fill(const char *what)
{
    Random random(18);
    std::vector<T> in(BLOCK), want(BLOCK);
    for (int i = 0; i < BLOCK; i++) {
        in[i] = (T)random.bits();
        T half = in[i] << sizeof(T) * 4 >> sizeof(T) * 4;
        want[BLOCK - 1 - i] = i % 3 == 0 ? half : in[i];
    }
    T *out = device_array<T>(BLOCK);
    copy_with_zero_fill<<<1, BLOCK>>>(upload(in), out);
    CUDA(cudaGetLastError());
    expect_equal(what, download(out, BLOCK), want);
}

int main()
{
    const int blocks = 3, rounds = 7;
    Random random(19);
    std::vector<int> in(blocks * rounds * BLOCK * 4), want(blocks * BLOCK * 4);
    for (int &value : in)
        value = (int)random.below(100000);
    for (int b = 0; b < blocks; b++)
        for (int t = 0; t < BLOCK; t++)
            for (int r = 0; r < rounds; r++) {
                const int *value = &in[((b * rounds + r) * BLOCK + (t + 1) % BLOCK) * 4];
                int *sum = &want[(b * BLOCK + t) * 4];
                sum[0] += value[0];
                sum[1] -= value[1];
                sum[2] ^= value[2];
                sum[3] += 2 * value[3];
            }
    int *out = device_array<int>(want.size());
    staged_sum<<<blocks, BLOCK>>>((const int4 *)upload(in), (int4 *)out, rounds);
    CUDA(cudaGetLastError());
    expect_equal("staged", download(out, want.size()), want);
    check_zero_fill<uint32_t>("4 bytes with zero fill");
    check_zero_fill<uint64_t>("8 bytes with zero fill");
    return finish();
}
