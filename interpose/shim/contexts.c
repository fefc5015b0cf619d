/*
 * The wrappers under which contexts end: what is known by their handles is forgotten before the driver may give the handles out again. A
 * primary context that others still hold is forgotten, too, and found again when it is used next.
 */
#include "shim/definitions.h"
#include "shim/order.h"
#include "shim/real.h"
#include "shim/recorder.h"

static void forget_context(CUcontext context)
{
    if (context)
        tsr_context_forget(context);
}

#define ENDS(symbol, forget, type, name)                                                                                       \
    TSR_ENGAGED(symbol)(type name)                                                      \
    {                                                                                                                          \
        uint64_t start = tsr_record_start();                                                                                   \
        CUresult result = tsr_order_join_all();                                                                                \
        if (start)                                                                                                             \
            forget(name);                                                                                                      \
        if (result == CUDA_SUCCESS)                                                                                            \
            result = tsr_real.symbol(name);                                                                                    \
        tsr_record_failure(start, TSR_ROW_##symbol, result);                                                                   \
        return result;                                                                                                         \
    }

ENDS(cuCtxDestroy, forget_context, CUcontext, context)
ENDS(cuCtxDestroy_v2, forget_context, CUcontext, context)
ENDS(cuCtxDetach, forget_context, CUcontext, context)
ENDS(cuDevicePrimaryCtxRelease, tsr_contexts_forget_of, CUdevice, device)
ENDS(cuDevicePrimaryCtxRelease_v2, tsr_contexts_forget_of, CUdevice, device)
ENDS(cuDevicePrimaryCtxReset, tsr_contexts_forget_of, CUdevice, device)
ENDS(cuDevicePrimaryCtxReset_v2, tsr_contexts_forget_of, CUdevice, device)
