/* See describe.h. */
#include "describe.h"

#include "base/format.h"

#include "../space/space.h"

#define NEAR_BYTES (64ull << 20) /* farther away nobody meant this allocation */

static size_t place(const struct tsr_range *range, char *text, size_t size)
{
    size_t length = tsr_format(text, size, "the allocation 0x%llx of %llu bytes ", (unsigned long long)range->base,
                               (unsigned long long)range->requested_bytes);
    if (range->location == TSR_LOCATION_HOST)
        return length + tsr_format(text + length, size - length, "in host memory");
    return length + tsr_format(text + length, size - length, "on device %u", range->location);
}

void tsr_address_describe(uint64_t address, uint32_t device, char *text, size_t size)
{
    struct tsr_range before, after;
    char name[160];
    tsr_space_neighbours(tsr_space_instance(), address, &before, &after);
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
