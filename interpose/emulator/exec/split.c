#include "split.h"

#include <string.h>

#include "state.h"

#define SLICES_BEFORE_ROTATION 16u /* of the loop's budget each, without phi another split */

static bool precedes(const struct tsr_split *a, const struct tsr_split *b)
{
    if (a->turn != b->turn)
        return a->turn < b->turn;
    if (a->frame->depth != b->frame->depth)
        return a->frame->depth > b->frame->depth;
    if (a->frame->function != b->frame->function)
        return a->frame->function->index < b->frame->function->index;
    return a->pc < b->pc;
}

static struct tsr_split take(struct tsr_warp *w, uint32_t index)
{
    struct tsr_warp_control *control = w->control;
    struct tsr_split split = control->splits[index];
    control->splits[index] = control->splits[--w->others];
    return split;
}

static void put(struct tsr_warp *w, struct tsr_split split)
{
    w->control->splits[w->others++] = split;
}

static void make_running(struct tsr_warp *w, const struct tsr_split *split)
{
    struct tsr_warp_control *control = w->control;
    control->frame = split->frame;
    control->turn = split->turn;
    control->forced = false;
    control->has_running = true;
    w->frame = (unsigned char *)(split->frame + 1);
    w->active = split->mask;
}

/* Takes every runnable split at the running one's place into it. */
static void merge_equal(struct tsr_warp *w, const struct tsr_insn *pc)
{
    struct tsr_warp_control *control = w->control;
    for (uint32_t s = 0; s < w->others;) {
        const struct tsr_split *split = &control->splits[s];
        if (split->state != TSR_SPLIT_RUNNABLE || split->pc != pc || split->frame != control->frame) {
            s++;
            continue;
        }
        w->active |= split->mask;
        if (split->turn > control->turn)
            control->turn = split->turn;
        control->slices = 0;
        take(w, s);
    }
}

static uint32_t first_runnable(const struct tsr_warp *w)
{
    const struct tsr_split *splits = w->control->splits;
    uint32_t best = UINT32_MAX;
    for (uint32_t s = 0; s < w->others; s++)
        if (splits[s].state == TSR_SPLIT_RUNNABLE && (best == UINT32_MAX || precedes(&splits[s], &splits[best])))
            best = s;
    return best;
}

static struct tsr_split running(const struct tsr_warp *w, const struct tsr_insn *pc)
{
    return (struct tsr_split){.pc = pc, .frame = w->control->frame, .mask = w->active, .turn = w->control->turn};
}

void tsr_split_add(struct tsr_warp *w, struct tsr_frame *frame, const struct tsr_insn *pc, uint32_t mask, uint32_t turn)
{
    for (uint32_t s = 0; s < w->others; s++) {
        struct tsr_split *split = &w->control->splits[s];
        if (split->state == TSR_SPLIT_RUNNABLE && split->pc == pc && split->frame == frame) {
            split->mask |= mask;
            if (turn > split->turn)
                split->turn = turn;
            return;
        }
    }
    put(w, (struct tsr_split){.pc = pc, .frame = frame, .mask = mask, .turn = turn});
}

const struct tsr_insn *tsr_split_select(struct tsr_warp *w, const struct tsr_insn *pc)
{
    if (w->others == 0)
        return pc;
    merge_equal(w, pc);
    uint32_t best = first_runnable(w);
    if (best == UINT32_MAX)
        return pc;
    struct tsr_split current = running(w, pc);
    if (!precedes(&w->control->splits[best], &current))
        return pc;
    struct tsr_split next = take(w, best);
    put(w, current);
    make_running(w, &next);
    merge_equal(w, next.pc);
    return next.pc;
}

bool tsr_split_runnable(const struct tsr_warp *w)
{
    return w->control->has_running || first_runnable(w) != UINT32_MAX;
}

bool tsr_split_force(struct tsr_warp *w)
{
    struct tsr_warp_control *control = w->control;
    uint32_t best = UINT32_MAX;
    for (uint32_t s = 0; s < w->others; s++)
        if (control->splits[s].state == TSR_SPLIT_PARKED &&
            (best == UINT32_MAX || precedes(&control->splits[s], &control->splits[best])))
            best = s;
    if (best == UINT32_MAX)
        return false;
    struct tsr_split next = take(w, best);
    make_running(w, &next);
    control->forced = true;
    control->pc = next.pc;
    return true;
}

static bool all_parked(const struct tsr_warp *w)
{
    for (uint32_t s = 0; s < w->others; s++)
        if (w->control->splits[s].state != TSR_SPLIT_PARKED)
            return false;
    return true;
}

const struct tsr_insn *tsr_split_next(struct tsr_warp *w)
{
    struct tsr_warp_control *control = w->control;
    w->active = 0;
    control->has_running = false;
    uint32_t best = first_runnable(w);
    if (best != UINT32_MAX) {
        struct tsr_split next = take(w, best);
        make_running(w, &next);
        merge_equal(w, next.pc);
        return next.pc;
    }
    if (w->others == 0) {
        control->stop = TSR_STOP_EXIT;
        return NULL;
    }
    if (all_parked(w) && tsr_split_force(w))
        return control->pc;
    control->stop = TSR_STOP_WAIT;
    return NULL;
}

const struct tsr_insn *tsr_split_wait(struct tsr_warp *w, const struct tsr_insn *pc, uint32_t m, enum tsr_split_state state,
                                      uint8_t barrier)
{
    struct tsr_warp_control *control = w->control;
    put(w, (struct tsr_split){
               .pc = pc, .frame = control->frame, .mask = m, .turn = control->turn, .state = state, .barrier = barrier});
    w->latency_open = false;
    uint32_t rest = w->active & ~m;
    if (rest == 0)
        return tsr_split_next(w);
    w->active = rest;
    return tsr_split_select(w, pc + 1);
}

void tsr_split_rotate(struct tsr_warp *w)
{
    struct tsr_warp_control *control = w->control;
    if (!control->has_running || first_runnable(w) == UINT32_MAX)
        return;
    if (control->polls == 0 && ++control->slices < SLICES_BEFORE_ROTATION)
        return;
    control->slices = 0;
    struct tsr_split current = running(w, control->pc);
    current.turn++;
    struct tsr_split next = take(w, first_runnable(w));
    put(w, current);
    make_running(w, &next);
    control->pc = next.pc;
}

const struct tsr_insn *tsr_warp_poll(struct tsr_warp *w, const struct tsr_insn *i, uint64_t seen)
{
    struct tsr_warp_control *control = w->control;
    bool same = !w->progressed && control->poll_at == i && control->poll_seen == seen;
    control->poll_at = i;
    control->poll_seen = seen;
    control->polls = same ? control->polls + 1 : 0;
    w->progressed = false;
    control->pc = i + 1;
    control->stop = TSR_STOP_POLL;
    return NULL;
}

static void free_frames(struct tsr_warp_control *control)
{
    while (control->top_frame != NULL && control->top_frame->lanes == 0) {
        control->stack_top = (unsigned char *)control->top_frame;
        control->top_frame = control->top_frame->below;
    }
}

void tsr_frames_leave(struct tsr_warp *w, struct tsr_frame *frame, uint32_t m)
{
    frame->lanes &= ~m;
    free_frames(w->control);
}

const struct tsr_insn *tsr_split_exit(struct tsr_warp *w, const struct tsr_insn *i, uint32_t m)
{
    for (struct tsr_frame *frame = w->control->frame; frame != NULL; frame = frame->caller)
        frame->lanes &= ~m;
    free_frames(w->control);
    w->live &= ~m;
    w->progressed = true;
    uint32_t rest = w->active & ~m;
    w->block->live_threads -= (uint32_t)__builtin_popcount(m);
    const struct tsr_insn *next;
    if (rest != 0) {
        w->active = rest;
        next = i + 1;
    } else {
        next = tsr_split_next(w);
    }
    tsr_block_check_barriers(w->block);
    if (next == NULL && w->control->stop == TSR_STOP_WAIT)
        return tsr_split_next(w); /* the exit may have completed a barrier that this warp waits at */
    return next;
}

void tsr_warp_start(struct tsr_warp *w, const struct tsr_function *function, uint32_t lanes)
{
    struct tsr_warp_control *control = w->control;
    struct tsr_frame *frame = (struct tsr_frame *)(void *)control->stack;
    *frame = (struct tsr_frame){.function = function, .lanes = lanes};
    w->frame = (unsigned char *)(frame + 1);
    w->active = w->live = lanes;
    w->others = 0;
    w->shared_cycles = w->l2_sectors = w->latency_cycles = w->atomics = 0;
    w->latency_open = w->progressed = false;
    control->frame = control->top_frame = frame;
    control->stack_top = w->frame + function->frame_bytes;
    control->pc = function->insns;
    control->turn = control->polls = control->slices = control->clock_reads = 0;
    control->stop = TSR_STOP_NONE;
    control->has_running = true;
    control->forced = false;
    control->cluster_pending = 0;
    control->poll_at = control->timing = NULL;
    control->poll_seen = 0;
    memset(&control->counters, 0, sizeof control->counters);
}

bool tsr_warp_converge(struct tsr_warp *w, const struct tsr_insn *i, uint32_t m, uint32_t mask, const struct tsr_insn **next)
{
    struct tsr_warp_control *control = w->control;
    uint32_t missing = mask & w->live & ~m;
    if (missing == 0 || w->others == 0)
        return true;
    if (control->forced) {
        control->forced = false;
        return true;
    }
    bool merged = false;
    for (uint32_t s = 0; s < w->others;) {
        struct tsr_split *split = &control->splits[s];
        if (split->state == TSR_SPLIT_PARKED && split->pc == i && split->frame == control->frame) {
            w->active |= split->mask;
            take(w, s);
            merged = true;
        } else {
            s++;
        }
    }
    *next = merged ? i : tsr_split_wait(w, i, m, TSR_SPLIT_PARKED, 0);
    return false;
}
