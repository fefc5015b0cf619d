/*
 * The wrappers under which contexts end: what is known by their handles is forgotten before the driver may give the handles out again. A
 * primary context that others still hold is forgotten, too, and found again when it is used next.
 */
#include "shim/definitions.h"
#include "shim/memory.h"
#include "shim/order.h"
#include "shim/real.h"
#include "shim/recorder.h"

static void forget_context(CUcontext context)
{
    if (context)
        tsr_context_forget(context);
}

#define ENDS(symbol, forget, end, type, name)                                                                                       \
    TSR_ENGAGED(symbol)(type name)                                                      \
    {                                                                                                                          \
        uint64_t start = tsr_record_start();                                                                                   \
        CUresult result = tsr_order_destroy_contexts();                                                                        \
        if (start)                                                                                                             \
            forget(name);                                                                                                      \
        if (result == CUDA_SUCCESS)                                                                                            \
            result = end(name, tsr_real.symbol);                                                                                    \
        tsr_record_failure(start, TSR_ROW_##symbol, result);                                                                   \
        return result;                                                                                                         \
    }

ENDS(cuCtxDestroy, forget_context, tsr_memory_end_context, CUcontext, context)
ENDS(cuCtxDestroy_v2, forget_context, tsr_memory_end_context, CUcontext, context)
ENDS(cuCtxDetach, forget_context, tsr_memory_end_context, CUcontext, context)
ENDS(cuDevicePrimaryCtxRelease, tsr_contexts_forget_of, tsr_memory_end_primary, CUdevice, device)
ENDS(cuDevicePrimaryCtxRelease_v2, tsr_contexts_forget_of, tsr_memory_end_primary, CUdevice, device)
ENDS(cuDevicePrimaryCtxReset, tsr_contexts_forget_of, tsr_memory_end_primary, CUdevice, device)
ENDS(cuDevicePrimaryCtxReset_v2, tsr_contexts_forget_of, tsr_memory_end_primary, CUdevice, device)
