/*
 * Parts of mapped memory that somebody else gives out: of the arena, of which the shim says in a shared table what is allocated
 * (tessera/bounds.h). Elsewhere, and without a table, a range is what it is.
 */
#ifndef TSR_MEMORY_BOUNDS_H
#define TSR_MEMORY_BOUNDS_H

#include <tessera/bounds.h>

#include "../space/space.h"

/* Takes effect at once; NULL: none. */
void tsr_bounds_use(const struct tsr_bounds *table);

/* The part of the range around the address that may be accessed; bytes 0: none. */
struct tsr_bounds_part {
    uint64_t base, bytes;
};
struct tsr_bounds_part tsr_bounds_part(const struct tsr_range *range, uint64_t address);

/*
 * For messages, of an address that the table is about: the last allocation that begins at or before it and the first after it, in nearby pages
 * (bytes 0: none). False: the table is not about it.
 */
bool tsr_bounds_neighbours(uint64_t address, struct tsr_bounds_allocation *before, struct tsr_bounds_allocation *after);

#endif
