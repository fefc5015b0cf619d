/* See describe.h. */
#include "describe.h"

#include "base/format.h"

#include "../space/bounds.h"

#define NEAR_BYTES (64ull << 20) /* farther away nobody meant this allocation */

static size_t place(const struct tsr_range *range, char *text, size_t size)
{
    size_t length = tsr_format(text, size, "the allocation 0x%llx of %llu bytes ", (unsigned long long)range->base,
                               (unsigned long long)range->requested_bytes);
    if (range->location == TSR_LOCATION_HOST)
        return length + tsr_format(text + length, size - length, "in host memory");
    return length + tsr_format(text + length, size - length, "on device %u", range->location);
}

/* As if the allocation were a range of its own. */
static struct tsr_range range_of(const struct tsr_bounds_allocation *allocation)
{
    struct tsr_range range = {0};
    if (!allocation->bytes || !tsr_space_lookup(tsr_space_instance(), allocation->address, &range))
        return (struct tsr_range){0};
    range.base = allocation->address;
    range.bytes = allocation->granted;
    range.requested_bytes = allocation->bytes;
    return range;
}

static void neighbours(uint64_t address, struct tsr_range *before, struct tsr_range *after)
{
    struct tsr_bounds_allocation first, second;
    if (!tsr_bounds_neighbours(address, &first, &second)) {
        tsr_space_neighbours(tsr_space_instance(), address, before, after);
        return;
    }
    *before = range_of(&first);
    *after = range_of(&second);
}

void tsr_address_describe(uint64_t address, uint32_t device, char *text, size_t size)
{
    struct tsr_range before, after;
    char name[160];
    neighbours(address, &before, &after);
    uint64_t past = address - (before.base + before.requested_bytes), short_of = after.base - address;
    bool inside = before.bytes && address - before.base < before.bytes;
    if (inside) {
        place(&before, name, sizeof name);
        bool readable = before.readable >> device & 1, writable = before.writable >> device & 1;
        size_t length = tsr_format(text, size, "at byte %llu of %s", (unsigned long long)(address - before.base), name);
        if (!writable)
            tsr_format(text + length, size - length, ", which device %u may %s", device, readable ? "only read" : "not access");
    } else if (before.bytes && past < NEAR_BYTES && (!after.bytes || past <= short_of)) {
        place(&before, name, sizeof name);
        tsr_format(text, size, "%llu bytes past the end of %s", (unsigned long long)past, name);
    } else if (after.bytes && short_of < NEAR_BYTES) {
        place(&after, name, sizeof name);
        tsr_format(text, size, "%llu bytes before %s", (unsigned long long)short_of, name);
    } else {
        tsr_format(text, size, "not near any allocation");
    }
}
