/* Writing some lanes of a register, and predicates as numbers. */
#include "emulator/exec/lane/lane.h"

#define MERGE(bits)                                                                                                            \
    void TSR_LANE_NAME(merge_##bits)(void *dst, const void *value, uint32_t m)                                                 \
    {                                                                                                                          \
        uint##bits##_t *d = __builtin_assume_aligned(dst, 64);                                                                 \
        const uint##bits##_t *v = __builtin_assume_aligned(value, 64);                                                         \
        TSR_FOR_LANES(l, 32)                                                                                                   \
        d[l] = tsr_bit(m, l) ? v[l] : d[l];                                                                                    \
    }
MERGE(16)
MERGE(32)
MERGE(64)

#define SPREAD(bits)                                                                                                           \
    void TSR_LANE_NAME(spread_##bits)(void *dst, uint32_t mask, uint32_t one, uint32_t m)                                      \
    {                                                                                                                          \
        uint##bits##_t *d = __builtin_assume_aligned(dst, 64);                                                                 \
        TSR_FOR_LANES(l, 32)                                                                                                   \
        d[l] = tsr_bit(m, l) ? (tsr_bit(mask, l) ? (uint##bits##_t)one : 0) : d[l];                                            \
    }
SPREAD(16)
SPREAD(32)
