/*
 * What host memory owns in a pool (owners.h): the home GPU has copies of it, in what the pool leaves of that GPU to copies, and work there uses the copy. A launch
 * that needs an extent which has none waits for it to be fetched, whole, by a copy engine beside the work before it; extents that
 * launches will need next, as they did before (recurrence.h), are fetched ahead, a few at a time. To make room, the copy goes that will be used last;
 * what it alone holds is written back first. Other GPUs use host memory through the link, and so does work that is no launch, and a
 * launch whose extents do not all fit.
 *
 * What is mapped at an extent's address changes only when all work at home that has used it is complete. Streams are not asked for that: marks,
 * events between a stream's uses of different extents, tell it.
 *
 * Memory that work of several streams or GPUs has used since its last mark changes only at a quiet moment. Locks: the memory lock, then the copies'.
 */
#ifndef TSR_MEMORY_SPILL_H
#define TSR_MEMORY_SPILL_H

#include "memory/copies_parts.h"

/* A use begins: what it asks for from now on stays until it has all. */
void tsr_spill_begins(void);
/* It asks for no more. */
void tsr_spill_asked(void);
/* Whether it still asks, and began before that use (tsr_copies_uses): what was refused then is not asked for again. */
bool tsr_spill_is_since(uint64_t use);
/* Memory lock. Gives home a copy of the extent. False: there is no room; it is used through the link. */
bool tsr_spill_take(struct tsr_extent *extent);
/* Fetches what launches will need, if there is room. The caller holds nothing. */
void tsr_spill_look_ahead(void);
/* The program has waited for its GPU. */
void tsr_spill_has_waited(void);

/* Copies' lock. Work of a queue at home, or on another GPU, uses it. */
struct tsr_spill_use {
    uint32_t queue;
    bool counts; /* it tells what launches use */
    bool whole;  /* it comes after all that is on its way to the extent's copy */
};
void tsr_spill_used_locked(struct tsr_copies *copies, const struct tsr_spill_use *use);
void tsr_spill_used_away_locked(struct tsr_copies *copies);
/* The same, before the stream, which is held, is given more work: sets a mark if it is time. */
void tsr_spill_mark_locked(CUstream named, uint32_t queue);

void tsr_spill_context_gone(CUcontext context);
void tsr_spill_forget(void);

#endif
