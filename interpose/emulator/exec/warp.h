/*
 * A warp as operations see it, and how they reach memory.
 *
 * An operation reads and writes registers at w->frame + offset. One that reads memory first turns its addresses into host addresses
 * with tsr_warp_address(es): that checks ranges, permissions and alignment, raises the fault (the operation then returns NULL),
 * counts the traffic and records the trace. Shared memory is only ever touched by the worker that runs the block.
 *
 * How lanes diverge, call and wait is in split.h, blocks and grids in state.h; neither belongs to operations of lanes or matrices.
 */
#ifndef TSR_EXEC_WARP_H
#define TSR_EXEC_WARP_H

#include <stdbool.h>
#include <stdint.h>

#include "../ptx/code.h"
#include "../isa/insn.h"
#include "../isa/op.h"
#include "../isa/operands.h"

#define TSR_WARP_LANES 32u

struct tsr_exec_block;
struct tsr_worker;
struct tsr_warp_control;

struct tsr_warp {
    unsigned char *frame; /* of the running function; must be first */
    uint32_t active;      /* lanes of the running split */
    uint32_t live;        /* lanes that have not exited */
    uint32_t others;      /* splits besides the running one, whatever they wait for */
    uint32_t shared_bytes;
    unsigned char *shared;     /* of the block */
    unsigned char *local;      /* of lane 0 */
    uint32_t local_stride;     /* bytes of local memory per thread */
    uint32_t index;            /* in the block */
    struct tsr_worker *worker; /* who runs it now */
    struct tsr_exec_block *block;
    struct tsr_warp_control *control; /* split.h */
    /* What the running slice has cost besides issue cycles; collected by the loop. */
    uint32_t shared_cycles, l2_sectors, latency_cycles, atomics;
    bool latency_open; /* a load has been waited for since the last branch or barrier: later ones overlap with it */
    bool progressed;   /* has changed memory since it last looked at memory in vain (see split.h, polling) */
};

enum tsr_memory_access { TSR_ACCESS_MODE_READ, TSR_ACCESS_MODE_WRITE, TSR_ACCESS_MODE_ATOMIC };

/*
 * Host addresses of `bytes` bytes at address[l], for each lane l in m, which must be aligned to `align` (a power of two). `space` is GLOBAL, SHARED,
 * LOCAL or GENERIC: offsets for shared and local, else 64-bit addresses. False: a fault has been raised, return NULL from the operation.
 * host[l] of other lanes is not written.
 */
bool tsr_warp_addresses(struct tsr_warp *w, const struct tsr_insn *i, uint32_t m, enum tsr_space_kind space,
                        const uint64_t address[TSR_WARP_LANES], uint32_t bytes, uint32_t align, enum tsr_memory_access access,
                        unsigned char *host[TSR_WARP_LANES]);

/* The same for one lane; NULL on a fault. */
unsigned char *tsr_warp_address(struct tsr_warp *w, const struct tsr_insn *i, unsigned lane, enum tsr_space_kind space,
                                uint64_t address, uint32_t bytes, uint32_t align, enum tsr_memory_access access);

/*
 * For warp-wide operations with a membermask (.sync): true when the lanes in m may go on together now. False: return *next from the
 * operation; it will be executed again, with more lanes in m, when the missing ones have arrived.
 */
bool tsr_warp_converge(struct tsr_warp *w, const struct tsr_insn *i, uint32_t m, uint32_t mask, const struct tsr_insn **next);

/* Stops the grid with a fault of the thread in `lane`; the operation returns the NULL that this returns. */
const struct tsr_insn *tsr_warp_fault(struct tsr_warp *w, const struct tsr_insn *i, unsigned lane, unsigned fault_kind,
                                      uint64_t address, uint32_t bytes, bool write);

/*
 * Operations of the interpreter for the registry. level: 0 baseline x86-64, 1 x86-64-v3, 2 x86-64-v4. Of each op only key, run,
 * op_class and work are set. The array ends with a group without ops.
 */
struct tsr_op_group {
    const struct tsr_op *ops;
    uint32_t count;
};
const struct tsr_op_group *tsr_exec_op_groups(unsigned level);

#endif
