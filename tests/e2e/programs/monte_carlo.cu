// Monte-Carlo estimate of pi with cuRAND's device generators; the Philox stream is recomputed on the CPU bit by bit.
// headers: curand_kernel.h
#include <curand_kernel.h>

#include "check.h"

constexpr unsigned long long SEED = 20240607;

__global__ void philox_bits(uint4 *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    curandStatePhilox4_32_10_t state;
    curand_init(SEED, i, 8, &state);
    out[i] = curand4(&state);
}

template <typename State>
__global__ void estimate(unsigned *inside, int samples)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    State state;
    curand_init(SEED, i, 0, &state);
    unsigned hits = 0;
    for (int s = 0; s < samples; s++) {
        float x = curand_uniform(&state), y = curand_uniform(&state);
        hits += x * x + y * y <= 1.0f;
    }
    atomicAdd(inside, hits);
}

template <typename State>
__global__ void normals(float *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    State state;
    curand_init(SEED, i, 0, &state);
    for (int s = 0; s < 8; s++)
        out[i * 8 + s] = curand_normal(&state);
}

static void philox(uint32_t (&counter)[4], uint32_t k0, uint32_t k1)
{
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xd2511f53 * counter[0], p1 = (uint64_t)0xcd9e8d57 * counter[2];
        uint32_t next[4] = {(uint32_t)(p1 >> 32) ^ counter[1] ^ k0, (uint32_t)p1, (uint32_t)(p0 >> 32) ^ counter[3] ^ k1,
                            (uint32_t)p0};
        memcpy(counter, next, sizeof(next));
        k0 += 0x9e3779b9;
        k1 += 0xbb67ae85;
    }
}

template <typename State>
void check_pi(const char *what)
{
    const int threads = 1024, samples = 64;
    unsigned *inside = upload(std::vector<unsigned>{0});
    estimate<State><<<threads / 128, 128>>>(inside, samples);
    CUDA(cudaGetLastError());
    expect_near(what, std::vector<double>{4.0 * download(inside, 1)[0] / (threads * samples)}, {M_PI}, 0, 0.03);
}

int main()
{
    const int threads = 256;
    uint4 *bits = device_array<uint4>(threads);
    philox_bits<<<2, threads / 2>>>(bits);
    CUDA(cudaGetLastError());
    std::vector<uint32_t> got, want;
    auto vectors = download(bits, threads);
    for (int i = 0; i < threads; i++) {
        got.insert(got.end(), {vectors[i].x, vectors[i].y, vectors[i].z, vectors[i].w});
        uint32_t counter[4] = {2, 0, (uint32_t)i, 0};
        philox(counter, (uint32_t)SEED, (uint32_t)(SEED >> 32));
        want.insert(want.end(), counter, counter + 4);
    }
    expect_equal("Philox bits", got, want);
    check_pi<curandStatePhilox4_32_10_t>("pi by Philox");
    check_pi<curandStateXORWOW_t>("pi by XORWOW");

    float *device_normals = device_array<float>(threads * 8);
    normals<curandStatePhilox4_32_10_t><<<2, threads / 2>>>(device_normals);
    CUDA(cudaGetLastError());
    double mean = 0, square = 0;
    for (float value : download(device_normals, threads * 8)) {
        mean += value / (threads * 8);
        square += (double)value * value / (threads * 8);
    }
    expect_near("mean and variance", std::vector<double>{mean, square}, {0, 1}, 0, 0.1);
    return finish();
}
