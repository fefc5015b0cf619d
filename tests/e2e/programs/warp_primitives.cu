// Shuffles of every kind and width, votes, match, redux, masks under divergence.
#include "check.h"

__global__ void shuffles(const int *in, int *out)
{
    int lane = threadIdx.x, value = in[lane];
    out[lane] = __shfl_sync(0xffffffff, value, (lane * 5 + 3) % 32);
    out[32 + lane] = __shfl_up_sync(0xffffffff, value, 3);
    out[64 + lane] = __shfl_down_sync(0xffffffff, value, 5);
    out[96 + lane] = __shfl_xor_sync(0xffffffff, value, 9);
    out[128 + lane] = __shfl_down_sync(0xffffffff, value, 2, 8);
    out[160 + lane] = __shfl_sync(0xffffffff, value, 1, 4);
    long long wide = (long long)value << 33 | lane;
    out[192 + lane] = (int)(__shfl_xor_sync(0xffffffff, wide, 1) >> 33);
}

__global__ void votes(const int *in, unsigned *out)
{
    int lane = threadIdx.x, value = in[lane];
    out[lane] = __ballot_sync(0xffffffff, value > 0);
    out[32 + lane] = __any_sync(0xffffffff, value == in[31]) ? 1 : 0;
    out[64 + lane] = __all_sync(0xffffffff, value > -1000) ? 1 : 0;
    out[96 + lane] = __match_any_sync(0xffffffff, value % 4);
    int equal;
    out[128 + lane] = __match_all_sync(0xffffffff, lane / 64, &equal) + equal;
    out[160 + lane] = __reduce_add_sync(0xffffffff, value);
    out[192 + lane] = (unsigned)__reduce_min_sync(0xffffffff, value);
    out[224 + lane] = __reduce_xor_sync(0xffffffff, (unsigned)value);
    out[256 + lane] = 0;
    if (lane % 3 == 0) {
        unsigned mask = __activemask();
        out[256 + lane] = __ballot_sync(0x49249249, value % 2 != 0) ^ mask;
    }
}

__global__ void divergent_sum(const int *in, int *out)
{
    int lane = threadIdx.x % 32, value = in[lane];
    unsigned mask = lane < 12 ? 0xfff : ~0xfffu;
    if (lane < 12) {
        for (int source = 0; source < 12; source++)
            out[lane] += __shfl_sync(mask, value, source);
    } else {
        for (int source = 12; source < 32; source++)
            out[lane] -= __shfl_sync(mask, value, source);
    }
    __syncwarp();
}

int main()
{
    Random random(17);
    std::vector<int> in(32);
    for (int &value : in)
        value = (int)random.below(41) - 20;
    int *device_in = upload(in), *out = device_array<int>(288);
    std::vector<int> want(224);
    for (int lane = 0; lane < 32; lane++) {
        want[lane] = in[(lane * 5 + 3) % 32];
        want[32 + lane] = in[lane < 3 ? lane : lane - 3];
        want[64 + lane] = in[lane + 5 > 31 ? lane : lane + 5];
        want[96 + lane] = in[lane ^ 9];
        want[128 + lane] = in[lane % 8 + 2 > 7 ? lane : lane + 2];
        want[160 + lane] = in[lane / 4 * 4 + 1];
        want[192 + lane] = in[lane ^ 1];
    }
    shuffles<<<1, 32>>>(device_in, out);
    CUDA(cudaGetLastError());
    expect_equal("shuffles", download(out, 224), want);

    unsigned ballot = 0, sum = 0, exclusive = 0, odd = 0;
    int least = in[0];
    for (int lane = 0; lane < 32; lane++) {
        ballot |= (unsigned)(in[lane] > 0) << lane;
        sum += in[lane];
        exclusive ^= (unsigned)in[lane];
        least = in[lane] < least ? in[lane] : least;
        if (lane % 3 == 0)
            odd |= (unsigned)(in[lane] % 2 != 0) << lane;
    }
    std::vector<unsigned> want_votes(288);
    for (int lane = 0; lane < 32; lane++) {
        want_votes[lane] = ballot;
        want_votes[32 + lane] = 1;
        want_votes[64 + lane] = 1;
        for (int other = 0; other < 32; other++)
            want_votes[96 + lane] |= (unsigned)(in[other] % 4 == in[lane] % 4) << other;
        want_votes[128 + lane] = 0;
        want_votes[160 + lane] = sum;
        want_votes[192 + lane] = (unsigned)least;
        want_votes[224 + lane] = exclusive;
        want_votes[256 + lane] = lane % 3 == 0 ? odd ^ 0x49249249 : 0;
    }
    votes<<<1, 32>>>(device_in, (unsigned *)out);
    CUDA(cudaGetLastError());
    expect_equal("votes", download((unsigned *)out, 288), want_votes);

    CUDA(cudaMemset(out, 0, 32 * sizeof(int)));
    divergent_sum<<<1, 32>>>(device_in, out);
    CUDA(cudaGetLastError());
    int low = 0, high = 0;
    for (int lane = 0; lane < 32; lane++)
        (lane < 12 ? low : high) += in[lane];
    std::vector<int> want_sums(32);
    for (int lane = 0; lane < 32; lane++)
        want_sums[lane] = lane < 12 ? low : -high;
    expect_equal("divergent masks", download(out, 32), want_sums);
    return finish();
}
