// Tensor-core matrix product as libraries write it: cp.async into shared memory, ldmatrix, mma.sync.m16n8k16.
#include <cuda_fp16.h>
#include <cuda_pipeline_primitives.h>

#include "check.h"

constexpr int TILE_M = 32, TILE_N = 32, DEPTH = 32;

__device__ void load_four(unsigned (&fragment)[4], const half *address)
{
    unsigned shared = (unsigned)__cvta_generic_to_shared(address);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(fragment[0]), "=r"(fragment[1]), "=r"(fragment[2]), "=r"(fragment[3])
                 : "r"(shared));
}

__device__ void load_two_transposed(unsigned (&fragment)[2], const half *address)
{
    unsigned shared = (unsigned)__cvta_generic_to_shared(address);
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
                 : "=r"(fragment[0]), "=r"(fragment[1])
                 : "r"(shared));
}

// Four warps of a block own the 16x16 quarters of a 32x32 tile of c = a * b.
__global__ void gemm(const half *a, const half *b, float *c, int n, int k)
{
    __shared__ __align__(16) half tile_a[2][TILE_M][DEPTH], tile_b[2][DEPTH][TILE_N];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int warp_row = warp / 2 * 16, warp_column = warp % 2 * 16;
    int copy_row = threadIdx.x / 4, copy_column = threadIdx.x % 4 * 8;
    const half *block_a = a + blockIdx.y * TILE_M * k, *block_b = b + blockIdx.x * TILE_N;
    auto fetch = [&](int stage, int start) {
        __pipeline_memcpy_async(&tile_a[stage][copy_row][copy_column], &block_a[copy_row * k + start + copy_column], 16);
        __pipeline_memcpy_async(&tile_b[stage][copy_row][copy_column], &block_b[(start + copy_row) * n + copy_column], 16);
        __pipeline_commit();
    };
    float sum[2][4] = {};
    fetch(0, 0);
    for (int step = 0; step < k / DEPTH; step++) {
        int stage = step % 2;
        if (step + 1 < k / DEPTH) {
            fetch(1 - stage, (step + 1) * DEPTH);
            __pipeline_wait_prior(1);
        } else {
            __pipeline_wait_prior(0);
        }
        __syncthreads();
        for (int x = 0; x < DEPTH; x += 16) {
            unsigned left[4], right[2];
            load_four(left, &tile_a[stage][warp_row + lane % 16][x + lane / 16 * 8]);
            for (int half_n = 0; half_n < 2; half_n++) {
                load_two_transposed(right, &tile_b[stage][x + lane % 16][warp_column + half_n * 8]);
                asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                             "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                             : "+f"(sum[half_n][0]), "+f"(sum[half_n][1]), "+f"(sum[half_n][2]), "+f"(sum[half_n][3])
                             : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right[0]), "r"(right[1]));
            }
        }
        __syncthreads();
    }
    for (int half_n = 0; half_n < 2; half_n++)
        for (int i = 0; i < 4; i++) {
            int row = blockIdx.y * TILE_M + warp_row + lane / 4 + i / 2 * 8;
            int column = blockIdx.x * TILE_N + warp_column + half_n * 8 + lane % 4 * 2 + i % 2;
            c[row * n + column] = sum[half_n][i];
        }
}

int main()
{
    const int m = 96, n = 64, k = 128;
    Random random(5);
    std::vector<half> a(m * k), b(k * n);
    for (half &value : a)
        value = half((float)((int)random.below(33) - 16) / 8);
    for (half &value : b)
        value = half((float)((int)random.below(33) - 16) / 8);
    std::vector<float> want(m * n);
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            double sum = 0;
            for (int x = 0; x < k; x++)
                sum += (double)(float)a[i * k + x] * (double)(float)b[x * n + j];
            want[i * n + j] = (float)sum;
        }
    half *device_a = upload(a), *device_b = upload(b);
    float *device_c = device_array<float>(m * n);
    gemm<<<dim3(n / TILE_N, m / TILE_M), 128>>>(device_a, device_b, device_c, n, k);
    CUDA(cudaGetLastError());
    expect_equal("product", download(device_c, m * n), want);
    return finish();
}
