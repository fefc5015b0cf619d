/*
 * Memory pools: memory that is given out and taken back in stream order.
 *
 * A block that was freed on a stream can be given out again on the same stream at once, on others when the stream has come to the free. Memory that
 * is not in use stays reserved up to the release threshold; beyond it goes back at the next synchronisation, here: when it is freed.
 */
#ifndef TSR_MEMORY_POOL_H
#define TSR_MEMORY_POOL_H

#include "alloc.h"

/* Frees a block of any pool now; the caller has waited for work. False: not a block in use. */
bool tsr_pool_free_now(uint64_t address);

#endif
