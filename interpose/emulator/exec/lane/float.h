/*
 * f32 and f64 helpers of the lane operations.
 *
 * NaN: f32 arithmetic gives the canonical 0x7fffffff. f64 keeps the first NaN operand's payload, made quiet; an invalid operation gives
 * 0xfff8000000000000. Nothing here contracts or reorders: results are the same at every level.
 */
#ifndef TSR_LANE_FLOAT_H
#define TSR_LANE_FLOAT_H

#include <math.h>
#include <stdint.h>

union tsr_f32_bits {
    float f;
    uint32_t u;
};
union tsr_f64_bits {
    double f;
    uint64_t u;
};

static inline uint32_t f32_bits(float x)
{
    return ((union tsr_f32_bits){.f = x}).u;
}
static inline float f32_from(uint32_t u)
{
    return ((union tsr_f32_bits){.u = u}).f;
}
static inline uint64_t f64_bits(double x)
{
    return ((union tsr_f64_bits){.f = x}).u;
}
static inline double f64_from(uint64_t u)
{
    return ((union tsr_f64_bits){.u = u}).f;
}

static inline float f32_canonical(float x)
{
    return f32_from(x == x ? f32_bits(x) : 0x7fffffffu);
}

static inline float f32_flush(float x)
{
    uint32_t u = f32_bits(x);
    return f32_from(u & 0x7f800000u ? u : u & 0x80000000u);
}

static inline double f64_flush(double x)
{
    uint64_t u = f64_bits(x);
    return f64_from(u & 0x7ff0000000000000ull ? u : u & 0x8000000000000000ull);
}

/* Into [0, 1]; NaN and negative zero give zero. */
static inline float f32_saturate(float x)
{
    return x > 0.0f ? x < 1.0f ? x : 1.0f : 0.0f;
}
static inline double f64_saturate(double x)
{
    return x > 0.0 ? x < 1.0 ? x : 1.0 : 0.0;
}

static inline double f64_quiet(double x)
{
    return f64_from(f64_bits(x) | 0x0008000000000000ull);
}
#define TSR_F64_INVALID 0xfff8000000000000ull /* the NaN of an invalid operation */

/* The result r of an operation on a (and b, c), with the NaN that hardware gives. Selects on bits, so that loops vectorise. */
static inline double f64_nan1(double r, double a)
{
    uint64_t nan = TSR_F64_INVALID;
    nan = a != a ? f64_bits(f64_quiet(a)) : nan;
    return f64_from(r == r ? f64_bits(r) : nan);
}

static inline double f64_nan2(double r, double a, double b)
{
    uint64_t nan = TSR_F64_INVALID;
    nan = b != b ? f64_bits(f64_quiet(b)) : nan;
    nan = a != a ? f64_bits(f64_quiet(a)) : nan;
    return f64_from(r == r ? f64_bits(r) : nan);
}

static inline double f64_nan3(double r, double a, double b, double c)
{
    uint64_t nan = TSR_F64_INVALID;
    nan = c != c ? f64_bits(f64_quiet(c)) : nan;
    nan = b != b ? f64_bits(f64_quiet(b)) : nan;
    nan = a != a ? f64_bits(f64_quiet(a)) : nan;
    return f64_from(r == r ? f64_bits(r) : nan);
}

/*
 * x + y rounded to odd: when inexact, of the two neighbours the one with an odd last bit. Rounding that once more, in any direction, to a
 * number at least two bits shorter gives what one rounding would have given. Needs round-to-nearest. The other neighbour lies towards the
 * error: away from zero when the error has the sum's sign.
 */
#define TSR_ADD_ODD(kind, type, word, top)                                                                                     \
    static inline type kind##_add_odd(type x, type y)                                                                          \
    {                                                                                                                          \
        type s = x + y, t = s - x;                                                                                             \
        type error = (x - (s - t)) + (y - t);                                                                                  \
        word u = kind##_bits(s);                                                                                               \
        word step = 1 - ((kind##_bits(error) ^ u) >> (top) << 1);                                                              \
        step = (u & 1) == 0 ? step : 0;                                                                                        \
        step = error > 0 ? step : error < 0 ? step : 0;                                                                        \
        return kind##_from(u + step);                                                                                          \
    }
TSR_ADD_ODD(f32, float, uint32_t, 31)
TSR_ADD_ODD(f64, double, uint64_t, 63)
#undef TSR_ADD_ODD

#if defined(__FMA__)
static inline float f32_fma(float a, float b, float c)
{
    return __builtin_fmaf(a, b, c);
}
static inline double f64_fma(double a, double b, double c)
{
    return __builtin_fma(a, b, c);
}
#else
/* The product of two floats is exact in double. Directed rounding goes through libm, which honours the processor's direction. */
static inline float f32_fma(float a, float b, float c)
{
#if defined(TSR_LANE_DIRECTED)
    return fmaf(a, b, c);
#else
    return (float)f64_add_odd((double)a * (double)b, (double)c);
#endif
}
static inline double f64_fma(double a, double b, double c)
{
    return fma(a, b, c);
}
#endif

static inline float f32_sqrt(float x)
{
    return __builtin_sqrtf(x);
}
static inline double f64_sqrt(double x)
{
    return __builtin_sqrt(x);
}
static inline float f32_neg(float x)
{
    return f32_from(f32_bits(x) ^ 0x80000000u);
}
static inline double f64_neg(double x)
{
    return x == x ? -x : f64_quiet(x);
}
static inline float f32_abs(float x)
{
    return f32_from(f32_bits(x) & 0x7fffffffu);
}
#define f32_magnitude f32_abs
static inline double f64_magnitude(double x)
{
    return f64_from(f64_bits(x) & 0x7fffffffffffffffull);
}
static inline double f64_abs(double x)
{
    return x == x ? f64_magnitude(x) : f64_quiet(x);
}

/* PTX's operand order: the sign comes from the first. */
static inline float f32_copysign(float magnitude, float sign)
{
    return f32_from((f32_bits(magnitude) & 0x7fffffffu) | (f32_bits(sign) & 0x80000000u));
}

static inline double f64_copysign(double magnitude, double sign)
{
    return f64_from((f64_bits(magnitude) & 0x7fffffffffffffffull) | (f64_bits(sign) & 0x8000000000000000ull));
}

static inline float f32_xorsign(float magnitude, float a, float b)
{
    uint32_t sign = (f32_bits(a) ^ f32_bits(b)) & 0x80000000u;
    return magnitude == magnitude ? f32_from(f32_bits(magnitude) | sign) : magnitude;
}

/* The number when one operand is NaN; -0 is below +0. */
static inline float f32_min(float a, float b)
{
    float both = f32_from(f32_bits(a) | f32_bits(b)); /* of equal operands: the negative zero */
    float r = a < b ? a : a > b ? b : both;
    r = a != a ? b : b != b ? a : r;
    return f32_canonical(r);
}

static inline float f32_max(float a, float b)
{
    float both = f32_from(f32_bits(a) & f32_bits(b));
    float r = a > b ? a : a < b ? b : both;
    r = a != a ? b : b != b ? a : r;
    return f32_canonical(r);
}

static inline float f32_min_nan(float a, float b)
{
    return (a != a) | (b != b) ? f32_from(0x7fffffffu) : f32_min(a, b);
}
static inline float f32_max_nan(float a, float b)
{
    return (a != a) | (b != b) ? f32_from(0x7fffffffu) : f32_max(a, b);
}

static inline double f64_min(double a, double b)
{
    double both = f64_from(f64_bits(a) | f64_bits(b));
    double r = a < b ? a : a > b ? b : both;
    r = a != a ? b : b != b ? a : r;
    return r == r ? r : f64_quiet(a);
}

static inline double f64_max(double a, double b)
{
    double both = f64_from(f64_bits(a) & f64_bits(b));
    double r = a > b ? a : a < b ? b : both;
    r = a != a ? b : b != b ? a : r;
    return r == r ? r : f64_quiet(a);
}

#define TSR_CLASSES(kind, word, sign, infinity, smallest)                                                                      \
    static inline int kind##_is_finite(word u)                                                                                 \
    {                                                                                                                          \
        return (u & ~(sign)) < (infinity);                                                                                     \
    }                                                                                                                          \
    static inline int kind##_is_infinite(word u)                                                                               \
    {                                                                                                                          \
        return (u & ~(sign)) == (infinity);                                                                                    \
    }                                                                                                                          \
    static inline int kind##_is_number(word u)                                                                                 \
    {                                                                                                                          \
        return (u & ~(sign)) <= (infinity);                                                                                    \
    }                                                                                                                          \
    static inline int kind##_is_notanumber(word u)                                                                             \
    {                                                                                                                          \
        return (u & ~(sign)) > (infinity);                                                                                     \
    }                                                                                                                          \
    static inline int kind##_is_subnormal(word u)                                                                              \
    {                                                                                                                          \
        return (u & ~(sign)) != 0 && (u & ~(sign)) < (smallest);                                                               \
    }                                                                                                                          \
    /* Zeros count as normal. */                                                                                               \
    static inline int kind##_is_normal(word u)                                                                                 \
    {                                                                                                                          \
        return !kind##_is_subnormal(u) && kind##_is_finite(u);                                                                 \
    }
TSR_CLASSES(f32, uint32_t, 0x80000000u, 0x7f800000u, 0x00800000u)
TSR_CLASSES(f64, uint64_t, 0x8000000000000000ull, 0x7ff0000000000000ull, 0x0010000000000000ull)
#undef TSR_CLASSES

#endif
