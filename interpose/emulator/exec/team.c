/*
 * Teams: memory for the blocks of one cluster, and running them until they finish, wait for others or the time is over.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/os.h"
#include "printf.h"
#include "state.h"

#define BUDGET 4096u /* instructions per slice of a warp */
#define TICKS_PER_LOOK 48u /* slices between looks at the clock, about a millisecond at most */
#define LOOKS 64u    /* polls with changing answers per slice */
#define CACHE_BYTES (256u << 20)
#define CALL_STACK_BYTES (1u << 20)

/* Finished teams' memory, kept for later grids. */
static struct {
    pthread_mutex_t lock;
    struct tsr_team *first;
    size_t bytes;
} cache = {.lock = PTHREAD_MUTEX_INITIALIZER};

void tsr_team_cache_child(void)
{
    pthread_mutex_init(&cache.lock, NULL);
}

static size_t align64(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

struct layout {
    size_t warps, controls, tids, stacks, shared, local, block;
};

static struct layout block_layout(const struct tsr_grid *grid)
{
    struct layout at;
    size_t end = 0;
    at.warps = end;
    end += align64(grid->warps_per_block * sizeof(struct tsr_warp));
    at.controls = end;
    end += align64(grid->warps_per_block * sizeof(struct tsr_warp_control));
    at.tids = end;
    end += (size_t)grid->warps_per_block * 3 * TSR_WARP_LANES * sizeof(uint32_t);
    at.stacks = end;
    end += (size_t)grid->warps_per_block * grid->stack_bytes;
    at.shared = end;
    end += align64(grid->shared_bytes) + TSR_SHARED_RESERVED_BYTES;
    at.local = end;
    end += align64((size_t)grid->warps_per_block * TSR_WARP_LANES * grid->local_stride);
    at.block = end;
    return at;
}

uint32_t tsr_team_stack_bytes(const struct tsr_function *function)
{
    return (uint32_t)sizeof(struct tsr_frame) + function->frame_bytes + (function->calls ? CALL_STACK_BYTES : 0);
}

size_t tsr_team_memory(const struct tsr_grid *grid)
{
    return align64(sizeof(struct tsr_team)) + align64(grid->team_blocks * sizeof(struct tsr_exec_block)) +
           grid->team_blocks * block_layout(grid).block;
}

static struct tsr_team *cache_take(const struct tsr_grid *grid)
{
    struct tsr_team *team = NULL;
    pthread_mutex_lock(&cache.lock);
    for (struct tsr_team **link = &cache.first; *link != NULL; link = &(*link)->next)
        if ((*link)->memory_bytes >= grid->team_bytes && (*link)->memory_bytes / 4 <= grid->team_bytes) {
            team = *link;
            *link = team->next;
            cache.bytes -= team->memory_bytes;
            break;
        }
    pthread_mutex_unlock(&cache.lock);
    return team;
}

void tsr_team_put(struct tsr_team *team)
{
    pthread_mutex_lock(&cache.lock);
    bool keep = cache.bytes + team->memory_bytes <= CACHE_BYTES;
    if (keep) {
        team->next = cache.first;
        cache.first = team;
        cache.bytes += team->memory_bytes;
    }
    pthread_mutex_unlock(&cache.lock);
    if (!keep)
        tsr_os_unmap(team, team->memory_bytes);
}

static struct tsr_team *team_create(const struct tsr_grid *grid)
{
    size_t bytes = (grid->team_bytes + 4095) & ~(size_t)4095;
    void *memory = tsr_os_map(NULL, bytes, PROT_READ | PROT_WRITE, -1, 0);
    if (memory == NULL)
        return NULL;
    struct tsr_team *team = memory;
    team->memory_bytes = bytes;
    return team;
}

static void warp_bind(const struct tsr_grid *grid, struct tsr_exec_block *block, uint32_t n, unsigned char *memory,
                      const struct layout *at)
{
    struct tsr_warp *w = &block->warps[n];
    struct tsr_warp_control *control = (struct tsr_warp_control *)(void *)(memory + at->controls) + n;
    *w = (struct tsr_warp){.block = block,
                           .control = control,
                           .shared = block->shared,
                           .shared_bytes = grid->shared_bytes,
                           .local = memory + at->local + (size_t)n * TSR_WARP_LANES * grid->local_stride,
                           .local_stride = grid->local_stride,
                           .index = n};
    uint32_t *tid = (uint32_t *)(void *)(memory + at->tids) + (size_t)n * 3 * TSR_WARP_LANES;
    const uint32_t *shape = grid->desc.block;
    for (uint32_t l = 0; l < TSR_WARP_LANES; l++) {
        uint32_t thread = n * TSR_WARP_LANES + l;
        tid[l] = thread % shape[0];
        tid[TSR_WARP_LANES + l] = thread / shape[0] % shape[1];
        tid[2 * TSR_WARP_LANES + l] = thread / shape[0] / shape[1];
    }
    for (int axis = 0; axis < 3; axis++)
        control->tid[axis] = tid + axis * (int)TSR_WARP_LANES;
    control->stack = memory + at->stacks + (size_t)n * grid->stack_bytes;
    control->stack_end = control->stack + grid->stack_bytes;
    const struct tsr_function *function = grid->function;
    memcpy(control->stack + sizeof(struct tsr_frame) + function->template_begin,
           function->frame_template + function->template_begin, function->template_end - function->template_begin);
}

/* Gives the memory this grid's layout and constants. */
static void team_bind(struct tsr_grid *grid, struct tsr_team *team)
{
    unsigned char *memory = (unsigned char *)team + align64(sizeof *team);
    struct layout at = block_layout(grid);
    team->blocks = (struct tsr_exec_block *)(void *)memory;
    team->block_count = grid->team_blocks;
    team->grid = grid;
    team->serial = grid->serial;
    memory += align64(team->block_count * sizeof *team->blocks);
    for (uint32_t b = 0; b < team->block_count; b++, memory += at.block) {
        team->blocks[b] = (struct tsr_exec_block){.team = team,
                                                  .rank = b,
                                                  .warp_count = grid->warps_per_block,
                                                  .shared = memory + at.shared,
                                                  .reserved = memory + at.local - TSR_SHARED_RESERVED_BYTES,
                                                  .shared_bytes = grid->shared_bytes,
                                                  .warps = (struct tsr_warp *)(void *)(memory + at.warps)};
        for (uint32_t n = 0; n < grid->warps_per_block; n++)
            warp_bind(grid, &team->blocks[b], n, memory, &at);
    }
}

/* Places the blocks of cluster number `index` in the grid. */
static void team_start(struct tsr_grid *grid, struct tsr_team *team, uint64_t index)
{
    const struct tsr_grid_desc *desc = &grid->desc;
    uint64_t rest = index;
    uint32_t origin[3];
    for (int axis = 0; axis < 3; axis++) {
        origin[axis] = (uint32_t)(rest % grid->team_grid[axis]) * desc->cluster[axis];
        rest /= grid->team_grid[axis];
    }
    team->index = index;
    team->cluster_arrived = team->vain = 0;
    for (uint32_t b = 0; b < team->block_count; b++) {
        struct tsr_exec_block *block = &team->blocks[b];
        block->ctaid[0] = origin[0] + b % desc->cluster[0];
        block->ctaid[1] = origin[1] + b / desc->cluster[0] % desc->cluster[1];
        block->ctaid[2] = origin[2] + b / desc->cluster[0] / desc->cluster[1];
        block->index =
            block->ctaid[0] + (uint64_t)desc->grid[0] * (block->ctaid[1] + (uint64_t)desc->grid[1] * block->ctaid[2]);
        block->live_threads = grid->threads;
        memset(block->barriers, 0, sizeof block->barriers);
        block->longest_cycles = 0;
        for (uint32_t n = 0; n < block->warp_count; n++)
            tsr_warp_start(&block->warps[n], grid->function, n + 1 == block->warp_count ? grid->last_warp_lanes : UINT32_MAX);
    }
}

struct tsr_team *tsr_team_get(struct tsr_grid *grid, struct tsr_worker *worker, uint64_t index)
{
    struct tsr_team *team = worker->team;
    worker->team = NULL;
    if (team == NULL)
        team = cache_take(grid);
    if (team == NULL)
        team = team_create(grid);
    if (team == NULL)
        return NULL;
    if (team->serial != grid->serial)
        team_bind(grid, team);
    team_start(grid, team, index);
    return team;
}

static void warp_finish(struct tsr_warp *w)
{
    const struct tsr_counters *counters = &w->control->counters;
    struct tsr_cost *cost = &w->worker->cost;
    cost->warp_instructions += counters->instructions;
    cost->lane_instructions += counters->lanes;
    cost->issue_cycles += (counters->cycles + 8) / 16;
    cost->l2_bytes += counters->l2_sectors * 32;
    cost->shared_cycles += counters->shared_cycles;
    cost->atomics += counters->atomics;
    uint64_t cycles = counters->cycles / 16 + counters->latency_cycles;
    if (cycles > cost->longest_block_cycles)
        cost->longest_block_cycles = cycles;
}

/* Runs the warp until its budget is used up or it waits. False: it only looked at memory that others have not changed. */
static bool slice(struct tsr_warp *w, struct tsr_worker *worker)
{
    struct tsr_warp_control *control = w->control;
    w->worker = worker;
    control->looks = 0;
    const struct tsr_insn *pc = control->has_running ? control->pc : tsr_split_next(w);
    while (pc != NULL) {
        control->stop = TSR_STOP_NONE;
        pc = worker->grid->loop(w, pc, BUDGET);
        if (pc != NULL) {
            control->pc = pc;
            control->polls = 0;
            tsr_split_rotate(w);
            return true;
        }
        if (control->stop == TSR_STOP_EXIT)
            warp_finish(w);
        if (control->stop != TSR_STOP_POLL && control->stop != TSR_STOP_COUNT)
            return true;
        pc = control->pc;
        if (control->stop == TSR_STOP_COUNT) {
            if (++control->looks < LOOKS)
                continue;
            return true;
        }
        if (control->polls == 0) {
            control->poll_counters = control->counters;
            if (++control->looks < LOOKS)
                continue;
            return true;
        }
        control->counters = control->poll_counters;
        tsr_split_rotate(w);
        return false;
    }
    return true;
}

/* Nothing can run: a split that waits for its membermask goes on alone, else the block is stuck for good. */
static bool break_deadlock(struct tsr_team *team, struct tsr_worker *worker)
{
    struct tsr_warp *stuck = NULL;
    for (uint32_t b = 0; b < team->block_count; b++)
        for (uint32_t n = 0; n < team->blocks[b].warp_count; n++) {
            struct tsr_warp *w = &team->blocks[b].warps[n];
            if (w->live == 0)
                continue;
            if (tsr_split_force(w))
                return true;
            if (stuck == NULL)
                stuck = w;
        }
    struct tsr_split *split = &stuck->control->splits[0];
    stuck->worker = worker;
    stuck->control->frame = split->frame;
    tsr_warp_fault(stuck, split->pc, (unsigned)__builtin_ctz(split->mask), TSR_FAULT_DEADLOCK, 0, 0, false);
    return false;
}

enum tsr_team_result tsr_team_run(struct tsr_team *team, struct tsr_worker *worker)
{
    for (;;) {
        bool alive = false, ran = false, progressed = false;
        for (uint32_t b = 0; b < team->block_count; b++)
            for (uint32_t n = 0; n < team->blocks[b].warp_count; n++) {
                struct tsr_warp *w = &team->blocks[b].warps[n];
                if (w->live == 0)
                    continue;
                alive = true;
                if (!tsr_split_runnable(w))
                    continue;
                ran = true;
                worker->ticks++;
                progressed |= slice(w, worker);
                if (w->control->stop == TSR_STOP_FAULT)
                    return TSR_TEAM_STOPPED;
            }
        if (!alive)
            return TSR_TEAM_DONE;
        if (__atomic_load_n(&worker->grid->stopping, __ATOMIC_RELAXED))
            return TSR_TEAM_STOPPED;
        if (!ran && !break_deadlock(team, worker))
            return TSR_TEAM_STOPPED;
        if (ran && !progressed)
            return TSR_TEAM_VAIN;
        if (worker->ticks >= TICKS_PER_LOOK) {
            worker->ticks = 0;
            if (tsr_os_monotonic_ns() >= worker->deadline_ns)
                return TSR_TEAM_TIME;
        }
    }
}
