/*
 * Making, driving and ending grids.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/os.h"
#include "../isa/level.h"
#include "printf.h"
#include "registry.h"
#include "state.h"
#include "tessera/machine.h"
#include "trace.h"

#define RESIDENT_BYTES (4ull << 30) /* at most, of team memory at a time where blocks need not all be resident */
#define LARGE_DEVICE_BLOCKS 2048u

static uint64_t next_serial; /* atomic */

static struct {
    pthread_mutex_t lock;
    uint8_t last;
} epochs = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void clear_lines(uint8_t *lines, uint64_t bytes)
{
    uint64_t count = (bytes + 127) / 128;
    uintptr_t begin = ((uintptr_t)lines + 4095) & ~(uintptr_t)4095, end = ((uintptr_t)lines + count) & ~(uintptr_t)4095;
    if (lines == NULL)
        return;
    if (count < 1u << 16 ||
        madvise((void *)begin, end - begin, MADV_DONTNEED) != 0) { /* private memory: the pages become zero */
        memset(lines, 0, count);
        return;
    }
    memset(lines, 0, begin - (uintptr_t)lines);
    memset((void *)end, 0, (uintptr_t)lines + count - end);
}

/* A stamp for lines that no line carries. */
static uint8_t epoch_take(struct tsr_space *space)
{
    pthread_mutex_lock(&epochs.lock);
    if (++epochs.last == 0) {
        const struct tsr_snapshot *snapshot = tsr_space_get(space);
        for (uint32_t r = 0; r < snapshot->count; r++) {
            clear_lines(snapshot->ranges[r]->read_lines, snapshot->ranges[r]->bytes);
            clear_lines(snapshot->ranges[r]->write_lines, snapshot->ranges[r]->bytes);
        }
        tsr_space_put(space, snapshot);
        epochs.last = 1;
    }
    uint8_t epoch = epochs.last;
    pthread_mutex_unlock(&epochs.lock);
    return epoch;
}

void tsr_grid_child(void)
{
    pthread_mutex_init(&epochs.lock, NULL);
}

static uint32_t round_up(uint32_t n, uint32_t step)
{
    return (n + step - 1) / step * step;
}

static CUresult measure(struct tsr_grid *grid)
{
    const struct tsr_grid_desc *desc = &grid->desc;
    const struct tsr_function *function = grid->function;
    grid->threads = desc->block[0] * desc->block[1] * desc->block[2];
    grid->warps_per_block = (grid->threads + 31) / 32;
    uint32_t last = grid->threads % 32;
    grid->last_warp_lanes = last == 0 ? UINT32_MAX : (1u << last) - 1;
    grid->team_blocks = 1;
    for (int axis = 0; axis < 3; axis++) {
        if (grid->desc.cluster[axis] == 0)
            grid->desc.cluster[axis] = 1;
        grid->team_blocks *= desc->cluster[axis];
        grid->team_grid[axis] = desc->grid[axis] / desc->cluster[axis];
    }
    grid->block_count = (uint64_t)desc->grid[0] * desc->grid[1] * desc->grid[2];
    grid->team_count = grid->block_count / grid->team_blocks;
    uint32_t align = function->shared_dynamic_align > 16 ? function->shared_dynamic_align : 16;
    grid->dynamic_offset = round_up(function->shared_static_bytes, align);
    uint64_t shared = (uint64_t)grid->dynamic_offset + desc->shared_dynamic_bytes;
    if (shared >= 1u << TSR_SHARED_RANK_SHIFT || function->local_depth_bytes > 1u << 24)
        return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    grid->shared_bytes = (uint32_t)shared;
    uint32_t local = function->local_depth_bytes > function->local_bytes ? function->local_depth_bytes : function->local_bytes;
    grid->local_stride = round_up(local, 16);
    grid->stack_bytes = tsr_team_stack_bytes(function);
    grid->team_bytes = tsr_team_memory(grid);
    return CUDA_SUCCESS;
}

static CUresult limit_residents(struct tsr_grid *grid)
{
    const struct tsr_grid_desc *desc = &grid->desc;
    uint64_t blocks = LARGE_DEVICE_BLOCKS;
    if (desc->device_desc != NULL) {
        uint32_t per_sm =
            tsr_exec_resident_blocks(desc->device_desc, grid->function, grid->threads, desc->shared_dynamic_bytes);
        if (per_sm == 0)
            return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
        uint32_t sms = desc->sm_count != 0 ? desc->sm_count : desc->device_desc->sm_count;
        grid->cost.resident_blocks_per_sm = per_sm;
        blocks = (uint64_t)per_sm * sms;
        if (desc->cooperative && grid->block_count > blocks)
            return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
    }
    grid->resident_limit = blocks / grid->team_blocks;
    if (grid->resident_limit > RESIDENT_BYTES / grid->team_bytes)
        grid->resident_limit = RESIDENT_BYTES / grid->team_bytes;
    if (grid->resident_limit == 0)
        grid->resident_limit = 1;
    if (desc->cooperative)
        grid->resident_limit = grid->team_count;
    return CUDA_SUCCESS;
}

CUresult tsr_grid_create(const struct tsr_grid_desc *desc, struct tsr_grid **out)
{
    static tsr_loop_fn *const loops[] = TSR_LEVELS(tsr_loop);
    struct tsr_grid *grid = calloc(1, sizeof *grid);
    if (grid == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    grid->desc = *desc;
    grid->code = desc->code;
    grid->function = desc->function;
    grid->params_bytes = desc->function->param_bytes;
    grid->params = calloc(1, (size_t)grid->params_bytes + 64);
    CUresult result = grid->params != NULL ? measure(grid) : CUDA_ERROR_OUT_OF_MEMORY;
    if (result == CUDA_SUCCESS)
        result = limit_residents(grid);
    if (result == CUDA_SUCCESS && tsr_trace_enabled() && (grid->trace = tsr_trace_create()) == NULL)
        result = CUDA_ERROR_OUT_OF_MEMORY;
    if (result != CUDA_SUCCESS) {
        free(grid->params);
        free(grid);
        return result;
    }
    if (grid->params_bytes != 0)
        memcpy(grid->params, desc->params, grid->params_bytes);
    grid->loop = loops[tsr_op_level()];
    grid->serial = __atomic_add_fetch(&next_serial, 1, __ATOMIC_RELAXED);
    grid->epoch = epoch_take(desc->space);
    grid->workspace = (struct tsr_range){.base = (uintptr_t)grid->workspace_words,
                                         .bytes = sizeof grid->workspace_words,
                                         .location = desc->device,
                                         .readable = UINT16_MAX,
                                         .writable = UINT16_MAX,
                                         .kind = TSR_RANGE_INTERNAL};
    grid->workspace_words[0] = sizeof grid->workspace_words;
    grid->cost.blocks = grid->block_count;
    grid->cost.warps = grid->block_count * grid->warps_per_block;
    pthread_mutex_init(&grid->lock, NULL);
    *out = grid;
    return CUDA_SUCCESS;
}

enum tsr_grid_state tsr_grid_run(struct tsr_grid *grid, uint64_t quantum_ns)
{
    if (grid->state != TSR_GRID_RUNNING)
        return grid->state;
    grid->progressed = 0;
    const struct tsr_snapshot *snapshot = tsr_space_get(grid->desc.space);
    tsr_pool_run(grid, snapshot, tsr_os_monotonic_ns() + quantum_ns);
    tsr_space_put(grid->desc.space, snapshot);
    if (grid->stopping)
        grid->state = TSR_GRID_FAULT;
    else if (grid->finished == grid->team_count)
        grid->state = TSR_GRID_DONE;
    if (grid->state != TSR_GRID_RUNNING) {
        for (struct tsr_team *team = grid->queue_first; team != NULL; team = team->next)
            tsr_text_hand_over_locked(grid, team); /* nobody else holds the grid any more */
        tsr_text_write(grid);
    }
    return grid->state;
}

const struct tsr_cost *tsr_grid_cost(const struct tsr_grid *grid)
{
    return &grid->cost;
}
const struct tsr_fault *tsr_grid_fault(const struct tsr_grid *grid)
{
    return &grid->fault;
}
bool tsr_grid_made_progress(const struct tsr_grid *grid)
{
    return grid->progressed != 0;
}

void tsr_grid_blocks(const struct tsr_grid *grid, uint64_t *done, uint64_t *all)
{
    *done = grid->finished * grid->team_blocks;
    *all = grid->block_count;
}

void tsr_grid_trace(const struct tsr_grid *grid, tsr_trace_visit *visit, void *ctx)
{
    if (grid->trace != NULL)
        tsr_trace_each(grid->trace, visit, ctx);
}

void tsr_grid_destroy(struct tsr_grid *grid)
{
    if (grid == NULL)
        return;
    for (struct tsr_team *team = grid->queue_first, *next; team != NULL; team = next) {
        next = team->next;
        tsr_text_hand_over_locked(grid, team);
        tsr_team_put(team);
    }
    while (grid->texts != NULL) {
        struct tsr_printf_text *text = grid->texts;
        grid->texts = text->next;
        free(text);
    }
    tsr_trace_destroy(grid->trace);
    pthread_mutex_destroy(&grid->lock);
    free(grid->params);
    free(grid);
}
