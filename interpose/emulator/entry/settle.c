/* See settle.h. */
#include "settle.h"

#include "../context/handles.h"
#include "../stream/work.h"

static bool wait_if_related(void *handle, void *object, void *root)
{
    (void)handle;
    struct tsr_context *context = object;
    if (context != root && tsr_context_root(context) == root && !tsr_context_destroyed(context))
        tsr_context_wait(context);
    return true;
}

CUresult tsr_settle(struct tsr_context *context)
{
    struct tsr_context *root = tsr_context_root(context);
    tsr_handle_each(tsr_handle_table(), TSR_KIND_CONTEXT, wait_if_related, root);
    return tsr_context_destroyed(root) ? CUDA_SUCCESS : tsr_context_wait(root);
}
