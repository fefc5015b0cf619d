// Matrix product with 64x64 block tiles and 4x4 values per thread in registers, vector loads and stores.
#include "check.h"

constexpr int TILE = 64, DEPTH = 16, PER_THREAD = 4;

__global__ void __launch_bounds__(256) gemm(const float *a, const float *b, float *c, int n, int k)
{
    __shared__ float tile_a[DEPTH][TILE];
    __shared__ float tile_b[DEPTH][TILE];
    int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    const float *block_a = a + blockIdx.y * TILE * k, *block_b = b + blockIdx.x * TILE;
    float sum[PER_THREAD][PER_THREAD] = {};
    for (int start = 0; start < k; start += DEPTH) {
        int row = threadIdx.x / 4, quad = threadIdx.x % 4 * 4;
        float4 four = *(const float4 *)&block_a[row * k + start + quad];
        tile_a[quad][row] = four.x;
        tile_a[quad + 1][row] = four.y;
        tile_a[quad + 2][row] = four.z;
        tile_a[quad + 3][row] = four.w;
        *(float4 *)&tile_b[ty][tx * 4] = *(const float4 *)&block_b[(start + ty) * n + tx * 4];
        __syncthreads();
#pragma unroll
        for (int x = 0; x < DEPTH; x++) {
            float4 left = *(float4 *)&tile_a[x][ty * 4], right = *(float4 *)&tile_b[x][tx * 4];
            float l[4] = {left.x, left.y, left.z, left.w}, r[4] = {right.x, right.y, right.z, right.w};
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int j = 0; j < 4; j++)
                    sum[i][j] = fmaf(l[i], r[j], sum[i][j]);
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; i++)
        *(float4 *)&c[(blockIdx.y * TILE + ty * 4 + i) * n + blockIdx.x * TILE + tx * 4] =
            make_float4(sum[i][0], sum[i][1], sum[i][2], sum[i][3]);
}

int main()
{
    const int m = 128, n = 192, k = 96;
    Random random(3);
    auto a = random.floats(m * k, -1, 1), b = random.floats(k * n, -1, 1);
    std::vector<float> want(m * n);
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            float sum = 0;
            for (int x = 0; x < k; x++)
                sum = fmaf(a[i * k + x], b[x * n + j], sum);
            want[i * n + j] = sum;
        }
    float *device_a = upload(a), *device_b = upload(b), *device_c = device_array<float>(m * n);
    gemm<<<dim3(n / TILE, m / TILE), 256>>>(device_a, device_b, device_c, n, k);
    CUDA(cudaGetLastError());
    expect_equal("product", download(device_c, m * n), want);
    return finish();
}
