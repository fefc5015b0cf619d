/*
 * The wrappers under which contexts end: what is known by their handles is forgotten, because the driver may give the handles out again. A
 * primary context that others still hold lives on.
 */
#include "launch/captured_calls.h"
#include "record/definitions.h"
#include "memory/memory.h"
#include "order/order.h"
#include "driver/real.h"
#include "record/recorder.h"
#include "record/timing.h"
#include "shim/graph_launch.h"
#include "shim/skipped_wait.h"

static void forget_context(CUcontext context)
{
    if (context)
        tsr_context_forget(context, tsr_timing_abandon);
}

static void forget_device(CUdevice device)
{
    tsr_contexts_forget_of(device, tsr_timing_abandon);
}

static CUcontext context_of(CUcontext context)
{
    return context;
}

static bool has_ended(CUcontext context)
{
    (void)context;
    return true;
}

static bool device_has_ended(CUdevice device)
{
    unsigned flags;
    int active = 0;
    return tsr_real.cuDevicePrimaryCtxGetState(device, &flags, &active) != CUDA_SUCCESS || !active;
}

static void forget_if_inactive(CUdevice device)
{
    if (device_has_ended(device))
        forget_device(device);
}

#define ENDS(symbol, forget, end, type, name)                                                                                      \
    TSR_ENGAGED(symbol)(type name)                                                                                             \
    {                                                                                                                          \
        bool recording = tsr_has_role(TSR_DEFINING);                                                                                   \
        tsr_wait_settle();                                                                                                     \
        tsr_captured_nodes_forget();                                                                                           \
        CUcontext ending = _Generic(name, CUcontext: context_of, CUdevice: tsr_memory_primary_context)(name);                            \
        CUresult result = tsr_order_destroy_contexts();                                                                        \
        if (recording)                                                                                                             \
            tsr_timing_pause();                                                                                                \
        if (result == CUDA_SUCCESS || result == tsr_order_state()) /* of an executor, whose error goes with the context */   \
            result = end(name, tsr_real.symbol);                                                                                    \
        if (result == CUDA_SUCCESS && _Generic(name, CUcontext: has_ended, CUdevice: device_has_ended)(name))        \
            tsr_graph_context_ended(ending);                                                                                   \
        if (recording && result == CUDA_SUCCESS)                                                                                   \
            forget(name);                                                                                                      \
        if (recording)                                                                                                             \
            tsr_timing_resume();                                                                                               \
        tsr_record_failure(TSR_ROW_##symbol, result);                                                                   \
        return result;                                                                                                         \
    }

ENDS(cuCtxDestroy, forget_context, tsr_memory_end_context, CUcontext, context)
ENDS(cuCtxDestroy_v2, forget_context, tsr_memory_end_context, CUcontext, context)
ENDS(cuCtxDetach, forget_context, tsr_memory_end_context, CUcontext, context)
ENDS(cuDevicePrimaryCtxRelease, forget_if_inactive, tsr_memory_end_primary, CUdevice, device)
ENDS(cuDevicePrimaryCtxRelease_v2, forget_if_inactive, tsr_memory_end_primary, CUdevice, device)
ENDS(cuDevicePrimaryCtxReset, forget_device, tsr_memory_end_primary, CUdevice, device)
ENDS(cuDevicePrimaryCtxReset_v2, forget_device, tsr_memory_end_primary, CUdevice, device)
