/*
 * Arithmetic of single f16 and bf16 values, for atomics.
 */
#ifndef TSR_EXEC_NARROW_H
#define TSR_EXEC_NARROW_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#ifndef TSR_LEVEL
#define TSR_LEVEL 0 /* lane/half.h names functions by level; only its scalar ones are used here */
#endif
#include "emulator/exec/lane/half.h"

/* One operand a NaN: the other; -0 is below +0. */
static inline float tsr_narrow_extreme(float x, float y, bool greatest)
{
    if (isnan(x) || isnan(y))
        return isnan(x) ? y : x;
    if (x == y)
        return (signbit(x) != 0) == greatest ? y : x;
    return (x > y) == greatest ? x : y;
}

static inline uint16_t tsr_f16_add(uint16_t x, uint16_t y)
{
    return f16_narrow(f16_widen(x) + f16_widen(y));
}
static inline uint16_t tsr_bf16_add(uint16_t x, uint16_t y)
{
    return bf16_narrow(bf16_widen(x) + bf16_widen(y));
}
static inline uint16_t tsr_f16_extreme(uint16_t x, uint16_t y, bool greatest)
{
    return f16_narrow(tsr_narrow_extreme(f16_widen(x), f16_widen(y), greatest));
}
static inline uint16_t tsr_bf16_extreme(uint16_t x, uint16_t y, bool greatest)
{
    return bf16_narrow(tsr_narrow_extreme(bf16_widen(x), bf16_widen(y), greatest));
}

#endif
