/*
 * Atomics and reductions, lane by lane in ascending order. Global memory is shared with other workers, the host and other processes:
 * read-modify-write by compare and swap, sequentially consistent. A block's shared memory belongs to its worker alone, the
 * same code serves it.
 */
#include <math.h>
#include <string.h>

#include "groups.h"
#include "lines.h"
#include "narrow.h"
#include "split.h"
#include "state.h"

typedef const struct tsr_insn insn;
#define LANES TSR_WARP_LANES
#define INLINE static inline __attribute__((always_inline))
#if defined(__SANITIZE_THREAD__)
#define MOVES __attribute__((no_sanitize("thread"))) /* data races of the program that runs are its own */
#else
#define MOVES
#endif
/* Serves every space, and every number of elements: a call is little beside what it does. */
#define SHARED static __attribute__((noinline)) MOVES

enum action { ADD, MIN, MAX, AND, OR, XOR, EXCH, CAS, INC, DEC };

INLINE void addresses(const struct tsr_warp *w, insn *i, enum tsr_space_kind space, uint64_t out[LANES])
{
    const unsigned char *a = i->a == TSR_NO_REG ? NULL : w->frame + i->a;
    bool narrow = space == TSR_SPACE_SHARED && !(i->flags & TSR_MEM_ADDRESS64);
    for (uint32_t l = 0; l < LANES; l++) {
        uint64_t base = a == NULL ? 0
                        : narrow  ? ((const uint32_t *)(const void *)a)[l]
                                  : ((const uint64_t *)(const void *)a)[l];
        out[l] = space == TSR_SPACE_SHARED ? (uint32_t)(base + (uint64_t)i->imm) : base + (uint64_t)i->imm;
    }
}

static uint64_t digest(const uint64_t *address, uint32_t m)
{
    uint64_t sum = ~(uint64_t)m;
    for (uint32_t rest = m; rest != 0; rest &= rest - 1)
        sum = sum * 0x9e3779b97f4a7c15ull + address[__builtin_ctz(rest)];
    return sum;
}

/* Ends an atomic: one that has changed nothing was a look at memory. */
INLINE insn *done(struct tsr_warp *w, insn *i, uint32_t m, const uint64_t *address, bool changed, bool progressed_before,
                  bool looks)
{
    w->atomics += (uint32_t)__builtin_popcount(m);
    w->progressed = progressed_before || changed;
    return changed || !looks ? i + 1 : tsr_warp_poll(w, i, digest(address, m));
}

#define INTEGER(name, T, action_)                                                                                              \
    SHARED insn *name(struct tsr_warp *w, insn *i, uint32_t m, enum tsr_space_kind space)                                      \
    {                                                                                                                          \
        const enum action action = action_;                                                                                    \
        uint64_t address[LANES];                                                                                               \
        unsigned char *host[LANES];                                                                                            \
        bool before = w->progressed, changed = false;                                                                          \
        addresses(w, i, space, address);                                                                                       \
        if (!tsr_warp_addresses(w, i, m, space, address, sizeof(T), sizeof(T), TSR_ACCESS_MODE_ATOMIC, host))                  \
            return NULL;                                                                                                       \
        const T *b = (const void *)(w->frame + i->b), *c = action == CAS ? (const void *)(w->frame + i->c) : NULL;             \
        T got[LANES] = {0};                                                                                                    \
        for (uint32_t rest = m; rest != 0; rest &= rest - 1) {                                                                 \
            uint32_t l = (uint32_t)__builtin_ctz(rest);                                                                        \
            T *p = (void *)host[l], old, wanted;                                                                               \
            switch (action) {                                                                                                  \
            case ADD: old = __atomic_fetch_add(p, b[l], __ATOMIC_SEQ_CST); wanted = (T)(old + b[l]); break;                    \
            case AND: old = __atomic_fetch_and(p, b[l], __ATOMIC_SEQ_CST); wanted = (T)(old & b[l]); break;                    \
            case OR: old = __atomic_fetch_or(p, b[l], __ATOMIC_SEQ_CST); wanted = (T)(old | b[l]); break;                      \
            case XOR: old = __atomic_fetch_xor(p, b[l], __ATOMIC_SEQ_CST); wanted = (T)(old ^ b[l]); break;                    \
            case EXCH: old = __atomic_exchange_n(p, b[l], __ATOMIC_SEQ_CST); wanted = b[l]; break;                             \
            case CAS:                                                                                                          \
                old = b[l];                                                                                                    \
                wanted = __atomic_compare_exchange_n(p, &old, c[l], false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST) ? c[l] : old;   \
                break;                                                                                                         \
            default:                                                                                                           \
                old = __atomic_load_n(p, __ATOMIC_RELAXED);                                                                    \
                do {                                                                                                           \
                    wanted = action == MIN ? (old < b[l] ? old : b[l])                                                         \
                             : action == MAX ? (old > b[l] ? old : b[l])                                                       \
                             : action == INC ? (T)(old >= b[l] ? 0 : old + 1)                                                  \
                                             : (old == 0 || old > b[l] ? b[l] : (T)(old - 1));                                 \
                } while (!__atomic_compare_exchange_n(p, &old, wanted, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));            \
            }                                                                                                                  \
            changed |= old != wanted;                                                                                          \
            got[l] = old;                                                                                                      \
        }                                                                                                                      \
        if (i->dst != TSR_NO_REG) {                                                                                            \
            T *d = (void *)(w->frame + i->dst);                                                                                \
            for (uint32_t l = 0; l < LANES; l++)                                                                               \
                d[l] = m >> l & 1 ? got[l] : d[l];                                                                             \
        }                                                                                                                      \
        return done(w, i, m, address, changed, before, i->dst != TSR_NO_REG);                                                  \
    }

/* Values that are computed as another type: f32, f64 and the narrow ones, K to a vector. */
enum kind { F32, F32_FLUSHED, F64, F16, BF16, F16X2, BF16X2 };

/* In global memory subnormal numbers count as zero. The result NaN is the canonical one. */
INLINE uint32_t add_f32(uint32_t a, uint32_t b, bool flush)
{
    float x, y;
    if (flush) {
        a = (a & 0x7f800000u) == 0 ? a & 0x80000000u : a;
        b = (b & 0x7f800000u) == 0 ? b & 0x80000000u : b;
    }
    memcpy(&x, &a, sizeof x);
    memcpy(&y, &b, sizeof y);
    x += y;
    memcpy(&a, &x, sizeof a);
    if (flush && (a & 0x7f800000u) == 0)
        a &= 0x80000000u;
    return isnan(x) ? 0x7fffffffu : a;
}

INLINE uint16_t narrow_apply(uint16_t x, uint16_t y, enum kind kind, enum action action)
{
    bool brain = kind == BF16 || kind == BF16X2;
    if (action == ADD)
        return brain ? tsr_bf16_add(x, y) : tsr_f16_add(x, y);
    return brain ? tsr_bf16_extreme(x, y, action == MAX) : tsr_f16_extreme(x, y, action == MAX);
}

INLINE uint64_t float_apply(uint64_t old, uint64_t by, enum kind kind, enum action action)
{
    if (kind == F32 || kind == F32_FLUSHED)
        return add_f32((uint32_t)old, (uint32_t)by, kind == F32_FLUSHED);
    if (kind == F64) {
        double x, y;
        memcpy(&x, &old, 8);
        memcpy(&y, &by, 8);
        x += y;
        memcpy(&old, &x, 8);
        return old;
    }
    if (kind == F16 || kind == BF16)
        return narrow_apply((uint16_t)old, (uint16_t)by, kind, action);
    return narrow_apply((uint16_t)old, (uint16_t)by, kind, action) |
           (uint64_t)narrow_apply((uint16_t)(old >> 16), (uint16_t)(by >> 16), kind, action) << 16;
}

#define SWAP_LOOP(U)                                                                                                           \
    do {                                                                                                                       \
        U *p = (void *)at, expected = __atomic_load_n(p, __ATOMIC_RELAXED);                                                    \
        while (!__atomic_compare_exchange_n(p, &expected, (U)float_apply(expected, by, kind, action), false, __ATOMIC_SEQ_CST, \
                                            __ATOMIC_SEQ_CST))                                                                 \
            ;                                                                                                                  \
        return expected;                                                                                                       \
    } while (0)

INLINE MOVES uint64_t float_swap(unsigned char *at, uint64_t by, enum kind kind, enum action action, uint32_t bytes)
{
    if (bytes == 2)
        SWAP_LOOP(uint16_t);
    if (bytes == 4)
        SWAP_LOOP(uint32_t);
    SWAP_LOOP(uint64_t);
}

INLINE uint64_t read_lane(const struct tsr_warp *w, uint32_t reg, uint32_t l, uint32_t bytes)
{
    const unsigned char *r = w->frame + reg;
    return bytes == 2   ? ((const uint16_t *)(const void *)r)[l]
           : bytes == 4 ? ((const uint32_t *)(const void *)r)[l]
                        : ((const uint64_t *)(const void *)r)[l];
}

INLINE void write_lane(const struct tsr_warp *w, uint32_t reg, uint32_t l, uint32_t bytes, uint64_t value)
{
    unsigned char *r = w->frame + reg;
    if (bytes == 2)
        ((uint16_t *)(void *)r)[l] = (uint16_t)value;
    else if (bytes == 4)
        ((uint32_t *)(void *)r)[l] = (uint32_t)value;
    else
        ((uint64_t *)(void *)r)[l] = value;
}

INLINE MOVES insn *floating(struct tsr_warp *w, insn *i, uint32_t m, enum tsr_space_kind space, enum kind kind,
                            enum action action, uint32_t elements)
{
    uint32_t bytes = kind == F64 ? 8 : kind == F16 || kind == BF16 ? 2 : 4;
    uint64_t address[LANES];
    unsigned char *host[LANES];
    addresses(w, i, space, address);
    if (!tsr_warp_addresses(w, i, m, space, address, bytes * elements, bytes * elements, TSR_ACCESS_MODE_ATOMIC, host))
        return NULL;
    for (uint32_t rest = m; rest != 0; rest &= rest - 1) {
        uint32_t l = (uint32_t)__builtin_ctz(rest);
        uint64_t by[8];
        for (uint32_t k = 0; k < elements; k++) /* before any destination is written */
            by[k] = read_lane(w, elements == 1 ? i->b : i->list[elements + k], l, bytes);
        enum kind lane_kind = kind;
        if (kind == F32 && (space == TSR_SPACE_GLOBAL ||
                            (space == TSR_SPACE_GENERIC && address[l] - TSR_SHARED_WINDOW >= TSR_SHARED_WINDOW_BYTES)))
            lane_kind = F32_FLUSHED;
        for (uint32_t k = 0; k < elements; k++) {
            uint64_t old = float_swap(host[l] + k * bytes, by[k], lane_kind, action, bytes);
            uint32_t reg = elements == 1 ? i->dst : i->list[k];
            if (reg != TSR_NO_REG)
                write_lane(w, reg, l, bytes, old);
        }
    }
    w->atomics += (uint32_t)__builtin_popcount(m);
    return i + 1;
}

/* list: two destinations, the halves of b, for cas those of c. */
SHARED insn *wide(struct tsr_warp *w, insn *i, uint32_t m, enum tsr_space_kind space, bool compare)
{
    uint64_t address[LANES];
    unsigned char *host[LANES];
    bool before = w->progressed, changed = false;
    addresses(w, i, space, address);
    if (!tsr_warp_addresses(w, i, m, space, address, 16, 16, TSR_ACCESS_MODE_ATOMIC, host))
        return NULL;
    for (uint32_t rest = m; rest != 0; rest &= rest - 1) {
        uint32_t l = (uint32_t)__builtin_ctz(rest);
        unsigned __int128 *p = (void *)host[l], old, seen;
        unsigned __int128 b = read_lane(w, i->list[2], l, 8) | (unsigned __int128)read_lane(w, i->list[3], l, 8) << 64;
        if (compare) {
            unsigned __int128 c = read_lane(w, i->list[4], l, 8) | (unsigned __int128)read_lane(w, i->list[5], l, 8) << 64;
            old = __sync_val_compare_and_swap(p, b, c);
            changed |= old == b && b != c;
        } else {
            old = __sync_val_compare_and_swap(p, 0, 0);
            while ((seen = __sync_val_compare_and_swap(p, old, b)) != old)
                old = seen;
            changed |= old != b;
        }
        for (uint32_t half = 0; half < 2; half++)
            if (i->list[half] != TSR_NO_REG)
                write_lane(w, i->list[half], l, 8, (uint64_t)(old >> (64 * half)));
    }
    return done(w, i, m, address, changed, before, true);
}

INTEGER(add_u32, uint32_t, ADD)
INTEGER(add_u64, uint64_t, ADD)
INTEGER(min_u32, uint32_t, MIN)
INTEGER(min_s32, int32_t, MIN)
INTEGER(min_u64, uint64_t, MIN)
INTEGER(min_s64, int64_t, MIN)
INTEGER(max_u32, uint32_t, MAX)
INTEGER(max_s32, int32_t, MAX)
INTEGER(max_u64, uint64_t, MAX)
INTEGER(max_s64, int64_t, MAX)
INTEGER(and_b32, uint32_t, AND)
INTEGER(and_b64, uint64_t, AND)
INTEGER(or_b32, uint32_t, OR)
INTEGER(or_b64, uint64_t, OR)
INTEGER(xor_b32, uint32_t, XOR)
INTEGER(xor_b64, uint64_t, XOR)
INTEGER(exch_b32, uint32_t, EXCH)
INTEGER(exch_b64, uint64_t, EXCH)
INTEGER(cas_b16, uint16_t, CAS)
INTEGER(cas_b32, uint32_t, CAS)
INTEGER(cas_b64, uint64_t, CAS)
INTEGER(inc_u32, uint32_t, INC)
INTEGER(dec_u32, uint32_t, DEC)

#define INTEGERS(X, space, kind)                                                                                               \
    X(space, kind, add_u32, "add.u32") X(space, kind, add_u64, "add.u64") X(space, kind, min_u32, "min.u32")                   \
    X(space, kind, min_s32, "min.s32") X(space, kind, min_u64, "min.u64") X(space, kind, min_s64, "min.s64")                   \
    X(space, kind, max_u32, "max.u32") X(space, kind, max_s32, "max.s32") X(space, kind, max_u64, "max.u64")                   \
    X(space, kind, max_s64, "max.s64") X(space, kind, and_b32, "and.b32") X(space, kind, and_b64, "and.b64")                   \
    X(space, kind, or_b32, "or.b32") X(space, kind, or_b64, "or.b64") X(space, kind, xor_b32, "xor.b32")                       \
    X(space, kind, xor_b64, "xor.b64") X(space, kind, exch_b32, "exch.b32") X(space, kind, exch_b64, "exch.b64")               \
    X(space, kind, cas_b16, "cas.b16") X(space, kind, cas_b32, "cas.b32") X(space, kind, cas_b64, "cas.b64")                   \
    X(space, kind, inc_u32, "inc.u32") X(space, kind, dec_u32, "dec.u32")

#define FLOATING(name, kind, action)                                                                                           \
    SHARED insn *name(struct tsr_warp *w, insn *i, uint32_t m, enum tsr_space_kind space, uint32_t elements)                   \
    {                                                                                                                          \
        return floating(w, i, m, space, kind, action, elements);                                                               \
    }
#define FLOATING_NARROW(kind) FLOATING(kind##_ADD, kind, ADD) FLOATING(kind##_MIN, kind, MIN) FLOATING(kind##_MAX, kind, MAX)
FLOATING(F32_ADD, F32, ADD)
FLOATING(F64_ADD, F64, ADD)
FLOATING_NARROW(F16)
FLOATING_NARROW(BF16)
FLOATING_NARROW(F16X2)
FLOATING_NARROW(BF16X2)

/* X(space, space's kind, type kind, action, elements, name, key) */
#define NARROW(X, space, where, type, elements, prefix, low, name)                                                             \
    X(space, where, type, ADD, elements, add_##name, "add." prefix low)                                                        \
    X(space, where, type, MIN, elements, min_##name, "min." prefix low)                                                        \
    X(space, where, type, MAX, elements, max_##name, "max." prefix low)
#define FLOATS(X, space, where)                                                                                                \
    X(space, where, F32, ADD, 1, add_f32, "add.f32")                                                                           \
    X(space, where, F64, ADD, 1, add_f64, "add.f64")                                                                           \
    X(space, where, F32, ADD, 2, add_v2_f32, "add.v2.f32")                                                                     \
    X(space, where, F32, ADD, 4, add_v4_f32, "add.v4.f32")                                                                     \
    NARROW(X, space, where, F16, 1, "", "f16", f16)                                                                            \
    NARROW(X, space, where, BF16, 1, "", "bf16", bf16)                                                                         \
    NARROW(X, space, where, F16X2, 1, "", "f16x2", f16x2)                                                                      \
    NARROW(X, space, where, BF16X2, 1, "", "bf16x2", bf16x2)                                                                   \
    NARROW(X, space, where, F16, 2, "v2.", "f16", v2_f16)                                                                      \
    NARROW(X, space, where, F16, 4, "v4.", "f16", v4_f16)                                                                      \
    NARROW(X, space, where, F16, 8, "v8.", "f16", v8_f16)                                                                      \
    NARROW(X, space, where, BF16, 2, "v2.", "bf16", v2_bf16)                                                                   \
    NARROW(X, space, where, BF16, 4, "v4.", "bf16", v4_bf16)                                                                   \
    NARROW(X, space, where, BF16, 8, "v8.", "bf16", v8_bf16)                                                                   \
    NARROW(X, space, where, F16X2, 2, "v2.", "f16x2", v2_f16x2)                                                                \
    NARROW(X, space, where, F16X2, 4, "v4.", "f16x2", v4_f16x2)                                                                \
    NARROW(X, space, where, BF16X2, 2, "v2.", "bf16x2", v2_bf16x2)                                                             \
    NARROW(X, space, where, BF16X2, 4, "v4.", "bf16x2", v4_bf16x2)

#define DEFINE_INTEGER(space, where, name, key)                                                                                \
    static insn *space##_##name(struct tsr_warp *w, insn *i, uint32_t m) { return name(w, i, m, where); }
#define DEFINE_FLOAT(space, where, type, action, elements, name, key)                                                          \
    static insn *space##_##name(struct tsr_warp *w, insn *i, uint32_t m) { return type##_##action(w, i, m, where, elements); }
#define DEFINE_SPACE(space, where)                                                                                             \
    INTEGERS(DEFINE_INTEGER, space, where)                                                                                     \
    FLOATS(DEFINE_FLOAT, space, where)                                                                                         \
    static insn *space##_exch_b128(struct tsr_warp *w, insn *i, uint32_t m) { return wide(w, i, m, where, false); }            \
    static insn *space##_cas_b128(struct tsr_warp *w, insn *i, uint32_t m) { return wide(w, i, m, where, true); }

DEFINE_SPACE(global, TSR_SPACE_GLOBAL)
DEFINE_SPACE(shared, TSR_SPACE_SHARED)
DEFINE_SPACE(generic, TSR_SPACE_GENERIC)

#define INTEGER_ROW(space, where, name, key) TSR_OP_ROW("atom." #space "." key, space##_##name, TSR_C_ATOMIC),
#define FLOAT_ROW(space, where, type, action, elements, name, key) TSR_OP_ROW("atom." #space "." key, space##_##name, TSR_C_ATOMIC),
#define SPACE_ROWS(space)                                                                                                      \
    INTEGERS(INTEGER_ROW, space, ) FLOATS(FLOAT_ROW, space, )                                                                  \
    TSR_OP_ROW("atom." #space ".exch.b128", space##_exch_b128, TSR_C_ATOMIC),                                                  \
    TSR_OP_ROW("atom." #space ".cas.b128", space##_cas_b128, TSR_C_ATOMIC),

static const struct tsr_op ops[] = {SPACE_ROWS(global) SPACE_ROWS(shared) SPACE_ROWS(generic)};
TSR_OP_GROUP(tsr_atomic_ops, ops);
