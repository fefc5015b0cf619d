// Element-wise addition with a ragged last block.
#include "check.h"

__global__ void add(const float *a, const float *b, float *sum, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        sum[i] = a[i] + b[i];
}

int main()
{
    const int count = 100003;
    Random random(1);
    auto a = random.floats(count, -1, 1), b = random.floats(count, -1, 1);
    std::vector<float> want(count);
    for (int i = 0; i < count; i++)
        want[i] = a[i] + b[i];
    float *device_a = upload(a), *device_b = upload(b), *device_sum = device_array<float>(count);
    add<<<(count + 255) / 256, 256>>>(device_a, device_b, device_sum, count);
    CUDA(cudaGetLastError());
    expect_equal("sum", download(device_sum, count), want);
    CUDA(cudaFree(device_a));
    CUDA(cudaFree(device_b));
    CUDA(cudaFree(device_sum));
    return finish();
}
