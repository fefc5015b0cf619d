/*
 * Operations over the lanes of a warp. Compiled once per instruction-set level. With a membermask they wait until its lanes are together;
 * without one they take the lanes that are there.
 */
#include <math.h>
#include <string.h>

#include "groups.h"
#include "../isa/level.h"
#include "split.h"

typedef const struct tsr_insn insn;
#define LANES TSR_WARP_LANES

static inline uint32_t *word(const struct tsr_warp *w, uint32_t reg)
{
    return (void *)(w->frame + reg);
}

static inline void put_predicate(struct tsr_warp *w, uint32_t reg, uint32_t m, uint32_t value)
{
    uint32_t *d = word(w, reg);
    *d = (*d & ~m) | (value & m);
}

/* The membermask in register d: false when the operation has to wait. */
static inline bool together(struct tsr_warp *w, insn *i, uint32_t m, insn **next)
{
    if (i->d == TSR_NO_REG || w->others == 0)
        return true;
    const uint32_t *mask = word(w, i->d);
    uint32_t members = 0;
    for (uint32_t l = 0; l < LANES; l++)
        members |= m >> l & 1 ? mask[l] : 0;
    return tsr_warp_converge(w, i, m, members, next);
}

/* The lanes of m with the membermask of its first lane: groups of one warp may execute an operation at once, each for itself. */
static inline uint32_t group_of(const struct tsr_warp *w, insn *i, uint32_t m)
{
    if (i->d == TSR_NO_REG)
        return m;
    const uint32_t *mask = word(w, i->d);
    uint32_t first = mask[__builtin_ctz(m)], same = 0;
    for (uint32_t l = 0; l < LANES; l++)
        same |= (mask[l] == first ? 1u : 0u) << l;
    return same & m;
}

/* The statement once for each group g of the lanes m. */
#define EACH_GROUP(...)                                                                                                        \
    for (uint32_t rest_ = m, g; rest_ != 0; rest_ &= ~g) {                                                                     \
        g = group_of(w, i, rest_);                                                                                             \
        __VA_ARGS__;                                                                                                           \
    }

#define TOGETHER()                                                                                                             \
    do {                                                                                                                       \
        insn *next_;                                                                                                           \
        if (!together(w, i, m, &next_))                                                                                        \
            return next_;                                                                                                      \
    } while (0)

enum mode { UP, DOWN, BFLY, IDX };

static inline __attribute__((always_inline)) insn *shfl(struct tsr_warp *w, insn *i, uint32_t m, enum mode mode)
{
    TOGETHER();
    uint32_t a[LANES], from[LANES], valid[LANES];
    const uint32_t *b = word(w, i->b), *c = word(w, i->c);
    memcpy(a, word(w, i->a), sizeof a);
    for (uint32_t l = 0; l < LANES; l++) {
        uint32_t by = b[l] & 31, clamp = c[l] & 31, segment = c[l] >> 8 & 31;
        uint32_t lowest = l & segment, limit = lowest | (clamp & ~segment), source;
        bool in;
        if (mode == UP) {
            source = l - by;
            in = (int32_t)source >= (int32_t)limit;
        } else if (mode == DOWN) {
            source = l + by;
            in = source <= limit;
        } else if (mode == BFLY) {
            source = l ^ by;
            in = source <= limit;
        } else {
            source = lowest | (by & ~segment);
            in = source <= limit;
        }
        from[l] = in ? source & 31 : l;
        valid[l] = in ? 1 : 0;
    }
    uint32_t *d = word(w, i->dst);
    if (m == UINT32_MAX)
        for (uint32_t l = 0; l < LANES; l++)
            d[l] = a[from[l]];
    else
        for (uint32_t l = 0; l < LANES; l++)
            d[l] = m >> l & 1 ? a[from[l]] : d[l];
    if (i->dst2 != TSR_NO_REG) {
        uint32_t p = 0;
        for (uint32_t l = 0; l < LANES; l++)
            p |= valid[l] << l;
        put_predicate(w, i->dst2, m, p);
    }
    return i + 1;
}

static insn *shfl_up(struct tsr_warp *w, insn *i, uint32_t m)
{
    return shfl(w, i, m, UP);
}
static insn *shfl_down(struct tsr_warp *w, insn *i, uint32_t m)
{
    return shfl(w, i, m, DOWN);
}
static insn *shfl_bfly(struct tsr_warp *w, insn *i, uint32_t m)
{
    return shfl(w, i, m, BFLY);
}
static insn *shfl_idx(struct tsr_warp *w, insn *i, uint32_t m)
{
    return shfl(w, i, m, IDX);
}

static inline insn *put_word(struct tsr_warp *w, insn *i, uint32_t m, uint32_t value)
{
    uint32_t *d = word(w, i->dst);
    for (uint32_t l = 0; l < LANES; l++)
        d[l] = m >> l & 1 ? value : d[l];
    return i + 1;
}

static inline uint32_t votes(const struct tsr_warp *w, insn *i, uint32_t m)
{
    uint32_t a = *word(w, i->a);
    return (i->flags & TSR_SOURCE_NOT ? ~a : a) & m;
}

static insn *vote_all(struct tsr_warp *w, insn *i, uint32_t m)
{
    TOGETHER();
    EACH_GROUP(put_predicate(w, i->dst, g, votes(w, i, g) == g ? g : 0))
    return i + 1;
}

static insn *vote_any(struct tsr_warp *w, insn *i, uint32_t m)
{
    TOGETHER();
    EACH_GROUP(put_predicate(w, i->dst, g, votes(w, i, g) != 0 ? g : 0))
    return i + 1;
}

static insn *vote_uni(struct tsr_warp *w, insn *i, uint32_t m)
{
    TOGETHER();
    EACH_GROUP(uint32_t for_it = votes(w, i, g); put_predicate(w, i->dst, g, for_it == 0 || for_it == g ? g : 0))
    return i + 1;
}

static insn *vote_ballot(struct tsr_warp *w, insn *i, uint32_t m)
{
    TOGETHER();
    EACH_GROUP(put_word(w, i, g, votes(w, i, g)))
    return i + 1;
}

static inline uint64_t value_at(const struct tsr_warp *w, insn *i, uint32_t l, bool wide)
{
    const unsigned char *a = w->frame + i->a;
    return wide ? ((const uint64_t *)(const void *)a)[l] : ((const uint32_t *)(const void *)a)[l];
}

static inline void match_any_in(struct tsr_warp *w, insn *i, uint32_t m, bool wide)
{
    uint32_t same[LANES];
    for (uint32_t rest = m; rest != 0;) {
        uint32_t first = (uint32_t)__builtin_ctz(rest), group = 0;
        uint64_t value = value_at(w, i, first, wide);
        for (uint32_t l = first; l < LANES; l++)
            group |= (rest >> l & 1 && value_at(w, i, l, wide) == value ? 1u : 0u) << l;
        for (uint32_t l = first; l < LANES; l++)
            if (group >> l & 1)
                same[l] = group;
        rest &= ~group;
    }
    uint32_t *d = word(w, i->dst);
    for (uint32_t l = 0; l < LANES; l++)
        if (m >> l & 1)
            d[l] = same[l];
}

static inline insn *match_any(struct tsr_warp *w, insn *i, uint32_t m, bool wide)
{
    TOGETHER();
    EACH_GROUP(match_any_in(w, i, g, wide))
    return i + 1;
}

static inline void match_all_in(struct tsr_warp *w, insn *i, uint32_t m, bool wide)
{
    uint64_t value = value_at(w, i, (uint32_t)__builtin_ctz(m), wide);
    bool all = true;
    for (uint32_t l = 0; l < LANES; l++)
        all &= !(m >> l & 1) || value_at(w, i, l, wide) == value;
    if (i->dst2 != TSR_NO_REG)
        put_predicate(w, i->dst2, m, all ? m : 0);
    if (i->dst != TSR_NO_REG)
        put_word(w, i, m, all ? m : 0);
}

static inline insn *match_all(struct tsr_warp *w, insn *i, uint32_t m, bool wide)
{
    TOGETHER();
    EACH_GROUP(match_all_in(w, i, g, wide))
    return i + 1;
}

static insn *match_any_b32(struct tsr_warp *w, insn *i, uint32_t m)
{
    return match_any(w, i, m, false);
}
static insn *match_any_b64(struct tsr_warp *w, insn *i, uint32_t m)
{
    return match_any(w, i, m, true);
}
static insn *match_all_b32(struct tsr_warp *w, insn *i, uint32_t m)
{
    return match_all(w, i, m, false);
}
static insn *match_all_b64(struct tsr_warp *w, insn *i, uint32_t m)
{
    return match_all(w, i, m, true);
}

#define REDUX_OPERATION(name)                                                                                                  \
    static insn *redux_##name(struct tsr_warp *w, insn *i, uint32_t m)                                                         \
    {                                                                                                                          \
        TOGETHER();                                                                                                            \
        EACH_GROUP(redux_in_##name(w, i, g))                                                                                   \
        return i + 1;                                                                                                          \
    }

#define REDUX(name, type, start, step)                                                                                         \
    static void redux_in_##name(struct tsr_warp *w, insn *i, uint32_t m)                                                       \
    {                                                                                                                          \
        type a[LANES], x = start;                                                                                              \
        memcpy(a, word(w, i->a), sizeof a);                                                                                    \
        for (uint32_t l = 0; l < LANES; l++)                                                                                   \
            if (m >> l & 1)                                                                                                    \
                x = step;                                                                                                      \
        uint32_t result;                                                                                                       \
        memcpy(&result, &x, sizeof result);                                                                                    \
        put_word(w, i, m, result);                                                                                             \
    }                                                                                                                          \
    REDUX_OPERATION(name)

/* As min.f32 and max.f32: a NaN loses, except with .NaN, where the result is the canonical one; -0 is below +0. */
static inline float least(float x, float y, bool absolute, bool keep_nan, bool greatest)
{
    if (absolute)
        y = fabsf(y);
    if (isnan(x) || isnan(y)) {
        uint32_t bits = 0x7fffffff;
        float canonical;
        memcpy(&canonical, &bits, sizeof canonical);
        return keep_nan || (isnan(x) && isnan(y)) ? canonical : isnan(x) ? y : x;
    }
    bool y_below = y < x || (y == x && signbit(y) && !signbit(x));
    bool y_above = y > x || (y == x && !signbit(y) && signbit(x));
    return (greatest ? y_above : y_below) ? y : x;
}

#define REDUX_F32(name, absolute, keep_nan, greatest)                                                                          \
    static void redux_in_##name(struct tsr_warp *w, insn *i, uint32_t m)                                                       \
    {                                                                                                                          \
        float a[LANES];                                                                                                        \
        memcpy(a, word(w, i->a), sizeof a);                                                                                    \
        uint32_t first = (uint32_t)__builtin_ctz(m), result;                                                                   \
        float x = least(a[first], a[first], absolute, keep_nan, greatest);                                                     \
        if (absolute)                                                                                                          \
            x = isnan(x) ? x : fabsf(x);                                                                                       \
        for (uint32_t l = first + 1; l < LANES; l++)                                                                           \
            if (m >> l & 1)                                                                                                    \
                x = least(x, a[l], absolute, keep_nan, greatest);                                                              \
        memcpy(&result, &x, sizeof result);                                                                                    \
        put_word(w, i, m, result);                                                                                             \
    }                                                                                                                          \
    REDUX_OPERATION(name)

REDUX(add, uint32_t, 0, x + a[l])
REDUX(min_u32, uint32_t, UINT32_MAX, a[l] < x ? a[l] : x)
REDUX(max_u32, uint32_t, 0, a[l] > x ? a[l] : x)
REDUX(min_s32, int32_t, INT32_MAX, a[l] < x ? a[l] : x)
REDUX(max_s32, int32_t, INT32_MIN, a[l] > x ? a[l] : x)
REDUX(and, uint32_t, UINT32_MAX, x &a[l])
REDUX(or, uint32_t, 0, x | a[l])
REDUX(xor, uint32_t, 0, x ^ a[l])
REDUX_F32(min_f32, false, false, false)
REDUX_F32(max_f32, false, false, true)
REDUX_F32(min_abs_f32, true, false, false)
REDUX_F32(max_abs_f32, true, false, true)
REDUX_F32(min_nan_f32, false, true, false)
REDUX_F32(max_nan_f32, false, true, true)
REDUX_F32(min_abs_nan_f32, true, true, false)
REDUX_F32(max_abs_nan_f32, true, true, true)

static insn *activemask(struct tsr_warp *w, insn *i, uint32_t m)
{
    return put_word(w, i, m, m);
}

static insn *elect(struct tsr_warp *w, insn *i, uint32_t m)
{
    TOGETHER();
    uint32_t leader = (uint32_t)__builtin_ctz(m);
    put_predicate(w, i->dst2, m, 1u << leader);
    return i->dst == TSR_NO_REG ? i + 1 : put_word(w, i, m, leader);
}

#define ROW(key, run) TSR_OP_ROW(key, run, TSR_C_COLLECTIVE)
static const struct tsr_op ops[] = {
    ROW("shfl.up", shfl_up),
    ROW("shfl.down", shfl_down),
    ROW("shfl.bfly", shfl_bfly),
    ROW("shfl.idx", shfl_idx),
    ROW("vote.all", vote_all),
    ROW("vote.any", vote_any),
    ROW("vote.uni", vote_uni),
    ROW("vote.ballot", vote_ballot),
    ROW("match.any.b32", match_any_b32),
    ROW("match.any.b64", match_any_b64),
    ROW("match.all.b32", match_all_b32),
    ROW("match.all.b64", match_all_b64),
    ROW("redux.add.u32", redux_add),
    ROW("redux.add.s32", redux_add),
    ROW("redux.min.u32", redux_min_u32),
    ROW("redux.max.u32", redux_max_u32),
    ROW("redux.min.s32", redux_min_s32),
    ROW("redux.max.s32", redux_max_s32),
    ROW("redux.and.b32", redux_and),
    ROW("redux.or.b32", redux_or),
    ROW("redux.xor.b32", redux_xor),
    ROW("redux.min.f32", redux_min_f32),
    ROW("redux.max.f32", redux_max_f32),
    ROW("redux.min.abs.f32", redux_min_abs_f32),
    ROW("redux.max.abs.f32", redux_max_abs_f32),
    ROW("redux.min.NaN.f32", redux_min_nan_f32),
    ROW("redux.max.NaN.f32", redux_max_nan_f32),
    ROW("redux.min.abs.NaN.f32", redux_min_abs_nan_f32),
    ROW("redux.max.abs.NaN.f32", redux_max_abs_nan_f32),
    ROW("activemask", activemask),
    ROW("elect", elect),
};
TSR_OP_GROUP(TSR_LEVELED(tsr_collective_ops), ops);
