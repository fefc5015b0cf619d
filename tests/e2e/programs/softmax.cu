// Row softmax with warp and block reductions; rows hold large values, so the maximum must be subtracted.
#include "check.h"

__device__ float reduce_block(float value, bool maximum, float *scratch)
{
    for (int distance = 16; distance > 0; distance /= 2) {
        float other = __shfl_xor_sync(0xffffffff, value, distance);
        value = maximum ? fmaxf(value, other) : value + other;
    }
    if (threadIdx.x % 32 == 0)
        scratch[threadIdx.x / 32] = value;
    __syncthreads();
    int warps = blockDim.x / 32;
    value = scratch[0];
    for (int w = 1; w < warps; w++)
        value = maximum ? fmaxf(value, scratch[w]) : value + scratch[w];
    __syncthreads();
    return value;
}

__global__ void softmax(const float *in, float *out, int columns)
{
    __shared__ float scratch[32];
    const float *row = in + blockIdx.x * columns;
    float largest = -INFINITY;
    for (int i = threadIdx.x; i < columns; i += blockDim.x)
        largest = fmaxf(largest, row[i]);
    largest = reduce_block(largest, true, scratch);
    float sum = 0;
    for (int i = threadIdx.x; i < columns; i += blockDim.x)
        sum += expf(row[i] - largest);
    sum = reduce_block(sum, false, scratch);
    for (int i = threadIdx.x; i < columns; i += blockDim.x)
        out[blockIdx.x * columns + i] = expf(row[i] - largest) / sum;
}

int main()
{
    const int rows = 37, columns = 1000;
    Random random(10);
    auto in = random.floats(rows * columns, 80, 120);
    std::vector<double> want(rows * columns);
    for (int r = 0; r < rows; r++) {
        double largest = -1e300, sum = 0;
        for (int c = 0; c < columns; c++)
            largest = fmax(largest, in[r * columns + c]);
        for (int c = 0; c < columns; c++)
            sum += exp(in[r * columns + c] - largest);
        for (int c = 0; c < columns; c++)
            want[r * columns + c] = exp(in[r * columns + c] - largest) / sum;
    }
    float *device_in = upload(in), *device_out = device_array<float>(rows * columns);
    softmax<<<rows, 128>>>(device_in, device_out, columns);
    CUDA(cudaGetLastError());
    expect_near("softmax", download(device_out, rows * columns), want, 2e-6, 1e-30);
    return finish();
}
