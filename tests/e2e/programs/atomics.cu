// Every kind of atomic on global and shared memory: 32 and 64 bits, float, double, half2, CAS loops, returned values.
#include <cuda_fp16.h>

#include "check.h"

struct Cells {
    int add, sub, largest, smallest;
    unsigned unsigned_largest, increment, decrement, and_bits, or_bits, xor_bits;
    unsigned long long wide_add, wide_largest, wide_swap_sum;
    float float_add;
    double double_add;
    __half2 half_add;
    float cas_product;
    unsigned short narrow_cas;
};

__device__ void update(Cells &cells, unsigned i)
{
    atomicAdd(&cells.add, (int)i);
    atomicSub(&cells.sub, 3);
    atomicMax(&cells.largest, (int)i - 100);
    atomicMin(&cells.smallest, 50 - (int)i);
    atomicMax(&cells.unsigned_largest, i ^ 0x80000000u);
    atomicInc(&cells.increment, 9);
    atomicDec(&cells.decrement, 9);
    atomicAnd(&cells.and_bits, ~(1u << i % 7));
    atomicOr(&cells.or_bits, 1u << i % 13);
    atomicXor(&cells.xor_bits, i);
    atomicAdd(&cells.wide_add, 0x100000001ull * i);
    atomicMax(&cells.wide_largest, (unsigned long long)i << 40);
    atomicAdd(&cells.float_add, 0.25f);
    atomicAdd(&cells.double_add, 0.125);
    atomicAdd(&cells.half_add, __floats2half2_rn(1.0f, -0.5f));
    if (i < 20) {
        int *bits = (int *)&cells.cas_product, seen = *(volatile int *)bits, expected;
        do {
            expected = seen;
            seen = atomicCAS(bits, expected, __float_as_int(__int_as_float(expected) * 2.0f));
        } while (seen != expected);
    }
    unsigned short old = *(volatile unsigned short *)&cells.narrow_cas, assumed;
    do {
        assumed = old;
        old = atomicCAS(&cells.narrow_cas, assumed, (unsigned short)(assumed + 1));
    } while (old != assumed);
}

__global__ void update_global(Cells *cells)
{
    update(*cells, blockIdx.x * blockDim.x + threadIdx.x);
}

__global__ void update_shared(const Cells *initial, Cells *out)
{
    __shared__ Cells cells;
    if (threadIdx.x == 0)
        cells = *initial;
    __syncthreads();
    update(cells, threadIdx.x);
    __syncthreads();
    if (threadIdx.x == 0)
        *out = cells;
}

__global__ void tickets(unsigned *counter, unsigned *seen, unsigned long long *chain)
{
    unsigned ticket = atomicAdd(counter, 1);
    atomicAdd(&seen[ticket], 1u);
    atomicAdd(&chain[1], atomicExch(&chain[0], (unsigned long long)threadIdx.x + 1));
}

static Cells initial_cells()
{
    Cells cells = {};
    cells.largest = -1000;
    cells.smallest = 1000;
    cells.and_bits = 0xffffffff;
    cells.cas_product = 1;
    return cells;
}

static void check(const char *what, const Cells &got, unsigned count)
{
    unsigned add = 0, exclusive = 0, largest = 0;
    unsigned long long wide = 0;
    for (unsigned i = 0; i < count; i++) {
        add += i;
        exclusive ^= i;
        wide += 0x100000001ull * i;
        largest = (i ^ 0x80000000u) > largest ? i ^ 0x80000000u : largest;
    }
    int before = failures;
    EXPECT(got.add == (int)add);
    EXPECT(got.sub == -3 * (int)count);
    EXPECT(got.largest == (int)count - 101);
    EXPECT(got.smallest == 51 - (int)count);
    EXPECT(got.unsigned_largest == largest);
    EXPECT(got.increment == count % 10);
    EXPECT(got.decrement == (10 - count % 10) % 10);
    EXPECT(got.and_bits == 0xffffff80);
    EXPECT(got.or_bits == 0x1fff);
    EXPECT(got.xor_bits == exclusive);
    EXPECT(got.wide_add == wide);
    EXPECT(got.wide_largest == (unsigned long long)(count - 1) << 40);
    EXPECT(got.float_add == 0.25f * count);
    EXPECT(got.double_add == 0.125 * count);
    EXPECT(__low2float(got.half_add) == (float)count && __high2float(got.half_add) == -0.5f * count);
    EXPECT(got.cas_product == 1048576.0f);
    EXPECT(got.narrow_cas == count);
    if (failures != before)
        fprintf(stderr, "in %s\n", what);
}

int main()
{
    Cells initial = initial_cells();
    Cells *global = upload(std::vector<Cells>{initial}), *out = device_array<Cells>(1);
    update_global<<<6, 96>>>(global);
    CUDA(cudaGetLastError());
    check("global memory", download(global, 1)[0], 6 * 96);
    Cells *start = upload(std::vector<Cells>{initial});
    update_shared<<<1, 256>>>(start, out);
    CUDA(cudaGetLastError());
    check("shared memory", download(out, 1)[0], 256);

    unsigned *state = device_array<unsigned>(257);
    auto *chain = device_array<unsigned long long>(2);
    CUDA(cudaMemset(state, 0, 257 * sizeof(unsigned)));
    CUDA(cudaMemset(chain, 0, 16));
    tickets<<<4, 64>>>(state, state + 1, chain);
    CUDA(cudaGetLastError());
    expect_equal("each ticket once", download(state + 1, 256), std::vector<unsigned>(256, 1));
    auto links = download(chain, 2);
    EXPECT(links[0] + links[1] == 4 * 64 * 65 / 2);
    return finish();
}
