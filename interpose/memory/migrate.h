/*
 * Moving memory to the GPU whose launches use it, while the program runs. Memory moves at a moment at which the program has waited for the GPU anyway,
 * nothing is captured, and all its other work completes within a millisecond; other threads that give a GPU work wait while that is
 * checked and while memory moves. If the work does not complete, the next attempt comes after twice as many launches; if memory cannot be
 * allocated on the other GPU, everything stays where it is.
 */
#ifndef TSR_MEMORY_MIGRATE_H
#define TSR_MEMORY_MIGRATE_H

#include "api/driver.h"

#include <stdbool.h>

#include "memory/copies.h"
#include "memory/heat.h"
#include "memory/owners.h"

struct tsr_extent;

/* Launches since the last look at who uses what after which it is worth looking again. */
extern uint32_t tsr_migrate_due __attribute__((visibility("hidden"))); /* atomic */

void tsr_migrate_now(void);

/* The calling thread has waited for the GPU, holds nothing, and has a context. Costs two loads and a branch when it is not time. */
static inline void tsr_migrate_consider(void)
{
    if (__builtin_expect(tsr_heat_pages != NULL, 0) &&
        __atomic_load_n(&tsr_heat_counter.launches, __ATOMIC_RELAXED) >= __atomic_load_n(&tsr_migrate_due, __ATOMIC_RELAXED))
        tsr_migrate_now();
    if (tsr_owners_are_spread())
        tsr_copies_level();
}

/*
 * The extent's memory is about to be given to others, who will know it as the home GPU's: it goes home if it can, and stays what it is from
 * then on. The memory lock is held.
 */
CUresult tsr_migrate_fix_locked(struct tsr_extent *extent);
/* Whether it may be given to others at all: what is in parts on several GPUs never goes home. */
bool tsr_migrate_can_fix(const struct tsr_extent *extent);

#endif
