/*
 * Generic addresses and their windows, and addresses in other blocks of a cluster.
 */
#include "groups.h"
#include "state.h"

typedef const struct tsr_insn insn;

#define EACH_LANE(m, l) for (uint32_t rest_ = (m), l; rest_ != 0 && (l = (uint32_t)__builtin_ctz(rest_), true); rest_ &= rest_ - 1)

static uint64_t *wide(const struct tsr_warp *w, uint32_t reg)
{
    return (void *)(w->frame + reg);
}
static uint32_t *word(const struct tsr_warp *w, uint32_t reg)
{
    return (void *)(w->frame + reg);
}

static insn *add(struct tsr_warp *w, insn *i, uint32_t m, uint64_t base)
{
    uint64_t *d = wide(w, i->dst);
    const uint64_t *a = wide(w, i->a);
    EACH_LANE(m, l)
    d[l] = a[l] + base;
    return i + 1;
}

static insn *cvta_shared(struct tsr_warp *w, insn *i, uint32_t m)
{
    return add(w, i, m, TSR_SHARED_WINDOW);
}
static insn *cvta_local(struct tsr_warp *w, insn *i, uint32_t m)
{
    return add(w, i, m, TSR_LOCAL_WINDOW);
}
static insn *cvta_param(struct tsr_warp *w, insn *i, uint32_t m)
{
    return add(w, i, m, TSR_PARAM_WINDOW);
}
static insn *cvta_to_shared(struct tsr_warp *w, insn *i, uint32_t m)
{
    return add(w, i, m, 0 - TSR_SHARED_WINDOW);
}
static insn *cvta_to_local(struct tsr_warp *w, insn *i, uint32_t m)
{
    return add(w, i, m, 0 - TSR_LOCAL_WINDOW);
}
static insn *cvta_to_param(struct tsr_warp *w, insn *i, uint32_t m)
{
    return add(w, i, m, 0 - TSR_PARAM_WINDOW);
}

static insn *isspacep(struct tsr_warp *w, insn *i, uint32_t m, uint64_t base, uint64_t bytes, bool inside)
{
    const uint64_t *a = wide(w, i->a);
    uint32_t holds = 0;
    EACH_LANE(m, l)
    holds |= (a[l] - base < bytes ? 1u : 0u) << l;
    if (!inside)
        holds = ~holds;
    uint32_t *d = word(w, i->dst);
    *d = (*d & ~m) | (holds & m);
    return i + 1;
}

static insn *is_shared(struct tsr_warp *w, insn *i, uint32_t m)
{
    return isspacep(w, i, m, TSR_SHARED_WINDOW, 1u << TSR_SHARED_RANK_SHIFT, true);
}
static insn *is_cluster(struct tsr_warp *w, insn *i, uint32_t m)
{
    return isspacep(w, i, m, TSR_SHARED_WINDOW, TSR_SHARED_WINDOW_BYTES, true);
}
static insn *is_local(struct tsr_warp *w, insn *i, uint32_t m)
{
    return isspacep(w, i, m, TSR_LOCAL_WINDOW, TSR_WINDOW_BYTES, true);
}
static insn *is_param(struct tsr_warp *w, insn *i, uint32_t m)
{
    return isspacep(w, i, m, TSR_PARAM_WINDOW, TSR_WINDOW_BYTES, true);
}
static insn *is_global(struct tsr_warp *w, insn *i, uint32_t m)
{
    return isspacep(w, i, m, TSR_SHARED_WINDOW, TSR_CODE_WINDOW - TSR_SHARED_WINDOW, false);
}

static insn *is_const(struct tsr_warp *w, insn *i, uint32_t m)
{
    const struct tsr_ptx_code *code = w->block->team->grid->code;
    const uint64_t *a = wide(w, i->a);
    uint32_t holds = 0;
    EACH_LANE(m, l)
    for (uint32_t v = 0; v < code->variable_count; v++)
        if (code->variables[v].space == TSR_SPACE_CONST && a[l] - code->variable_address[v] < code->variables[v].bytes)
            holds |= 1u << l;
    uint32_t *d = word(w, i->dst);
    *d = (*d & ~m) | holds;
    return i + 1;
}

/* The address's place in the block of the given rank; generic and shared addresses alike, as the rank's bits are the same. */
static uint64_t mapped(const struct tsr_warp *w, uint64_t address, uint32_t rank)
{
    uint64_t field = ((1ull << 5) - 1) << TSR_SHARED_RANK_SHIFT;
    return (address & ~field) | (rank == w->block->rank ? 0 : (uint64_t)(rank + 1) << TSR_SHARED_RANK_SHIFT);
}

static insn *mapa32(struct tsr_warp *w, insn *i, uint32_t m)
{
    uint32_t *d = word(w, i->dst);
    const uint32_t *a = word(w, i->a), *b = word(w, i->b);
    EACH_LANE(m, l)
    d[l] = (uint32_t)mapped(w, a[l], b[l]);
    return i + 1;
}

static insn *mapa64(struct tsr_warp *w, insn *i, uint32_t m)
{
    uint64_t *d = wide(w, i->dst);
    const uint64_t *a = wide(w, i->a);
    const uint32_t *b = word(w, i->b);
    EACH_LANE(m, l)
    d[l] = mapped(w, a[l], b[l]);
    return i + 1;
}

static uint32_t rank_of(const struct tsr_warp *w, uint64_t address)
{
    uint32_t field = (uint32_t)(address >> TSR_SHARED_RANK_SHIFT) & 31;
    return field == 0 ? w->block->rank : field - 1;
}

static insn *rank32(struct tsr_warp *w, insn *i, uint32_t m)
{
    uint32_t *d = word(w, i->dst);
    const uint32_t *a = word(w, i->a);
    EACH_LANE(m, l)
    d[l] = rank_of(w, a[l]);
    return i + 1;
}

static insn *rank64(struct tsr_warp *w, insn *i, uint32_t m)
{
    uint32_t *d = word(w, i->dst);
    const uint64_t *a = wide(w, i->a);
    uint64_t from[TSR_WARP_LANES];
    EACH_LANE(m, l)
    from[l] = a[l];
    EACH_LANE(m, l)
    d[l] = rank_of(w, from[l]);
    return i + 1;
}

static const struct tsr_op ops[] = {
    TSR_OP_ROW("cvta.shared", cvta_shared, TSR_C_INT),
    TSR_OP_ROW("cvta.local", cvta_local, TSR_C_INT),
    TSR_OP_ROW("cvta.param", cvta_param, TSR_C_INT),
    TSR_OP_ROW("cvta.to.shared", cvta_to_shared, TSR_C_INT),
    TSR_OP_ROW("cvta.to.local", cvta_to_local, TSR_C_INT),
    TSR_OP_ROW("cvta.to.param", cvta_to_param, TSR_C_INT),
    TSR_OP_ROW("isspacep.global", is_global, TSR_C_INT),
    TSR_OP_ROW("isspacep.const", is_const, TSR_C_INT),
    TSR_OP_ROW("isspacep.shared", is_shared, TSR_C_INT),
    TSR_OP_ROW("isspacep.shared::cluster", is_cluster, TSR_C_INT),
    TSR_OP_ROW("isspacep.local", is_local, TSR_C_INT),
    TSR_OP_ROW("isspacep.param", is_param, TSR_C_INT),
    TSR_OP_ROW("mapa.shared.u32", mapa32, TSR_C_INT),
    TSR_OP_ROW("mapa.shared.u64", mapa64, TSR_C_INT),
    TSR_OP_ROW("mapa.u32", mapa32, TSR_C_INT),
    TSR_OP_ROW("mapa.u64", mapa64, TSR_C_INT),
    TSR_OP_ROW("getctarank.shared.u32", rank32, TSR_C_INT),
    TSR_OP_ROW("getctarank.shared.u64", rank64, TSR_C_INT),
    TSR_OP_ROW("getctarank.u32", rank32, TSR_C_INT),
    TSR_OP_ROW("getctarank.u64", rank64, TSR_C_INT),
};
TSR_OP_GROUP(tsr_address_ops, ops);
