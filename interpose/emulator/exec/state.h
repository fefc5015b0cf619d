/*
 * What a running grid consists of: workers run teams, a team is the blocks of one cluster (one block where there are no
 * clusters), which always run on one worker at a time: so shared memory, barriers and cluster barriers need no locks.
 *
 * Who may touch what: a team and everything below it belongs to the worker that has taken it from the grid; the grid's own fields say
 * how they are protected. A worker's fields belong to its thread.
 */
#ifndef TSR_EXEC_STATE_H
#define TSR_EXEC_STATE_H

#include <pthread.h>

#include "exec.h"
#include "split.h"

#define TSR_BARRIERS 16u
#define TSR_RANGE_ENTRIES 64u
#define TSR_SHARED_RESERVED_BYTES 1024u /* of the block, for cooperative groups; at an offset after all the program can have */
#define TSR_SHARED_RESERVED_OFFSET 0xf00000u
#define TSR_SHARED_RANK_SHIFT 24u       /* in addresses of the shared window: 0 own block, else rank in the cluster + 1 */
#define TSR_SHARED_WINDOW_BYTES (17ull << TSR_SHARED_RANK_SHIFT)

struct tsr_trace;
struct tsr_printf_text; /* printf.h */

struct tsr_barrier {
    uint32_t arrived;  /* threads */
    uint32_t expected; /* 0: all live threads of the block */
    uint32_t count;    /* bar.red: threads whose predicate holds */
    uint32_t inputs;   /* bar.red: threads that gave one */
};

struct tsr_exec_block {
    struct tsr_team *team;
    uint64_t index; /* linear, in the grid */
    uint32_t ctaid[3];
    uint32_t rank; /* in the cluster */
    uint32_t live_threads;
    uint32_t warp_count, next_warp;
    uint32_t shared_bytes;
    unsigned char *shared, *reserved;
    struct tsr_warp *warps;
    struct tsr_barrier barriers[TSR_BARRIERS];
    uint64_t longest_cycles;
};

/* Memory for one team of blocks, kept for the next ones. */
struct tsr_team {
    struct tsr_team *next; /* queue or cache */
    void *memory;
    size_t memory_bytes;
    uint64_t serial; /* grid whose constants its frames hold */
    struct tsr_grid *grid;
    struct tsr_exec_block *blocks;
    uint32_t block_count;
    uint32_t cluster_arrived;     /* threads */
    uint32_t vain;                /* times it was set aside without progress, in a row */
    struct tsr_printf_text *text; /* what its blocks have printed; NULL: nothing */
    uint64_t index;
};

/* A range of global memory that the worker has used, with the device's permission already checked. */
struct tsr_range_entry {
    uint64_t base, bytes; /* 0 bytes: empty */
    uint8_t *lines;       /* NULL: not counted */
    uint32_t location;
};

struct tsr_worker {
    struct tsr_range_entry reads[TSR_RANGE_ENTRIES], writes[TSR_RANGE_ENTRIES];
    struct tsr_grid *grid;
    const struct tsr_snapshot *snapshot;
    uint64_t deadline_ns;
    uint32_t ticks;
    uint8_t epoch;
    bool alone; /* no other worker: lines need no atomic operations */
    bool traced;
    bool progressed;
    struct tsr_cost cost;
    struct tsr_team *team; /* finished, for reuse */
};

typedef const struct tsr_insn *tsr_loop_fn(struct tsr_warp *w, const struct tsr_insn *i, uint32_t budget);

struct tsr_grid {
    /* constant while it runs */
    struct tsr_grid_desc desc;
    const struct tsr_function *function;
    const struct tsr_ptx_code *code;
    unsigned char *params;
    uint32_t params_bytes;
    uint32_t threads, warps_per_block, last_warp_lanes;
    uint32_t team_blocks, team_grid[3];
    uint64_t block_count, team_count, resident_limit;
    uint32_t shared_bytes, dynamic_offset, stack_bytes, local_stride;
    size_t team_bytes;
    uint64_t serial;
    uint8_t epoch;
    tsr_loop_fn *loop;
    struct tsr_range workspace; /* cooperative: what %envreg1, 2 point to */
    uint32_t workspace_words[16];
    /* atomic */
    uint64_t next_team, resident, finished; /* next_team may run past team_count */
    uint32_t queued;                        /* teams in the queue */
    uint32_t stopping;                      /* fault */
    uint32_t progressed;
    /* under lock */
    pthread_mutex_t lock;
    struct tsr_team *queue_first, *queue_last;
    struct tsr_fault fault;
    uint64_t fault_block;
    struct tsr_cost cost;
    struct tsr_printf_text *texts; /* of finished teams */
    size_t text_bytes;
    struct tsr_trace *trace;
    enum tsr_grid_state state; /* the caller's */
};

static inline struct tsr_grid *tsr_warp_grid(const struct tsr_warp *w)
{
    return w->worker->grid;
}

/* access.c: ranges that exist besides the snapshot's: the grid's workspace, the device heap. */
const struct tsr_range *tsr_grid_find_range(const struct tsr_grid *grid, const struct tsr_snapshot *snapshot, uint64_t address);
/* What lies at a generic address and how much of it, without faults and cost; NULL: nothing. */
const unsigned char *tsr_warp_peek(struct tsr_warp *w, unsigned lane, uint64_t address, uint64_t *available);
void tsr_worker_forget_ranges(struct tsr_worker *worker);

/* barrier_ops.c: lanes have exited. */
void tsr_block_check_barriers(struct tsr_exec_block *block);

/* team.c; tsr_team_get: NULL when out of memory */
struct tsr_team *tsr_team_get(struct tsr_grid *grid, struct tsr_worker *worker, uint64_t index);
void tsr_team_put(struct tsr_team *team); /* to the cache */
enum tsr_team_result { TSR_TEAM_DONE, TSR_TEAM_VAIN, TSR_TEAM_TIME, TSR_TEAM_STOPPED };
enum tsr_team_result tsr_team_run(struct tsr_team *team, struct tsr_worker *worker);
size_t tsr_team_memory(const struct tsr_grid *grid);
uint32_t tsr_team_stack_bytes(const struct tsr_function *function);
void tsr_team_cache_child(void); /* in a forked child */
void tsr_grid_child(void);       /* grid.c */

/* pool.c */
void tsr_pool_run(struct tsr_grid *grid, const struct tsr_snapshot *snapshot, uint64_t deadline_ns);
void tsr_grid_work(struct tsr_grid *grid, struct tsr_worker *worker);

/* loop.c, per level */
tsr_loop_fn tsr_loop_0, tsr_loop_1, tsr_loop_2;

#endif
