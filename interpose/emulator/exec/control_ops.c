/*
 * Branches, ends, and operations that do nothing here.
 */
#include <string.h>

#include "groups.h"
#include "lines.h"
#include "split.h"
#include "state.h"

#define MOST_SLEEP_NS 1000000u /* PTX: at most a millisecond */

typedef const struct tsr_insn insn;

static insn *bra(struct tsr_warp *w, insn *i, uint32_t m)
{
    w->latency_open = false;
    uint32_t rest = w->active & ~m;
    if (rest == 0)
        return i->target;
    tsr_split_add(w, w->control->frame, i->target, m, w->control->turn);
    w->active = rest;
    return tsr_split_select(w, i + 1);
}

static insn *brx_idx(struct tsr_warp *w, insn *i, uint32_t m)
{
    const struct tsr_branch_table *table = i->aux;
    const uint32_t *index = (const void *)(w->frame + i->a);
    struct tsr_frame *frame = w->control->frame;
    uint32_t turn = w->control->turn, rest = w->active & ~m;
    insn *pc = NULL;
    w->latency_open = false;
    for (uint32_t left = m; left != 0;) {
        unsigned lane = (unsigned)__builtin_ctz(left);
        if (index[lane] >= table->count)
            return tsr_warp_fault(w, i, lane, TSR_FAULT_PC, index[lane], 0, false);
        uint32_t same = 0;
        for (uint32_t l = lane; l < TSR_WARP_LANES; l++)
            if (left >> l & 1 && index[l] == index[lane])
                same |= 1u << l;
        left &= ~same;
        if (pc == NULL) {
            pc = table->targets[index[lane]];
            w->active = same;
        } else {
            tsr_split_add(w, frame, table->targets[index[lane]], same, turn);
        }
    }
    if (rest != 0)
        tsr_split_add(w, frame, i + 1, rest, turn);
    return tsr_split_select(w, pc);
}

static insn *join(struct tsr_warp *w, insn *i, uint32_t m)
{
    (void)m;
    w->latency_open = false;
    if (w->others == 0)
        return i + 1;
    insn *next = tsr_split_select(w, i);
    return next == i ? i + 1 : next;
}

static insn *leave(struct tsr_warp *w, insn *i, uint32_t m)
{
    return tsr_split_exit(w, i, m);
}

static insn *trap(struct tsr_warp *w, insn *i, uint32_t m)
{
    return tsr_warp_fault(w, i, (unsigned)__builtin_ctz(m), TSR_FAULT_TRAP, 0, 0, false);
}

static insn *nop(struct tsr_warp *w, insn *i, uint32_t m)
{
    (void)w;
    (void)m;
    return i + 1;
}

static insn *fence(struct tsr_warp *w, insn *i, uint32_t m)
{
    (void)w;
    (void)m;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    return i + 1;
}

/* As long as the lane that asks for most, in virtual time. */
static insn *nanosleep_(struct tsr_warp *w, insn *i, uint32_t m)
{
    const uint32_t *ns = (const void *)(w->frame + i->a);
    uint32_t longest = 0;
    for (unsigned l = 0; l < TSR_WARP_LANES; l++)
        if (m >> l & 1 && ns[l] > longest)
            longest = ns[l];
    longest = longest < MOST_SLEEP_NS ? longest : MOST_SLEEP_NS;
    w->latency_cycles += (uint32_t)(longest * tsr_warp_khz(w) / 1000000);
    w->latency_open = false;
    return i + 1;
}

static insn *createpolicy(struct tsr_warp *w, insn *i, uint32_t m)
{
    uint64_t *d = (void *)(w->frame + i->dst);
    for (unsigned l = 0; l < TSR_WARP_LANES; l++)
        if (m >> l & 1)
            d[l] = 0;
    return i + 1;
}

static const struct tsr_op ops[] = {
    TSR_OP_ROW("bra", bra, TSR_C_CONTROL),
    TSR_OP_ROW("brx.idx", brx_idx, TSR_C_CONTROL),
    TSR_OP_ROW("join", join, TSR_C_FREE),
    TSR_OP_ROW("exit", leave, TSR_C_CONTROL),
    TSR_OP_ROW("trap", trap, TSR_C_CONTROL),
    TSR_OP_ROW("nop", nop, TSR_C_FREE),
    TSR_OP_ROW("fence", fence, TSR_C_CONTROL),
    TSR_OP_ROW("nanosleep", nanosleep_, TSR_C_CONTROL),
    TSR_OP_ROW("createpolicy", createpolicy, TSR_C_MOVE),
};
TSR_OP_GROUP(tsr_control_ops, ops);
