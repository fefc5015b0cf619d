// Kernels that models are made of, each with one affine shape of access.
#include <cuda_fp16.h>

extern "C" {

__global__ void gelu(const float4 *x, float4 *y, int n4)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n4) {
        float4 v = x[i];
        v.x = 0.5f * v.x * (1 + tanhf(0.79788456f * (v.x + 0.044715f * v.x * v.x * v.x)));
        y[i] = v;
    }
}

// cache[layer][slot][position][head_dim]: one new position of each slot, rows far apart.
__global__ void append_kv(__half *cache, const __half *fresh, long long layer_stride, int slot_stride, int position, int width,
                          int layer)
{
    int slot = blockIdx.x;
    for (int d = threadIdx.x; d < width; d += blockDim.x)
        cache[layer * layer_stride + (long long)slot * slot_stride + (long long)position * width + d] = fresh[slot * width + d];
}

__global__ void rotate(float *x, const float *angles, int heads, int dim)
{
    int token = blockIdx.x, head = blockIdx.y, d = threadIdx.x, half_dim = dim / 2;
    if (d >= half_dim)
        return;
    float *row = x + ((size_t)token * heads + head) * dim;
    float c = angles[token * half_dim + d], a = row[d], b = row[d + half_dim];
    row[d] = a * c - b;
    row[d + half_dim] = b * c + a;
}

__global__ void rms_norm(const __half2 *x, const __half2 *weight, __half2 *y, int columns2)
{
    const __half2 *row = x + (size_t)blockIdx.x * columns2;
    float sum = 0;
    for (int c = threadIdx.x; c < columns2; c += blockDim.x) {
        float2 v = __half22float2(row[c]);
        sum += v.x * v.x + v.y * v.y;
    }
    sum = __reduce_add_sync(0xffffffff, (int)sum);
    for (int c = threadIdx.x; c < columns2; c += blockDim.x)
        y[(size_t)blockIdx.x * columns2 + c] = __hmul2(row[c], weight[c]);
}

__global__ void add_bias(float *x, const float *bias, int rows, int columns)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < rows && column < columns)
        x[row * columns + column] += bias[column];
}

__global__ void copy_columns(const float *x, float *y, int rows, int columns, int from, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows * count) {
        int row = i / count, column = i % count;
        y[i] = x[row * columns + from + column];
    }
}

__global__ void write_columns(const float *x, float *y, int rows, int columns, int from, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows * count)
        y[(i / count) * columns + from + i % count] = x[i];
}

__global__ void permute(const float *x, float *y, int b, int s, int h, int d)
{
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (size_t)b * s * h * d)
        return;
    int z = i % d, k = i / d % s, j = i / d / s % h, n = i / d / s / h;
    y[i] = x[(((size_t)n * s + k) * h + j) * d + z];
}

__global__ void sum_rows(const float *x, float *y, int rows, int columns)
{
    int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows)
        return;
    float sum = 0;
    for (int c = lane; c < columns; c += 32)
        sum += x[(size_t)row * columns + c];
    for (int step = 16; step; step >>= 1)
        sum += __shfl_down_sync(0xffffffff, sum, step);
    if (lane == 0)
        y[row] = sum;
}

__global__ void causal_scores(const float *q, const float *k, float *scores, int tokens, int dim)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, head = blockIdx.y;
    if (i >= tokens)
        return;
    for (int j = 0; j <= i; j++) {
        float sum = 0;
        for (int d = 0; d < dim; d++)
            sum += q[((size_t)head * tokens + i) * dim + d] * k[((size_t)head * tokens + j) * dim + d];
        scores[((size_t)head * tokens + i) * tokens + j] = sum;
    }
}

__global__ void embed(const long long *tokens, const float *table, float *y, int width)
{
    for (int d = threadIdx.x; d < width; d += blockDim.x)
        y[blockIdx.x * width + d] = table[tokens[blockIdx.x] * width + d];
}

__global__ void upsample(const float *x, float *y, int height, int width)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y, plane = blockIdx.z;
    if (column < 2 * width)
        y[((size_t)plane * 2 * height + row) * 2 * width + column] = x[((size_t)plane * height + row / 2) * width + column / 2];
}

__global__ void convolve(const float *x, const float *filter, float *y, int height, int width)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
    if (column >= width)
        return;
    float sum = 0;
    for (int i = -1; i <= 1; i++)
        for (int j = -1; j <= 1; j++)
            if (row + i >= 0 && row + i < height && column + j >= 0 && column + j < width)
                sum += x[(row + i) * width + column + j] * filter[(i + 1) * 3 + j + 1];
    y[row * width + column] = sum;
}

struct Tensors {
    const float *from[4];
    float *to;
    int counts[4];
};

__global__ void add_all(Tensors t, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        t.to[i] = t.from[0][i] + t.from[1][i] + t.from[2][i] + t.from[3][i];
}

__global__ void quantize(const float *x, signed char *y, float *scales, int columns)
{
    float largest = 0;
    for (int c = threadIdx.x; c < columns; c += blockDim.x)
        largest = fmaxf(largest, fabsf(x[blockIdx.x * columns + c]));
    largest = __uint_as_float(__reduce_max_sync(0xffffffff, __float_as_uint(largest)));
    if (threadIdx.x == 0)
        scales[blockIdx.x] = largest;
    for (int c = threadIdx.x; c < columns; c += blockDim.x)
        y[blockIdx.x * columns + c] = (signed char)(x[blockIdx.x * columns + c] / (largest + 1));
}

__global__ void split_sum(const float *parts, float *y, int count, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float sum = 0;
    for (int p = 0; p < count; p++)
        sum += parts[(size_t)p * n + i];
    atomicAdd(&y[i], sum);
}

} // extern "C"
