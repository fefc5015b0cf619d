/*
 * What an access to global memory costs: distinct lines of 128 bytes per launch (one byte per line in the range, holding the number
 * of the launch that touched it last) and 32-byte sectors per warp access. Inline: part of every load and store.
 */
#ifndef TSR_EXEC_LINES_H
#define TSR_EXEC_LINES_H

#include "state.h"

#define TSR_LINE_SHIFT 7
#define TSR_SECTOR_SHIFT 5
#define TSR_GLOBAL_LATENCY_CYCLES 400u
#define TSR_SHARED_LATENCY_CYCLES 24u

static inline void tsr_line_touch(struct tsr_worker *worker, const struct tsr_range_entry *entry, uint64_t line, bool write)
{
    uint8_t *stamp = &entry->lines[line];
    if (__atomic_load_n(stamp, __ATOMIC_RELAXED) == worker->epoch)
        return;
    if (worker->alone)
        __atomic_store_n(stamp, worker->epoch, __ATOMIC_RELAXED);
    else if (__atomic_exchange_n(stamp, worker->epoch, __ATOMIC_RELAXED) == worker->epoch)
        return;
    (write ? worker->cost.dram_write_bytes : worker->cost.dram_read_bytes)[entry->location] += 1u << TSR_LINE_SHIFT;
}

/* Bytes [offset, offset + bytes) of the range, bytes > 0. */
static inline void tsr_lines_touch(struct tsr_worker *worker, const struct tsr_range_entry *entry, uint64_t offset,
                                   uint64_t bytes, bool write)
{
    if (entry->lines == NULL)
        return;
    for (uint64_t line = offset >> TSR_LINE_SHIFT; line <= (offset + bytes - 1) >> TSR_LINE_SHIFT; line++)
        tsr_line_touch(worker, entry, line, write);
}

static inline uint32_t tsr_sectors_between(uint64_t address, uint64_t bytes)
{
    return (uint32_t)(((address + bytes - 1) >> TSR_SECTOR_SHIFT) - (address >> TSR_SECTOR_SHIFT)) + 1;
}

static inline void tsr_latency_add(struct tsr_warp *w, uint32_t cycles)
{
    if (w->latency_open)
        return;
    w->latency_open = true;
    w->latency_cycles += cycles;
}

/* Of the clock that the warp's cycles are counted in. */
static inline uint64_t tsr_warp_khz(const struct tsr_warp *w)
{
    const struct tsr_device_desc *device = w->block->team->grid->desc.device_desc;
    return device != NULL && device->clock_khz != 0 ? device->clock_khz : 1500000;
}

/* access.c */
uint32_t tsr_sectors_count(const uint64_t address[TSR_WARP_LANES], uint32_t m, uint32_t bytes);
uint32_t tsr_bank_cycles(const uint32_t offset[TSR_WARP_LANES], uint32_t m, uint32_t bytes);
/* The worker's entry for the range that holds [address, address + bytes), filled if it was not there; NULL: no access. */
const struct tsr_range_entry *tsr_range_entry_find(struct tsr_warp *w, const struct tsr_insn *i, uint64_t address,
                                                   uint32_t bytes, bool write);

static inline unsigned tsr_range_slot(const struct tsr_insn *i)
{
    return (unsigned)((uintptr_t)i / sizeof *i) % TSR_RANGE_ENTRIES;
}

/* trace.c: bytes of global memory, for every lane of m. Called only when worker->traced. */
void tsr_trace_add(struct tsr_grid *grid, enum tsr_memory_access access, uint64_t address, uint64_t bytes);

#endif
