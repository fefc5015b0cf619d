/* The application's contexts, by GPU, as far as the shim has seen them. */
#ifndef TSR_MEMORY_CONTEXTS_H
#define TSR_MEMORY_CONTEXTS_H

#include "api/driver.h"

#include <stdbool.h>

#define TSR_MEMORY_CONTEXTS 16u

/* The memory lock held. False: there are more, or such as cannot be waited for (green ones). */
bool tsr_memory_contexts_locked(CUcontext contexts[TSR_MEMORY_CONTEXTS], unsigned *count);
void tsr_memory_context_ended_locked(CUcontext context);

/* NULL: one that cannot be waited for. */
void tsr_memory_context_begun(CUcontext context);

/* Around the driver's ending of a context (NULL: none, perhaps): meanwhile nobody else uses it, and its work cannot be waited for.
   Gives whether it was known; that, if it has not ended, is what `stays` says. */
bool tsr_memory_context_end_begin(CUcontext context);
void tsr_memory_context_end_finish(CUcontext context, bool stays);

/* A forked child begins with none. */
void tsr_contexts_forget(void);

#endif
