// Stable radix sort of key-value pairs, four bits a pass: digit counts per block, a scan of the counts, a scatter that
// ranks equal digits with warp votes.
#include <algorithm>
#include <numeric>

#include "check.h"

constexpr int BLOCK = 256, DIGITS = 16, WARPS = BLOCK / 32;

// rank = number of earlier threads of this block with the same digit; totals[d] = threads of the block with digit d
__device__ unsigned rank_digit(unsigned digit, unsigned (&counts)[WARPS][DIGITS])
{
    unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int i = threadIdx.x; i < WARPS * DIGITS; i += BLOCK)
        (&counts[0][0])[i] = 0;
    __syncthreads();
    unsigned peers = 0xffffffff;
    for (int bit = 0; bit < 4; bit++) {
        unsigned vote = __ballot_sync(0xffffffff, digit >> bit & 1);
        peers &= digit >> bit & 1 ? vote : ~vote;
    }
    unsigned before = __popc(peers & ((1u << lane) - 1));
    if (before == 0)
        counts[warp][digit] = __popc(peers);
    __syncthreads();
    unsigned rank = before;
    for (unsigned w = 0; w < warp; w++)
        rank += counts[w][digit];
    return rank;
}

__global__ void count_digits(const unsigned *keys, unsigned *block_counts, int shift)
{
    __shared__ unsigned counts[WARPS][DIGITS];
    rank_digit(keys[blockIdx.x * BLOCK + threadIdx.x] >> shift & (DIGITS - 1), counts);
    if (threadIdx.x < DIGITS) {
        unsigned total = 0;
        for (int w = 0; w < WARPS; w++)
            total += counts[w][threadIdx.x];
        block_counts[threadIdx.x * gridDim.x + blockIdx.x] = total;
    }
}

__global__ void scan_exclusive(unsigned *values, int count)
{
    unsigned sum = 0;
    for (int start = 0; start < count; start += 32) {
        int i = start + threadIdx.x;
        unsigned value = i < count ? values[i] : 0, inclusive = value;
        for (int distance = 1; distance < 32; distance *= 2) {
            unsigned left = __shfl_up_sync(0xffffffff, inclusive, distance);
            if (threadIdx.x >= distance)
                inclusive += left;
        }
        if (i < count)
            values[i] = sum + inclusive - value;
        sum += __shfl_sync(0xffffffff, inclusive, 31);
    }
}

__global__ void scatter(const unsigned *keys, const unsigned *values, unsigned *out_keys, unsigned *out_values,
                        const unsigned *offsets, int shift)
{
    __shared__ unsigned counts[WARPS][DIGITS];
    int i = blockIdx.x * BLOCK + threadIdx.x;
    unsigned digit = keys[i] >> shift & (DIGITS - 1);
    unsigned target = offsets[digit * gridDim.x + blockIdx.x] + rank_digit(digit, counts);
    out_keys[target] = keys[i];
    out_values[target] = values[i];
}

int main()
{
    const int blocks = 32, count = blocks * BLOCK;
    Random random(8);
    std::vector<unsigned> keys(count), values(count), order(count);
    for (int i = 0; i < count; i++) {
        keys[i] = random.below(1 << 20);
        values[i] = i;
    }
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](unsigned l, unsigned r) { return keys[l] < keys[r]; });
    std::vector<unsigned> want_keys(count);
    for (int i = 0; i < count; i++)
        want_keys[i] = keys[order[i]];

    unsigned *in_keys = upload(keys), *in_values = upload(values), *offsets = device_array<unsigned>(DIGITS * blocks);
    unsigned *out_keys = device_array<unsigned>(count), *out_values = device_array<unsigned>(count);
    for (int shift = 0; shift < 20; shift += 4) {
        count_digits<<<blocks, BLOCK>>>(in_keys, offsets, shift);
        scan_exclusive<<<1, 32>>>(offsets, DIGITS * blocks);
        scatter<<<blocks, BLOCK>>>(in_keys, in_values, out_keys, out_values, offsets, shift);
        std::swap(in_keys, out_keys);
        std::swap(in_values, out_values);
    }
    CUDA(cudaGetLastError());
    expect_equal("keys", download(in_keys, count), want_keys);
    expect_equal("values", download(in_values, count), order);
    return finish();
}
