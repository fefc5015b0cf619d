// Matrix product through 16x16 shared-memory tiles; sizes are no multiple of the tile.
#include "check.h"

constexpr int TILE = 16;

__global__ void gemm(const float *a, const float *b, float *c, int m, int n, int k)
{
    __shared__ float tile_a[TILE][TILE], tile_b[TILE][TILE];
    int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
    float sum = 0;
    for (int start = 0; start < k; start += TILE) {
        int ka = start + threadIdx.x, kb = start + threadIdx.y;
        tile_a[threadIdx.y][threadIdx.x] = row < m && ka < k ? a[row * k + ka] : 0;
        tile_b[threadIdx.y][threadIdx.x] = kb < k && column < n ? b[kb * n + column] : 0;
        __syncthreads();
        for (int i = 0; i < TILE; i++)
            sum += tile_a[threadIdx.y][i] * tile_b[i][threadIdx.x];
        __syncthreads();
    }
    if (row < m && column < n)
        c[row * n + column] = sum;
}

int main()
{
    const int m = 100, n = 75, k = 130;
    Random random(2);
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
    dim3 grid((n + TILE - 1) / TILE, (m + TILE - 1) / TILE), block(TILE, TILE);
    gemm<<<grid, block>>>(device_a, device_b, device_c, m, n, k);
    CUDA(cudaGetLastError());
    expect_equal("product", download(device_c, m * n), want);
    return finish();
}
