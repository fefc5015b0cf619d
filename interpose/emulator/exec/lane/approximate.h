/*
 * The .approx functions: polynomials in double precision, no table, no branch. After rounding to f32 the error stays below one unit in the last
 * place, which is within PTX's bounds for every function; results are the same at every level because nothing is fused. sin and cos
 * reduce their argument exactly enough up to 2^20; beyond 2^45, where PTX promises nothing, the argument counts as zero.
 */
#ifndef TSR_LANE_APPROXIMATE_H
#define TSR_LANE_APPROXIMATE_H

#include "emulator/exec/lane/float.h"

#define TSR_ROUND_MAGIC 6755399441055744.0 /* 1.5 * 2^52: adding it leaves an integer in the low bits */

/* 2^x for |x| <= 1100. */
static inline double approx_exp2_f64(double x)
{
    double shifted = x + TSR_ROUND_MAGIC;
    double r = x - (shifted - TSR_ROUND_MAGIC);
    double p = 1.3215486790144305e-06;
    p = p * r + 1.5252733804059838e-05;
    p = p * r + 1.5403530393381606e-04;
    p = p * r + 1.3333558146428441e-03;
    p = p * r + 9.6181291076284769e-03;
    p = p * r + 5.5504108664821576e-02;
    p = p * r + 2.4022650695910069e-01;
    p = p * r + 6.9314718055994529e-01;
    p = p * r + 1.0;
    return p * f64_from((f64_bits(shifted) + 1023) << 52);
}

static inline float approx_ex2(float x)
{
    /* Beyond these the float result is 0 or infinite. */
    float limited = x > 200.0f ? 200.0f : x < -200.0f ? -200.0f : x;
    float r = (float)approx_exp2_f64((double)(x == x ? limited : 0.0f));
    return x == x ? r : x;
}

static inline float approx_lg2(float x)
{
    uint64_t u = f64_bits((double)x);
    /* Take the fraction from [sqrt(1/2), sqrt(2)). */
    uint64_t shifted = u - 0x3fe6a09e667f3bcdull;
    double exponent = f64_from(0x4330000000000000ull | ((shifted >> 52) ^ 0x800)) - 4503599627372544.0;
    double fraction = f64_from(u - (shifted & 0xfff0000000000000ull));
    double f = (fraction - 1.0) / (fraction + 1.0), s = f * f;
    double p = 0.22195308321368667;
    p = p * s + 0.2623081892525388;
    p = p * s + 0.3205988979753252;
    p = p * s + 0.4121985831111324;
    p = p * s + 0.5770780163555853;
    p = p * s + 0.9617966939259757;
    p = p * s + 2.8853900817779268;
    double sum = exponent + p * f;
    float r = (float)sum;
    r = x == f32_from(0x7f800000u) ? x : r;
    r = x == 0.0f ? f32_from(0xff800000u) : r;
    return x >= 0.0f ? r : f32_from(0x7fffffffu);
}

/* quadrant counts quarter turns added to the argument: 0 for sin, 1 for cos. */
static inline float approx_wave(float value, uint64_t quadrant)
{
    double x = f32_abs(value) < 0x1p45f ? (double)value : 0.0;
    double shifted = x * 0.63661977236758138 + TSR_ROUND_MAGIC;
    double n = shifted - TSR_ROUND_MAGIC;
    double r = (x - n * 1.5707963267341256) - n * 6.0771005065061922e-11;
    double s = r * r;
    double odd = -2.5052108385441720e-08;
    odd = odd * s + 2.7557319223985893e-06;
    odd = odd * s - 1.9841269841269841e-04;
    odd = odd * s + 8.3333333333333332e-03;
    odd = odd * s - 1.6666666666666666e-01;
    odd = odd * s * r + r;
    double even = 2.0876756987868100e-09;
    even = even * s - 2.7557319223985888e-07;
    even = even * s + 2.4801587301587302e-05;
    even = even * s - 1.3888888888888889e-03;
    even = even * s + 4.1666666666666664e-02;
    even = even * s - 0.5;
    even = even * s + 1.0;
    uint64_t q = f64_bits(shifted) + quadrant;
    double wave = q & 1 ? even : odd;
    float result = (float)f64_from(f64_bits(wave) ^ (q & 2) << 62);
    return f32_abs(value) < f32_from(0x7f800000u) ? result : f32_from(0x7fffffffu);
}

/* Small arguments are their own sine, with the sign of zero. */
static inline float approx_sin(float x)
{
    return f32_abs(x) < 0x1p-14f ? x : approx_wave(x, 0);
}
static inline float approx_cos(float x)
{
    return approx_wave(x, 1);
}

static inline float approx_tanh(float x)
{
    double magnitude = (double)f32_abs(x);
    double limited = magnitude < 30.0 ? magnitude : 30.0;
    double t = approx_exp2_f64(limited * -2.8853900817779268);
    double large = (1.0 - t) / (1.0 + t);
    double small = magnitude - magnitude * magnitude * magnitude * (1.0 / 3.0);
    float r = (float)(magnitude < 0x1p-7 ? small : large);
    return x == x ? f32_copysign(r, x) : x;
}

static inline float approx_rcp(float x)
{
    return 1.0f / x;
}
static inline float approx_sqrt(float x)
{
    return f32_sqrt(x);
}
static inline float approx_rsqrt(float x)
{
    return 1.0f / f32_sqrt(x);
}
static inline float approx_div_full(float a, float b)
{
    return a / b;
}

/* Multiplies by the reciprocal, which vanishes for the largest divisors. */
static inline float approx_div_approx(float a, float b)
{
    float magnitude = f32_abs(b);
    int vanishes = (magnitude > 0x1p126f) & (magnitude < f32_from(0x7f800000u));
    return vanishes ? a * f32_copysign(0.0f, b) : a / b;
}

/* Only the upper half of the operand counts and of the result is given. */
static inline double f64_upper(double x)
{
    return f64_from(f64_bits(x) & 0xffffffff00000000ull);
}

static inline double approx_rcp_f64(double x)
{
    double r = f64_upper(f64_flush(1.0 / f64_upper(f64_flush(x))));
    return r == r ? r : f64_from(0x7fffffff00000000ull);
}

static inline double approx_rsqrt_f64(double x)
{
    double r = f64_upper(1.0 / f64_sqrt(f64_upper(f64_flush(x))));
    return r == r ? r : f64_from(0x7fffffff00000000ull);
}

#endif
