/* See contexts.h. */
#include "memory/contexts.h"

#include "memory/allocation.h"

static CUcontext contexts[TSR_MEMORY_CONTEXTS]; /* memory lock */
static unsigned context_count;                  /* memory lock */
static bool others;                             /* memory lock; there are contexts that are not in the list */
static unsigned ending;                         /* memory lock; contexts that the driver is ending, perhaps */

bool tsr_memory_contexts_locked(CUcontext out[TSR_MEMORY_CONTEXTS], unsigned *count)
{
    for (unsigned i = 0; i < context_count; i++)
        out[i] = contexts[i];
    *count = context_count;
    return !others && !ending;
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

bool tsr_memory_context_end_begin(CUcontext context)
{
    tsr_memory_lock();
    unsigned before = context_count;
    tsr_memory_context_ended_locked(context);
    bool was_known = context_count < before;
    ending++;
    tsr_memory_unlock();
    return was_known;
}

void tsr_memory_context_end_finish(CUcontext context, bool stays)
{
    tsr_memory_lock();
    ending--;
    if (stays) {
        tsr_memory_context_ended_locked(context); /* another thread may have retained it anew */
        if (context_count < TSR_MEMORY_CONTEXTS)
            contexts[context_count++] = context;
    }
    tsr_memory_unlock();
}

void tsr_contexts_forget(void)
{
    ending = 0;
    context_count = 0;
    others = false;
}
