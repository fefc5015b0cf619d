// Single-precision functions against the C library in double precision: within the documented error in ulp, exact where
// IEEE says so, right at the special values; the fast intrinsics within their documented bounds.
#include <functional>

#include "check.h"

#define FUNCTIONS(X)                                                                                                   \
    X(sinf, sin, 2, -30, 30)                                                                                           \
    X(cosf, cos, 2, -30, 30)                                                                                           \
    X(tanf, tan, 4, -1.5, 1.5)                                                                                         \
    X(expf, exp, 2, -80, 80)                                                                                           \
    X(exp2f, exp2, 2, -120, 120)                                                                                       \
    X(exp10f, exp10, 2, -30, 30)                                                                                       \
    X(expm1f, expm1, 1, -5, 5)                                                                                         \
    X(logf, log, 1, 1e-6, 1e6)                                                                                         \
    X(log2f, log2, 1, 1e-6, 1e6)                                                                                       \
    X(log10f, log10, 2, 1e-6, 1e6)                                                                                     \
    X(log1pf, log1p, 1, -0.9, 100)                                                                                     \
    X(sqrtf, sqrt, 0, 0, 1e9)                                                                                          \
    X(cbrtf, cbrt, 1, -1e6, 1e6)                                                                                       \
    X(tanhf, tanh, 2, -6, 6)                                                                                           \
    X(sinhf, sinh, 3, -10, 10)                                                                                         \
    X(coshf, cosh, 2, -10, 10)                                                                                         \
    X(asinf, asin, 2, -1, 1)                                                                                           \
    X(acosf, acos, 2, -1, 1)                                                                                           \
    X(atanf, atan, 2, -50, 50)                                                                                         \
    X(asinhf, asinh, 3, -100, 100)                                                                                     \
    X(atanhf, atanh, 3, -0.99, 0.99)                                                                                   \
    X(erff, erf, 2, -3, 3)                                                                                             \
    X(erfcf, erfc, 4, -3, 6)                                                                                           \
    X(lgammaf, lgamma, 6, 0.5, 30)                                                                                     \
    X(tgammaf, tgamma, 5, 0.5, 20)                                                                                     \
    X(j0f, j0, 9, 0, 7)                                                                                                \
    X(rintf, rint, 0, -100, 100)                                                                                       \
    X(floorf, floor, 0, -100, 100)                                                                                     \
    X(truncf, trunc, 0, -100, 100)                                                                                     \
    X(roundf, round, 0, -100, 100)

enum Function {
#define X(name, reference, ulp, low, high) F_##name,
    FUNCTIONS(X)
#undef X
        COUNT
};

__global__ void evaluate(const float *in, float *out, int count, int function)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    switch (function) {
#define X(name, reference, ulp, low, high)                                                                             \
    case F_##name:                                                                                                     \
        out[i] = name(in[i]);                                                                                          \
        break;
        FUNCTIONS(X)
#undef X
    }
}

__global__ void evaluate_pairs(const float *a, const float *b, float *out, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    float *row = out + i * 8;
    row[0] = powf(a[i], b[i]);
    row[1] = atan2f(b[i], a[i]);
    row[2] = hypotf(a[i], b[i]);
    row[3] = fmodf(a[i] * 100, b[i]);
    row[4] = a[i] / b[i];
    row[5] = __frcp_rn(a[i]);
    row[6] = fmaf(a[i], b[i], -1.0f);
    row[7] = rsqrtf(a[i]);
}

__global__ void evaluate_fast(const float *in, float *out, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    float *row = out + i * 5;
    row[0] = __sinf(in[i]);
    row[1] = __cosf(in[i]);
    row[2] = __expf(in[i]);
    row[3] = __log2f(in[i] + 4.0f);
    row[4] = __fdividef(1.0f, in[i] + 4.0f);
}

// The arguments arrive as parameters, so that the compiler cannot evaluate the calls itself.
__global__ void evaluate_special(float *out, float zero, float one, float infinite, float tiny)
{
    out[0] = expf(-infinite);
    out[1] = expf(one * 89.0f);
    out[2] = logf(zero);
    out[3] = logf(-one);
    out[4] = sqrtf(-one);
    out[5] = powf(one * -2.0f, one * 3.0f);
    out[6] = powf(zero, zero);
    out[7] = atan2f(zero, -one);
    out[8] = fminf(infinite - infinite, one);
    out[9] = one / -zero;
    out[10] = sinf(one * 1e8f);
    out[11] = fmodf(one * 5.5f, infinite);
    out[12] = tiny * 0.5f + tiny;
}

static double ulp_of(double value)
{
    int exponent = value == 0 ? -126 : ilogb(value);
    return ldexp(1.0, (exponent < -126 ? -126 : exponent) - 23);
}

static double worst_error(const std::vector<float> &got, const std::vector<double> &want)
{
    double worst = 0;
    for (size_t i = 0; i < want.size(); i++) {
        double error = fabs(got[i] - want[i]) / ulp_of(want[i]);
        worst = error <= worst ? worst : error;
    }
    return worst;
}

// A documented bound of n ulp is against the correctly rounded result, which is itself half an ulp from the exact one.
static void check_ulp(const char *name, const std::vector<float> &got, const std::vector<double> &want, double bound)
{
    double worst = worst_error(got, want);
    double allowed = bound + 0.5 + 1e-6;
    EXPECT(worst <= allowed);
    if (!(worst <= allowed))
        fprintf(stderr, "%s: %.3f ulp, documented %.0f\n", name, worst, bound);
}

int main()
{
    const int count = 2048, blocks = count / 128;
    Random random(20);
    float *out = device_array<float>(count * 8);
    auto run = [&](int function, const char *name, double bound, double low, double high,
                   const std::function<double(double)> &reference) {
        auto in = random.floats(count, (float)low, (float)high);
        float *device_in = upload(in);
        evaluate<<<blocks, 128>>>(device_in, out, count, function);
        CUDA(cudaGetLastError());
        std::vector<double> want;
        for (float value : in)
            want.push_back(reference((double)value));
        check_ulp(name, download(out, count), want, bound);
        CUDA(cudaFree(device_in));
    };
#define X(name, reference, ulp, low, high) run(F_##name, #name, ulp, low, high, [](double x) { return reference(x); });
    FUNCTIONS(X)
#undef X

    auto a = random.floats(count, 0.1f, 9), b = random.floats(count, 0.2f, 5);
    evaluate_pairs<<<blocks, 128>>>(upload(a), upload(b), out, count);
    CUDA(cudaGetLastError());
    auto pairs = download(out, count * 8);
    const char *names[] = {"powf", "atan2f", "hypotf", "fmodf", "division", "reciprocal", "fmaf", "rsqrtf"};
    const double bounds[] = {4, 3, 3, 0, 0, 0, 0, 2};
    for (int f = 0; f < 8; f++) {
        std::vector<float> got;
        std::vector<double> want;
        for (int i = 0; i < count; i++) {
            double x = a[i], y = b[i];
            const double wanted[] = {pow(x, y), atan2(y, x), hypot(x, y), fmod(a[i] * 100, y),
                                     x / y,     1 / x,       x * y - 1,   1 / sqrt(x)};
            got.push_back(pairs[i * 8 + f]);
            want.push_back(wanted[f]);
        }
        check_ulp(names[f], got, want, bounds[f]);
    }

    auto in = random.floats(count, -3.1f, 3.1f);
    evaluate_fast<<<blocks, 128>>>(upload(in), out, count);
    CUDA(cudaGetLastError());
    auto fast = download(out, count * 5);
    double sine = 0, cosine = 0, exponential = 0, logarithm = 0, quotient = 0;
    for (int i = 0; i < count; i++) {
        double x = in[i], shifted = in[i] + 4.0f;
        sine = fmax(sine, fabs(fast[i * 5] - sin(x)));
        cosine = fmax(cosine, fabs(fast[i * 5 + 1] - cos(x)));
        exponential = fmax(exponential, fabs(fast[i * 5 + 2] - exp(x)) / ulp_of(exp(x)));
        logarithm = fmax(logarithm, fabs(fast[i * 5 + 3] - log2(shifted)));
        quotient = fmax(quotient, fabs(fast[i * 5 + 4] - 1 / shifted) / ulp_of(1 / shifted));
    }
    EXPECT(sine <= 0x1p-21 * 1.2);
    EXPECT(cosine <= 0x1p-21 * 1.2);
    EXPECT(exponential <= 2 + 1.173 * 3.1);
    EXPECT(logarithm <= 0x1p-21);
    EXPECT(quotient <= 2);

    evaluate_special<<<1, 1>>>(out, 0.0f, 1.0f, INFINITY, 1e-45f);
    CUDA(cudaGetLastError());
    auto special = download(out, 13);
    EXPECT(special[0] == 0);
    EXPECT(isinf(special[1]) && special[1] > 0);
    EXPECT(isinf(special[2]) && special[2] < 0);
    EXPECT(isnan(special[3]));
    EXPECT(isnan(special[4]));
    EXPECT(special[5] == -8);
    EXPECT(special[6] == 1);
    EXPECT(special[7] == (float)M_PI);
    EXPECT(special[8] == 1);
    EXPECT(isinf(special[9]) && special[9] < 0);
    EXPECT(fabs(special[10] - sin(1e8)) <= 2 * ulp_of(sin(1e8)));
    EXPECT(special[11] == 5.5f);
    EXPECT(special[12] == fmaf(1e-45f, 0.5f, 1e-45f)); // nvcc contracts it
    return finish();
}
