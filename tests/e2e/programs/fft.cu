// Radix-2 complex FFT of 1024 points in shared memory, forward and inverse, against a direct DFT in double precision.
#include "check.h"

constexpr int POINTS = 1024, BITS = 10;

__global__ void fft(const float2 *in, float2 *out, float direction)
{
    __shared__ float2 data[POINTS];
    in += blockIdx.x * POINTS;
    out += blockIdx.x * POINTS;
    for (int i = threadIdx.x; i < POINTS; i += blockDim.x)
        data[__brev(i) >> (32 - BITS)] = in[i];
    __syncthreads();
    for (int half = 1; half < POINTS; half *= 2) {
        for (int i = threadIdx.x; i < POINTS / 2; i += blockDim.x) {
            int offset = i & (half - 1), low = (i - offset) * 2 + offset;
            float sine, cosine;
            sincospif(direction * offset / half, &sine, &cosine);
            float2 a = data[low], b = data[low + half];
            float2 turned = {b.x * cosine - b.y * sine, b.x * sine + b.y * cosine};
            data[low] = {a.x + turned.x, a.y + turned.y};
            data[low + half] = {a.x - turned.x, a.y - turned.y};
        }
        __syncthreads();
    }
    float scale = direction > 0 ? 1.0f / POINTS : 1.0f;
    for (int i = threadIdx.x; i < POINTS; i += blockDim.x)
        out[i] = {data[i].x * scale, data[i].y * scale};
}

static std::vector<float> flat(const std::vector<float2> &values)
{
    return std::vector<float>((const float *)values.data(), (const float *)(values.data() + values.size()));
}

int main()
{
    const int batches = 2;
    Random random(13);
    std::vector<float2> in(batches * POINTS);
    for (float2 &value : in)
        value = {random.uniform(-1, 1), random.uniform(-1, 1)};
    std::vector<double> turns(2 * POINTS), want(2 * in.size()), original(2 * in.size());
    for (int i = 0; i < POINTS; i++) {
        turns[2 * i] = cos(-2 * M_PI * i / POINTS);
        turns[2 * i + 1] = sin(-2 * M_PI * i / POINTS);
    }
    for (int batch = 0; batch < batches; batch++)
        for (int f = 0; f < POINTS; f++) {
            double re = 0, im = 0;
            for (int t = 0; t < POINTS; t++) {
                float2 value = in[batch * POINTS + t];
                double c = turns[f * t % POINTS * 2], s = turns[f * t % POINTS * 2 + 1];
                re += value.x * c - value.y * s;
                im += value.x * s + value.y * c;
            }
            want[2 * (batch * POINTS + f)] = re;
            want[2 * (batch * POINTS + f) + 1] = im;
        }
    for (size_t i = 0; i < in.size(); i++) {
        original[2 * i] = in[i].x;
        original[2 * i + 1] = in[i].y;
    }
    float2 *device_in = upload(in), *device_out = device_array<float2>(in.size());
    fft<<<batches, 256>>>(device_in, device_out, -1);
    CUDA(cudaGetLastError());
    expect_near("forward", flat(download(device_out, in.size())), want, 0, 5e-5);
    fft<<<batches, 256>>>(device_out, device_in, 1);
    CUDA(cudaGetLastError());
    expect_near("inverse", flat(download(device_in, in.size())), original, 0, 2e-6);
    return finish();
}
