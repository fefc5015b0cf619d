// Dynamic shared memory: two arrays carved from one block, more than 48 KiB only after opting in, function attributes.
#include "check.h"

extern __shared__ unsigned char raw[];

__global__ void reverse_and_sum(const int *in, int *reversed, long long *sum, int count)
{
    long long *partial = (long long *)raw;
    int *copy = (int *)(partial + blockDim.x);
    partial[threadIdx.x] = 0;
    for (int i = threadIdx.x; i < count; i += blockDim.x) {
        copy[i] = in[i];
        partial[threadIdx.x] += in[i];
    }
    __syncthreads();
    for (int i = threadIdx.x; i < count; i += blockDim.x)
        reversed[i] = copy[count - 1 - i];
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half)
            partial[threadIdx.x] += partial[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        *sum = partial[0];
}

static void run(int count, bool expect_success)
{
    std::vector<int> in(count), want(count);
    long long total = 0;
    for (int i = 0; i < count; i++) {
        in[i] = i * 3 - 1000;
        want[count - 1 - i] = in[i];
        total += in[i];
    }
    int *device_in = upload(in), *reversed = device_array<int>(count);
    long long *sum = device_array<long long>(1);
    size_t bytes = 128 * sizeof(long long) + count * sizeof(int);
    reverse_and_sum<<<1, 128, bytes>>>(device_in, reversed, sum, count);
    if (!expect_success) {
        EXPECT_STATUS(cudaGetLastError(), cudaErrorInvalidValue);
        return;
    }
    CUDA(cudaGetLastError());
    expect_equal("reversed", download(reversed, count), want);
    expect_equal("sum", download(sum, 1), std::vector<long long>{total});
    CUDA(cudaFree(device_in));
    CUDA(cudaFree(reversed));
}

int main()
{
    int limit = 0;
    CUDA(cudaDeviceGetAttribute(&limit, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0));
    EXPECT(limit > 64 * 1024);
    run(5000, true);
    run(15000, false);
    CUDA(cudaFuncSetAttribute(reverse_and_sum, cudaFuncAttributeMaxDynamicSharedMemorySize, 64 * 1024));
    cudaFuncAttributes attributes;
    CUDA(cudaFuncGetAttributes(&attributes, reverse_and_sum));
    EXPECT(attributes.maxDynamicSharedSizeBytes == 64 * 1024);
    EXPECT(attributes.maxThreadsPerBlock >= 128);
    run(15000, true);
    EXPECT_STATUS(cudaFuncSetAttribute(reverse_and_sum, cudaFuncAttributeMaxDynamicSharedMemorySize, limit + 1),
                  cudaErrorInvalidValue);
    cudaGetLastError();
    return finish();
}
