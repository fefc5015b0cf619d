/* See contexts.h. */
#include "memory/contexts.h"

#include "memory/allocation.h"

static CUcontext contexts[TSR_MEMORY_CONTEXTS]; /* memory lock */
static unsigned context_count;                  /* memory lock */
static bool others;                             /* memory lock; there are contexts that are not in the list */

bool tsr_memory_contexts_locked(CUcontext out[TSR_MEMORY_CONTEXTS], unsigned *count)
{
    for (unsigned i = 0; i < context_count; i++)
        out[i] = contexts[i];
    *count = context_count;
    return !others;
}

void tsr_memory_context_ended_locked(CUcontext context)
{
    for (unsigned i = 0; i < context_count; i++)
        if (contexts[i] == context)
            contexts[i--] = contexts[--context_count];
}

void tsr_memory_context_begun(CUcontext context)
{
    tsr_memory_lock();
    tsr_memory_context_ended_locked(context); /* a primary context is retained more than once */
    if (context && context_count < TSR_MEMORY_CONTEXTS)
        contexts[context_count++] = context;
    else
        others = true;
    tsr_memory_unlock();
}

void tsr_contexts_forget(void)
{
    context_count = 0;
    others = false;
}
