// Cooperative groups: tiles and their collectives, coalesced groups, labelled partitions, grid-wide synchronisation.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>

#include "check.h"

namespace cg = cooperative_groups;

template <int SIZE>
__global__ void tile_sums(const int *in, int *sums, int *ranks)
{
    auto block = cg::this_thread_block();
    auto tile = cg::tiled_partition<SIZE>(block);
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int sum = cg::reduce(tile, in[i], cg::plus<int>());
    if (tile.thread_rank() == 0)
        sums[i / SIZE] = sum;
    ranks[i] = cg::exclusive_scan(tile, in[i], cg::plus<int>());
}

__global__ void compact_positive(const int *in, int *out, int *count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (in[i] > 0) {
        auto active = cg::coalesced_threads();
        int base = 0;
        if (active.thread_rank() == 0)
            base = atomicAdd(count, (int)active.size());
        out[active.shfl(base, 0) + active.thread_rank()] = in[i];
    }
}

__global__ void labelled_maxima(const int *in, int *out)
{
    auto tile = cg::tiled_partition<32>(cg::this_thread_block());
    auto same = cg::labeled_partition(tile, (int)threadIdx.x % 3);
    out[threadIdx.x] = cg::reduce(same, in[threadIdx.x], cg::greater<int>());
}

// Each step reads the neighbour that another block wrote in the step before.
__global__ void rotate(int *even, int *odd, int count, int steps)
{
    auto grid = cg::this_grid();
    for (int s = 0; s < steps; s++) {
        int *from = s % 2 ? odd : even, *to = s % 2 ? even : odd;
        for (int i = (int)grid.thread_rank(); i < count; i += (int)grid.size())
            to[(i + 1) % count] = from[i] + 1;
        grid.sync();
    }
}

template <int SIZE>
static void check_tiles(const std::vector<int> &in, const int *device_in)
{
    int count = (int)in.size();
    std::vector<int> want_sums(count / SIZE), want_ranks(count);
    for (int i = 0; i < count; i++) {
        want_ranks[i] = want_sums[i / SIZE];
        want_sums[i / SIZE] += in[i];
    }
    int *sums = device_array<int>(count / SIZE), *ranks = device_array<int>(count);
    tile_sums<SIZE><<<count / 128, 128>>>(device_in, sums, ranks);
    CUDA(cudaGetLastError());
    expect_equal("tile sums", download(sums, want_sums.size()), want_sums);
    expect_equal("tile scans", download(ranks, count), want_ranks);
}

int main()
{
    const int count = 1024;
    Random random(15);
    std::vector<int> in(count);
    for (int &value : in)
        value = (int)random.below(200) - 100;
    int *device_in = upload(in);
    check_tiles<32>(in, device_in);
    check_tiles<8>(in, device_in);
    check_tiles<2>(in, device_in);

    int *compacted = device_array<int>(count), *kept = upload(std::vector<int>{0});
    compact_positive<<<count / 128, 128>>>(device_in, compacted, kept);
    CUDA(cudaGetLastError());
    int positives = 0;
    long long sum = 0, got_sum = 0;
    for (int value : in)
        if (value > 0) {
            positives++;
            sum += value;
        }
    EXPECT(download(kept, 1)[0] == positives);
    for (int value : download(compacted, positives))
        got_sum += value;
    EXPECT(got_sum == sum);

    std::vector<int> maxima(32);
    for (int i = 0; i < 32; i++) {
        maxima[i] = -1000;
        for (int j = i % 3; j < 32; j += 3)
            maxima[i] = in[j] > maxima[i] ? in[j] : maxima[i];
    }
    labelled_maxima<<<1, 32>>>(device_in, compacted);
    CUDA(cudaGetLastError());
    expect_equal("labelled maxima", download(compacted, 32), maxima);

    int cooperative = 0, per_sm = 0, sms = 0, steps = 7, size = count;
    CUDA(cudaDeviceGetAttribute(&cooperative, cudaDevAttrCooperativeLaunch, 0));
    CUDA(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
    CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_sm, rotate, 128, 0));
    EXPECT(cooperative == 1);
    EXPECT(per_sm * sms >= 6);
    int *even = upload(in), *odd = device_array<int>(count);
    void *arguments[] = {&even, &odd, &size, &steps};
    CUDA(cudaLaunchCooperativeKernel((void *)rotate, dim3(6), dim3(128), arguments, 0, nullptr));
    std::vector<int> want(count);
    for (int i = 0; i < count; i++)
        want[(i + steps) % count] = in[i] + steps;
    expect_equal("grid sync", download(steps % 2 ? odd : even, count), want);
    EXPECT_STATUS(cudaLaunchCooperativeKernel((void *)rotate, dim3(per_sm * sms + 1), dim3(128), arguments, 0, nullptr),
                  cudaErrorCooperativeLaunchTooLarge);
    return finish();
}
