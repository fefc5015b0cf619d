// Matrix transpose through a padded shared tile, against reading and writing directly.
#include "check.h"

__global__ void transpose_tiled(const int *in, int *out, int rows, int columns)
{
    __shared__ int tile[32][33];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (int i = 0; i < 32; i += 8)
        if (x < columns && y + i < rows)
            tile[threadIdx.y + i][threadIdx.x] = in[(y + i) * columns + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x;
    y = blockIdx.x * 32 + threadIdx.y;
    for (int i = 0; i < 32; i += 8)
        if (x < rows && y + i < columns)
            out[(y + i) * rows + x] = tile[threadIdx.x][threadIdx.y + i];
}

__global__ void transpose_direct(const int *in, int *out, int rows, int columns)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < columns && y < rows)
        out[x * rows + y] = in[y * columns + x];
}

int main()
{
    const int rows = 197, columns = 301;
    std::vector<int> in(rows * columns), want(rows * columns);
    for (int i = 0; i < rows * columns; i++) {
        in[i] = i * 7 + 1;
        want[i % columns * rows + i / columns] = in[i];
    }
    int *device_in = upload(in), *device_out = device_array<int>(rows * columns);
    transpose_tiled<<<dim3((columns + 31) / 32, (rows + 31) / 32), dim3(32, 8)>>>(device_in, device_out, rows, columns);
    CUDA(cudaGetLastError());
    expect_equal("tiled", download(device_out, in.size()), want);
    CUDA(cudaMemset(device_out, 0, in.size() * sizeof(int)));
    transpose_direct<<<dim3((columns + 15) / 16, (rows + 15) / 16), dim3(16, 16)>>>(device_in, device_out, rows, columns);
    CUDA(cudaGetLastError());
    expect_equal("direct", download(device_out, in.size()), want);
    return finish();
}
