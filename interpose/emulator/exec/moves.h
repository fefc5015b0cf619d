/*
 * Moves between memory and registers: every type, number of elements and shape of addresses, always inlined into an operation that has
 * tested the addresses. For memory_ops.c alone, in the instruction set of its level.
 */
#ifndef TSR_EXEC_MOVES_H
#define TSR_EXEC_MOVES_H

#include <string.h>

#include "lanes.h"
#include "warp.h"

#define INLINE TSR_LANES_INLINE
#if defined(__SANITIZE_THREAD__)
#define MOVES __attribute__((no_sanitize("thread"))) /* data races of the program that runs are its own */
#else
#define MOVES
#endif

typedef const struct tsr_insn insn;
enum shape { CAREFUL, GENERAL, CONSECUTIVE, EQUAL }; /* of the addresses; careful: not known to be good */
struct type {
    uint32_t memory, reg;
    bool sign;
}; /* bytes in memory and register */

INLINE void *at(const struct tsr_warp *w, uint32_t offset)
{
    return w->frame + offset;
}

INLINE uint32_t destination(insn *i, uint32_t elements, uint32_t k)
{
    if (elements == 8)
        return i->list[k];
    return k == 0 ? i->dst : k == 1 ? i->dst2 : k == 2 ? i->c : i->d;
}

INLINE uint32_t source(insn *i, uint32_t elements, uint32_t k)
{
    if (elements == 8)
        return i->list[k];
    return k == 0 ? i->b : k == 1 ? i->c : k == 2 ? i->d : i->dst;
}

#define FOR_TYPE(t, M, R, ...)                                                                                                 \
    do {                                                                                                                       \
        if (t.memory == 1 && t.sign) { typedef int8_t M; typedef int16_t R; __VA_ARGS__ }                                      \
        else if (t.memory == 1) { typedef uint8_t M; typedef uint16_t R; __VA_ARGS__ }                                         \
        else if (t.memory == 2) { typedef uint16_t M; typedef uint16_t R; __VA_ARGS__ }                                        \
        else if (t.memory == 4) { typedef uint32_t M; typedef uint32_t R; __VA_ARGS__ }                                        \
        else { typedef uint64_t M; typedef uint64_t R; __VA_ARGS__ }                                                           \
    } while (0)

#define UNROLL _Pragma("GCC unroll 8")

/* Where the elements of a load end up: a register, or first a temporary when not all lanes take part. */
#define LOAD_INTO(t, elements, value)                                                                                          \
    FOR_TYPE(t, M, R, for (uint32_t k = 0; k < elements; k++) {                                                                \
        uint32_t reg = destination(i, elements, k);                                                                            \
        if (reg == TSR_NO_REG)                                                                                                 \
            continue;                                                                                                          \
        R *restrict d = at(w, reg);                                                                                            \
        if (m == UINT32_MAX) {                                                                                                 \
            UNROLL for (uint32_t l = 0; l < 32; l++) /* faster than the processors' gathers */                                 \
                d[l] = (R)(value);                                                                                             \
        } else {                                                                                                               \
            R got[32];                                                                                                         \
            UNROLL for (uint32_t l = 0; l < 32; l++)                                                                           \
                got[l] = (R)(value);                                                                                           \
            for (uint32_t l = 0; l < 32; l++)                                                                                  \
                d[l] = m >> l & 1 ? got[l] : d[l];                                                                             \
        }                                                                                                                      \
    })

/* Each half warp reads one address. */
INLINE MOVES void load_equal(struct tsr_warp *w, insn *i, uint32_t m, const unsigned char *low, const unsigned char *high,
                             struct type t, uint32_t elements)
{
    FOR_TYPE(
        t, M, R, for (uint32_t k = 0; k < elements; k++) {
            uint32_t reg = destination(i, elements, k);
            if (reg == TSR_NO_REG)
                continue;
            R *restrict d = at(w, reg);
            R x = (R)((const M *)(const void *)low)[k];
            R y = (R)((const M *)(const void *)high)[k];
            if (m == UINT32_MAX) {
                for (uint32_t l = 0; l < 16; l++)
                    d[l] = x;
                for (uint32_t l = 16; l < 32; l++)
                    d[l] = y;
            } else {
                for (uint32_t l = 0; l < 32; l++)
                    d[l] = m >> l & 1 ? (l < 16 ? x : y) : d[l];
            }
        });
}

INLINE MOVES void load_consecutive(struct tsr_warp *w, insn *i, const unsigned char *low, const unsigned char *high,
                                   struct type t, uint32_t elements)
{
    FOR_TYPE(
        t, M, R, for (uint32_t k = 0; k < elements; k++) {
            uint32_t reg = destination(i, elements, k);
            if (reg == TSR_NO_REG)
                continue;
            R *restrict d = at(w, reg);
            const M *restrict x = (const void *)low;
            const M *restrict y = (const void *)high;
            if (elements == 1 && sizeof(M) == sizeof(R)) {
                memcpy(d, x, 16 * sizeof(R));
                memcpy(d + 16, y, 16 * sizeof(R));
                continue;
            }
            for (uint32_t l = 0; l < 16; l++)
                d[l] = (R)x[l * elements + k];
            for (uint32_t l = 0; l < 16; l++)
                d[16 + l] = (R)y[l * elements + k];
        });
}

/* The offsets must not lie in a register: a destination may be the address register. */
INLINE MOVES void load_general32(struct tsr_warp *w, insn *i, uint32_t m, const unsigned char *base, const uint32_t *offset,
                                 struct type t, uint32_t elements)
{
    LOAD_INTO(t, elements, ((const M *)(const void *)(base + offset[l]))[k]);
}

/* Both half warps read the same. */
INLINE MOVES void load_twice(struct tsr_warp *w, insn *i, const unsigned char *base, const uint32_t *offset, struct type t)
{
    if (i->dst == TSR_NO_REG)
        return;
    FOR_TYPE(t, M, R, {
        R *restrict d = at(w, i->dst);
        UNROLL for (uint32_t l = 0; l < 16; l++) d[l] = (R) * (const M *)(const void *)(base + offset[l]);
        memcpy(d + 16, d, 16 * sizeof *d);
    });
}

INLINE MOVES void load_general64(struct tsr_warp *w, insn *i, uint32_t m, uint64_t add, const uint64_t *address, struct type t,
                                 uint32_t elements)
{
    uint64_t from[32];
    memcpy(from, address, sizeof from);
    LOAD_INTO(t, elements, ((const M *)(uintptr_t)(from[l] + add))[k]);
}

INLINE MOVES void store_general32(struct tsr_warp *w, insn *i, uint32_t m, unsigned char *base, const uint32_t *offset,
                                  struct type t, uint32_t elements)
{
    FOR_TYPE(
        t, M, R, for (uint32_t rest = m; rest != 0; rest &= rest - 1) {
            uint32_t l = (uint32_t)__builtin_ctz(rest);
            M *to = (void *)(base + offset[l]);
            for (uint32_t k = 0; k < elements; k++)
                to[k] = (M)((const R *)at(w, source(i, elements, k)))[l];
        });
}

INLINE MOVES void store_general64(struct tsr_warp *w, insn *i, uint32_t m, uint64_t add, const uint64_t *address, struct type t,
                                  uint32_t elements)
{
    FOR_TYPE(
        t, M, R, for (uint32_t rest = m; rest != 0; rest &= rest - 1) {
            uint32_t l = (uint32_t)__builtin_ctz(rest);
            M *to = (M *)(uintptr_t)(address[l] + add);
            for (uint32_t k = 0; k < elements; k++)
                to[k] = (M)((const R *)at(w, source(i, elements, k)))[l];
        });
}

INLINE MOVES void store_consecutive(struct tsr_warp *w, insn *i, unsigned char *low, unsigned char *high, struct type t,
                                    uint32_t elements)
{
    FOR_TYPE(t, M, R, {
        M *restrict x = (void *)low;
        M *restrict y = (void *)high;
        const R *s[8];
        for (uint32_t k = 0; k < elements; k++)
            s[k] = at(w, source(i, elements, k));
        if (elements == 1 && sizeof(M) == sizeof(R)) {
            memcpy(x, s[0], 16 * sizeof(M));
            memcpy(y, s[0] + 16, 16 * sizeof(M));
            return;
        }
        for (uint32_t l = 0; l < 16; l++)
            for (uint32_t k = 0; k < elements; k++)
                x[l * elements + k] = (M)s[k][l];
        for (uint32_t l = 0; l < 16; l++)
            for (uint32_t k = 0; k < elements; k++)
                y[l * elements + k] = (M)s[k][16 + l];
    });
}

/* One lane and element at a time, each a single atomic access when strong. */
INLINE MOVES void load_lanes(struct tsr_warp *w, insn *i, uint32_t m, unsigned char *const *host, struct type t,
                             uint32_t elements)
{
    FOR_TYPE(
        t, M, R, for (uint32_t rest = m; rest != 0; rest &= rest - 1) {
            uint32_t l = (uint32_t)__builtin_ctz(rest);
            const M *from = (const void *)host[l];
            for (uint32_t k = 0; k < elements; k++) {
                R value = (R)__atomic_load_n(&from[k], __ATOMIC_SEQ_CST);
                uint32_t reg = destination(i, elements, k);
                if (reg != TSR_NO_REG)
                    ((R *)at(w, reg))[l] = value;
            }
        });
}

INLINE MOVES void store_lanes(struct tsr_warp *w, insn *i, uint32_t m, unsigned char *const *host, struct type t,
                              uint32_t elements)
{
    FOR_TYPE(
        t, M, R, for (uint32_t rest = m; rest != 0; rest &= rest - 1) {
            uint32_t l = (uint32_t)__builtin_ctz(rest);
            M *to = (void *)host[l];
            for (uint32_t k = 0; k < elements; k++)
                __atomic_store_n(&to[k], (M)((const R *)at(w, source(i, elements, k)))[l], __ATOMIC_SEQ_CST);
        });
}

#endif
