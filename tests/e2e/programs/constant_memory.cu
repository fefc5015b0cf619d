// Constant and global symbols: initialisers, copies to and from with offsets, addresses, sizes.
#include "check.h"

__constant__ float weights[8] = {1, 2, 4, 8, 16, 32, 64, 128};
__constant__ struct {
    int scale;
    const float *table;
} config;
__device__ int counter = 40;
__device__ float results[64];

__global__ void apply()
{
    int t = threadIdx.x;
    results[t] = weights[t % 8] * (float)config.scale + config.table[t];
    if (t == 0)
        counter += 2;
}

int main()
{
    std::vector<float> table(64), want(64), got(64);
    for (int i = 0; i < 64; i++)
        table[i] = 0.25f * i;
    struct {
        int scale;
        const float *table;
    } settings = {3, upload(table)};
    CUDA(cudaMemcpyToSymbol(config, &settings, sizeof(settings)));
    float replaced[2] = {-1, -2};
    CUDA(cudaMemcpyToSymbol(weights, replaced, sizeof(replaced), 2 * sizeof(float)));
    apply<<<1, 64>>>();
    CUDA(cudaGetLastError());
    const float now[8] = {1, 2, -1, -2, 16, 32, 64, 128};
    for (int i = 0; i < 64; i++)
        want[i] = now[i % 8] * 3 + table[i];
    CUDA(cudaMemcpyFromSymbol(got.data(), results, sizeof(results)));
    expect_equal("results", got, want);

    int count = 0;
    CUDA(cudaMemcpyFromSymbol(&count, counter, sizeof(count)));
    EXPECT(count == 42);
    void *address = nullptr;
    size_t bytes = 0;
    CUDA(cudaGetSymbolAddress(&address, results));
    CUDA(cudaGetSymbolSize(&bytes, results));
    EXPECT(bytes == 64 * sizeof(float));
    expect_equal("through the address", download((float *)address, 64), want);
    float tail[2];
    CUDA(cudaMemcpyFromSymbolAsync(tail, results, sizeof(tail), 62 * sizeof(float), cudaMemcpyDeviceToHost, nullptr));
    CUDA(cudaStreamSynchronize(nullptr));
    EXPECT(tail[0] == want[62] && tail[1] == want[63]);
    return finish();
}
