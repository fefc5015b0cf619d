/*
 * Streams in which memory of pools was freed. Memory freed in a stream is in a set of blocks of that stream, from which the stream may allocate at
 * once; it becomes free for all streams when the stream is seen to have completed its work. Everything under the memory lock.
 */
#ifndef TSR_MEMORY_FREED_H
#define TSR_MEMORY_FREED_H

#include "api/driver.h"

#include <stdbool.h>
#include <stdint.h>

/* The set of a stream (never NULL) of the context: one per stream, the default ones by context or by thread. */
uint64_t tsr_freed_set(CUstream stream, CUcontext context);
/* Something is freed there. False: no memory to note that. */
bool tsr_freed_note_locked(uint64_t set, CUstream stream, CUcontext context);

/* Makes free for all what streams have completed. */
void tsr_freed_release_complete_locked(void);
/* Whether something is not free for all yet. */
bool tsr_freed_is_any_waiting_locked(void);
/* Waits for all work, also of streams that nobody can ask any more. */
void tsr_freed_release_after_waiting_locked(void);
/* Its streams have ended, and with them all their work. */
void tsr_freed_context_gone_locked(CUcontext context);
/* The stream is about to be destroyed: its handle will mean nothing, or another one. */
void tsr_freed_stream_ends_locked(CUstream stream);

void tsr_freed_forget(void);

#endif
