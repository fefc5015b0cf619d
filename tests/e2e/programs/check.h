// What the end-to-end programs share: calls that must succeed, deterministic inputs, comparisons, the verdict.
//
// A program computes its expected values on the CPU, independently of the device code, reports each mismatch on
// standard error, and ends with `return finish();`, which prints PASS only if at least one comparison was made and
// none failed.  Nothing here knows whether the GPU is real.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <cuda_runtime.h>

inline int comparisons = 0;
inline int failures = 0;

#define CUDA(call)                                                                                                     \
    do {                                                                                                               \
        cudaError_t status_ = (call);                                                                                  \
        if (status_ != cudaSuccess) {                                                                                  \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorName(status_));                  \
            exit(2);                                                                                                   \
        }                                                                                                              \
    } while (0)

#define EXPECT(condition) expect((condition), #condition, __LINE__)
#define EXPECT_STATUS(call, wanted) expect_status((call), (wanted), #call, __LINE__)

inline void expect(bool holds, const char *text, int line)
{
    comparisons++;
    if (!holds) {
        failures++;
        fprintf(stderr, "line %d: expected %s\n", line, text);
    }
}

inline void expect_status(cudaError_t got, cudaError_t wanted, const char *text, int line)
{
    comparisons++;
    if (got != wanted) {
        failures++;
        fprintf(stderr, "line %d: %s gave %s, expected %s\n", line, text, cudaGetErrorName(got), cudaGetErrorName(wanted));
    }
}

// Bitwise equality; reports the first difference.
template <typename T>
void expect_equal(const char *what, const std::vector<T> &got, const std::vector<T> &want)
{
    comparisons++;
    if (got.size() == want.size() && memcmp(got.data(), want.data(), got.size() * sizeof(T)) == 0)
        return;
    failures++;
    size_t i = 0;
    while (i < got.size() && i < want.size() && memcmp(&got[i], &want[i], sizeof(T)) == 0)
        i++;
    fprintf(stderr, "%s: differs at %zu of %zu (expected size %zu)", what, i, got.size(), want.size());
    if (i < got.size() && i < want.size())
        fprintf(stderr, ": got %.9g, expected %.9g", (double)got[i], (double)want[i]);
    fprintf(stderr, "\n");
}

// |got - want| <= absolute + relative * |want| for every element; a NaN fails.
template <typename T>
void expect_near(const char *what, const std::vector<T> &got, const std::vector<double> &want, double relative, double absolute)
{
    comparisons++;
    for (size_t i = 0; i < want.size(); i++) {
        double difference = fabs((double)got[i] - want[i]);
        if (difference <= absolute + relative * fabs(want[i]))
            continue;
        failures++;
        fprintf(stderr, "%s: element %zu is %.9g, expected %.9g\n", what, i, (double)got[i], want[i]);
        return;
    }
}

// SplitMix64: the same inputs on every machine.
struct Random {
    uint64_t state;
    explicit Random(uint64_t seed) : state(seed)
    {
    }
    uint64_t bits()
    {
        uint64_t z = state += 0x9e3779b97f4a7c15u;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        return z ^ (z >> 31);
    }
    uint32_t below(uint32_t bound)
    {
        return (uint32_t)((bits() >> 32) * bound >> 32);
    }
    float uniform(float low, float high)
    {
        return low + (high - low) * (float)(bits() >> 40) * 0x1p-24f;
    }
    std::vector<float> floats(size_t count, float low, float high)
    {
        std::vector<float> values(count);
        for (float &value : values)
            value = uniform(low, high);
        return values;
    }
};

template <typename T>
T *device_array(size_t count)
{
    T *pointer = nullptr;
    CUDA(cudaMalloc((void **)&pointer, count * sizeof(T)));
    return pointer;
}

template <typename T>
T *upload(const std::vector<T> &values)
{
    T *pointer = device_array<T>(values.size());
    CUDA(cudaMemcpy(pointer, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
    return pointer;
}

template <typename T>
std::vector<T> download(const T *pointer, size_t count)
{
    std::vector<T> values(count);
    CUDA(cudaMemcpy(values.data(), pointer, count * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
}

inline int finish()
{
    if (failures == 0 && comparisons > 0) {
        printf("PASS (%d comparisons)\n", comparisons);
        return 0;
    }
    printf("FAIL (%d of %d comparisons)\n", failures, comparisons);
    return 1;
}
