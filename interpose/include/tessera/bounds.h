/*
 * Which bytes of the arena the application has allocated: a table in a memory file, written by the shim under its memory lock, read by the
 * emulated drivers of the application and of its executors whenever a kernel or a copy accesses the arena. With it what is not allocated
 * faults although it is mapped. Allocations begin at multiples of TSR_BOUNDS_UNIT, and a unit is free between two of them.
 *
 * A page is 2 MiB. The allocation that an address is in begins in the address' page or is named by before[page]. The file is sparse: it
 * takes memory only for pages that are mapped. Another release is refused by the version.
 */
#ifndef TESSERA_BOUNDS_H
#define TESSERA_BOUNDS_H

#include <stdbool.h>
#include <stdint.h>

#include <tessera/lane.h>

#define TSR_BOUNDS_VERSION 2u
#define TSR_BOUNDS_UNIT 512ull
#define TSR_BOUNDS_PAGE (2ull << 20)
#define TSR_BOUNDS_UNITS (TSR_ARENA_BYTES / TSR_BOUNDS_UNIT)
#define TSR_BOUNDS_PAGES (TSR_ARENA_BYTES / TSR_BOUNDS_PAGE)
#define TSR_BOUNDS_PAGE_WORDS (TSR_BOUNDS_PAGE / TSR_BOUNDS_UNIT / 64)

struct tsr_bounds {
    uint32_t version;
    uint32_t lifted; /* atomic; above 0: the shim copies and compares whatever is mapped */
    uint64_t
        before[TSR_BOUNDS_PAGES]; /* atomic; begin of the allocation that goes on into the page from the one before it; or 0 */
    uint64_t starts[TSR_BOUNDS_UNITS / 64]; /* atomic; bit n: an allocation begins at unit n */
    /* atomic; of the allocation that begins there, as asked for; each page's part is whole pages of the file */
    uint64_t bytes[TSR_BOUNDS_UNITS] __attribute__((aligned(4096)));
};

struct tsr_bounds_allocation {
    uint64_t address;
    uint64_t bytes;   /* as asked for */
    uint64_t granted; /* rounded up to units: what may be accessed, as of memory that the emulated driver allocates itself */
};

/*
 * What the emulated driver answers to cuGetExportTable with TSR_BOUNDS_EXPORT. use: from now on accesses of this process are checked with the
 * table, NULL: no more; kernels are not running then. It stays mapped as long as it is used.
 */
struct tsr_bounds_export {
    uint64_t size; /* of this structure */
    void (*use)(const struct tsr_bounds *table);
};
#define TSR_BOUNDS_EXPORT {{0x54, 0x65, 0x73, 0x73, 0x65, 0x72, 0x61, 0x00, 0x62, 0x6f, 0x75, 0x6e, 0x64, 0x73, 0x00, 0x01}}

static inline struct tsr_bounds_allocation tsr_bounds_at(const struct tsr_bounds *table, uint64_t address)
{
    uint64_t bytes = __atomic_load_n(&table->bytes[(address - TSR_ARENA_ADDRESS) / TSR_BOUNDS_UNIT], __ATOMIC_RELAXED);
    return (struct tsr_bounds_allocation){address, bytes, (bytes + TSR_BOUNDS_UNIT - 1) / TSR_BOUNDS_UNIT * TSR_BOUNDS_UNIT};
}

/* Of the allocations that have a byte in the address' page, the last that begins at or before it. False: there is none. */
static inline bool tsr_bounds_find(const struct tsr_bounds *table, uint64_t address, struct tsr_bounds_allocation *out)
{
    uint64_t offset = address - TSR_ARENA_ADDRESS;
    if (offset >= TSR_ARENA_BYTES)
        return false;
    uint64_t unit = offset / TSR_BOUNDS_UNIT, page = offset / TSR_BOUNDS_PAGE, word = unit / 64;
    uint64_t bits = __atomic_load_n(&table->starts[word], __ATOMIC_ACQUIRE) & (UINT64_MAX >> (63 - unit % 64));
    while (!bits && word > page * TSR_BOUNDS_PAGE_WORDS)
        bits = __atomic_load_n(&table->starts[--word], __ATOMIC_ACQUIRE);
    uint64_t begin = bits ? TSR_ARENA_ADDRESS + (word * 64 + 63 - (uint64_t)__builtin_clzll(bits)) * TSR_BOUNDS_UNIT
                          : __atomic_load_n(&table->before[page], __ATOMIC_ACQUIRE);
    if (!begin)
        return false;
    *out = tsr_bounds_at(table, begin);
    return true;
}

/* Whether all of [address, address + bytes) is of one allocation. */
static inline bool tsr_bounds_hold(const struct tsr_bounds *table, uint64_t address, uint64_t bytes)
{
    struct tsr_bounds_allocation found;
    return tsr_bounds_find(table, address, &found) && bytes <= found.granted &&
           address - found.address <= found.granted - bytes;
}

#endif
