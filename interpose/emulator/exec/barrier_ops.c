/*
 * Barriers of a block and of a cluster. They count threads, so that lanes of a warp may arrive apart; exited threads are not
 * waited for where the whole block is meant. Waiting lanes are splits in the state BARRIER or CLUSTER, released by whoever completes
 * the barrier: an arriving warp or an exiting one.
 */
#include "groups.h"
#include "split.h"
#include "state.h"

typedef const struct tsr_insn insn;
enum reduction { REDUCE_NONE, REDUCE_POPC, REDUCE_AND, REDUCE_OR };

static insn *red_popc(struct tsr_warp *w, insn *i, uint32_t m);
static insn *red_and(struct tsr_warp *w, insn *i, uint32_t m);
static insn *red_or(struct tsr_warp *w, insn *i, uint32_t m);

static void give_result(unsigned char *frame, insn *i, uint32_t m, const struct tsr_barrier *barrier)
{
    if (i->run == red_popc) {
        uint32_t *d = (void *)(frame + i->dst);
        for (unsigned l = 0; l < TSR_WARP_LANES; l++)
            d[l] = m >> l & 1 ? barrier->count : d[l];
    } else if (i->run == red_and || i->run == red_or) {
        bool holds = i->run == red_and ? barrier->count == barrier->inputs : barrier->count != 0;
        uint32_t *d = (void *)(frame + i->dst);
        *d = (*d & ~m) | (holds ? m : 0);
    }
}

/* Lets every split of the warp that waits in `state` go on. */
static void release_warp(struct tsr_warp *w, enum tsr_split_state state, uint8_t id, const struct tsr_barrier *barrier)
{
    struct tsr_warp_control *control = w->control;
    for (uint32_t s = 0; s < w->others;) {
        struct tsr_split split = control->splits[s];
        if (split.state != state || (state == TSR_SPLIT_BARRIER && split.barrier != id)) {
            s++;
            continue;
        }
        if (state == TSR_SPLIT_BARRIER)
            give_result((unsigned char *)(split.frame + 1), split.pc, split.mask, barrier);
        control->splits[s] = control->splits[--w->others];
        tsr_split_add(w, split.frame, split.pc + 1, split.mask, split.turn);
        s = 0; /* the new split may have taken any place */
    }
}

static void release(struct tsr_exec_block *block, uint8_t id)
{
    struct tsr_barrier barrier = block->barriers[id];
    block->barriers[id] = (struct tsr_barrier){0};
    for (uint32_t n = 0; n < block->warp_count; n++)
        if (block->warps[n].others != 0)
            release_warp(&block->warps[n], TSR_SPLIT_BARRIER, id, &barrier);
}

static bool complete(const struct tsr_exec_block *block, const struct tsr_barrier *barrier)
{
    return barrier->arrived != 0 && barrier->arrived >= (barrier->expected != 0 ? barrier->expected : block->live_threads);
}

static void cluster_check(struct tsr_team *team)
{
    uint32_t live = 0;
    for (uint32_t b = 0; b < team->block_count; b++)
        live += team->blocks[b].live_threads;
    if (team->cluster_arrived == 0 || team->cluster_arrived < live)
        return;
    team->cluster_arrived = 0;
    for (uint32_t b = 0; b < team->block_count; b++)
        for (uint32_t n = 0; n < team->blocks[b].warp_count; n++) {
            struct tsr_warp *w = &team->blocks[b].warps[n];
            w->control->cluster_pending = 0;
            release_warp(w, TSR_SPLIT_CLUSTER, 0, NULL);
        }
}

void tsr_block_check_barriers(struct tsr_exec_block *block)
{
    for (uint8_t id = 0; id < TSR_BARRIERS; id++)
        if (complete(block, &block->barriers[id]))
            release(block, id);
    if (block->team->cluster_arrived != 0)
        cluster_check(block->team);
}

static uint32_t operand(const struct tsr_warp *w, uint32_t reg, uint32_t m, uint32_t fallback)
{
    return reg == TSR_NO_REG ? fallback : ((const uint32_t *)(const void *)(w->frame + reg))[__builtin_ctz(m)];
}

static insn *arrive(struct tsr_warp *w, insn *i, uint32_t m, enum reduction reduction, bool wait)
{
    uint32_t id = operand(w, i->a, m, (uint32_t)i->imm), count = operand(w, i->b, m, 0);
    if (id >= TSR_BARRIERS)
        return tsr_warp_fault(w, i, (unsigned)__builtin_ctz(m), TSR_FAULT_INSTRUCTION, id, 0, false);
    struct tsr_exec_block *block = w->block;
    struct tsr_barrier *barrier = &block->barriers[id];
    uint32_t lanes = (uint32_t)__builtin_popcount(m);
    barrier->arrived += lanes;
    barrier->expected = count;
    if (reduction != REDUCE_NONE) {
        uint32_t p = *(const uint32_t *)(const void *)(w->frame + i->c);
        barrier->count += (uint32_t)__builtin_popcount((i->flags & TSR_SOURCE_NOT ? ~p : p) & m);
        barrier->inputs += lanes;
    }
    w->progressed = true;
    w->latency_open = false;
    if (complete(block, barrier)) {
        if (wait)
            give_result(w->frame, i, m, barrier);
        release(block, (uint8_t)id);
        return w->others == 0 ? i + 1 : tsr_split_select(w, i + 1);
    }
    return wait ? tsr_split_wait(w, i, m, TSR_SPLIT_BARRIER, (uint8_t)id) : i + 1;
}

static insn *bar_sync(struct tsr_warp *w, insn *i, uint32_t m)
{
    return arrive(w, i, m, REDUCE_NONE, true);
}
static insn *bar_arrive(struct tsr_warp *w, insn *i, uint32_t m)
{
    return arrive(w, i, m, REDUCE_NONE, false);
}
static insn *red_popc(struct tsr_warp *w, insn *i, uint32_t m)
{
    return arrive(w, i, m, REDUCE_POPC, true);
}
static insn *red_and(struct tsr_warp *w, insn *i, uint32_t m)
{
    return arrive(w, i, m, REDUCE_AND, true);
}
static insn *red_or(struct tsr_warp *w, insn *i, uint32_t m)
{
    return arrive(w, i, m, REDUCE_OR, true);
}

static insn *bar_warp_sync(struct tsr_warp *w, insn *i, uint32_t m)
{
    insn *next = i + 1;
    tsr_warp_converge(w, i, m, operand(w, i->a, m, (uint32_t)i->imm), &next);
    return next;
}

static insn *cluster_arrive(struct tsr_warp *w, insn *i, uint32_t m)
{
    struct tsr_team *team = w->block->team;
    team->cluster_arrived += (uint32_t)__builtin_popcount(m);
    w->control->cluster_pending |= m;
    w->progressed = true;
    cluster_check(team);
    return i + 1;
}

static insn *cluster_wait(struct tsr_warp *w, insn *i, uint32_t m)
{
    w->latency_open = false;
    if ((w->control->cluster_pending & m) == 0)
        return w->others == 0 ? i + 1 : tsr_split_select(w, i + 1);
    return tsr_split_wait(w, i, m, TSR_SPLIT_CLUSTER, 0);
}

static const struct tsr_op ops[] = {
    TSR_OP_ROW("bar.sync", bar_sync, TSR_C_CONTROL),
    TSR_OP_ROW("bar.arrive", bar_arrive, TSR_C_CONTROL),
    TSR_OP_ROW("bar.red.popc", red_popc, TSR_C_CONTROL),
    TSR_OP_ROW("bar.red.and", red_and, TSR_C_CONTROL),
    TSR_OP_ROW("bar.red.or", red_or, TSR_C_CONTROL),
    TSR_OP_ROW("bar.warp.sync", bar_warp_sync, TSR_C_COLLECTIVE),
    TSR_OP_ROW("barrier.cluster.arrive", cluster_arrive, TSR_C_CONTROL),
    TSR_OP_ROW("barrier.cluster.wait", cluster_wait, TSR_C_CONTROL),
};
TSR_OP_GROUP(tsr_barrier_ops, ops);
