// Layer normalisation: mean and variance by Welford merging across a block, then scale and shift.
#include "check.h"

struct Moments {
    float count, mean, m2;
};

__device__ Moments merge(Moments a, Moments b)
{
    float count = a.count + b.count;
    if (count == 0)
        return a;
    float delta = b.mean - a.mean;
    return {count, a.mean + delta * b.count / count, a.m2 + b.m2 + delta * delta * a.count * b.count / count};
}

__global__ void layer_norm(const float *in, const float *scale, const float *shift, float *out, int columns)
{
    __shared__ Moments partial[8];
    const float *row = in + blockIdx.x * columns;
    Moments moments = {0, 0, 0};
    for (int i = threadIdx.x; i < columns; i += blockDim.x)
        moments = merge(moments, {1, row[i], 0});
    for (int distance = 16; distance > 0; distance /= 2) {
        Moments other = {__shfl_down_sync(0xffffffff, moments.count, distance),
                         __shfl_down_sync(0xffffffff, moments.mean, distance),
                         __shfl_down_sync(0xffffffff, moments.m2, distance)};
        moments = merge(moments, other);
    }
    if (threadIdx.x % 32 == 0)
        partial[threadIdx.x / 32] = moments;
    __syncthreads();
    moments = partial[0];
    for (int w = 1; w < blockDim.x / 32; w++)
        moments = merge(moments, partial[w]);
    float inverse = rsqrtf(moments.m2 / moments.count + 1e-5f);
    for (int i = threadIdx.x; i < columns; i += blockDim.x)
        out[blockIdx.x * columns + i] = (row[i] - moments.mean) * inverse * scale[i] + shift[i];
}

int main()
{
    const int rows = 24, columns = 777;
    Random random(11);
    auto in = random.floats(rows * columns, 3, 5), scale = random.floats(columns, 0.5f, 2),
         shift = random.floats(columns, -1, 1);
    std::vector<double> want(rows * columns);
    for (int r = 0; r < rows; r++) {
        double mean = 0, variance = 0;
        for (int c = 0; c < columns; c++)
            mean += in[r * columns + c];
        mean /= columns;
        for (int c = 0; c < columns; c++)
            variance += (in[r * columns + c] - mean) * (in[r * columns + c] - mean);
        variance /= columns;
        for (int c = 0; c < columns; c++)
            want[r * columns + c] = (in[r * columns + c] - mean) / sqrt(variance + 1e-5) * scale[c] + shift[c];
    }
    float *out = device_array<float>(rows * columns);
    layer_norm<<<rows, 256>>>(upload(in), upload(scale), upload(shift), out, columns);
    CUDA(cudaGetLastError());
    expect_near("layer norm", download(out, rows * columns), want, 1e-5, 1e-5);
    return finish();
}
