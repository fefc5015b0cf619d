/*
 * The careful way to memory: lane by lane, any mixture of spaces, precise faults. Loads and stores use it when their quick test fails; the
 * other operations always.
 */
#include <string.h>

#include "../space/bounds.h"
#include "heap.h"
#include "lines.h"
#include "state.h"

void tsr_worker_forget_ranges(struct tsr_worker *worker)
{
    memset(worker->reads, 0, sizeof worker->reads);
    memset(worker->writes, 0, sizeof worker->writes);
}

const struct tsr_range *tsr_grid_find_range(const struct tsr_grid *grid, const struct tsr_snapshot *snapshot, uint64_t address)
{
    if (address - grid->workspace.base < grid->workspace.bytes)
        return &grid->workspace;
    const struct tsr_range *range = tsr_snapshot_find(snapshot, address);
    return range != NULL ? range : tsr_heap_range(address);
}

static bool holds(const struct tsr_range_entry *entry, uint64_t address, uint32_t bytes)
{
    return entry->bytes >= bytes && address - entry->base <= entry->bytes - bytes;
}

const struct tsr_range_entry *tsr_range_entry_find(struct tsr_warp *w, const struct tsr_insn *i, uint64_t address,
                                                   uint32_t bytes, bool write)
{
    struct tsr_worker *worker = w->worker;
    struct tsr_range_entry *entry = &(write ? worker->writes : worker->reads)[tsr_range_slot(i)];
    if (holds(entry, address, bytes))
        return entry;
    const struct tsr_range *range = tsr_grid_find_range(worker->grid, worker->snapshot, address);
    if (range == NULL || !(tsr_range_devices(range, write) >> worker->grid->desc.device & 1))
        return NULL;
    struct tsr_bounds_part part = tsr_bounds_part(range, address);
    uint8_t *lines = write ? range->write_lines : range->read_lines;
    if (lines != NULL)
        lines += (part.base - range->base) >> TSR_LINE_SHIFT;
    *entry = (struct tsr_range_entry){.base = part.base, .bytes = part.bytes, .lines = lines, .location = range->location};
    return holds(entry, address, bytes) ? entry : NULL;
}

uint32_t tsr_sectors_count(const uint64_t address[TSR_WARP_LANES], uint32_t m, uint32_t bytes)
{
    uint64_t seen[64];
    uint64_t used = 0;
    uint32_t count = 0;
    for (uint32_t rest = m; rest != 0; rest &= rest - 1) {
        uint64_t first = address[__builtin_ctz(rest)];
        for (uint64_t sector = first >> TSR_SECTOR_SHIFT; sector <= (first + bytes - 1) >> TSR_SECTOR_SHIFT; sector++) {
            unsigned slot = sector % 64;
            if (used >> slot & 1 && seen[slot] == sector)
                continue;
            used |= 1ull << slot;
            seen[slot] = sector;
            count++;
        }
    }
    return count;
}

/*
 * Cycles of the shared-memory pipe: a phase serves 128 bytes' worth of lanes, one distinct word per bank and cycle. Words that collide
 * again after another of their bank count twice: the exact number is not worth its time.
 */
uint32_t tsr_bank_cycles(const uint32_t offset[TSR_WARP_LANES], uint32_t m, uint32_t bytes)
{
    uint32_t shift = bytes <= 4 ? 2 : bytes <= 8 ? 3 : 4, lanes = 128u >> shift, cycles = 0;
    for (uint32_t begin = 0; begin < TSR_WARP_LANES; begin += lanes) {
        uint32_t last[32] = {0}, worst = 0;
        uint8_t distinct[32] = {0};
        for (uint32_t l = begin; l < begin + lanes; l++) {
            uint32_t unit = offset[l] >> shift, bank = unit & (lanes - 1);
            uint32_t counts = (m >> l & 1) & (distinct[bank] == 0 || last[bank] != unit ? 1u : 0u);
            last[bank] = counts ? unit : last[bank];
            distinct[bank] = (uint8_t)(distinct[bank] + counts);
            worst = distinct[bank] > worst ? distinct[bank] : worst;
        }
        cycles += worst;
    }
    return bytes > 16 ? cycles * (bytes / 16) : cycles;
}

static CUresult fault_result(unsigned kind)
{
    switch (kind) {
    case TSR_FAULT_ILLEGAL_ADDRESS:
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    case TSR_FAULT_MISALIGNED:
        return CUDA_ERROR_MISALIGNED_ADDRESS;
    case TSR_FAULT_SHARED_RANGE:
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    case TSR_FAULT_LOCAL_RANGE:
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    case TSR_FAULT_ASSERT:
        return CUDA_ERROR_ASSERT;
    case TSR_FAULT_STACK:
        return CUDA_ERROR_HARDWARE_STACK_ERROR;
    case TSR_FAULT_INSTRUCTION:
        return CUDA_ERROR_ILLEGAL_INSTRUCTION;
    case TSR_FAULT_PC:
        return CUDA_ERROR_INVALID_PC;
    case TSR_FAULT_DEADLOCK:
        return CUDA_ERROR_LAUNCH_TIMEOUT;
    default:
        return CUDA_ERROR_LAUNCH_FAILED;
    }
}

const struct tsr_insn *tsr_warp_fault(struct tsr_warp *w, const struct tsr_insn *i, unsigned lane, unsigned fault_kind,
                                      uint64_t address, uint32_t bytes, bool write)
{
    struct tsr_grid *grid = tsr_warp_grid(w);
    struct tsr_warp_control *control = w->control;
    pthread_mutex_lock(&grid->lock);
    if (grid->fault.kind == TSR_FAULT_NONE || w->block->index < grid->fault_block) {
        grid->fault_block = w->block->index;
        grid->fault = (struct tsr_fault){.kind = (enum tsr_fault_kind)fault_kind,
                                         .result = fault_result(fault_kind),
                                         .function = control->frame->function,
                                         .line = i->line,
                                         .address = address,
                                         .bytes = bytes,
                                         .write = write};
        for (int axis = 0; axis < 3; axis++) {
            grid->fault.block[axis] = w->block->ctaid[axis];
            grid->fault.thread[axis] = control->tid[axis][lane];
        }
    }
    pthread_mutex_unlock(&grid->lock);
    __atomic_store_n(&grid->stopping, 1, __ATOMIC_RELEASE);
    control->stop = TSR_STOP_FAULT;
    return NULL;
}

static unsigned char *shared_host(struct tsr_warp *w, uint64_t offset, uint32_t bytes)
{
    const struct tsr_exec_block *block = w->block;
    if (offset - TSR_SHARED_RESERVED_OFFSET < TSR_SHARED_RESERVED_BYTES) {
        offset -= TSR_SHARED_RESERVED_OFFSET;
        return offset <= TSR_SHARED_RESERVED_BYTES - bytes ? block->reserved + offset : NULL;
    }
    uint64_t rank = offset >> TSR_SHARED_RANK_SHIFT;
    if (rank != 0) {
        if (rank > block->team->block_count)
            return NULL;
        block = &block->team->blocks[rank - 1];
        offset &= (1u << TSR_SHARED_RANK_SHIFT) - 1;
    }
    return block->shared_bytes >= bytes && offset <= block->shared_bytes - bytes ? block->shared + offset : NULL;
}

static unsigned char *local_host(struct tsr_warp *w, unsigned lane, uint64_t offset, uint32_t bytes)
{
    return w->local_stride >= bytes && offset <= w->local_stride - bytes ? w->local + (size_t)lane * w->local_stride + offset
                                                                         : NULL;
}

static unsigned char *lane_host(struct tsr_warp *w, const struct tsr_insn *i, unsigned lane, enum tsr_space_kind space,
                                uint64_t address, uint32_t bytes, uint32_t align, enum tsr_memory_access access)
{
    bool write = access != TSR_ACCESS_MODE_READ;
    unsigned char *host = NULL;
    enum tsr_fault_kind kind = TSR_FAULT_ILLEGAL_ADDRESS;
    uint64_t offset = address;
    if (space == TSR_SPACE_GENERIC) {
        if (address - TSR_SHARED_WINDOW < TSR_SHARED_WINDOW_BYTES) {
            space = TSR_SPACE_SHARED;
            offset = address - TSR_SHARED_WINDOW;
        } else if (address - TSR_LOCAL_WINDOW < TSR_WINDOW_BYTES) {
            space = TSR_SPACE_LOCAL;
            offset = address - TSR_LOCAL_WINDOW;
        } else if (address - TSR_PARAM_WINDOW < TSR_WINDOW_BYTES && !write) {
            space = TSR_SPACE_PARAM;
            offset = address - TSR_PARAM_WINDOW;
        }
    }
    if (address & (align - 1)) {
        tsr_warp_fault(w, i, lane, TSR_FAULT_MISALIGNED, address, bytes, write);
        return NULL;
    }
    if (space == TSR_SPACE_SHARED) {
        host = shared_host(w, offset, bytes);
        kind = TSR_FAULT_SHARED_RANGE;
    } else if (space == TSR_SPACE_LOCAL) {
        host = local_host(w, lane, offset, bytes);
        kind = TSR_FAULT_LOCAL_RANGE;
    } else if (space == TSR_SPACE_PARAM) {
        const struct tsr_grid *grid = tsr_warp_grid(w);
        if (grid->params_bytes >= bytes && offset <= grid->params_bytes - bytes)
            host = grid->params + offset;
    } else {
        struct tsr_worker *worker = w->worker;
        const struct tsr_range_entry *entry = tsr_range_entry_find(w, i, address, bytes, write);
        if (entry != NULL && access == TSR_ACCESS_MODE_ATOMIC) {
            tsr_lines_touch(worker, entry, address - entry->base, bytes, true);
            entry = tsr_range_entry_find(w, i, address, bytes, false);
        }
        if (entry != NULL) {
            host = (unsigned char *)(uintptr_t)address;
            tsr_lines_touch(worker, entry, address - entry->base, bytes, access == TSR_ACCESS_MODE_WRITE);
            w->l2_sectors += tsr_sectors_between(address, bytes);
            tsr_latency_add(w, TSR_GLOBAL_LATENCY_CYCLES);
            if (worker->traced)
                tsr_trace_add(worker->grid, access, address, bytes);
        }
    }
    if (host == NULL)
        tsr_warp_fault(w, i, lane, kind, address, bytes, write);
    else if (write)
        w->progressed = true;
    return host;
}

unsigned char *tsr_warp_address(struct tsr_warp *w, const struct tsr_insn *i, unsigned lane, enum tsr_space_kind space,
                                uint64_t address, uint32_t bytes, uint32_t align, enum tsr_memory_access access)
{
    if (space == TSR_SPACE_SHARED) {
        w->shared_cycles++;
        tsr_latency_add(w, TSR_SHARED_LATENCY_CYCLES);
    }
    return lane_host(w, i, lane, space, address, bytes, align, access);
}

/* All lanes in the block's own shared memory, aligned. */
static bool shared_at_once(struct tsr_warp *w, uint32_t m, const uint64_t *address, uint32_t bytes, uint32_t align,
                           enum tsr_memory_access access, unsigned char **host)
{
    uint64_t limit = w->shared_bytes - bytes, bad = w->shared_bytes < bytes;
    uint32_t offset[TSR_WARP_LANES] = {0};
    for (uint32_t rest = m; rest != 0; rest &= rest - 1) {
        unsigned lane = (unsigned)__builtin_ctz(rest);
        bad |= (address[lane] > limit ? 1u : 0u) | (address[lane] & (align - 1));
        offset[lane] = (uint32_t)address[lane];
        host[lane] = w->shared + offset[lane];
    }
    if (bad != 0)
        return false;
    w->shared_cycles += tsr_bank_cycles(offset, m, bytes);
    tsr_latency_add(w, TSR_SHARED_LATENCY_CYCLES);
    w->progressed |= access != TSR_ACCESS_MODE_READ;
    return true;
}

/* All lanes in one range of global memory, aligned. */
static bool global_at_once(struct tsr_warp *w, const struct tsr_insn *i, uint32_t m, const uint64_t *address, uint32_t bytes,
                           uint32_t align, enum tsr_memory_access access, unsigned char **host)
{
    struct tsr_worker *worker = w->worker;
    bool write = access != TSR_ACCESS_MODE_READ;
    uint64_t first = address[__builtin_ctz(m)], bad = 0, line = UINT64_MAX;
    const struct tsr_range_entry *entry = tsr_range_entry_find(w, i, first, bytes, write), *read = NULL;
    if (entry == NULL || worker->traced)
        return false;
    if (access == TSR_ACCESS_MODE_ATOMIC && (read = tsr_range_entry_find(w, i, first, bytes, false)) == NULL)
        return false;
    for (uint32_t rest = m; rest != 0; rest &= rest - 1) {
        unsigned lane = (unsigned)__builtin_ctz(rest);
        bad |= (holds(entry, address[lane], bytes) ? 0u : 1u) | (address[lane] & (align - 1));
        host[lane] = (unsigned char *)(uintptr_t)address[lane];
    }
    if (bad != 0)
        return false;
    for (uint32_t rest = m; rest != 0; rest &= rest - 1) {
        uint64_t offset = address[__builtin_ctz(rest)] - entry->base;
        if (offset >> TSR_LINE_SHIFT == line && (offset + bytes - 1) >> TSR_LINE_SHIFT == line)
            continue;
        line = offset >> TSR_LINE_SHIFT;
        tsr_lines_touch(worker, entry, offset, bytes, write);
        if (read != NULL)
            tsr_lines_touch(worker, read, offset, bytes, false);
    }
    w->l2_sectors += tsr_sectors_count(address, m, bytes);
    tsr_latency_add(w, TSR_GLOBAL_LATENCY_CYCLES);
    w->progressed |= write;
    return true;
}

bool tsr_warp_addresses(struct tsr_warp *w, const struct tsr_insn *i, uint32_t m, enum tsr_space_kind space,
                        const uint64_t address[TSR_WARP_LANES], uint32_t bytes, uint32_t align, enum tsr_memory_access access,
                        unsigned char *host[TSR_WARP_LANES])
{
    if (space == TSR_SPACE_SHARED && shared_at_once(w, m, address, bytes, align, access, host))
        return true;
    if (space == TSR_SPACE_GLOBAL && global_at_once(w, i, m, address, bytes, align, access, host))
        return true;
    uint32_t sectors_before = w->l2_sectors, shared = 0;
    uint32_t offset[TSR_WARP_LANES] = {0};
    for (uint32_t rest = m; rest != 0; rest &= rest - 1) {
        unsigned lane = (unsigned)__builtin_ctz(rest);
        host[lane] = lane_host(w, i, lane, space, address[lane], bytes, align, access);
        if (host[lane] == NULL)
            return false;
        offset[lane] = (uint32_t)address[lane];
        if (space == TSR_SPACE_SHARED ||
            (space == TSR_SPACE_GENERIC && address[lane] - TSR_SHARED_WINDOW < TSR_SHARED_WINDOW_BYTES))
            shared |= 1u << lane;
    }
    if (shared != 0) {
        w->shared_cycles += tsr_bank_cycles(offset, shared, bytes);
        tsr_latency_add(w, TSR_SHARED_LATENCY_CYCLES);
    }
    if (w->l2_sectors != sectors_before)
        w->l2_sectors = sectors_before + tsr_sectors_count(address, m & ~shared, bytes);
    return true;
}

const unsigned char *tsr_warp_peek(struct tsr_warp *w, unsigned lane, uint64_t address, uint64_t *available)
{
    if (address - TSR_SHARED_WINDOW < w->shared_bytes) {
        *available = w->shared_bytes - (address - TSR_SHARED_WINDOW);
        return w->shared + (address - TSR_SHARED_WINDOW);
    }
    if (address - TSR_LOCAL_WINDOW < w->local_stride) {
        *available = w->local_stride - (address - TSR_LOCAL_WINDOW);
        return w->local + (size_t)lane * w->local_stride + (address - TSR_LOCAL_WINDOW);
    }
    const struct tsr_grid *grid = tsr_warp_grid(w);
    const struct tsr_range *range = tsr_grid_find_range(grid, w->worker->snapshot, address);
    if (range == NULL || !(tsr_range_devices(range, false) >> grid->desc.device & 1))
        return NULL;
    struct tsr_bounds_part part = tsr_bounds_part(range, address);
    if (part.bytes == 0)
        return NULL;
    *available = part.bytes - (address - part.base);
    return (const unsigned char *)(uintptr_t)address;
}
