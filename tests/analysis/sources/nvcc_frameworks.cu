// nvcc -O3 -arch=sm_90 -ptx. Loops and indices as kernels of frameworks have them.
#include <cassert>

struct Divider {
    unsigned divisor, magic, shift;
    __device__ unsigned quotient(unsigned n) const { return (__umulhi(n, magic) + n) >> shift; }
};

// An array that is read with an index that steps down.
struct Layout {
    unsigned long long data;
    unsigned sizes[25], strides[25];
    int dims;
    __device__ unsigned offset(unsigned linear) const
    {
        unsigned offset = 0;
        for (int i = dims - 1; i > 0; --i) {
            offset += linear % sizes[i] * strides[i];
            linear /= sizes[i];
        }
        return offset + linear * strides[0];
    }
};

struct Divided {
    int dims;
    Divider sizes[25];
    unsigned strides[25];
};

struct Gathered {
    int count;
    const long long *indices[25];
    long long sizes[25], strides[25];
};

extern "C" {

// The index is a word of what the loop counts.
__global__ void narrow_index(float *output, int n)
{
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += (long long)blockDim.x * gridDim.x) {
        int index = (int)i;
        output[index] = (float)(index % 7);
    }
}

// Sums down the columns of each matrix; the loop over rows is unrolled by the compiler.
__global__ void scan_columns(float *output, const float *input, unsigned matrices, unsigned columns, unsigned rows)
{
    for (unsigned matrix = blockIdx.x; matrix < matrices; matrix += gridDim.x)
        for (unsigned column = blockIdx.y * blockDim.x + threadIdx.x; column < columns; column += gridDim.y * blockDim.x) {
            const float *from = input + static_cast<unsigned long long>(matrix * rows * columns) + column;
            float *to = output + static_cast<unsigned long long>(matrix * rows * columns) + column;
            float sum = 0;
            for (unsigned row = 0; row < rows; ++row) {
                sum += *from;
                *to = sum;
                from += columns;
                to += columns;
            }
        }
}

// Reads at a layout whose sizes are divided by with multiplications.
__global__ void divided(float *output, const float *input, __grid_constant__ const Divided layout, unsigned n)
{
    unsigned index = (blockIdx.x * blockDim.x + threadIdx.x) * 4, offset = 0, left = index;
    if (index >= n)
        return;
#pragma unroll
    for (int dim = 0; dim < 25 && dim < layout.dims; ++dim) {
        unsigned quotient = layout.sizes[dim].quotient(left);
        offset += (left - quotient * layout.sizes[dim].divisor) * layout.strides[dim];
        left = quotient;
    }
    output[index / 4] = input[offset];
}

__global__ void laid_out(float *output, __grid_constant__ const Layout layout, unsigned n)
{
    unsigned linear = blockIdx.x * blockDim.x + threadIdx.x;
    if (linear < n)
        output[linear] = reinterpret_cast<const float *>(layout.data)[layout.offset(linear)];
}

// Rows at indices from memory, negative ones from the end.
__global__ void gather(float *output, const char *input, __grid_constant__ const Gathered of, unsigned n)
{
    unsigned linear = blockIdx.x * blockDim.x + threadIdx.x;
    if (linear >= n)
        return;
    long long offset = 0;
    for (int i = 0; i < of.count; ++i) {
        long long index = of.indices[i][linear];
        assert(-of.sizes[i] <= index && index < of.sizes[i]);
        if (index < 0)
            index += of.sizes[i];
        offset += index * of.strides[i];
    }
    output[linear] = *reinterpret_cast<const float *>(input + offset);
}

// What is kept goes to places that a count says, which is asserted to be below `room`.
__global__ void keep(float *output, const float *input, unsigned n, unsigned room)
{
    __shared__ unsigned counts[32];
    unsigned rounded = (n + blockDim.x - 1) / blockDim.x * blockDim.x, kept = 0;
    for (unsigned i = threadIdx.x; i < rounded; i += blockDim.x) {
        bool in_range = i < n;
        float value = in_range ? input[i] : 0;
        bool has = in_range && value > 0;
        unsigned votes = __ballot_sync(~0u, has), lane = threadIdx.x & 31;
        unsigned index = __popc(votes & ((2u << lane) - 1));
        if (lane == 0)
            counts[threadIdx.x / 32] = __popc(votes);
        __syncthreads();
        for (unsigned warp = 0; warp < threadIdx.x / 32; ++warp)
            index += counts[warp];
        unsigned all = counts[0];
        __syncthreads();
        if (has) {
            unsigned at = kept + index - (has ? 1 : 0);
            assert(at < room);
            output[at] = value;
        }
        kept += all;
    }
}

// A loop that counts up to zero and goes round once at most.
__global__ void columns_of_warps(float *output)
{
    unsigned thread = threadIdx.y * blockDim.x + threadIdx.x;
    for (unsigned i = thread / 32; i < 32; i += blockDim.x * 32 / 32)
        if (threadIdx.x == 0)
            output[blockIdx.x * 32 + i] = (float)thread;
}
}
