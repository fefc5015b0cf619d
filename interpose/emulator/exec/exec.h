/*
 * Runs grids of decoded functions.
 *
 * A grid is resumable: tsr_grid_run works on it until it is finished, has failed, or its quantum is used up, with as many worker threads as the
 * machine says (the calling thread is one of them). Blocks are started in order of their linear index; a block that makes no progress
 * (spins on memory, waits for other blocks) is set aside after a step budget and others run, up to the device's resident limit (all blocks of a
 * cooperative grid are resident). Results do not depend on the number of workers except where the program itself races;
 * cost never does.
 */
#ifndef TSR_EXEC_EXEC_H
#define TSR_EXEC_EXEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cuda.h>
#include <tessera/access.h>

#include "../space/space.h"
#include "../ptx/code.h"

struct tsr_grid_desc {
    const struct tsr_ptx_code *code;
    const struct tsr_function *function;
    uint32_t grid[3], block[3], cluster[3]; /* cluster: 1,1,1 when none */
    uint32_t shared_dynamic_bytes;
    const void *params; /* function->param_bytes, copied */
    bool cooperative;
    uint32_t device;                           /* number in the machine */
    uint32_t sm_count;                         /* limit of a green context, else the device's */
    const struct tsr_device_desc *device_desc; /* NULL: limits of a large device */
    uint64_t start_ns;                         /* virtual time at which it becomes ready: origin of %globaltimer and %clock */
    uint64_t grid_id;
    struct tsr_space *space;
    uint64_t printf_buffer; /* unused: 0 */
};

/* What the grid did: input of the clock (machine/clock.h). Exact and reproducible. */
struct tsr_cost {
    uint64_t warp_instructions;
    uint64_t lane_instructions; /* active lanes summed */
    uint64_t issue_cycles;      /* sum over warps, in cycles of one scheduler */
    uint64_t
        longest_block_cycles; /* longest dependent chain: max over blocks of (max over warps of own cycles, memory latency included) */
    uint64_t blocks, warps;
    uint64_t dram_read_bytes[17]; /* distinct 128-byte lines first read in this launch x 128, by location (16 = host) */
    uint64_t dram_write_bytes[17];
    uint64_t l2_bytes;      /* 32-byte sectors requested by all global accesses x 32 */
    uint64_t shared_cycles; /* shared-memory pipe, bank conflicts included */
    uint64_t atomics;
    uint32_t resident_blocks_per_sm;
};

enum tsr_fault_kind {
    TSR_FAULT_NONE,
    TSR_FAULT_ILLEGAL_ADDRESS,
    TSR_FAULT_MISALIGNED,
    TSR_FAULT_SHARED_RANGE,
    TSR_FAULT_LOCAL_RANGE,
    TSR_FAULT_TRAP,
    TSR_FAULT_ASSERT,
    TSR_FAULT_STACK,
    TSR_FAULT_INSTRUCTION,
    TSR_FAULT_PC,
    TSR_FAULT_DEADLOCK /* every thread of a block waits at barriers that cannot complete */
};

struct tsr_fault {
    enum tsr_fault_kind kind;
    CUresult
        result; /* the sticky error a real driver returns: ILLEGAL_ADDRESS, MISALIGNED_ADDRESS, LAUNCH_FAILED, ASSERT, ILLEGAL_INSTRUCTION, ... */
    const struct tsr_function *function;
    uint32_t line; /* PTX line */
    uint32_t block[3], thread[3];
    uint64_t address;
    uint32_t bytes;
    bool write;
};

enum tsr_grid_state { TSR_GRID_RUNNING, TSR_GRID_DONE, TSR_GRID_FAULT };

struct tsr_grid;

/* Errors: OUT_OF_MEMORY; LAUNCH_OUT_OF_RESOURCES when a block cannot fit; COOPERATIVE_LAUNCH_TOO_LARGE. The launch shape has been validated by the caller. */
CUresult tsr_grid_create(const struct tsr_grid_desc *desc, struct tsr_grid **out);
/* Works for about quantum_ns of real time. RUNNING: call again. Not to be called by two threads at once. */
enum tsr_grid_state tsr_grid_run(struct tsr_grid *grid, uint64_t quantum_ns);
const struct tsr_cost *tsr_grid_cost(const struct tsr_grid *grid);   /* after DONE or FAULT */
const struct tsr_fault *tsr_grid_fault(const struct tsr_grid *grid); /* first fault, by block order among those that happened */
bool tsr_grid_made_progress(const struct tsr_grid *grid); /* false: in the last quantum every resident block only spun */
/* How many of all blocks are done; between calls of tsr_grid_run. */
void tsr_grid_blocks(const struct tsr_grid *grid, uint64_t *done, uint64_t *all);
void tsr_grid_destroy(struct tsr_grid *grid);

/* Occupancy: resident blocks per SM. */
uint32_t tsr_exec_resident_blocks(const struct tsr_device_desc *device, const struct tsr_function *function,
                                  uint32_t block_threads, uint32_t shared_dynamic_bytes);

/*
 * Exact access trace. When set, every launch appends what it read and wrote. visit is called after each grid, single-threaded, in
 * ascending order: maximal intervals of bytes touched, per kind. Slow; for tests (TESSERA_ACCESS_TRACE writes it as JSON lines, entry/trace.c).
 */
typedef void tsr_trace_visit(void *ctx, enum tsr_access_kind kind, uint64_t begin, uint64_t end);
void tsr_exec_trace_enable(bool on);
void tsr_grid_trace(const struct tsr_grid *grid, tsr_trace_visit *visit, void *ctx);

/* Starts the worker threads of this process (0: number of CPUs); they sleep while idle. Fork-safe: a child starts its own on first use. */
void tsr_exec_workers(uint32_t count);

#endif
