// A five-point stencil in 2D through a shared tile with halo, iterated; a seven-point stencil in 3D that walks planes.
#include <utility>

#include "check.h"

constexpr int TILE = 16;

__global__ void step_2d(const float *in, float *out, int width, int height)
{
    __shared__ float tile[TILE + 2][TILE + 2];
    int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
    auto at = [&](int column, int row) {
        return column >= 0 && column < width && row >= 0 && row < height ? in[row * width + column] : 0.0f;
    };
    int tx = threadIdx.x + 1, ty = threadIdx.y + 1;
    tile[ty][tx] = at(x, y);
    if (threadIdx.x == 0)
        tile[ty][0] = at(x - 1, y);
    if (threadIdx.x == TILE - 1)
        tile[ty][TILE + 1] = at(x + 1, y);
    if (threadIdx.y == 0)
        tile[0][tx] = at(x, y - 1);
    if (threadIdx.y == TILE - 1)
        tile[TILE + 1][tx] = at(x, y + 1);
    __syncthreads();
    if (x < width && y < height)
        out[y * width + x] =
            0.5f * tile[ty][tx] + 0.125f * ((tile[ty][tx - 1] + tile[ty][tx + 1]) + (tile[ty - 1][tx] + tile[ty + 1][tx]));
}

__global__ void step_3d(const float *in, float *out, int nx, int ny, int nz)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x == 0 || y == 0 || x >= nx - 1 || y >= ny - 1)
        return;
    int plane = nx * ny, i = y * nx + x;
    float below = in[i], here = in[i + plane];
    for (int z = 1; z < nz - 1; z++) {
        i += plane;
        float above = in[i + plane];
        out[i] = ((in[i - 1] + in[i + 1]) + (in[i - nx] + in[i + nx])) + (below + above) - 6.0f * here;
        below = here;
        here = above;
    }
}

static std::vector<float> reference_2d(std::vector<float> grid, int width, int height, int steps)
{
    for (int s = 0; s < steps; s++) {
        std::vector<float> next(grid.size());
        auto at = [&](int x, int y) { return x >= 0 && x < width && y >= 0 && y < height ? grid[y * width + x] : 0.0f; };
        for (int y = 0; y < height; y++)
            for (int x = 0; x < width; x++)
                next[y * width + x] =
                    fmaf(0.125f, (at(x - 1, y) + at(x + 1, y)) + (at(x, y - 1) + at(x, y + 1)), 0.5f * at(x, y));
        grid = next;
    }
    return grid;
}

int main()
{
    const int width = 100, height = 70, steps = 6;
    Random random(14);
    auto grid = random.floats(width * height, 0, 1);
    float *from = upload(grid), *to = device_array<float>(grid.size());
    for (int s = 0; s < steps; s++) {
        step_2d<<<dim3((width + TILE - 1) / TILE, (height + TILE - 1) / TILE), dim3(TILE, TILE)>>>(from, to, width, height);
        std::swap(from, to);
    }
    CUDA(cudaGetLastError());
    auto want_2d = reference_2d(grid, width, height, steps);
    expect_near("2D", download(from, grid.size()), std::vector<double>(want_2d.begin(), want_2d.end()), 1e-6, 1e-7);

    const int nx = 40, ny = 30, nz = 12, plane = nx * ny;
    auto box = random.floats(plane * nz, -1, 1);
    float *in = upload(box), *out = device_array<float>(box.size());
    CUDA(cudaMemset(out, 0, box.size() * sizeof(float)));
    step_3d<<<dim3((nx + 31) / 32, (ny + 3) / 4), dim3(32, 4)>>>(in, out, nx, ny, nz);
    CUDA(cudaGetLastError());
    std::vector<double> want_3d(box.size());
    for (int z = 1; z < nz - 1; z++)
        for (int y = 1; y < ny - 1; y++)
            for (int x = 1; x < nx - 1; x++) {
                int i = z * plane + y * nx + x;
                want_3d[i] = (double)box[i - 1] + box[i + 1] + box[i - nx] + box[i + nx] + box[i - plane] + box[i + plane] -
                             6.0 * box[i];
            }
    expect_near("3D", download(out, box.size()), want_3d, 0, 5e-6);
    return finish();
}
