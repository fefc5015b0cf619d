// Kernels whose time one thing decides, for comparing the virtual clock with hardware. Every one takes (float *out, const float *in, unsigned n).
// All of them are deterministic and touch exactly the bytes that clock_host.c says.

extern "C" __global__ void bench_empty(float *, const float *, unsigned) {}

// memory: one pass over arrays of n floats

extern "C" __global__ void bench_copy(float *out, const float *in, unsigned n)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n / 4)
        reinterpret_cast<float4 *>(out)[i] = reinterpret_cast<const float4 *>(in)[i];
}

extern "C" __global__ void bench_copy_scalar(float *out, const float *in, unsigned n)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = in[i];
}

extern "C" __global__ void bench_triad(float *out, const float *in, unsigned n)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    const float4 *a = reinterpret_cast<const float4 *>(in), *b = a + n / 8;
    if (i < n / 8) {
        float4 x = a[i], y = b[i];
        reinterpret_cast<float4 *>(out)[i] = make_float4(x.x + 3 * y.x, x.y + 3 * y.y, x.z + 3 * y.z, x.w + 3 * y.w);
    }
}

extern "C" __global__ void bench_fill(float *out, const float *, unsigned n)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n / 4)
        reinterpret_cast<float4 *>(out)[i] = make_float4(1, 2, 3, 4);
}

extern "C" __global__ void bench_reduce(float *out, const float *in, unsigned n)
{
    __shared__ float sums[32];
    float sum = 0;
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n / 4; i += gridDim.x * blockDim.x) {
        float4 x = reinterpret_cast<const float4 *>(in)[i];
        sum += x.x + x.y + x.z + x.w;
    }
    for (int step = 16; step; step /= 2)
        sum += __shfl_down_sync(~0u, sum, step);
    if (threadIdx.x % 32 == 0)
        sums[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (unsigned w = 1; w < blockDim.x / 32; w++)
            sum += sums[w];
        atomicAdd(out, sum);
    }
}

// n floats as rows of 4096: each block of 32 x 8 threads moves a tile of 32 x 32
extern "C" __global__ void bench_transpose(float *out, const float *in, unsigned n)
{
    __shared__ float tile[32][33];
    unsigned width = 4096, height = n / width, tiles = width / 32;
    unsigned x = blockIdx.x % tiles * 32, y = blockIdx.x / tiles * 32, tx = threadIdx.x % 32, ty = threadIdx.x / 32;
    for (unsigned k = ty; k < 32; k += 8)
        tile[k][tx] = in[(y + k) * width + x + tx];
    __syncthreads();
    for (unsigned k = ty; k < 32; k += 8)
        out[(x + k) * height + y + tx] = tile[tx][k];
}

// softmax of rows of 1024, one block of 256 a row
extern "C" __global__ void bench_softmax(float *out, const float *in, unsigned)
{
    __shared__ float part[8];
    const float4 x = reinterpret_cast<const float4 *>(in)[blockIdx.x * 256 + threadIdx.x];
    float most = fmaxf(fmaxf(x.x, x.y), fmaxf(x.z, x.w));
    for (int step = 16; step; step /= 2)
        most = fmaxf(most, __shfl_xor_sync(~0u, most, step));
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = most;
    __syncthreads();
    for (int w = 0; w < 8; w++)
        most = fmaxf(most, part[w]);
    __syncthreads();
    float4 e = make_float4(__expf(x.x - most), __expf(x.y - most), __expf(x.z - most), __expf(x.w - most));
    float sum = e.x + e.y + e.z + e.w;
    for (int step = 16; step; step /= 2)
        sum += __shfl_xor_sync(~0u, sum, step);
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = 0;
    for (int w = 0; w < 8; w++)
        sum += part[w];
    float scale = 1 / sum;
    reinterpret_cast<float4 *>(out)[blockIdx.x * 256 + threadIdx.x] = make_float4(e.x * scale, e.y * scale, e.z * scale, e.w * scale);
}

// every 32nd float: a sector of each line is used
extern "C" __global__ void bench_strided(float *out, const float *in, unsigned n)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n / 32)
        out[i] = in[i * 32];
}

// issue: arithmetic in registers

extern "C" __global__ void bench_fma(float *out, const float *in, unsigned n)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    float a = in[i % 1024], b = a + 1, c = a + 2, d = a + 3;
    for (unsigned k = 0; k < n; k++) {
        a = a * 0.999f + 0.5f;
        b = b * 0.998f + 0.5f;
        c = c * 0.997f + 0.5f;
        d = d * 0.996f + 0.5f;
    }
    out[i] = a + b + c + d;
}

extern "C" __global__ void bench_int(float *out, const float *in, unsigned n)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x, a = i, b = i + 1, c = i + 2, d = i + 3;
    for (unsigned k = 0; k < n; k++) {
        a = a * 1664525u + 1013904223u;
        b = b * 22695477u + 1;
        c = c * 1103515245u + 12345u;
        d = d * 134775813u + 1;
    }
    out[i] = (float)(a ^ b ^ c ^ d) + in[0];
}

extern "C" __global__ void bench_special(float *out, const float *in, unsigned n)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    float a = in[i % 1024], b = a + 1;
    for (unsigned k = 0; k < n; k++) {
        a = __sinf(a) + 0.5f;
        b = __sinf(b) + 0.25f;
    }
    out[i] = a + b;
}

extern "C" __global__ void bench_double(float *out, const float *in, unsigned n)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    double a = in[i % 1024], b = a + 1, c = a + 2, d = a + 3;
    for (unsigned k = 0; k < n; k++) {
        a = a * 0.999 + 0.5;
        b = b * 0.998 + 0.5;
        c = c * 0.997 + 0.5;
        d = d * 0.996 + 0.5;
    }
    out[i] = (float)(a + b + c + d);
}

// shared memory: every access of a warp hits one bank (n even steps)
extern "C" __global__ void bench_shared(float *out, const float *in, unsigned n)
{
    __shared__ float bank[32 * 32];
    for (unsigned i = threadIdx.x; i < 1024; i += blockDim.x)
        bank[i] = in[i];
    __syncthreads();
    unsigned at = threadIdx.x % 32 * 32;
    float sum = 0;
    for (unsigned k = 0; k < n; k++) {
        sum += bank[at + (k & 31)];
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

// latency: each load's address comes from the load before; in holds the chain
extern "C" __global__ void bench_chase(float *out, const float *in, unsigned n)
{
    const unsigned *chain = reinterpret_cast<const unsigned *>(in);
    unsigned at = threadIdx.x;
    for (unsigned k = 0; k < n; k++)
        at = chain[at];
    out[threadIdx.x] = (float)at;
}

// matrix product of n x n, tiles of 16 x 16
extern "C" __global__ void bench_gemm(float *out, const float *in, unsigned n)
{
    __shared__ float a[16][17], b[16][17];
    unsigned blocks = n / 16, tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    unsigned row = blockIdx.x / blocks * 16 + ty, column = blockIdx.x % blocks * 16 + tx;
    float sum = 0;
    for (unsigned t = 0; t < n; t += 16) {
        a[ty][tx] = in[row * n + t + tx];
        b[ty][tx] = in[(t + ty) * n + column];
        __syncthreads();
        for (unsigned k = 0; k < 16; k++)
            sum += a[ty][k] * b[k][tx];
        __syncthreads();
    }
    out[row * n + column] = sum;
}
