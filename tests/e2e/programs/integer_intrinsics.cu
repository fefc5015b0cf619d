// Integer operations bit for bit: high products, bit counting, permutes, funnel shifts, dot products, video-style SIMD,
// saturation, division and shifts at their edges, 64-bit arithmetic, 128-bit products.
#include "check.h"

constexpr int OUTPUTS = 32;

__global__ void evaluate(const unsigned *a, const unsigned *b, unsigned long long *out, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    unsigned x = a[i], y = b[i];
    int sx = (int)x, sy = (int)y;
    unsigned long long wide = (unsigned long long)x << 32 | y, other = (unsigned long long)y << 32 | ~x;
    unsigned long long *row = out + i * OUTPUTS;
    int n = 0;
    row[n++] = __umulhi(x, y);
    row[n++] = (unsigned)__mulhi(sx, sy);
    row[n++] = __umul24(x, y);
    row[n++] = __umul64hi(wide, other);
    row[n++] = (unsigned long long)__mul64hi((long long)wide, (long long)other);
    row[n++] = __popc(x) * 100 + __popcll(wide);
    row[n++] = __clz(x) * 100 + __clzll(wide);
    row[n++] = __ffs(x) * 100 + __ffsll(wide);
    row[n++] = __brev(x);
    row[n++] = __brevll(wide);
    row[n++] = __byte_perm(x, y, y >> 3 & 0x7777);
    row[n++] = __funnelshift_l(x, y, x & 63);
    row[n++] = __funnelshift_rc(x, y, x & 63);
    row[n++] = (unsigned)__dp4a(sx, sy, 1000);
    row[n++] = __dp4a(x, y, 7u);
    row[n++] = (unsigned)__dp2a_lo(sx, sy, -5);
    row[n++] = __sad(sx, sy, 3u);
    row[n++] = __vadd4(x, y);
    row[n++] = __vmaxu2(x, y);
    row[n++] = __vabsdiffu4(x, y);
    row[n++] = __vsadu4(x, y);
    row[n++] = __vsadu2(x, y);
    row[n++] = (unsigned)__hadd(sx, sy);
    row[n++] = __urhadd(x, y);
    row[n++] = x / (y | 1) + 3 * (x % (y | 1));
    row[n++] = (unsigned)(sx / (sy | 1)) ^ (unsigned)(sx % (sy | 1));
    row[n++] = wide / (other | 1) + 5 * (wide % (other | 1));
    row[n++] = (unsigned long long)((long long)wide / ((long long)other | 1));
    row[n++] = (wide << (y & 63)) ^ (unsigned long long)((long long)other >> (x & 63));
    row[n++] = (unsigned)min(sx, sy) + (unsigned long long)max(wide, other);
    row[n++] = (unsigned)abs(sx) + (unsigned long long)llabs((long long)wide);
    unsigned __int128 product = (unsigned __int128)wide * other + wide;
    row[n++] = (unsigned long long)(product >> 64) ^ (unsigned long long)product;
}

static unsigned char byte_of(unsigned value, int index)
{
    return (unsigned char)(value >> 8 * index);
}

static void reference(unsigned x, unsigned y, unsigned long long *row)
{
    int sx = (int)x, sy = (int)y, n = 0;
    uint64_t wide = (uint64_t)x << 32 | y, other = (uint64_t)y << 32 | (uint32_t)~x;
    int64_t swide = (int64_t)wide, sother = (int64_t)other;
    row[n++] = (uint64_t)x * y >> 32;
    row[n++] = (uint32_t)((int64_t)sx * sy >> 32);
    row[n++] = (uint32_t)((uint64_t)(x & 0xffffff) * (y & 0xffffff));
    row[n++] = (uint64_t)((unsigned __int128)wide * other >> 64);
    row[n++] = (uint64_t)((__int128)swide * sother >> 64);
    row[n++] = __builtin_popcount(x) * 100 + __builtin_popcountll(wide);
    row[n++] = (x ? __builtin_clz(x) : 32) * 100 + (wide ? __builtin_clzll(wide) : 64);
    row[n++] = __builtin_ffs(sx) * 100 + __builtin_ffsll(swide);
    uint32_t reversed = 0, permuted = 0, sums = 0, maxima = 0, differences = 0;
    uint64_t wide_reversed = 0;
    for (int i = 0; i < 32; i++)
        reversed |= (x >> i & 1) << (31 - i);
    for (int i = 0; i < 64; i++)
        wide_reversed |= (wide >> i & 1) << (63 - i);
    row[n++] = reversed;
    row[n++] = wide_reversed;
    int signed_dot = 1000, half_dot = -5;
    unsigned unsigned_dot = 7, byte_distance = 0, half_distance = 0;
    for (int i = 0; i < 4; i++) {
        int selected = (y >> 3 & 0x7777) >> 4 * i & 7;
        permuted |= (uint32_t)(selected < 4 ? byte_of(x, selected) : byte_of(y, selected - 4)) << 8 * i;
        signed_dot += (int8_t)byte_of(x, i) * (int8_t)byte_of(y, i);
        unsigned_dot += byte_of(x, i) * byte_of(y, i);
        sums |= (uint32_t)(uint8_t)(byte_of(x, i) + byte_of(y, i)) << 8 * i;
        differences |= (uint32_t)abs(byte_of(x, i) - byte_of(y, i)) << 8 * i;
        byte_distance += abs(byte_of(x, i) - byte_of(y, i));
    }
    for (int i = 0; i < 2; i++) {
        half_dot += (int16_t)(x >> 16 * i) * (int8_t)byte_of(y, i);
        uint16_t left = (uint16_t)(x >> 16 * i), right = (uint16_t)(y >> 16 * i);
        maxima |= (uint32_t)(left > right ? left : right) << 16 * i;
        half_distance += abs(left - right);
    }
    row[n++] = permuted;
    uint64_t pair = (uint64_t)y << 32 | x;
    row[n++] = (uint32_t)(pair << (x & 31) >> 32);
    row[n++] = (uint32_t)(pair >> ((x & 63) > 32 ? 32 : (x & 63)));
    row[n++] = (uint32_t)signed_dot;
    row[n++] = unsigned_dot;
    row[n++] = (uint32_t)half_dot;
    row[n++] = (uint32_t)(llabs((int64_t)sx - sy) + 3);
    row[n++] = sums;
    row[n++] = maxima;
    row[n++] = differences;
    row[n++] = byte_distance;
    row[n++] = half_distance;
    row[n++] = (uint32_t)(((int64_t)sx + sy) >> 1);
    row[n++] = (uint32_t)(((uint64_t)x + y + 1) >> 1);
    row[n++] = (uint32_t)(x / (y | 1) + 3 * (x % (y | 1)));
    row[n++] = (uint32_t)((int64_t)sx / (sy | 1)) ^ (uint32_t)((int64_t)sx % (sy | 1));
    row[n++] = wide / (other | 1) + 5 * (wide % (other | 1));
    row[n++] = (uint64_t)(swide / (sother | 1));
    row[n++] = (wide << (y & 63)) ^ (uint64_t)(sother >> (x & 63));
    row[n++] = (uint32_t)(sx < sy ? sx : sy) + (wide > other ? wide : other);
    row[n++] = (sx < 0 ? 0u - x : x) + (swide < 0 ? 0ull - wide : wide);
    unsigned __int128 product = (unsigned __int128)wide * other + wide;
    row[n++] = (uint64_t)(product >> 64) ^ (uint64_t)product;
}

int main()
{
    Random random(21);
    std::vector<unsigned> a = {0, 1, 0xffffffff, 0x80000000, 0x7fffffff, 0, 5, 0x80000001},
                          b = {0, 0xffffffff, 1, 3, 0x80000000, 0x80000000, 0x7ffffffe, 7};
    while (a.size() < 1000) {
        a.push_back((unsigned)random.bits() >> random.below(32));
        b.push_back((unsigned)random.bits() >> random.below(32));
    }
    int count = (int)a.size();
    std::vector<unsigned long long> want(count * OUTPUTS);
    for (int i = 0; i < count; i++)
        reference(a[i], b[i], &want[i * OUTPUTS]);
    auto *out = device_array<unsigned long long>(want.size());
    evaluate<<<(count + 127) / 128, 128>>>(upload(a), upload(b), out, count);
    CUDA(cudaGetLastError());
    auto got = download(out, want.size());
    for (int output = 0; output < OUTPUTS; output++) {
        std::vector<unsigned long long> got_column, want_column;
        for (int i = 0; i < count; i++) {
            got_column.push_back(got[i * OUTPUTS + output]);
            want_column.push_back(want[i * OUTPUTS + output]);
        }
        expect_equal(("operation " + std::to_string(output)).c_str(), got_column, want_column);
    }
    return finish();
}
