// Kernels that frameworks are made of whose pointers and sizes lie in arrays among the parameters, or that follow indices in memory.
#include <cassert>

struct Strides {
    unsigned size[4], stride[4];
};

template <int n> struct Inputs {
    const unsigned short *input[n];
    unsigned offset[n], dim_size[n], elements[n];
    bool is_contiguous[n];
    Strides strides[n];
};

static __device__ unsigned offset_of(const unsigned *size, const unsigned *stride, unsigned dim_size, unsigned dim, unsigned linear)
{
    unsigned offset = 0;
#pragma unroll
    for (int i = 3; i >= 1; --i) {
        unsigned here = i == dim ? dim_size : size[i], next = linear / here;
        offset += (linear - here * next) * stride[i];
        linear = next;
    }
    return offset + linear * stride[0];
}

template <int n>
static __device__ void concatenate(unsigned short *output, const Inputs<n> &inputs, const Strides &os, int dim, unsigned dim_stride)
{
    unsigned tid = blockIdx.x * blockDim.x + threadIdx.x, elements = inputs.elements[blockIdx.y];
    Strides is = inputs.strides[blockIdx.y];
    bool is_contiguous = inputs.is_contiguous[blockIdx.y];
    if (tid >= elements)
        return;
    const unsigned short *data = inputs.input[blockIdx.y];
    unsigned offset = inputs.offset[blockIdx.y], dim_size = inputs.dim_size[blockIdx.y], base = offset * dim_stride;
    for (; tid < elements; tid += gridDim.x * blockDim.x) {
        unsigned to = offset_of(os.size, os.stride, dim_size, dim, tid);
        output[base + to] = is_contiguous ? data[tid] : data[offset_of(is.size, is.stride, dim_size, dim, tid)];
    }
}

extern "C" {

// Tensors side by side along one dimension.
__global__ void concatenate4(unsigned short *output, Inputs<4> inputs, Strides os, int dim, unsigned dim_stride)
{
    concatenate(output, inputs, os, dim, dim_stride);
}

__global__ void concatenate64(unsigned short *output, Inputs<64> inputs, Strides os, int dim, unsigned dim_stride)
{
    concatenate(output, inputs, os, dim, dim_stride);
}

// Rows that indices name, 16 bytes at a time.
__global__ void gather_rows(char *out, char *in, const long long *index, int count, long long slice, long long rows, long long in_stride,
                            long long out_stride, bool allow_negative)
{
    long long row = index[blockIdx.x];
    if (allow_negative)
        row = row < 0 ? row + rows : row;
    assert(row >= 0 && row < rows);
    long long at = (blockDim.x * blockIdx.y + threadIdx.x) * 16ll;
    if (at >= slice)
        return;
    *(int4 *)(out + blockIdx.x * out_stride + at) = *(const int4 *)(in + row * in_stride + at);
}
}
