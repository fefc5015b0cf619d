/*
 * Half-precision numbers (f16, bf16) are computed as floats, which hold them exactly. Whole registers are widened and narrowed at once, so
 * that the processor's conversion instructions serve where they exist.
 */
#ifndef TSR_LANE_HALF_H
#define TSR_LANE_HALF_H

#include "emulator/exec/lane/float.h"
#include "emulator/isa/level.h"

#define TSR_LANE_NAME(name) TSR_LEVELED(tsr_lane_##name)

/* count is 32 or 64. Narrowing rounds to nearest even; NaN becomes 0x7fff. */
void TSR_LANE_NAME(widen_f16)(float *out, const uint16_t *in, int count);
void TSR_LANE_NAME(widen_bf16)(float *out, const uint16_t *in, int count);
void TSR_LANE_NAME(narrow_f16)(uint16_t *out, const float *in, int count);
void TSR_LANE_NAME(narrow_bf16)(uint16_t *out, const float *in, int count);

static inline float f16_widen(uint16_t h)
{
    uint32_t magnitude = h & 0x7fffu, sign = (uint32_t)(h & 0x8000u) << 16;
    uint32_t u = (magnitude << 13) + 0x38000000u;
    u = magnitude >= 0x7c00u ? u + 0x38000000u : u;
    u = magnitude > 0x7c00u ? u | 0x00400000u : u;
    /* Subnormal: the bits count units of 2^-24 above 2^-14. */
    uint32_t small = f32_bits(f32_from(0x38800000u | magnitude << 13) - f32_from(0x38800000u));
    return f32_from(sign | (magnitude < 0x400u ? small : u));
}

static inline uint16_t f16_narrow(float x)
{
    uint32_t magnitude = f32_bits(x) & 0x7fffffffu, sign = f32_bits(x) >> 16 & 0x8000u;
    uint32_t u = (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1)) >> 13;
    /* Subnormal: adding 0.5 leaves units of 2^-24 in the last place, rounded by the processor. */
    uint32_t small = f32_bits(f32_from(magnitude) + 0.5f) - 0x3f000000u;
    u = magnitude < 0x38800000u ? small : u;
    u = magnitude >= 0x477ff000u ? 0x7c00u : u;
    u |= sign;
    return (uint16_t)(magnitude > 0x7f800000u ? 0x7fffu : u);
}

static inline float bf16_widen(uint16_t h)
{
    return f32_from((uint32_t)h << 16);
}

static inline uint16_t bf16_narrow(float x)
{
    uint32_t u = f32_bits(x);
    uint32_t rounded = (u + 0x7fffu + (u >> 16 & 1)) >> 16;
    return (uint16_t)((u & 0x7fffffffu) > 0x7f800000u ? 0x7fffu : rounded);
}

/* A float that holds an f16 number: subnormal ones of f16 become zero. */
static inline float f16_flush(float x)
{
    uint32_t u = f32_bits(x);
    return f32_from((u & 0x7fffffffu) < 0x38800000u ? u & 0x80000000u : u);
}

/* A double rounded to odd at float precision. */
static inline float f32_from_f64_odd(double x)
{
    float s = (float)x;
    double back = (double)s;
    uint32_t u = f32_bits(s);
    /* Rounded away from zero (also to infinity): step back to the odd neighbour, else forward. */
    uint32_t step = f64_magnitude(back) > f64_magnitude(x) ? 0xffffffffu : 1;
    step = (u & 1) == 0 ? step : 0;
    step = back < x ? step : back > x ? step : 0;
    return f32_from(u + step);
}

/* a * b + c of halves, rounded to odd at float precision: narrowing it rounds once. Products of f16 are exact in float, of bf16 in double. */
static inline float f16_fma(float a, float b, float c)
{
    return f32_add_odd(a * b, c);
}

static inline float bf16_fma(float a, float b, float c)
{
    return f32_from_f64_odd(f64_add_odd((double)a * (double)b, (double)c));
}

static inline float half_relu(float x)
{
    return x > 0.0f ? x : x != x ? x : 0.0f;
}

#endif
