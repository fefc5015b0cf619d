/*
 * How the lanes of a warp diverge and reconverge.
 *
 * A split is a set of lanes at one instruction of one call. The running split's lanes are w->active, its call is control->frame; the
 * others lie in control->splits. Of the runnable ones the first in the order (turn, deeper call first, function, instruction) runs: so lanes
 * that are behind catch up, and they merge where they reconverge (same call, same instruction), which is checked at joins and on return.
 * A split that uses up its budget, or polls memory in vain, gets a later turn: the lane that holds what the others wait for goes on.
 *
 * Calls: each has a frame on the warp's stack (header, then registers). Frames of splits that run concurrently stand one above the other; a frame is
 * given back when no lane is in it and none stands above it.
 *
 * Polling: an operation that reads memory other threads may change (strong loads, atomics that change nothing, mbarrier tests)
 * ends with tsr_warp_poll. If it saw the same as the last time and the warp has changed nothing since, the round between did not
 * happen as far as cost is concerned: cost is independent of how long a thread had to wait.
 */
#ifndef TSR_EXEC_SPLIT_H
#define TSR_EXEC_SPLIT_H

#include "warp.h"

struct tsr_frame {
    struct tsr_frame *caller, *below; /* below: the one under it on the stack */
    const struct tsr_function *function;
    const struct tsr_call *call;
    const struct tsr_insn *return_to;
    uint32_t lanes; /* still in this call */
    uint32_t depth;
    uint32_t local_base; /* where the function's own local memory begins in the thread's */
    uint32_t padding[3];
};
_Static_assert(sizeof(struct tsr_frame) == 64, "the registers after it stay aligned");

enum tsr_split_state { TSR_SPLIT_RUNNABLE, TSR_SPLIT_PARKED, TSR_SPLIT_BARRIER, TSR_SPLIT_CLUSTER };

struct tsr_split {
    const struct tsr_insn *pc; /* next instruction; PARKED and BARRIER: the one it waits at */
    struct tsr_frame *frame;
    uint32_t mask;
    uint32_t turn;
    uint8_t state, barrier;
};

/* Why the loop was left; the operation has stored where to go on. */
enum tsr_stop {
    TSR_STOP_NONE,
    TSR_STOP_WAIT,  /* no runnable split */
    TSR_STOP_EXIT,  /* no lane left */
    TSR_STOP_POLL,  /* looked at memory in vain; goes on at control->pc */
    TSR_STOP_COUNT, /* only to hand in its counts; goes on at control->pc */
    TSR_STOP_FAULT
};

struct tsr_counters {
    uint64_t instructions, lanes, cycles; /* cycles in 1/16 */
    uint64_t shared_cycles, l2_sectors, latency_cycles, atomics;
};

struct tsr_warp_control {
    struct tsr_frame *frame;   /* of the running split */
    const struct tsr_insn *pc; /* where the warp goes on, outside the loop */
    struct tsr_split splits[TSR_WARP_LANES];
    uint32_t turn; /* of the running split */
    enum tsr_stop stop;
    bool has_running;            /* false while every split waits */
    bool forced;                 /* the running split need not wait for its membermask */
    uint32_t cluster_pending;    /* lanes that arrived in the cluster barrier's present phase */
    struct tsr_frame *top_frame; /* highest on the stack */
    unsigned char *stack, *stack_top, *stack_end;
    struct tsr_counters counters, poll_counters;
    const struct tsr_insn *poll_at;
    uint64_t poll_seen;
    const struct tsr_insn *timing; /* the instruction that waits for the counts */
    uint32_t polls;                /* vain ones in a row */
    uint32_t slices;               /* used up since the last merge */
    uint32_t looks;                /* polls in this slice */
    uint32_t clock_reads;          /* so that the clock advances between two of them */
    const uint32_t *tid[3];        /* %tid of each lane */
};

void tsr_warp_start(struct tsr_warp *w, const struct tsr_function *function, uint32_t lanes);

/* Adds a split (merging it into an equal runnable one). */
void tsr_split_add(struct tsr_warp *w, struct tsr_frame *frame, const struct tsr_insn *pc, uint32_t mask, uint32_t turn);
/* The running split is at pc: merges, or lets an earlier one run instead; returns the instruction to go on with. */
const struct tsr_insn *tsr_split_select(struct tsr_warp *w, const struct tsr_insn *pc);
/* There is no running split any more: makes one run, or returns NULL with the reason in control->stop. */
const struct tsr_insn *tsr_split_next(struct tsr_warp *w);
/* The lanes in m of the running split wait in `state` at pc; the rest of it goes on at pc + 1. */
const struct tsr_insn *tsr_split_wait(struct tsr_warp *w, const struct tsr_insn *pc, uint32_t m, enum tsr_split_state state,
                                      uint8_t barrier);
/* Whether the warp has anything to run. */
bool tsr_split_runnable(const struct tsr_warp *w);
/* The last resort when nothing in the block can run: lets a parked split go on alone. False: there is none. */
bool tsr_split_force(struct tsr_warp *w);
/* Gives the running split a later turn. */
void tsr_split_rotate(struct tsr_warp *w);
/* Lanes m of the running split leave the kernel. */
const struct tsr_insn *tsr_split_exit(struct tsr_warp *w, const struct tsr_insn *i, uint32_t m);
/* Lanes m have returned from the call. */
void tsr_frames_leave(struct tsr_warp *w, struct tsr_frame *frame, uint32_t m);
/* Ends a polling operation at i; seen: digest of addresses and values. */
const struct tsr_insn *tsr_warp_poll(struct tsr_warp *w, const struct tsr_insn *i, uint64_t seen);

#endif
