/*
 * Conversions between number formats. Rounding to integers, saturating float to integer with PTX's results for NaN, rounding to a half's
 * precision in a direction, tf32 and the eight-bit floats.
 */
#ifndef TSR_LANE_CONVERT_H
#define TSR_LANE_CONVERT_H

#include "emulator/exec/lane/half.h"

#if defined(__SSE4_1__)
static inline float f32_rint(float x)
{
    return __builtin_rintf(x);
}
static inline float f32_trunc(float x)
{
    return __builtin_truncf(x);
}
static inline float f32_floor(float x)
{
    return __builtin_floorf(x);
}
static inline float f32_ceil(float x)
{
    return __builtin_ceilf(x);
}
static inline double f64_rint(double x)
{
    return __builtin_rint(x);
}
static inline double f64_trunc(double x)
{
    return __builtin_trunc(x);
}
static inline double f64_floor(double x)
{
    return __builtin_floor(x);
}
static inline double f64_ceil(double x)
{
    return __builtin_ceil(x);
}
#else
/* Adding and subtracting 2^p - 1 leaves the nearest integer of a smaller magnitude; the sign of zero is the operand's. */
#define TSR_TO_INTEGER(kind, type, whole)                                                                                      \
    static inline type kind##_rint(type x)                                                                                     \
    {                                                                                                                          \
        type magnitude = kind##_magnitude(x);                                                                                  \
        type rounded = magnitude + (whole) - (whole);                                                                          \
        return kind##_copysign(magnitude < (whole) ? rounded : magnitude, x);                                                  \
    }                                                                                                                          \
    static inline type kind##_trunc(type x)                                                                                    \
    {                                                                                                                          \
        type magnitude = kind##_magnitude(x);                                                                                  \
        type rounded = magnitude + (whole) - (whole);                                                                          \
        rounded = rounded > magnitude ? rounded - 1 : rounded;                                                                 \
        return kind##_copysign(magnitude < (whole) ? rounded : magnitude, x);                                                  \
    }                                                                                                                          \
    static inline type kind##_floor(type x)                                                                                    \
    {                                                                                                                          \
        type rounded = kind##_rint(x);                                                                                         \
        return kind##_copysign(rounded > x ? rounded - 1 : rounded, x);                                                        \
    }                                                                                                                          \
    static inline type kind##_ceil(type x)                                                                                     \
    {                                                                                                                          \
        type rounded = kind##_rint(x);                                                                                         \
        return kind##_copysign(rounded < x ? rounded + 1 : rounded, x);                                                        \
    }
TSR_TO_INTEGER(f32, float, 8388608.0f)
TSR_TO_INTEGER(f64, double, 4503599627370496.0)
#undef TSR_TO_INTEGER
#endif

/*
 * Integral floats to integers, saturating. NaN gives zero, but the highest bit alone when the source is f64 or the destination has 64 bits.
 */
static inline int32_t f32_to_s32(float x)
{
    int32_t r = x < -2147483648.0f ? INT32_MIN : x < 2147483648.0f ? (int32_t)x : INT32_MAX;
    return x == x ? r : 0;
}

static inline uint32_t f32_to_u32(float x)
{
    uint32_t high = x >= 2147483648.0f;
    uint32_t r = (uint32_t)(int32_t)(high ? x - 2147483648.0f : x) ^ high << 31;
    return x > 0.0f ? x < 4294967296.0f ? r : UINT32_MAX : 0;
}

static inline int64_t f64_to_s64(double x)
{
    return x < 9223372036854775808.0 ? x >= -9223372036854775808.0 ? (int64_t)x : INT64_MIN : x == x ? INT64_MAX : INT64_MIN;
}

static inline uint64_t f64_to_u64(double x)
{
    uint64_t high = x >= 9223372036854775808.0;
    uint64_t r = (uint64_t)(int64_t)(high ? x - 9223372036854775808.0 : x) ^ high << 63;
    return x > 0.0 ? x < 18446744073709551616.0 ? r : UINT64_MAX : x == x ? 0 : 1ull << 63;
}

static inline int64_t f32_to_s64(float x)
{
    return f64_to_s64((double)x);
}
static inline uint64_t f32_to_u64(float x)
{
    return f64_to_u64((double)x);
}

static inline int32_t f64_to_s32(double x)
{
    int32_t r = x < -2147483648.0 ? INT32_MIN : x < 2147483647.0 ? (int32_t)x : INT32_MAX;
    return x == x ? r : INT32_MIN;
}

static inline uint32_t f64_to_u32(double x)
{
    uint32_t high = x >= 2147483648.0;
    uint32_t r = (uint32_t)(int32_t)(high ? x - 2147483648.0 : x) ^ high << 31;
    r = x > 0.0 ? x < 4294967295.0 ? r : UINT32_MAX : 0;
    return x == x ? r : 1u << 31;
}

#define TSR_TO_SMALL(word, type, integer, name, low, high, nan)                                                                \
    static inline integer word##_to_##name(type x)                                                                             \
    {                                                                                                                          \
        type clamped = x > (low) ? x < (high) ? x : (high) : (low);                                                            \
        return (integer)(x == x ? (int32_t)clamped : (nan));                                                                   \
    }
TSR_TO_SMALL(f32, float, uint8_t, u8, 0, 255, 0)
TSR_TO_SMALL(f32, float, int8_t, s8, -128, 127, 0)
TSR_TO_SMALL(f32, float, uint16_t, u16, 0, 65535, 0)
TSR_TO_SMALL(f32, float, int16_t, s16, -32768, 32767, 0)
TSR_TO_SMALL(f64, double, uint8_t, u8, 0, 255, 128)
TSR_TO_SMALL(f64, double, int8_t, s8, -128, 127, -128)
TSR_TO_SMALL(f64, double, uint16_t, u16, 0, 65535, 32768)
TSR_TO_SMALL(f64, double, int16_t, s16, -32768, 32767, -32768)
#undef TSR_TO_SMALL

/* 64-bit integers to double, rounded to odd. */
static inline double u64_to_f64_odd(uint64_t x)
{
    return f64_add_odd((double)(uint32_t)(x >> 32) * 4294967296.0, (double)(uint32_t)x);
}

static inline double s64_to_f64_odd(int64_t x)
{
    return f64_add_odd((double)(int32_t)(x >> 32) * 4294967296.0, (double)(uint32_t)x);
}

/*
 * A float brought to f16's precision: bits below the half's last place are dropped, or raise it by one unit. `last` is that place's bit
 * in the pattern; below f16's normal range it moves up with every binade.
 */
static inline uint32_t f16_last_place(uint32_t magnitude)
{
    uint32_t exponent = magnitude >> 23;
    uint32_t below = exponent < 113 ? 113 - exponent : 0;
    return 1u << (13 + (below > 11 ? 11 : below));
}

static inline float f16_round_toward(float x, uint32_t up)
{
    uint32_t sign = f32_bits(x) & 0x80000000u, magnitude = f32_bits(x) & 0x7fffffffu;
    uint32_t last = f16_last_place(magnitude);
    uint32_t kept = magnitude & ~(last - 1);
    uint32_t raised = up & (uint32_t)(kept != magnitude) ? kept + last : kept;
    /* Below 2^-24 there is one place only; above 65504 either that or infinity. */
    raised = magnitude < 0x33800000u ? (up && magnitude ? 0x33800000u : 0) : raised;
    uint32_t largest = up ? 0x7f800000u : 0x477fe000u;
    raised = magnitude > 0x477fe000u && magnitude < 0x7f800000u ? largest : raised;
    return f32_from(sign | (magnitude >= 0x7f800000u ? magnitude : raised));
}

static inline float bf16_round_toward(float x, uint32_t up)
{
    uint32_t sign = f32_bits(x) & 0x80000000u, magnitude = f32_bits(x) & 0x7fffffffu;
    uint32_t kept = magnitude & 0xffff0000u;
    uint32_t raised = up & (uint32_t)(kept != magnitude) ? kept + 0x10000u : kept;
    return f32_from(sign | (magnitude >= 0x7f800000u ? magnitude : raised));
}

#define TSR_ROUND_HALF(half)                                                                                                   \
    static inline float half##_round_rz(float x)                                                                               \
    {                                                                                                                          \
        return half##_round_toward(x, 0);                                                                                      \
    }                                                                                                                          \
    static inline float half##_round_rm(float x)                                                                               \
    {                                                                                                                          \
        return half##_round_toward(x, f32_bits(x) >> 31);                                                                      \
    }                                                                                                                          \
    static inline float half##_round_rp(float x)                                                                               \
    {                                                                                                                          \
        return half##_round_toward(x, ~f32_bits(x) >> 31);                                                                     \
    }
TSR_ROUND_HALF(f16)
TSR_ROUND_HALF(bf16)
#undef TSR_ROUND_HALF

/* .satfinite: what would become infinite is the largest number. */
static inline float f32_limit(float x, float largest)
{
    return x > largest ? largest : x < -largest ? -largest : x;
}
static inline float f16_finite(float x)
{
    return f32_limit(x, 65504.0f);
}
static inline float bf16_finite(float x)
{
    return f32_limit(x, 0x1.fep127f);
}

/* The result of an f16 operation with .ftz: what is subnormal when rounded to eleven bits, below 2^-14 - 2^-26, becomes zero. */
static inline float f16_flush_rounded(float x)
{
    uint32_t u = f32_bits(x);
    return f32_from((u & 0x7fffffffu) < 0x387ff000u ? u & 0x80000000u : u);
}

/* A half converted from the f64 number with the bits u: NaN keeps sign and upper payload. */
static inline uint32_t f16_keep_nan(uint32_t half, uint64_t u)
{
    uint32_t nan = (uint32_t)(u >> 48 & 0x8000) | 0x7e00u | (uint32_t)(u >> 42 & 0x1ff);
    return (u & 0x7fffffffffffffffull) > 0x7ff0000000000000ull ? nan : half;
}

static inline uint32_t bf16_keep_nan(uint32_t half, uint64_t u)
{
    uint32_t nan = (uint32_t)(u >> 48 & 0x8000) | 0x7fc0u | (uint32_t)(u >> 45 & 0x3f);
    return (u & 0x7fffffffffffffffull) > 0x7ff0000000000000ull ? nan : half;
}

/*
 * tf32: ten bits of fraction; rna rounds ties away from zero. As on hardware rna treats NaN as any other pattern, the other two give 0x7fffe000, and
 * satfinite takes one unit off whatever is not finite.
 */
static inline uint32_t tf32_rna(float x)
{
    return (f32_bits(x) + 0x1000u) & ~0x1fffu;
}

static inline uint32_t tf32_rn(float x)
{
    uint32_t u = f32_bits(x), magnitude = u & 0x7fffffffu;
    return magnitude > 0x7f800000u ? 0x7fffe000u : (u + 0xfffu + (u >> 13 & 1)) & ~0x1fffu;
}

static inline uint32_t tf32_rz(float x)
{
    uint32_t u = f32_bits(x), magnitude = u & 0x7fffffffu;
    return magnitude > 0x7f800000u ? 0x7fffe000u : u & ~0x1fffu;
}

static inline uint32_t tf32_finite(uint32_t u)
{
    return (u & 0x7fffffffu) >= 0x7f800000u ? u - 0x2000u : u;
}

/*
 * Eight-bit floats, to nearest even and saturating. e4m3 has no infinity: largest 448 = 0x7e, NaN 0x7f. e5m2: largest 57344 = 0x7b, NaN 0x7f.
 * Below the normal range, adding `unit` leaves the code in the last bits.
 */
static inline uint32_t float8_narrow(float x, uint32_t fraction, uint32_t rebias, uint32_t smallest, float unit,
                                     uint32_t largest)
{
    uint32_t sign = f32_bits(x) >> 24 & 0x80u, magnitude = f32_bits(x) & 0x7fffffffu, shift = 23 - fraction;
    uint32_t code = (magnitude - rebias + (1u << (shift - 1)) - 1 + (magnitude >> shift & 1)) >> shift;
    uint32_t small = f32_bits(f32_from(magnitude) + unit) - f32_bits(unit);
    code = magnitude < smallest ? small : code;
    code = code > largest ? largest : code;
    return magnitude > 0x7f800000u ? 0x7f : sign | code;
}

static inline uint32_t e4m3_narrow(float x)
{
    return float8_narrow(x, 3, 120u << 23, 121u << 23, 16384.0f, 0x7e);
}
static inline uint32_t e5m2_narrow(float x)
{
    return float8_narrow(x, 2, 112u << 23, 113u << 23, 128.0f, 0x7b);
}

/* Bits of the f16 number. */
static inline uint16_t e5m2_to_f16(uint8_t code)
{
    return (uint16_t)((code & 0x7f) > 0x7c ? 0x7fff : code << 8);
}

static inline uint16_t e4m3_to_f16(uint8_t code)
{
    /* The same fields with f16's bias are the number divided by 256. */
    uint16_t scaled = (uint16_t)((code & 0x80) << 8 | (code & 0x7f) << 7);
    uint16_t number = f16_narrow(f16_widen(scaled) * 256.0f);
    return (uint16_t)((code & 0x7f) == 0x7f ? 0x7fff : number);
}

static inline uint16_t f16_bits_relu(uint16_t h)
{
    return (uint16_t)((h & 0x7fff) > 0x7c00 ? 0x7fff : h & 0x8000 ? 0 : h);
}

#endif
