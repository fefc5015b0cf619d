/*
 * A warp as operations see it, and how they reach memory.
 *
 * An operation reads and writes registers at w->frame + offset. One that reads memory first turns its addresses into host addresses
 * with tsr_warp_address(es): that checks ranges, permissions and alignment, raises the fault (the operation then returns NULL),
 * counts the traffic and records the trace. Shared memory is only ever touched by the worker that runs the block.
 *
 * Scheduling state of warps (splits, call frames) is in split.h, of blocks in block.h; neither belongs to operations of lanes or matrices.
 */
#ifndef TSR_EXEC_WARP_H
#define TSR_EXEC_WARP_H

#include <stdbool.h>
#include <stdint.h>

#include "../ptx/code.h"
#include "insn.h"
#include "op.h"
#include "operands.h"

#define TSR_WARP_LANES 32u

struct tsr_block;
struct tsr_worker;

struct tsr_warp {
    unsigned char *frame; /* of the running function; must be first */
    uint32_t active;      /* lanes of the running split */
    uint32_t live;        /* lanes that have not exited */
    struct tsr_block *block;
    struct tsr_worker *worker; /* who runs it now */
    struct tsr_warp_control *control; /* splits and call frames: split.h */
    unsigned char *shared;
    uint32_t shared_bytes;
    uint32_t local_stride;  /* bytes of local memory per thread */
    unsigned char *local;   /* of lane 0 */
    uint32_t index;         /* in the block */
    uint32_t shared_cycles; /* counters of the running slice; flushed by the loop */
    uint32_t l2_sectors;
    uint32_t latency;
    uint32_t atomics;
    bool latency_open;      /* a load is outstanding since the last branch or barrier */
    bool polled, progressed;
};

enum tsr_access { TSR_ACCESS_MODE_READ, TSR_ACCESS_MODE_WRITE, TSR_ACCESS_MODE_ATOMIC };

/*
 * Host addresses of `bytes` bytes at address[l], for each lane l in m, which must be aligned to `align`. Addresses in `space` (GLOBAL, SHARED,
 * LOCAL, GENERIC): offsets for shared and local, else 64-bit addresses. False: a fault has been raised, return NULL from the operation.
 * host[l] of other lanes is not written.
 */
bool tsr_warp_addresses(struct tsr_warp *w, const struct tsr_insn *i, uint32_t m, enum tsr_space_kind space,
                        const uint64_t address[TSR_WARP_LANES], uint32_t bytes, uint32_t align, enum tsr_access access,
                        unsigned char *host[TSR_WARP_LANES]);

/* The same for one lane; NULL on a fault. */
unsigned char *tsr_warp_address(struct tsr_warp *w, const struct tsr_insn *i, unsigned lane, enum tsr_space_kind space, uint64_t address,
                                uint32_t bytes, uint32_t align, enum tsr_access access);

/*
 * For warp-wide operations with a membermask (.sync): true when the lanes in m may go on together now. False: the warp has been parked at
 * `i` until the missing lanes arrive; return the instruction in *next. mask is read by the caller from its register.
 */
bool tsr_warp_converge(struct tsr_warp *w, const struct tsr_insn *i, uint32_t m, uint32_t mask, const struct tsr_insn **next);

/*
 * Operations of the executor for the registry. level: 0 baseline x86-64, 1 x86-64-v3, 2 x86-64-v4. `number` is 0 in all of them;
 * lane flags and types are not set. Groups end with one whose ops are NULL.
 */
struct tsr_op_group {
    const struct tsr_op *ops;
    uint32_t count;
};
const struct tsr_op_group *tsr_exec_op_groups(unsigned level);

#endif
