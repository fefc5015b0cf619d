/*
 * Loads and stores. Compiled once per instruction-set level.
 *
 * The quick way serves a warp whose addresses all lie in one range, aligned: in each half warp they are consecutive or equal, or anything
 * else (gather, scatter). The first lane's address and the instruction's last range decide; every lane is tested at once. Whatever fails
 * the tests takes the careful way of access.c, which also raises the fault. Loads of a partial mask read the first active lane's address in
 * the other lanes and drop the result; stores go lane by lane in ascending order.
 */
#include <string.h>

#include "groups.h"
#include "../isa/level.h"
#include "lines.h"
#include "moves.h"
#include "state.h"

static uint64_t digest(const uint64_t *address, uint32_t m)
{
    uint64_t sum = m;
    for (uint32_t rest = m; rest != 0; rest &= rest - 1)
        sum = sum * 0x9e3779b97f4a7c15ull + address[__builtin_ctz(rest)];
    return sum;
}

#define APART static __attribute__((noinline)) /* one function for all operations: beside what it does a call is nothing */

/* Moves that every space does alike, a function each for a type and number of elements. */
struct moves {
    uint32_t bytes;
    bool write;
    /* The careful way; address holds sums with the displacement. */
    insn *(*careful)(struct tsr_warp *w, insn *i, uint32_t m, enum tsr_space_kind space, const uint64_t *address);
    insn *(*general32)(struct tsr_warp *w, insn *i, uint32_t m, unsigned char *base, const uint32_t *offset);
    insn *(*general64)(struct tsr_warp *w, insn *i, uint32_t m, uint64_t add, const uint64_t *address);
    /* For loads alone, the second for those of one element. */
    insn *(*equal)(struct tsr_warp *w, insn *i, uint32_t m, const unsigned char *low, const unsigned char *high);
    insn *(*twice)(struct tsr_warp *w, insn *i, const unsigned char *base, const uint32_t *offset);
};

APART insn *carefully32(struct tsr_warp *w, insn *i, uint32_t m, enum tsr_space_kind space, const uint32_t *a, uint32_t add,
                        const struct moves *moves)
{
    uint64_t address[32];
    for (uint32_t l = 0; l < 32; l++)
        address[l] = (uint32_t)(a[l] + add);
    return moves->careful(w, i, m, space, address);
}

APART insn *carefully64(struct tsr_warp *w, insn *i, uint32_t m, enum tsr_space_kind space, const uint64_t *a, uint64_t add,
                        const struct moves *moves)
{
    uint64_t address[32];
    for (uint32_t l = 0; l < 32; l++)
        address[l] = a[l] + add;
    return moves->careful(w, i, m, space, address);
}

INLINE insn *load_carefully(struct tsr_warp *w, insn *i, uint32_t m, enum tsr_space_kind space, const uint64_t *address,
                            struct type t, uint32_t elements)
{
    unsigned char *host[32];
    if (!tsr_warp_addresses(w, i, m, space, address, t.memory * elements, t.memory * elements, TSR_ACCESS_MODE_READ, host))
        return NULL;
    load_lanes(w, i, m, host, t, elements);
    return i->flags & TSR_MEM_STRONG ? tsr_warp_poll(w, i, digest(address, m)) : i + 1;
}

INLINE insn *store_carefully(struct tsr_warp *w, insn *i, uint32_t m, enum tsr_space_kind space, const uint64_t *address,
                             struct type t, uint32_t elements)
{
    unsigned char *host[32];
    if (!tsr_warp_addresses(w, i, m, space, address, t.memory * elements, t.memory * elements, TSR_ACCESS_MODE_WRITE, host))
        return NULL;
    store_lanes(w, i, m, host, t, elements);
    return i + 1;
}

INLINE void sum64(uint64_t *out, struct tsr_warp *w, insn *i)
{
    if (i->a == TSR_NO_REG) {
        for (uint32_t l = 0; l < 32; l++)
            out[l] = (uint64_t)i->imm;
        return;
    }
    const uint64_t *a = at(w, i->a);
    for (uint32_t l = 0; l < 32; l++)
        out[l] = a[l] + (uint64_t)i->imm;
}

/* Addresses of shared and local memory, without the displacement; buffer is used when the register does not hold them as they are. */
INLINE const uint32_t *offsets32(struct tsr_warp *w, insn *i, uint32_t m, uint32_t *buffer)
{
    if (__builtin_expect(i->a == TSR_NO_REG, 0)) {
        memset(buffer, 0, 32 * sizeof *buffer);
        return buffer;
    }
    const uint32_t *a = at(w, i->a);
    if (i->flags & TSR_MEM_ADDRESS64) {
        for (uint32_t l = 0; l < 32; l++)
            buffer[l] = (uint32_t)((const uint64_t *)at(w, i->a))[l];
        a = buffer;
    }
    if (m != UINT32_MAX) {
        tsr_fill32(buffer, a, m);
        a = buffer;
    }
    return a;
}

/* Cycles for words at a stride within each half warp; 0: not known so simply. */
INLINE uint32_t strided_cycles(const uint32_t *a, uint32_t step, uint32_t bytes)
{
    if (bytes > 4 || step == 0 || step % 4 != 0 || !tsr_ramp32(a, step) || !tsr_ramp32(a + 16, step))
        return 0;
    uint32_t words = step / 4, apart = a[16] - a[0];
    uint32_t common = words & (0u - words); /* with the number of banks */
    if (common > 32)
        common = 32;
    uint32_t half = common > 2 ? common / 2 : 1;
    if (apart == 0 || apart / 4 % common != 0)
        return half;
    return common > 1 ? 2 * half : apart == 16 * step ? 1 : 2;
}

/* Consecutive or equal addresses in both halves: how many cycles. */
INLINE uint32_t halves_cycles(uint32_t low, uint32_t high, enum shape shape, uint32_t bytes)
{
    uint32_t apart = high - low;
    if (shape == EQUAL)
        return low / 4 != high / 4 && (apart & 127) < 4 ? 2 : bytes > 16 ? 2 : 1;
    uint32_t half = 16 * bytes, least = half > 64 ? half / 64 : 1;
    if (apart == 0)
        return least > 1 ? least / 2 + least % 2 : 1;
    if (half < 128)
        return apart % 128 == half || apart <= half || 0u - apart <= half ? (half + 63) / 64 : 2;
    return half / 64;
}

/* What programs use most has its tests next to it; for the rest of the types one function tests. */
INLINE bool often(struct type t, uint32_t elements)
{
    return !t.sign && (elements == 1 || (t.memory >= 4 && t.memory * elements <= 16));
}

/* Counts what the access costs, unless the addresses have to be looked at carefully. */
INLINE enum shape reach_shared(struct tsr_warp *w, insn *i, uint32_t m, const uint32_t *a, uint32_t add, bool write,
                               uint32_t bytes)
{
    uint32_t step = a[1] - a[0];
    uint32_t room = w->shared_bytes >= bytes ? w->shared_bytes - bytes + 1 : 0;
    if (write)
        w->progressed = true;
    tsr_latency_add(w, TSR_SHARED_LATENCY_CYCLES);
    if (__builtin_expect(i->flags & TSR_MEM_STRONG, 0))
        return CAREFUL;
    enum shape shape = GENERAL;
    if (step == bytes && tsr_ramp32(a, bytes) && tsr_ramp32(a + 16, bytes))
        shape = CONSECUTIVE;
    else if (step == 0 && tsr_ramp32(a, 0) && tsr_ramp32(a + 16, 0))
        shape = EQUAL;
    if (shape != GENERAL && (m == UINT32_MAX || (shape == EQUAL && !write))) {
        uint32_t low = a[0] + add, high = a[16] + add, reach = shape == EQUAL ? 0 : 15 * bytes;
        if (low < room && high < room && low + reach < room && high + reach < room && ((low | high) & (bytes - 1)) == 0) {
            w->shared_cycles += halves_cycles(low, high, shape, bytes);
            return shape;
        }
        return CAREFUL;
    }
    return tsr_inside32(a, add, room, bytes - 1) ? GENERAL : CAREFUL;
}

APART insn *general_shared(struct tsr_warp *w, insn *i, uint32_t m, const uint32_t *a, uint32_t add, const struct moves *moves)
{
    uint32_t cycles = strided_cycles(a, a[1] - a[0], moves->bytes);
    uint32_t sums[32] __attribute__((aligned(64)));
    for (uint32_t l = 0; l < 32; l++)
        sums[l] = a[l] + add;
    w->shared_cycles += cycles != 0 ? cycles : tsr_bank_cycles(sums, m, moves->bytes);
    if (moves->twice != NULL && cycles != 0 && m == UINT32_MAX && a[0] == a[16])
        return moves->twice(w, i, w->shared, sums);
    return moves->general32(w, i, m, w->shared, sums);
}

APART enum shape reach_shared_any(struct tsr_warp *w, insn *i, uint32_t m, const uint32_t *a, uint32_t add, bool write,
                                  uint32_t bytes)
{
    return reach_shared(w, i, m, a, add, write, bytes);
}

INLINE insn *access_shared(struct tsr_warp *w, insn *i, uint32_t m, const uint32_t *a, uint32_t add, bool write, struct type t,
                           uint32_t elements, const struct moves *moves)
{
    uint32_t bytes = t.memory * elements;
    enum shape shape =
        often(t, elements) ? reach_shared(w, i, m, a, add, write, bytes) : reach_shared_any(w, i, m, a, add, write, bytes);
    if (shape == CONSECUTIVE) {
        unsigned char *low = w->shared + (a[0] + add), *high = w->shared + (a[16] + add);
        if (write)
            store_consecutive(w, i, low, high, t, elements);
        else
            load_consecutive(w, i, low, high, t, elements);
        return i + 1;
    }
    if (shape == EQUAL)
        return write ? moves->general32(w, i, 0x80008000u, w->shared + add, a)
                     : moves->equal(w, i, m, w->shared + (a[0] + add), w->shared + (a[16] + add));
    return shape == GENERAL ? general_shared(w, i, m, a, add, moves) : carefully32(w, i, m, TSR_SPACE_SHARED, a, add, moves);
}

APART insn *access_local(struct tsr_warp *w, insn *i, uint32_t m, const uint32_t *a, uint32_t add, const struct moves *moves)
{
    uint32_t room = w->local_stride >= moves->bytes ? w->local_stride - moves->bytes + 1 : 0;
    if (moves->write)
        w->progressed = true;
    if (__builtin_expect(tsr_inside32(a, add, room, moves->bytes - 1), 1)) {
        uint32_t sums[32];
        for (uint32_t l = 0; l < 32; l++)
            sums[l] = a[l] + add + l * w->local_stride;
        return moves->general32(w, i, m, w->local, sums);
    }
    return carefully32(w, i, m, TSR_SPACE_LOCAL, a, add, moves);
}

APART void count_global(struct tsr_warp *w, const struct tsr_range_entry *entry, const uint64_t *a, uint64_t add, uint32_t m,
                        uint32_t bytes, bool write)
{
    uint64_t line = UINT64_MAX, sector = UINT64_MAX;
    uint32_t sectors = 0;
    uint64_t origin = add - entry->base;
    for (uint32_t l = 0; l < 32; l++) {
        uint64_t offset = a[l] + origin;
        if (!(m >> l & 1))
            continue;
        if (offset >> TSR_LINE_SHIFT != line) {
            line = offset >> TSR_LINE_SHIFT;
            if (entry->lines != NULL)
                tsr_line_touch(w->worker, entry, line, write);
        }
        if ((a[l] + add) >> TSR_SECTOR_SHIFT != sector) {
            sector = (a[l] + add) >> TSR_SECTOR_SHIFT;
            sectors++;
        }
    }
    if (sectors > 8) { /* perhaps the same ones again, in another order */
        uint64_t sums[32];
        for (uint32_t l = 0; l < 32; l++)
            sums[l] = a[l] + add;
        sectors = tsr_sectors_count(sums, m, bytes);
    }
    w->l2_sectors += sectors;
    tsr_latency_add(w, TSR_GLOBAL_LATENCY_CYCLES);
}

APART void trace_global(struct tsr_warp *w, const uint64_t *a, uint64_t add, uint32_t m, uint32_t bytes, bool write)
{
    for (uint32_t rest = m; rest != 0; rest &= rest - 1)
        tsr_trace_add(w->worker->grid, write ? TSR_ACCESS_MODE_WRITE : TSR_ACCESS_MODE_READ, a[__builtin_ctz(rest)] + add,
                      bytes);
}

/* Lanes not in m hold the first active lane's address. */
INLINE enum shape reach_global(struct tsr_warp *w, insn *i, uint32_t m, const uint64_t *a, uint64_t add, bool write,
                               uint32_t bytes)
{
    struct tsr_worker *worker = w->worker;
    uint64_t first = a[0] + add;
    const struct tsr_range_entry *entry = &(write ? worker->writes : worker->reads)[tsr_range_slot(i)];
    if (__builtin_expect(entry->bytes < bytes || first - entry->base > entry->bytes - bytes, 0))
        entry = tsr_range_entry_find(w, i, first, bytes, write);
    if (__builtin_expect(entry == NULL || i->flags & TSR_MEM_STRONG, 0))
        return CAREFUL;
    uint64_t room = entry->bytes - bytes + 1, step = a[1] - a[0];
    if (write)
        w->progressed = true;
    enum shape shape = GENERAL;
    if (step == bytes && tsr_ramp64(a, bytes) && tsr_ramp64(a + 16, bytes))
        shape = CONSECUTIVE;
    else if (step == 0 && tsr_ramp64(a, 0) && tsr_ramp64(a + 16, 0))
        shape = EQUAL;
    if (shape != GENERAL && (m == UINT32_MAX || (shape == EQUAL && !write))) {
        uint64_t second = a[16] + add, reach = shape == EQUAL ? 0 : 15 * bytes;
        uint64_t low = first - entry->base, high = second - entry->base;
        if (!(low < room && high < room && low + reach < room && high + reach < room && ((first | second) & (bytes - 1)) == 0))
            return CAREFUL;
        uint64_t span = reach + bytes;
        if (__builtin_expect(worker->traced, 0))
            trace_global(w, a, add, m, bytes, write);
        if (second - first == span && shape == CONSECUTIVE) {
            tsr_lines_touch(worker, entry, low, 2 * span, write);
            w->l2_sectors += tsr_sectors_between(first, 2 * span);
        } else {
            tsr_lines_touch(worker, entry, low, span, write);
            w->l2_sectors += tsr_sectors_between(first, span);
            if (second != first) {
                tsr_lines_touch(worker, entry, high, span, write);
                w->l2_sectors += tsr_sectors_between(second, span);
            }
        }
        tsr_latency_add(w, TSR_GLOBAL_LATENCY_CYCLES);
        return shape;
    }
    if (!tsr_inside64(a, entry->base - add, room, add, bytes - 1))
        return CAREFUL;
    if (__builtin_expect(worker->traced, 0))
        trace_global(w, a, add, m, bytes, write);
    count_global(w, entry, a, add, m, bytes, write);
    return GENERAL;
}

APART enum shape reach_global_any(struct tsr_warp *w, insn *i, uint32_t m, const uint64_t *a, uint64_t add, bool write,
                                  uint32_t bytes)
{
    return reach_global(w, i, m, a, add, write, bytes);
}

INLINE insn *access_global(struct tsr_warp *w, insn *i, uint32_t m, const uint64_t *a, uint64_t add, bool write, struct type t,
                           uint32_t elements, const struct moves *moves)
{
    uint32_t bytes = t.memory * elements;
    enum shape shape =
        often(t, elements) ? reach_global(w, i, m, a, add, write, bytes) : reach_global_any(w, i, m, a, add, write, bytes);
    if (shape == GENERAL)
        return moves->general64(w, i, m, add, a);
    if (shape != CAREFUL) {
        unsigned char *x = (unsigned char *)(uintptr_t)(a[0] + add), *y = (unsigned char *)(uintptr_t)(a[16] + add);
        if (shape == EQUAL)
            return write ? moves->general64(w, i, 0x80008000u, add, a) : moves->equal(w, i, m, x, y);
        if (write)
            store_consecutive(w, i, x, y, t, elements);
        else
            load_consecutive(w, i, x, y, t, elements);
        return i + 1;
    }
    return carefully64(w, i, m, TSR_SPACE_GLOBAL, a, add, moves);
}

INLINE const uint64_t *addresses64(struct tsr_warp *w, insn *i, uint32_t m, uint64_t *buffer)
{
    if (__builtin_expect(i->a == TSR_NO_REG, 0)) {
        memset(buffer, 0, 32 * sizeof *buffer);
        return buffer;
    }
    if (m == UINT32_MAX)
        return at(w, i->a);
    tsr_fill64(buffer, at(w, i->a), m);
    return buffer;
}

INLINE insn *global_op(struct tsr_warp *w, insn *i, uint32_t m, bool write, struct type t, uint32_t elements,
                       const struct moves *moves)
{
    uint64_t buffer[32] __attribute__((aligned(64)));
    return access_global(w, i, m, addresses64(w, i, m, buffer), (uint64_t)i->imm, write, t, elements, moves);
}

INLINE insn *shared_op(struct tsr_warp *w, insn *i, uint32_t m, bool write, struct type t, uint32_t elements,
                       const struct moves *moves)
{
    uint32_t buffer[32] __attribute__((aligned(64)));
    return access_shared(w, i, m, offsets32(w, i, m, buffer), (uint32_t)i->imm, write, t, elements, moves);
}

INLINE insn *local_op(struct tsr_warp *w, insn *i, uint32_t m, bool write, struct type t, uint32_t elements,
                      const struct moves *moves)
{
    (void)write, (void)t, (void)elements;
    uint32_t buffer[32] __attribute__((aligned(64)));
    return access_local(w, i, m, offsets32(w, i, m, buffer), (uint32_t)i->imm, moves);
}

/* Parameters of the kernel: the address is an offset in the block of them. */
INLINE insn *param_op(struct tsr_warp *w, insn *i, uint32_t m, bool write, struct type t, uint32_t elements,
                      const struct moves *moves)
{
    (void)write;
    uint32_t bytes = t.memory * elements;
    const struct tsr_grid *grid = w->block->team->grid;
    if (__builtin_expect(
            i->a == TSR_NO_REG && (uint64_t)i->imm + bytes <= grid->params_bytes && ((uint64_t)i->imm & (bytes - 1)) == 0, 1)) {
        const unsigned char *from = grid->params + i->imm;
        return moves->equal(w, i, m, from, from);
    }
    uint64_t address[32];
    sum64(address, w, i);
    for (uint32_t l = 0; l < 32; l++)
        address[l] += TSR_PARAM_WINDOW;
    return moves->careful(w, i, m, TSR_SPACE_GENERIC, address);
}

/* Lanes that all point to the block's shared memory or all to local memory at once, though without looking for shapes. */
APART insn *access_window(struct tsr_warp *w, insn *i, uint32_t m, const uint64_t *a, uint64_t window,
                          const struct moves *moves)
{
    bool shared = window == TSR_SHARED_WINDOW;
    if ((shared || window == TSR_LOCAL_WINDOW) && !(i->flags & TSR_MEM_STRONG)) {
        uint32_t bytes = moves->bytes, all = shared ? w->shared_bytes : w->local_stride;
        uint32_t offset[32] __attribute__((aligned(64)));
        uint64_t outside = 0;
        for (uint32_t l = 0; l < 32; l++) {
            uint64_t x = a[l] + (uint64_t)i->imm - window;
            outside |= x >> TSR_SHARED_RANK_SHIFT;
            offset[l] = (uint32_t)x;
        }
        if (outside == 0 && tsr_inside32(offset, 0, all >= bytes ? all - bytes + 1 : 0, bytes - 1)) {
            if (shared) {
                w->shared_cycles += tsr_bank_cycles(offset, m, bytes);
                tsr_latency_add(w, TSR_SHARED_LATENCY_CYCLES);
            } else {
                for (uint32_t l = 0; l < 32; l++)
                    offset[l] += l * w->local_stride;
            }
            if (moves->write)
                w->progressed = true;
            return moves->general32(w, i, m, shared ? w->shared : w->local, offset);
        }
    }
    return carefully64(w, i, m, TSR_SPACE_GENERIC, a, (uint64_t)i->imm, moves);
}

/* Generic addresses: those of global memory are served as such (`global` is the operation for it). */
INLINE insn *generic_op(struct tsr_warp *w, insn *i, uint32_t m, const struct moves *moves, tsr_op_fn *global)
{
    uint64_t buffer[32] __attribute__((aligned(64)));
    const uint64_t *a = addresses64(w, i, m, buffer);
    uint64_t first = a[0] + (uint64_t)i->imm, window = first & ~(uint64_t)(TSR_WINDOW_BYTES - 1), windows = 0;
    if (window != TSR_SHARED_WINDOW && window != TSR_LOCAL_WINDOW) {
        for (uint32_t l = 0; l < 32; l++)
            windows |= a[l] + (uint64_t)i->imm - TSR_SHARED_WINDOW < TSR_CODE_WINDOW - TSR_SHARED_WINDOW ? 1u : 0u;
        if (windows == 0)
            return global(w, i, m);
    }
    return access_window(w, i, m, a, window, moves);
}

/* Parameters of a function: lane l's bytes at frame + a + l * stride. */
INLINE MOVES insn *area_load(struct tsr_warp *w, insn *i, uint32_t m, struct type t, uint32_t elements)
{
    const unsigned char *base = w->frame + i->a + i->imm;
    uint32_t stride = i->b;
    LOAD_INTO(t, elements, ((const M *)(const void *)(base + l * stride))[k]);
    return i + 1;
}

INLINE MOVES insn *area_store(struct tsr_warp *w, insn *i, uint32_t m, struct type t, uint32_t elements)
{
    unsigned char *base = w->frame + i->a + i->imm;
    FOR_TYPE(
        t, M, R, for (uint32_t rest = m; rest != 0; rest &= rest - 1) {
            uint32_t l = (uint32_t)__builtin_ctz(rest);
            M *to = (void *)(base + l * i->dst2);
            for (uint32_t k = 0; k < elements; k++)
                to[k] = (M)((const R *)at(w, source(i, elements, k)))[l];
        });
    return i + 1;
}

#define B8 ((struct type){1, 2, false})
#define S8 ((struct type){1, 2, true})
#define B16 ((struct type){2, 2, false})
#define B32 ((struct type){4, 4, false})
#define B64 ((struct type){8, 8, false})
enum { BYTES_B8 = 1, BYTES_S8 = 1, BYTES_B16 = 2, BYTES_B32 = 4, BYTES_B64 = 8 }; /* the same, for initialisers */

#define STORED(X, space, body)                                                                                                 \
    X(space, b8, "b8", B8, 1, body)                                                                                            \
    X(space, b16, "b16", B16, 1, body)                                                                                         \
    X(space, b32, "b32", B32, 1, body)                                                                                         \
    X(space, b64, "b64", B64, 1, body)                                                                                         \
    X(space, v2_b8, "v2.b8", B8, 2, body)                                                                                      \
    X(space, v2_b16, "v2.b16", B16, 2, body)                                                                                   \
    X(space, v2_b32, "v2.b32", B32, 2, body)                                                                                   \
    X(space, v2_b64, "v2.b64", B64, 2, body)                                                                                   \
    X(space, v4_b8, "v4.b8", B8, 4, body)                                                                                      \
    X(space, v4_b16, "v4.b16", B16, 4, body)                                                                                   \
    X(space, v4_b32, "v4.b32", B32, 4, body)
#define WIDE(X, space, body)                                                                                                   \
    X(space, v4_b64, "v4.b64", B64, 4, body)                                                                                   \
    X(space, v8_b16, "v8.b16", B16, 8, body)                                                                                   \
    X(space, v8_b32, "v8.b32", B32, 8, body)
#define SIGNED(X, space, body)                                                                                                 \
    X(space, s8, "s8", S8, 1, body)                                                                                            \
    X(space, v2_s8, "v2.s8", S8, 2, body)                                                                                      \
    X(space, v4_s8, "v4.s8", S8, 4, body)

#define LOADS(X)                                                                                                               \
    STORED(X, global, global_op)                                                                                               \
    WIDE(X, global, global_op)                                                                                                 \
    SIGNED(X, global, global_op)                                                                                               \
    STORED(X, shared, shared_op)                                                                                               \
    SIGNED(X, shared, shared_op)                                                                                               \
    STORED(X, local, local_op)                                                                                                 \
    SIGNED(X, local, local_op)                                                                                                 \
    STORED(X, param, param_op)                                                                                                 \
    SIGNED(X, param, param_op)
#define STORES(X)                                                                                                              \
    STORED(X, global, global_op)                                                                                               \
    WIDE(X, global, global_op)                                                                                                 \
    STORED(X, shared, shared_op)                                                                                               \
    STORED(X, local, local_op)
#define GENERIC_LOADS(X) STORED(X, generic, generic_op) WIDE(X, generic, generic_op) SIGNED(X, generic, generic_op)
#define GENERIC_STORES(X) STORED(X, generic, generic_op) WIDE(X, generic, generic_op)
#define AREA_LOADS(X) STORED(X, , ) SIGNED(X, , )
#define AREA_STORES(X) STORED(X, , )

#define DEFINE(name, ...)                                                                                                      \
    static insn *name(struct tsr_warp *w, insn *i, uint32_t m) { return __VA_ARGS__; }
#define DEFINE_LOAD(space, suffix, key, type, elements, body) DEFINE(ld_##space##_##suffix, body(w, i, m, false, type, elements, &load_##suffix))
#define DEFINE_STORE(space, suffix, key, type, elements, body) DEFINE(st_##space##_##suffix, body(w, i, m, true, type, elements, &store_##suffix))
#define DEFINE_AREA_LOAD(space, suffix, key, type, elements, body) DEFINE(ldp_##suffix, area_load(w, i, m, type, elements))
#define DEFINE_AREA_STORE(space, suffix, key, type, elements, body) DEFINE(stp_##suffix, area_store(w, i, m, type, elements))

#define MOVE(name, ...) APART insn *name(struct tsr_warp *w, insn *i, uint32_t m, __VA_ARGS__)
#define DEFINE_LOAD_MOVES(space, suffix, key, type, elements, body)                                                            \
    MOVE(careful_load_##suffix, enum tsr_space_kind where, const uint64_t *address)                                            \
    {                                                                                                                          \
        return load_carefully(w, i, m, where, address, type, elements);                                                        \
    }                                                                                                                          \
    MOVE(general32_load_##suffix, unsigned char *base, const uint32_t *offset)                                                 \
    {                                                                                                                          \
        load_general32(w, i, m, base, offset, type, elements);                                                                 \
        return i + 1;                                                                                                          \
    }                                                                                                                          \
    MOVE(general64_load_##suffix, uint64_t add, const uint64_t *address)                                                       \
    {                                                                                                                          \
        load_general64(w, i, m, add, address, type, elements);                                                                 \
        return i + 1;                                                                                                          \
    }                                                                                                                          \
    MOVE(equal_load_##suffix, const unsigned char *low, const unsigned char *high)                                             \
    {                                                                                                                          \
        load_equal(w, i, m, low, high, type, elements);                                                                        \
        return i + 1;                                                                                                          \
    }                                                                                                                          \
    APART insn *twice_load_##suffix(struct tsr_warp *w, insn *i, const unsigned char *base, const uint32_t *offset)            \
    {                                                                                                                          \
        load_twice(w, i, base, offset, type);                                                                                  \
        return i + 1;                                                                                                          \
    }                                                                                                                          \
    static const struct moves load_##suffix = {                                                                                \
        .bytes = BYTES_##type * elements,                                                                                      \
        .careful = careful_load_##suffix,                                                                                      \
        .general32 = general32_load_##suffix,                                                                                  \
        .general64 = general64_load_##suffix,                                                                                  \
        .equal = equal_load_##suffix,                                                                                          \
        .twice = elements == 1 ? twice_load_##suffix : NULL,                                                                   \
    };
#define DEFINE_STORE_MOVES(space, suffix, key, type, elements, body)                                                           \
    MOVE(careful_store_##suffix, enum tsr_space_kind where, const uint64_t *address)                                           \
    {                                                                                                                          \
        return store_carefully(w, i, m, where, address, type, elements);                                                       \
    }                                                                                                                          \
    MOVE(general32_store_##suffix, unsigned char *base, const uint32_t *offset)                                                \
    {                                                                                                                          \
        store_general32(w, i, m, base, offset, type, elements);                                                                \
        return i + 1;                                                                                                          \
    }                                                                                                                          \
    MOVE(general64_store_##suffix, uint64_t add, const uint64_t *address)                                                      \
    {                                                                                                                          \
        store_general64(w, i, m, add, address, type, elements);                                                                \
        return i + 1;                                                                                                          \
    }                                                                                                                          \
    static const struct moves store_##suffix = {                                                                               \
        .bytes = BYTES_##type * elements,                                                                                      \
        .write = true,                                                                                                         \
        .careful = careful_store_##suffix,                                                                                     \
        .general32 = general32_store_##suffix,                                                                                 \
        .general64 = general64_store_##suffix,                                                                                 \
    };

STORED(DEFINE_LOAD_MOVES, , )
WIDE(DEFINE_LOAD_MOVES, , )
SIGNED(DEFINE_LOAD_MOVES, , )
STORED(DEFINE_STORE_MOVES, , )
WIDE(DEFINE_STORE_MOVES, , )
LOADS(DEFINE_LOAD)
STORES(DEFINE_STORE)
#define DEFINE_GENERIC_LOAD(space, suffix, key, type, elements, body)                                                          \
    DEFINE(ld_##space##_##suffix, body(w, i, m, &load_##suffix, ld_global_##suffix))
#define DEFINE_GENERIC_STORE(space, suffix, key, type, elements, body)                                                         \
    DEFINE(st_##space##_##suffix, body(w, i, m, &store_##suffix, st_global_##suffix))
GENERIC_LOADS(DEFINE_GENERIC_LOAD)
GENERIC_STORES(DEFINE_GENERIC_STORE)
AREA_LOADS(DEFINE_AREA_LOAD)
AREA_STORES(DEFINE_AREA_STORE)

enum {
    CLASS_global = TSR_C_MEMORY,
    CLASS_generic = TSR_C_MEMORY,
    CLASS_local = TSR_C_MEMORY,
    CLASS_shared = TSR_C_SHARED,
    CLASS_param = TSR_C_MOVE
};
#define LOAD_ROW(space, suffix, text, type, elements, body) {.key = "ld." #space "." text, .run = ld_##space##_##suffix, .op_class = CLASS_##space, .work = 1},
#define STORE_ROW(space, suffix, text, type, elements, body) {.key = "st." #space "." text, .run = st_##space##_##suffix, .op_class = CLASS_##space, .work = 1},
#define AREA_LOAD_ROW(space, suffix, text, type, elements, body) {.key = "ldp." text, .run = ldp_##suffix, .op_class = TSR_C_MOVE, .work = 1},
#define AREA_STORE_ROW(space, suffix, text, type, elements, body) {.key = "stp." text, .run = stp_##suffix, .op_class = TSR_C_MOVE, .work = 1},

static const struct tsr_op ops[] = {LOADS(LOAD_ROW) GENERIC_LOADS(LOAD_ROW) STORES(STORE_ROW) GENERIC_STORES(STORE_ROW)
                                        AREA_LOADS(AREA_LOAD_ROW) AREA_STORES(AREA_STORE_ROW)};
const struct tsr_op_group TSR_LEVELED(tsr_memory_ops) = {ops, sizeof ops / sizeof *ops};
