/*
 * Marks: events that tell up to which use (tsr_copies_uses) the work of a queue at home is complete (spill.h). Copies' lock.
 */
#ifndef TSR_MEMORY_MARKS_H
#define TSR_MEMORY_MARKS_H

#include "api/driver.h"

#include <stdbool.h>
#include <stdint.h>

/* The queue's work up to this use has been given to the stream, which is held. False: it could not be marked. */
bool tsr_marks_set_locked(CUstream named, uint32_t queue, uint64_t use);
/* What the queue is given next should come after a mark. */
void tsr_marks_want_locked(uint32_t queue);
bool tsr_marks_are_wanted_locked(uint32_t queue);
/* Whether a mark for this use, or a later one, has been set. */
bool tsr_marks_are_set_locked(uint32_t queue, uint64_t use);
/* Whether the queue's work up to this use is complete, as far as marks tell. waits: the caller has nothing else to do, and asks until it is. */
bool tsr_marks_tell_complete_locked(uint32_t queue, uint64_t use, bool waits);

/* Whether an event has come to pass. */
bool tsr_mark_is_past(CUevent event, bool waits);

/* Queues are forgotten: their work is complete. */
void tsr_marks_settle_locked(void);
void tsr_marks_context_gone_locked(CUcontext context);
void tsr_marks_forget(void);

#endif
