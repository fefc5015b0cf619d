// half, bfloat16 and their packed forms: every conversion rounding, arithmetic rounded once, comparisons, fused forms.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "check.h"

__global__ void half_ops(const __half *a, const __half *b, __half *out, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    __half *row = out + i * 8;
    row[0] = __hadd_rn(a[i], b[i]);
    row[1] = __hsub_rn(a[i], b[i]);
    row[2] = __hmul_rn(a[i], b[i]);
    row[3] = __hdiv(a[i], b[i]);
    row[4] = __hfma(a[i], b[i], __float2half(0.25f));
    row[5] = hsqrt(__habs(a[i]));
    row[6] = __hmax(a[i], b[i]);
    row[7] = __hneg(a[i]);
}

__global__ void bfloat_ops(const __nv_bfloat16 *a, const __nv_bfloat16 *b, __nv_bfloat16 *out, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    __nv_bfloat16 *row = out + i * 4;
    row[0] = __hadd_rn(a[i], b[i]);
    row[1] = __hmul_rn(a[i], b[i]);
    row[2] = __hfma(a[i], b[i], __float2bfloat16(0.25f));
    row[3] = __hmin(a[i], b[i]);
}

__global__ void packed_ops(const __half2 *a, const __half2 *b, __half2 *out, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        out[i] = __hfma2(a[i], __lowhigh2highlow(b[i]), __hmul2_rn(a[i], b[i]));
}

__global__ void conversions(const float *in, unsigned short *out, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    unsigned short *row = out + i * 6;
    row[0] = __half_as_ushort(__float2half_rn(in[i]));
    row[1] = __half_as_ushort(__float2half_rz(in[i]));
    row[2] = __half_as_ushort(__float2half_ru(in[i]));
    row[3] = __half_as_ushort(__float2half_rd(in[i]));
    row[4] = __bfloat16_as_ushort(__float2bfloat16_rn(in[i]));
    row[5] = __bfloat16_as_ushort(__float2bfloat16_rz(in[i]));
}

// The nearest value with `bits` significant bits and least exponent `least`, in the direction asked for.
enum Direction { NEAREST, ZERO, UP, DOWN };

static double round_to(double value, int bits, int least, Direction direction)
{
    if (value == 0)
        return value;
    int exponent = ilogb(value);
    double unit = ldexp(1.0, (exponent < least ? least : exponent) - bits + 1), scaled = value / unit;
    double rounded = direction == NEAREST ? nearbyint(scaled)
                     : direction == ZERO  ? trunc(scaled)
                     : direction == UP    ? ceil(scaled)
                                          : floor(scaled);
    return rounded * unit;
}

static double to_half(double value, Direction direction = NEAREST)
{
    return round_to(value, 11, -14, direction);
}
static double to_bfloat(double value, Direction direction = NEAREST)
{
    return round_to(value, 8, -126, direction);
}

template <typename T>
std::vector<double> widen(const std::vector<T> &values)
{
    std::vector<double> wide;
    for (T value : values)
        wide.push_back((double)(float)value);
    return wide;
}

int main()
{
    const int count = 400;
    Random random(16);
    std::vector<__half> a(count), b(count);
    std::vector<__nv_bfloat16> c(count), d(count);
    std::vector<float> singles(count);
    for (int i = 0; i < count; i++) {
        a[i] = __half((float)to_half(random.uniform(-30, 30)));
        b[i] = __half((float)to_half(random.uniform(0.01f, 3)));
        c[i] = __nv_bfloat16((float)to_bfloat(random.uniform(-30, 30)));
        d[i] = __nv_bfloat16((float)to_bfloat(random.uniform(0.01f, 3)));
        singles[i] = ldexpf(random.uniform(-1, 1), (int)random.below(40) - 26);
    }
    std::vector<double> want_half, want_bfloat, want_packed, want_converted;
    for (int i = 0; i < count; i++) {
        double x = (float)a[i], y = (float)b[i];
        for (double value : {x + y, x - y, x * y, x / y, x * y + 0.25, sqrt(fabs(x)), fmax(x, y), -x})
            want_half.push_back(to_half(value));
        double u = (float)c[i], v = (float)d[i];
        for (double value : {u + v, u * v, u * v + 0.25, fmin(u, v)})
            want_bfloat.push_back(to_bfloat(value));
        double swapped = (float)b[i ^ 1];
        want_packed.push_back(to_half(x * swapped + to_half(x * y)));
        double s = singles[i];
        for (double value : {to_half(s), to_half(s, ZERO), to_half(s, UP), to_half(s, DOWN)})
            want_converted.push_back(value);
        for (double value : {to_bfloat(s), to_bfloat(s, ZERO)})
            want_converted.push_back(value);
    }

    __half *device_a = upload(a), *device_b = upload(b), *halves = device_array<__half>(count * 8);
    half_ops<<<(count + 127) / 128, 128>>>(device_a, device_b, halves, count);
    CUDA(cudaGetLastError());
    expect_equal("half", widen(download(halves, count * 8)), want_half);

    auto *bfloats = device_array<__nv_bfloat16>(count * 4);
    bfloat_ops<<<(count + 127) / 128, 128>>>(upload(c), upload(d), bfloats, count);
    CUDA(cudaGetLastError());
    expect_equal("bfloat16", widen(download(bfloats, count * 4)), want_bfloat);

    packed_ops<<<(count / 2 + 63) / 64, 64>>>((__half2 *)device_a, (__half2 *)device_b, (__half2 *)halves, count / 2);
    CUDA(cudaGetLastError());
    expect_equal("half2", widen(download(halves, count)), want_packed);

    auto *converted = device_array<unsigned short>(count * 6);
    conversions<<<(count + 127) / 128, 128>>>(upload(singles), converted, count);
    CUDA(cudaGetLastError());
    std::vector<double> got;
    auto raw = download(converted, count * 6);
    for (int i = 0; i < count * 6; i++) {
        __half_raw h;
        h.x = raw[i];
        uint32_t bits = (uint32_t)raw[i] << 16;
        float wide;
        memcpy(&wide, &bits, 4);
        got.push_back(i % 6 < 4 ? (double)(float)__half(h) : (double)wide);
    }
    expect_equal("conversions", got, want_converted);
    return finish();
}
