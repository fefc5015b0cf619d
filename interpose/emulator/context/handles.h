/*
 * The one table of handles that the emulated driver gives out, and the kinds in it. One table for all kinds: a handle of one kind is
 * never valid as another, and a CUfunction parameter that carries a CUkernel is told apart by one look-up.
 */
#ifndef TSR_CONTEXT_HANDLES_H
#define TSR_CONTEXT_HANDLES_H

#include "base/handle.h"

enum tsr_kind {
    TSR_KIND_CONTEXT = 1,
    TSR_KIND_STREAM,
    TSR_KIND_EVENT,
    TSR_KIND_MODULE,
    TSR_KIND_FUNCTION,
    TSR_KIND_LIBRARY,
    TSR_KIND_KERNEL,
    TSR_KIND_LINK,
    TSR_KIND_POOL,
    TSR_KIND_PHYSICAL, /* CUmemGenericAllocationHandle */
    TSR_KIND_GRAPH,
    TSR_KIND_GRAPH_NODE,
    TSR_KIND_GRAPH_EXEC,
    TSR_KIND_USER_OBJECT,
    TSR_KIND_GREEN,
    TSR_KIND_RESOURCE_DESC,
    TSR_KIND_COUNT
};

struct tsr_handles *tsr_handle_table(void);

#endif
