/*
 * What the generated lane operations are made of.
 *
 * One function per operation: it computes all 32 lanes in one loop that the compiler vectorises, into the destination when every lane is
 * active, else into a temporary that is then merged lane by lane. Inactive lanes are computed as well and dropped: an expression must
 * therefore be defined for every input. A register is the same as the destination or disjoint from it, never a part of it.
 *
 * The files that include this are compiled once for each instruction-set level; see isa/level.h. Nothing here may call a function compiled for
 * another level.
 */
#ifndef TSR_LANE_LANE_H
#define TSR_LANE_LANE_H

#include "emulator/isa/insn.h"
#include "emulator/exec/lane/approximate.h"
#include "emulator/exec/lane/convert.h"
#include "emulator/exec/lane/float.h"
#include "emulator/exec/lane/half.h"
#include "emulator/exec/lane/integer.h"
#include "emulator/exec/lane/lop3.h"

#include <xmmintrin.h> /* not immintrin.h, which takes longer to read than a file of operations to compile */

#define TSR_ALL_LANES 0xffffffffu

/* The frame pointer is the first member of struct tsr_warp (exec/warp.h); lane operations know nothing else of it. */
static inline unsigned char *tsr_lane_frame(struct tsr_warp *w)
{
    return *(unsigned char **)w;
}

/* Writes the lanes in m of a register of 16, 32, 64 or 128 bits. */
void TSR_LANE_NAME(merge_16)(void *dst, const void *value, uint32_t m);
void TSR_LANE_NAME(merge_32)(void *dst, const void *value, uint32_t m);
void TSR_LANE_NAME(merge_64)(void *dst, const void *value, uint32_t m);
/* All lanes: `one` where the mask is set, else zero. */
void TSR_LANE_NAME(spread_16)(void *dst, uint32_t mask, uint32_t one, uint32_t m);
void TSR_LANE_NAME(spread_32)(void *dst, uint32_t mask, uint32_t one, uint32_t m);

static const uint32_t tsr_lane_bit[32] __attribute__((aligned(64), unused)) = {
    1u << 0,  1u << 1,  1u << 2,  1u << 3,  1u << 4,  1u << 5,  1u << 6,  1u << 7,  1u << 8,  1u << 9,  1u << 10,
    1u << 11, 1u << 12, 1u << 13, 1u << 14, 1u << 15, 1u << 16, 1u << 17, 1u << 18, 1u << 19, 1u << 20, 1u << 21,
    1u << 22, 1u << 23, 1u << 24, 1u << 25, 1u << 26, 1u << 27, 1u << 28, 1u << 29, 1u << 30, 1u << 31,
};
#define tsr_bit(mask, lane) (((mask) & tsr_lane_bit[lane]) != 0)

#define TSR_LANE_OP(name) static const struct tsr_insn *name(struct tsr_warp *w, const struct tsr_insn *i, uint32_t m)
#define TSR_LANE_LOOP(name) static __attribute__((noinline)) void name(unsigned char *f, const struct tsr_insn *i, uint32_t m)
#define TSR_LANE_TEST(name) static __attribute__((noinline)) uint64_t name(unsigned char *f, const struct tsr_insn *i)
#define TSR_FRAME unsigned char *f = tsr_lane_frame(w)

#define TSR_ALIGN64 __attribute__((aligned(64)))
#define TSR_REGISTER(T, offset) ((T *)__builtin_assume_aligned(f + (offset), 64))

#define TSR_LOAD_AS(T, x) const T *x##s = TSR_REGISTER(const T, i->x)
#define TSR_LOAD_PRED(x) const uint32_t x##s = *(const uint32_t *)(f + i->x)
#define TSR_LOAD_HALF(x, kind, count)                                                                                          \
    TSR_ALIGN64 float x##s[count];                                                                                             \
    TSR_LANE_NAME(widen_##kind)(x##s, TSR_REGISTER(const uint16_t, i->x), count)
#define TSR_LOAD_F16(x) TSR_LOAD_HALF(x, f16, 32)
#define TSR_LOAD_BF16(x) TSR_LOAD_HALF(x, bf16, 32)
#define TSR_LOAD_F16X2(x) TSR_LOAD_HALF(x, f16, 64)
#define TSR_LOAD_BF16X2(x) TSR_LOAD_HALF(x, bf16, 64)

#define TSR_FOR_LANES(index, count) _Pragma("GCC ivdep") for (int index = 0; index < (count); index++)

/* o is where the results of all lanes go: the destination itself or a temporary. */
#define TSR_TARGET(T, direct)                                                                                                  \
    TSR_ALIGN64 T temporary[32];                                                                                               \
    T *o = (T *)__builtin_assume_aligned((direct) ? (void *)(f + i->dst) : (void *)temporary, 64)

#define TSR_MAP(T, merge, ...)                                                                                                 \
    TSR_TARGET(T, m == TSR_ALL_LANES);                                                                                         \
    TSR_FOR_LANES(l, 32)                                                                                                       \
    {                                                                                                                          \
        T r;                                                                                                                   \
        __VA_ARGS__                                                                                                            \
        o[l] = r;                                                                                                              \
    }                                                                                                                          \
    if (m != TSR_ALL_LANES)                                                                                                    \
    TSR_LANE_NAME(merge)(f + i->dst, temporary, m)
#define TSR_MAP_16(T, ...) TSR_MAP(T, merge_16, __VA_ARGS__)
#define TSR_MAP_32(T, ...) TSR_MAP(T, merge_32, __VA_ARGS__)
#define TSR_MAP_64(T, ...) TSR_MAP(T, merge_64, __VA_ARGS__)

/* The same with a condition gathered in q for a second destination. Either destination may be absent. */
#define TSR_MAP_SECOND(T, merge, ...)                                                                                          \
    TSR_TARGET(T, 0);                                                                                                          \
    uint32_t q = 0;                                                                                                            \
    TSR_FOR_LANES(l, 32)                                                                                                       \
    {                                                                                                                          \
        T r;                                                                                                                   \
        __VA_ARGS__                                                                                                            \
        o[l] = r;                                                                                                              \
    }                                                                                                                          \
    if (i->dst != TSR_NO_REG)                                                                                                  \
        TSR_LANE_NAME(merge)(f + i->dst, temporary, m);                                                                        \
    tsr_lane_put_mask(f, i->dst2, q, m)
#define TSR_MAP_SECOND_32(T, ...) TSR_MAP_SECOND(T, merge_32, __VA_ARGS__)
#define TSR_MAP_SECOND_64(T, ...) TSR_MAP_SECOND(T, merge_64, __VA_ARGS__)

/* Half-precision results are computed as floats and rounded to nearest. */
#define TSR_MAP_HALF(kind, count, bits, ...)                                                                                   \
    TSR_ALIGN64 float results[count];                                                                                          \
    TSR_FOR_LANES(l, count)                                                                                                    \
    {                                                                                                                          \
        float r;                                                                                                               \
        __VA_ARGS__                                                                                                            \
        results[l] = r;                                                                                                        \
    }                                                                                                                          \
    if (m == TSR_ALL_LANES) {                                                                                                  \
        TSR_LANE_NAME(narrow_##kind)(TSR_REGISTER(uint16_t, i->dst), results, count);                                          \
    } else {                                                                                                                   \
        TSR_ALIGN64 uint16_t temporary[count];                                                                                 \
        TSR_LANE_NAME(narrow_##kind)(temporary, results, count);                                                               \
        TSR_LANE_NAME(merge_##bits)(f + i->dst, temporary, m);                                                                 \
    }                                                                                                                          \
    (void)0
#define TSR_MAP_F16(...) TSR_MAP_HALF(f16, 32, 16, __VA_ARGS__)
#define TSR_MAP_BF16(...) TSR_MAP_HALF(bf16, 32, 16, __VA_ARGS__)
#define TSR_MAP_F16X2(...) TSR_MAP_HALF(f16, 64, 32, __VA_ARGS__)
#define TSR_MAP_BF16X2(...) TSR_MAP_HALF(bf16, 64, 32, __VA_ARGS__)

/* Conditions: the low 32 bits of the result; packed types put the high halves' into the high 32 bits. */
#define TSR_TEST(...)                                                                                                          \
    uint32_t mask = 0;                                                                                                         \
    TSR_FOR_LANES(l, 32)                                                                                                       \
    {                                                                                                                          \
        int t;                                                                                                                 \
        __VA_ARGS__                                                                                                            \
        mask |= (uint32_t)(t != 0) << l;                                                                                       \
    }                                                                                                                          \
    return mask
#define TSR_TEST_PACKED(...)                                                                                                   \
    uint32_t masks[2] = {0, 0};                                                                                                \
    for (int l = 0; l < 64; l++) {                                                                                             \
        int t;                                                                                                                 \
        __VA_ARGS__                                                                                                            \
        masks[l & 1] |= (uint32_t)(t != 0) << (l >> 1);                                                                        \
    }                                                                                                                          \
    return masks[0] | (uint64_t)masks[1] << 32

static inline void tsr_lane_put_mask(unsigned char *f, uint32_t reg, uint32_t mask, uint32_t m)
{
    if (reg == TSR_NO_REG)
        return;
    uint32_t *p = (uint32_t *)(f + reg);
    *p = (*p & ~m) | (mask & m);
}

#define TSR_MASKS(value) tsr_lane_put_mask(f, i->dst, (value), m)

/*
 * Operations on a condition: a function of few instructions each, which hands its test on to one that a file's operations share, as there are
 * far more combinations than tests. Plain setp, which programs use most, has its test next to it.
 */
#define TSR_SETP(first, second)                                                                                                \
    uint32_t p = (first), q = (second);                                                                                        \
    tsr_lane_put_mask(f, i->dst, p, m);                                                                                        \
    tsr_lane_put_mask(f, i->dst2, q, m);                                                                                       \
    return i + 1
#define TSR_SETP_PLAIN(test)                                                                                                   \
    TSR_FRAME;                                                                                                                 \
    uint32_t t = (uint32_t)test(f, i);                                                                                         \
    TSR_SETP(t, ~t)
#define TSR_SETP_PLAIN_PACKED(test)                                                                                            \
    TSR_FRAME;                                                                                                                 \
    uint64_t t = test(f, i);                                                                                                   \
    TSR_SETP((uint32_t)t, (uint32_t)(t >> 32))

typedef uint64_t tsr_lane_test(unsigned char *f, const struct tsr_insn *i);
#define TSR_LANE_SHARED(name)                                                                                                  \
    static __attribute__((noinline, unused)) const struct tsr_insn *name(struct tsr_warp *w, const struct tsr_insn *i,         \
                                                                     uint32_t m, tsr_lane_test *test)
#define TSR_LANE_SETP(name, sign)                                                                                              \
    TSR_LANE_SHARED(tsr_setp_##name)                                                                                           \
    {                                                                                                                          \
        TSR_FRAME;                                                                                                             \
        TSR_LOAD_PRED(c);                                                                                                      \
        uint32_t t = (uint32_t)test(f, i);                                                                                     \
        TSR_SETP(t sign cs, ~t sign cs);                                                                                       \
    }                                                                                                                          \
    TSR_LANE_SHARED(tsr_setp_##name##_packed)                                                                                  \
    {                                                                                                                          \
        TSR_FRAME;                                                                                                             \
        TSR_LOAD_PRED(c);                                                                                                      \
        uint64_t t = test(f, i);                                                                                               \
        TSR_SETP((uint32_t)t sign cs, (uint32_t)(t >> 32) sign cs);                                                            \
    }
TSR_LANE_SETP(and, &)
TSR_LANE_SETP(or, |)
TSR_LANE_SETP(xor, ^)
#define TSR_SETP_AND(test) return tsr_setp_and(w, i, m, test)
#define TSR_SETP_OR(test) return tsr_setp_or(w, i, m, test)
#define TSR_SETP_XOR(test) return tsr_setp_xor(w, i, m, test)
#define TSR_SETP_AND_PACKED(test) return tsr_setp_and_packed(w, i, m, test)
#define TSR_SETP_OR_PACKED(test) return tsr_setp_or_packed(w, i, m, test)
#define TSR_SETP_XOR_PACKED(test) return tsr_setp_xor_packed(w, i, m, test)

#define TSR_LANE_SET(name, bits, value)                                                                                        \
    static __attribute__((noinline, unused)) const struct tsr_insn *tsr_set_##name##_##bits(                                   \
        struct tsr_warp *w, const struct tsr_insn *i, uint32_t m, tsr_lane_test *test, uint32_t one)                           \
    {                                                                                                                          \
        TSR_FRAME;                                                                                                             \
        uint32_t t = (uint32_t)test(f, i);                                                                                     \
        TSR_LANE_NAME(spread_##bits)(f + i->dst, (value), one, m);                                                             \
        return i + 1;                                                                                                          \
    }
#define TSR_LANE_SETS(bits)                                                                                                    \
    TSR_LANE_SET(plain, bits, t)                                                                                               \
    TSR_LANE_SET(and, bits, t & *(const uint32_t *)(f + i->c))                                                                 \
    TSR_LANE_SET(or, bits, t | *(const uint32_t *)(f + i->c))                                                                  \
    TSR_LANE_SET(xor, bits, t ^ *(const uint32_t *)(f + i->c))
TSR_LANE_SETS(16)
TSR_LANE_SETS(32)
#define TSR_SET_PLAIN(test, bits, one) return tsr_set_plain_##bits(w, i, m, test, one)
#define TSR_SET_AND(test, bits, one) return tsr_set_and_##bits(w, i, m, test, one)
#define TSR_SET_OR(test, bits, one) return tsr_set_or_##bits(w, i, m, test, one)
#define TSR_SET_XOR(test, bits, one) return tsr_set_xor_##bits(w, i, m, test, one)

/*
 * Runs a loop with the processor's rounding direction changed, and flushing subnormal operands and results: both are x86's rules, which for
 * tininess (after rounding, as if the exponent had no limit) are also NVIDIA's. The loop is a function of its own: nothing moves out of it.
 */
#define TSR_ROUND_NEAREST 0u
#define TSR_ROUND_DOWN 0x2000u
#define TSR_ROUND_UP 0x4000u
#define TSR_ROUND_ZERO 0x6000u
#define TSR_FLUSH 0x8040u
#define TSR_ROUNDED(loop, mode)                                                                                                \
    uint32_t saved = _mm_getcsr();                                                                                             \
    _mm_setcsr((saved & ~0x6000u) | (mode));                                                                                   \
    __asm__ volatile("" ::: "memory");                                                                                         \
    loop(f, i, m);                                                                                                             \
    __asm__ volatile("" ::: "memory");                                                                                         \
    _mm_setcsr(saved)

#endif
