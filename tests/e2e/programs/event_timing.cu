// Elapsed time between events: positive, additive, larger for more work, refused for events without timing.
#include "check.h"

__global__ void spin(float *data, int rounds)
{
    float value = data[threadIdx.x];
    for (int i = 0; i < rounds; i++)
        value = value * 1.0001f + 0.5f;
    data[threadIdx.x] = value;
}

static float between(cudaEvent_t from, cudaEvent_t to)
{
    float milliseconds = -1;
    CUDA(cudaEventElapsedTime(&milliseconds, from, to));
    return milliseconds;
}

int main()
{
    float *data = device_array<float>(32);
    CUDA(cudaMemset(data, 0, 32 * sizeof(float)));
    cudaEvent_t start, middle, end, untimed;
    CUDA(cudaEventCreate(&start));
    CUDA(cudaEventCreate(&middle));
    CUDA(cudaEventCreate(&end));
    CUDA(cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming));
    float milliseconds;
    EXPECT_STATUS(cudaEventElapsedTime(&milliseconds, start, end), cudaErrorInvalidResourceHandle);
    cudaGetLastError();
    spin<<<1, 32>>>(data, 1);
    CUDA(cudaEventRecord(start));
    spin<<<1, 32>>>(data, 1000);
    CUDA(cudaEventRecord(middle));
    spin<<<1, 32>>>(data, 100000);
    CUDA(cudaEventRecord(end));
    CUDA(cudaEventRecord(untimed));
    CUDA(cudaEventSynchronize(end));
    CUDA(cudaDeviceSynchronize());
    float small = between(start, middle), large = between(middle, end), total = between(start, end);
    EXPECT(small > 0);
    EXPECT(large > 4 * small);
    EXPECT(fabsf(small + large - total) < 0.01f + 0.01f * total);
    EXPECT_STATUS(cudaEventElapsedTime(&milliseconds, start, untimed), cudaErrorInvalidResourceHandle);
    cudaGetLastError();
    return finish();
}
