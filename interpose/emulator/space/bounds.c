/* See bounds.h. */
#include "bounds.h"

#define NEARBY_PAGES 33u

static const struct tsr_bounds *table; /* atomic */

void tsr_bounds_use(const struct tsr_bounds *chosen)
{
    __atomic_store_n(&table, chosen, __ATOMIC_RELEASE);
}

/* The table if it is about the address; NULL: whatever is mapped may be accessed. */
static const struct tsr_bounds *about(uint64_t address)
{
    const struct tsr_bounds *used =
        address - TSR_ARENA_ADDRESS < TSR_ARENA_BYTES ? __atomic_load_n(&table, __ATOMIC_ACQUIRE) : NULL;
    return used && !__atomic_load_n(&used->lifted, __ATOMIC_ACQUIRE) ? used : NULL;
}

struct tsr_bounds_part tsr_bounds_part(const struct tsr_range *range, uint64_t address)
{
    const struct tsr_bounds *used = about(address);
    struct tsr_bounds_allocation found;
    if (!used || range->kind != TSR_RANGE_VMM)
        return (struct tsr_bounds_part){range->base, range->bytes};
    if (!tsr_bounds_find(used, address, &found) || address - found.address >= found.granted)
        return (struct tsr_bounds_part){address, 0};
    uint64_t end = found.address + found.granted, range_end = range->base + range->bytes;
    uint64_t first = found.address > range->base ? found.address : range->base; /* it may lie on several GPUs */
    return (struct tsr_bounds_part){first, (end < range_end ? end : range_end) - first};
}

/* The first allocation that begins in the pages from this address on. */
static struct tsr_bounds_allocation first_from(const struct tsr_bounds *used, uint64_t address)
{
    uint64_t unit = (address - TSR_ARENA_ADDRESS) / TSR_BOUNDS_UNIT, word = unit / 64;
    uint64_t end = word + NEARBY_PAGES * TSR_BOUNDS_PAGE_WORDS, mask = UINT64_MAX << unit % 64;
    for (; word < end && word < TSR_BOUNDS_UNITS / 64; word++, mask = UINT64_MAX) {
        uint64_t bits = __atomic_load_n(&used->starts[word], __ATOMIC_ACQUIRE) & mask;
        if (bits)
            return tsr_bounds_at(used, TSR_ARENA_ADDRESS + (word * 64 + (uint64_t)__builtin_ctzll(bits)) * TSR_BOUNDS_UNIT);
    }
    return (struct tsr_bounds_allocation){0};
}

bool tsr_bounds_neighbours(uint64_t address, struct tsr_bounds_allocation *before, struct tsr_bounds_allocation *after)
{
    const struct tsr_bounds *used = about(address);
    if (!used)
        return false;
    uint64_t at = address;
    *before = (struct tsr_bounds_allocation){0};
    for (unsigned i = 0; i < NEARBY_PAGES && !tsr_bounds_find(used, at, before); i++) {
        uint64_t page = at / TSR_BOUNDS_PAGE * TSR_BOUNDS_PAGE;
        if (page == TSR_ARENA_ADDRESS)
            break;
        at = page - 1;
    }
    *after =
        first_from(used, address + TSR_BOUNDS_UNIT < TSR_ARENA_ADDRESS + TSR_ARENA_BYTES ? address + TSR_BOUNDS_UNIT : address);
    return true;
}
