// Double precision: the four operations, fma and sqrt correctly rounded in each direction, conversions, functions
// within their documented error, a dot product.
#include "check.h"

constexpr int OUTPUTS = 16;

__global__ void evaluate(const double *a, const double *b, double *out, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    double x = a[i], y = b[i], *row = out + i * OUTPUTS;
    row[0] = x + y;
    row[1] = x * y;
    row[2] = x / y;
    row[3] = sqrt(fabs(x));
    row[4] = fma(x, y, -x);
    row[5] = __dadd_rz(x, y);
    row[6] = __dmul_ru(x, y);
    row[7] = __ddiv_rd(x, y);
    row[8] = (double)(long long)(x * 1000);
    row[9] = (double)(float)x;
    row[10] = exp(x / 10);
    row[11] = log(fabs(x) + 0.5);
    row[12] = sin(x);
    row[13] = pow(fabs(y), 1.7);
    row[14] = tanh(x);
    row[15] = rsqrt(fabs(y));
}

__global__ void dot(const double *a, const double *b, double *sum, int count)
{
    __shared__ double partial[128];
    double mine = 0;
    for (int i = threadIdx.x; i < count; i += 128)
        mine = fma(a[i], b[i], mine);
    partial[threadIdx.x] = mine;
    __syncthreads();
    for (int half = 64; half > 0; half /= 2) {
        if (threadIdx.x < half)
            partial[threadIdx.x] += partial[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        *sum = partial[0];
}

// Directed roundings of an exact value: sums and products of the inputs fit the 64 bits of a long double.
static double toward_zero(long double exact)
{
    double nearest = (double)exact;
    return fabsl(nearest) > fabsl(exact) ? nextafter(nearest, 0.0) : nearest;
}

static double rounded_up(long double exact)
{
    double nearest = (double)exact;
    return nearest < exact ? nextafter(nearest, INFINITY) : nearest;
}

// x / y rounded down, for y > 0: the remainder of the nearest quotient is exact and tells the side.
static double quotient_below(double x, double y)
{
    double nearest = x / y;
    return fma(-nearest, y, x) < 0 ? nextafter(nearest, -INFINITY) : nearest;
}

int main()
{
    const int count = 1000;
    Random random(22);
    std::vector<double> a(count), b(count);
    for (int i = 0; i < count; i++) {
        // 32 and 31 significant bits: exact sums and products in long double.
        a[i] = (double)((int64_t)(random.bits() >> 32) - 0x80000000ll) * 0x1p-27;
        b[i] = (double)((int64_t)(random.bits() >> 33) + 1) * 0x1p-29;
    }
    double *device_a = upload(a), *device_b = upload(b), *out = device_array<double>(count * OUTPUTS);
    evaluate<<<(count + 127) / 128, 128>>>(device_a, device_b, out, count);
    CUDA(cudaGetLastError());
    auto got = download(out, count * OUTPUTS);
    std::vector<double> exact_got, exact_want, near_got, near_want;
    double reference_dot = 0;
    for (int i = 0; i < count; i++) {
        double x = a[i], y = b[i];
        for (int f = 0; f < 10; f++)
            exact_got.push_back(got[i * OUTPUTS + f]);
        exact_want.insert(exact_want.end(), {x + y, x * y, x / y, sqrt(fabs(x)), fma(x, y, -x), toward_zero((long double)x + y),
                                             rounded_up((long double)x * y), quotient_below(x, y), (double)(int64_t)(x * 1000),
                                             (double)(float)x});
        for (int f = 10; f < OUTPUTS; f++)
            near_got.push_back(got[i * OUTPUTS + f]);
        near_want.insert(near_want.end(), {exp(x / 10), log(fabs(x) + 0.5), sin(x), pow(y, 1.7), tanh(x), 1 / sqrt(y)});
        reference_dot += x * y;
    }
    expect_equal("correctly rounded", exact_got, exact_want);
    expect_near("functions", near_got, near_want, 3 * 0x1p-52, 1e-17);
    dot<<<1, 128>>>(device_a, device_b, out, count);
    CUDA(cudaGetLastError());
    expect_near("dot product", download(out, 1), {reference_dot}, 1e-11, 0);
    return finish();
}
