/*
 * Asynchronous copies, done at once by the lane that issues them: commit and wait groups have nothing left to do, and completion on
 * an mbarrier happens with the copy.
 */
#include <string.h>

#include "groups.h"
#include "mbarrier.h"
#include "state.h"

typedef const struct tsr_insn insn;
#define LANES TSR_WARP_LANES
#define EACH_LANE(m, l) for (uint32_t rest_ = (m), l; rest_ != 0 && (l = (uint32_t)__builtin_ctz(rest_), true); rest_ &= rest_ - 1)

static uint64_t wide_at(const struct tsr_warp *w, uint32_t reg, uint32_t l)
{
    return ((const uint64_t *)(const void *)(w->frame + reg))[l];
}
static uint32_t word_at(const struct tsr_warp *w, uint32_t reg, uint32_t l)
{
    return ((const uint32_t *)(const void *)(w->frame + reg))[l];
}

static uint64_t shared_address(const struct tsr_warp *w, insn *i, uint32_t reg, uint32_t l)
{
    return i->flags & TSR_MEM_ADDRESS64 ? (uint32_t)wide_at(w, reg, l) : word_at(w, reg, l);
}

static insn *copy(struct tsr_warp *w, insn *i, uint32_t m, uint32_t bytes)
{
    uint64_t to[LANES] = {0}, from[LANES] = {0};
    uint32_t count[LANES], reading = 0;
    unsigned char *to_host[LANES], *from_host[LANES];
    uint32_t ignore = i->d == TSR_NO_REG ? 0 : *(const uint32_t *)(const void *)(w->frame + i->d);
    EACH_LANE(m, l)
    {
        to[l] = (uint32_t)((i->a == TSR_NO_REG ? 0 : shared_address(w, i, i->a, l)) + (uint64_t)i->imm);
        from[l] = wide_at(w, i->b, l) + (uint64_t)(intptr_t)i->aux;
        count[l] = i->c == TSR_NO_REG ? bytes : word_at(w, i->c, l);
        if (count[l] > bytes)
            count[l] = bytes;
        if (ignore >> l & 1)
            count[l] = 0;
        if (count[l] != 0)
            reading |= 1u << l;
    }
    if (!tsr_warp_addresses(w, i, m, TSR_SPACE_SHARED, to, bytes, bytes, TSR_ACCESS_MODE_WRITE, to_host))
        return NULL;
    bool whole = true;
    EACH_LANE(reading, l)
    whole &= count[l] == bytes;
    if (whole) {
        if (reading != 0 &&
            !tsr_warp_addresses(w, i, reading, TSR_SPACE_GLOBAL, from, bytes, bytes, TSR_ACCESS_MODE_READ, from_host))
            return NULL;
    } else {
        EACH_LANE(reading, l)
        { /* only the bytes that are asked for are read */
            if (from[l] % bytes != 0)
                return tsr_warp_fault(w, i, l, TSR_FAULT_MISALIGNED, from[l], bytes, false);
            from_host[l] = tsr_warp_address(w, i, l, TSR_SPACE_GLOBAL, from[l], count[l], 1, TSR_ACCESS_MODE_READ);
            if (from_host[l] == NULL)
                return NULL;
        }
    }
    EACH_LANE(m, l)
    {
        if (count[l] != 0)
            memcpy(to_host[l], from_host[l], count[l]);
        memset(to_host[l] + count[l], 0, bytes - count[l]);
    }
    return i + 1;
}

static insn *copy_4(struct tsr_warp *w, insn *i, uint32_t m)
{
    return copy(w, i, m, 4);
}
static insn *copy_8(struct tsr_warp *w, insn *i, uint32_t m)
{
    return copy(w, i, m, 8);
}
static insn *copy_16(struct tsr_warp *w, insn *i, uint32_t m)
{
    return copy(w, i, m, 16);
}

static insn *bulk(struct tsr_warp *w, insn *i, uint32_t m, bool to_shared, bool from_shared)
{
    EACH_LANE(m, l)
    {
        uint64_t to = to_shared ? shared_address(w, i, i->a, l) : wide_at(w, i->a, l);
        uint64_t from = from_shared ? shared_address(w, i, i->b, l) : wide_at(w, i->b, l);
        uint32_t bytes = word_at(w, i->c, l);
        if (bytes == 0)
            continue;
        unsigned char *target =
            tsr_warp_address(w, i, l, to_shared ? TSR_SPACE_SHARED : TSR_SPACE_GLOBAL, to, bytes, 16, TSR_ACCESS_MODE_WRITE);
        if (target == NULL)
            return NULL;
        unsigned char *source =
            tsr_warp_address(w, i, l, from_shared ? TSR_SPACE_SHARED : TSR_SPACE_GLOBAL, from, bytes, 16, TSR_ACCESS_MODE_READ);
        if (source == NULL)
            return NULL;
        memmove(target, source, bytes);
        if (i->d == TSR_NO_REG)
            continue;
        unsigned char *barrier =
            tsr_warp_address(w, i, l, TSR_SPACE_SHARED, shared_address(w, i, i->d, l), 8, 8, TSR_ACCESS_MODE_ATOMIC);
        if (barrier == NULL)
            return NULL;
        tsr_mbarrier_complete_tx(barrier, bytes);
    }
    return i + 1;
}

static insn *bulk_in(struct tsr_warp *w, insn *i, uint32_t m)
{
    return bulk(w, i, m, true, false);
}
static insn *bulk_out(struct tsr_warp *w, insn *i, uint32_t m)
{
    return bulk(w, i, m, false, true);
}
static insn *bulk_across(struct tsr_warp *w, insn *i, uint32_t m)
{
    return bulk(w, i, m, true, true);
}

static const struct tsr_op ops[] = {
    TSR_OP_ROW("cp.async.4", copy_4, TSR_C_MEMORY),          TSR_OP_ROW("cp.async.8", copy_8, TSR_C_MEMORY),
    TSR_OP_ROW("cp.async.16", copy_16, TSR_C_MEMORY),        TSR_OP_ROW("cp.async.bulk.g2s", bulk_in, TSR_C_MEMORY),
    TSR_OP_ROW("cp.async.bulk.s2g", bulk_out, TSR_C_MEMORY), TSR_OP_ROW("cp.async.bulk.s2s", bulk_across, TSR_C_MEMORY),
};
TSR_OP_GROUP(tsr_async_ops, ops);
