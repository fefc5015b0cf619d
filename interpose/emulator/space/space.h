/*
 * The process' device address space: which addresses exist, whose memory it is, who may touch it.
 *
 * Device addresses are host addresses: a range is mapped in this process at `base`. Ranges never overlap. Kernels and copies look
 * addresses up through a snapshot, an immutable sorted array; changes publish a new one. A range is unmapped only after every snapshot that
 * shows it has been put back (tsr_space_remove waits for that; a running grid puts its snapshot back at least every 20 ms of real time).
 */
#ifndef TSR_MEMORY_SPACE_H
#define TSR_MEMORY_SPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cuda.h>

#define TSR_LOCATION_HOST 16u /* location of host memory; 0..15 are devices */

enum tsr_range_kind {
    TSR_RANGE_PLAIN,
    TSR_RANGE_VMM,
    TSR_RANGE_POOL,
    TSR_RANGE_MODULE, /* device memory */
    TSR_RANGE_HOST,   /* cuMemHostAlloc, cuMemHostRegister */
    TSR_RANGE_MANAGED,
    TSR_RANGE_IPC,
    TSR_RANGE_INTERNAL
};

struct tsr_range {
    uint64_t base, bytes;        /* bytes: as granted, rounded up to 512 for device memory */
    uint32_t location;           /* device number or TSR_LOCATION_HOST */
    uint16_t readable, writable; /* atomic; bit d: kernels of device d may */
    enum tsr_range_kind kind;
    uint32_t id; /* buffer id (CU_POINTER_ATTRIBUTE_BUFFER_ID is id), never reused */
    uint64_t requested_bytes;
    uint8_t *read_lines,
        *write_lines; /* which lines of 128 bytes the running launch has touched (exec/lines.h): one byte per line each (rounded up), owned by the space, zero at first; used by exec only */
    void *owner;      /* what the memory part attaches */
};

struct tsr_snapshot {
    uint32_t count;
    uint32_t references;
    const struct tsr_range *const *ranges; /* sorted by base; the structs live as long as a snapshot shows them */
};

struct tsr_space;

const struct tsr_snapshot *tsr_space_get(struct tsr_space *space); /* takes a reference; never NULL */
void tsr_space_put(struct tsr_space *space, const struct tsr_snapshot *snapshot);
/* The devices whose kernels may read, or write, it now. */
static inline uint16_t tsr_range_devices(const struct tsr_range *range, bool write)
{
    return __atomic_load_n(write ? &range->writable : &range->readable, __ATOMIC_RELAXED);
}
/* The range that holds the address, or NULL. */
const struct tsr_range *tsr_snapshot_find(const struct tsr_snapshot *snapshot, uint64_t address);

/*
 * Changes, from any thread. base, bytes, location, readable, writable, kind, requested_bytes and owner come from *range; the rest is made here.
 * Errors: INVALID_VALUE (overlaps another range), OUT_OF_MEMORY.
 */
CUresult tsr_space_add(struct tsr_space *space, const struct tsr_range *range);
/* False: no range begins there. Returns when no snapshot shows the range any more; not to be called with a snapshot in hand. */
bool tsr_space_remove(struct tsr_space *space, uint64_t base);
/* In place: running kernels see it at once. */
bool tsr_space_access_set(struct tsr_space *space, uint64_t base, uint16_t readable, uint16_t writable);
bool tsr_space_requested_set(struct tsr_space *space, uint64_t base, uint64_t requested_bytes);
/* The range that holds the address, copied. The owner is protected by the memory part's own lock. */
bool tsr_space_lookup(struct tsr_space *space, uint64_t address, struct tsr_range *out);
/* The last range that begins at or before the address, and the first after it (bytes 0 when there is none); false when there are no ranges. */
bool tsr_space_neighbours(struct tsr_space *space, uint64_t address, struct tsr_range *before, struct tsr_range *after);
/* Whether any range overlaps [base, base + bytes). */
bool tsr_space_overlaps(struct tsr_space *space, uint64_t base, uint64_t bytes);
/* The range with the lowest base >= from. To walk over all: from = range.base + 1. */
bool tsr_space_next(struct tsr_space *space, uint64_t from, struct tsr_range *out);

/* Process-wide instance, made by cuInit. */
struct tsr_space *tsr_space_instance(void);

#endif
