// The kernels of emulator_speed.py. emulator_kernels.ptx is made from this file:
//     nvcc -ptx -arch=sm_80 -O3 emulator_kernels.cu

// C = A * B, n x n, one 16x16 tile per block in shared memory.
extern "C" __global__ void sgemm_tiles(const float *a, const float *b, float *c, int n)
{
    __shared__ float tile_a[16][16], tile_b[16][16];
    int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 16 + y, column = blockIdx.x * 16 + x;
    float sum = 0;
    for (int k = 0; k < n; k += 16) {
        tile_a[y][x] = a[row * n + k + x];
        tile_b[y][x] = b[(k + y) * n + column];
        __syncthreads();
        for (int i = 0; i < 16; i++)
            sum += tile_a[y][i] * tile_b[i][x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}

// The same with 64x64 tiles, 16x16 threads and a 4x4 tile of registers per thread.
extern "C" __global__ void __launch_bounds__(256) sgemm_registers(const float *a, const float *b, float *c, int n)
{
    __shared__ float tile_a[16][64], tile_b[16][64];
    int x = threadIdx.x % 16, y = threadIdx.x / 16, row = blockIdx.y * 64, column = blockIdx.x * 64;
    float sum[4][4] = {};
    for (int k = 0; k < n; k += 16) {
        for (int q = 0; q < 4; q++) {
            int id = threadIdx.x + q * 256;
            tile_a[id % 16][id / 16] = a[(row + id / 16) * n + k + id % 16];
            tile_b[id / 64][id % 64] = b[(k + id / 64) * n + column + id % 64];
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 16; i++) {
            float left[4], right[4];
#pragma unroll
            for (int j = 0; j < 4; j++) {
                left[j] = tile_a[i][y * 4 + j];
                right[j] = tile_b[i][x * 4 + j];
            }
#pragma unroll
            for (int j = 0; j < 4; j++)
#pragma unroll
                for (int l = 0; l < 4; l++)
                    sum[j][l] += left[j] * right[l];
        }
        __syncthreads();
    }
    for (int j = 0; j < 4; j++)
        for (int l = 0; l < 4; l++)
            c[(row + y * 4 + j) * n + column + x * 4 + l] = sum[j][l];
}

extern "C" __global__ void vector_add(const float *x, const float *y, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = x[i] + y[i];
}

__device__ float block_reduce(float value, bool largest)
{
    __shared__ float parts[32];
    for (int by = 16; by > 0; by /= 2) {
        float other = __shfl_xor_sync(0xffffffff, value, by);
        value = largest ? fmaxf(value, other) : value + other;
    }
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = value;
    __syncthreads();
    value = parts[0];
    for (int i = 1; i < blockDim.x / 32; i++)
        value = largest ? fmaxf(value, parts[i]) : value + parts[i];
    __syncthreads();
    return value;
}

// One block of 256 threads per row.
extern "C" __global__ void softmax(const float *in, float *out, int columns)
{
    const float *row = in + (size_t)blockIdx.x * columns;
    float largest = -3.402823466e38f, sum = 0;
    for (int i = threadIdx.x; i < columns; i += blockDim.x)
        largest = fmaxf(largest, row[i]);
    largest = block_reduce(largest, true);
    for (int i = threadIdx.x; i < columns; i += blockDim.x)
        sum += expf(row[i] - largest);
    sum = block_reduce(sum, false);
    for (int i = threadIdx.x; i < columns; i += blockDim.x)
        out[(size_t)blockIdx.x * columns + i] = expf(row[i] - largest) / sum;
}

// Independent chains of fused multiply-adds.
extern "C" __global__ void multiply_add(float *out, int steps)
{
    float a = threadIdx.x, b = a + 1, c = a + 2, d = a + 3;
    for (int i = 0; i < steps; i++) {
        a = a * 0.5f + 1.0f;
        b = b * 0.5f + 1.0f;
        c = c * 0.5f + 1.0f;
        d = d * 0.5f + 1.0f;
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = a + b + c + d;
}
