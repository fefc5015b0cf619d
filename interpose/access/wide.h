/*
 * Numbers of the evaluation: integers of 128 bits of which 124 are used, so that sums need no check; products do. A bound at or beyond
 * TSR_INFINITE is infinite: what grows past it loses its bound, which is sound.
 */
#ifndef TESSERA_ACCESS_WIDE_H
#define TESSERA_ACCESS_WIDE_H

#include <stdbool.h>
#include <stdint.h>

typedef __int128 tsr_wide;
typedef unsigned __int128 tsr_uwide;

#define TSR_INFINITE ((tsr_wide)1 << 124)

static inline bool tsr_wide_is_small(tsr_wide a)
{
    return a == (int64_t)a;
}

static inline bool tsr_wide_fits(tsr_wide a)
{
    return a > -TSR_INFINITE && a < TSR_INFINITE;
}

/* Bits of a number's distance from 0. */
static inline unsigned tsr_wide_bits(tsr_wide a)
{
    tsr_uwide u = a < 0 ? -(tsr_uwide)a : (tsr_uwide)a;
    uint64_t high = (uint64_t)(u >> 64), low = (uint64_t)u;
    if (high)
        return 128 - (unsigned)__builtin_clzll(high);
    return low ? 64 - (unsigned)__builtin_clzll(low) : 0;
}

/* False: the product may not fit. */
static inline bool tsr_wide_times(tsr_wide a, tsr_wide b, tsr_wide *product)
{
    if (tsr_wide_is_small(a) && tsr_wide_is_small(b)) {
        *product = (tsr_wide)(int64_t)a * (int64_t)b;
        return tsr_wide_fits(*product);
    }
    if (a && b && tsr_wide_bits(a) + tsr_wide_bits(b) > 123)
        return false;
    *product = a * b;
    return true;
}

/* Rounded down; b > 0. */
static inline tsr_wide tsr_wide_divide(tsr_wide a, tsr_wide b)
{
    if (b == 1)
        return a;
    if (tsr_wide_is_small(a) && tsr_wide_is_small(b)) {
        int64_t x = (int64_t)a, y = (int64_t)b, quotient = x / y;
        return quotient - (x % y < 0);
    }
    tsr_wide quotient = a / b;
    return quotient - (a - quotient * b < 0);
}

/* a - b * (a / b), at least 0; b > 0. */
static inline tsr_wide tsr_wide_modulo(tsr_wide a, tsr_wide b)
{
    return a - b * tsr_wide_divide(a, b);
}

static inline bool tsr_wide_is_multiple(tsr_wide a, tsr_wide b)
{
    if (tsr_wide_is_small(a) && tsr_wide_is_small(b))
        return b == 1 || b == -1 || (int64_t)a % (int64_t)b == 0;
    return a % b == 0;
}

static inline tsr_wide tsr_wide_distance(tsr_wide a)
{
    return a < 0 ? -a : a;
}

static inline tsr_wide tsr_wide_least(tsr_wide a, tsr_wide b)
{
    return a < b ? a : b;
}

static inline tsr_wide tsr_wide_most(tsr_wide a, tsr_wide b)
{
    return a > b ? a : b;
}

/* The greatest common divisor, never negative. */
static inline tsr_wide tsr_wide_common(tsr_wide a, tsr_wide b)
{
    a = tsr_wide_distance(a), b = tsr_wide_distance(b);
    if (a == 1 || b == 1)
        return 1;
    while (b && !(tsr_wide_is_small(a) && tsr_wide_is_small(b))) {
        tsr_wide rest = a % b;
        a = b, b = rest;
    }
    if (!b)
        return a;
    uint64_t x = (uint64_t)a, y = (uint64_t)b;
    while (y) {
        uint64_t rest = x % y;
        x = y, y = rest;
    }
    return x;
}

/* The number nearest to 0 that is congruent modulo 2 to the width. */
static inline tsr_wide tsr_wide_wrap(tsr_wide a, unsigned width)
{
    if (width == 0 || width > 64)
        return a;
    uint64_t kept = (uint64_t)a << (64 - width);
    return (int64_t)kept >> (64 - width);
}

/* The bits of a number below the highest one that is set, itself included. */
static inline tsr_wide tsr_wide_below(tsr_wide a)
{
    return ((tsr_wide)1 << tsr_wide_bits(a)) - 1;
}

/* Bounds. Infinities of both signs are never added. */

static inline tsr_wide tsr_bound_of(tsr_wide a)
{
    return a >= TSR_INFINITE ? TSR_INFINITE : a <= -TSR_INFINITE ? -TSR_INFINITE : a;
}

static inline tsr_wide tsr_bound_plus(tsr_wide a, tsr_wide b)
{
    if (!tsr_wide_fits(a))
        return a;
    return tsr_wide_fits(b) ? tsr_bound_of(a + b) : b;
}

static inline tsr_wide tsr_bound_times(tsr_wide a, tsr_wide b)
{
    tsr_wide product;
    if (tsr_wide_is_small(a) && tsr_wide_is_small(b) && tsr_wide_times(a, b, &product))
        return product;
    if (a == 0 || b == 0)
        return 0;
    if (tsr_wide_fits(a) && tsr_wide_fits(b) && tsr_wide_times(a, b, &product))
        return product;
    return (a < 0) == (b < 0) ? TSR_INFINITE : -TSR_INFINITE;
}

#endif
