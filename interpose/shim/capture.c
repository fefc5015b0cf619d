/* The wrappers that begin and end captures, and make streams part of them. */
#include "object/capture.h"

#include "driver/engaged.h"
#include "driver/real.h"
#include "driver/stream_handle.h"
#include "launch/captured_calls.h"
#include "memory/copies.h"
#include "order/gate.h"
#include "order/order.h"
#include "record/recorder.h"
#include "shim/graph_launch.h"

static void record(uint64_t start, enum tsr_row row, CUresult result, CUstream stream)
{
    struct tsr_record *made = tsr_record_begin_on(start, row, TSR_RECORD_CAPTURE, result, stream, false);
    if (!made)
        return;
    made->flags = 0; /* the call itself is no part of the graph */
    tsr_record_commit(made);
}

static __attribute__((noinline)) CUresult begun(uint64_t start, enum tsr_row row, CUresult result, CUstream stream)
{
    if (result == CUDA_SUCCESS)
        tsr_capture_note(stream);
    record(start, row, result, stream);
    return result;
}

/* A capture that cannot be made into a graph has ended, too. */
static __attribute__((noinline)) CUresult ended(uint64_t start, enum tsr_row row, CUresult result, CUstream stream)
{
    if (result == CUDA_SUCCESS || !tsr_ask_capturing(stream))
        tsr_capture_forget(stream);
    if (result != CUDA_SUCCESS)
        tsr_captured_nodes_forget();
    record(start, row, result, stream);
    return result;
}

static inline void nothing_before(CUstream stream, bool per_thread)
{
    (void)stream;
    (void)per_thread;
}

static inline void nothing_first(void)
{
}

/* `first` is called before captures are held up. Parameters, and their names for the call, in parentheses. */
#define CAPTURE(symbol, per_thread, first, before, after, parameters, arguments)                                                      \
    TSR_ENGAGED(symbol) parameters                                                      \
    {                                                                                                                          \
        uint64_t start = tsr_record_start();                                                                                   \
        first();                                                                                         \
        bool gated = tsr_gate_enter();                                                                                         \
        tsr_captures_change_begin();                                                                                             \
        CUresult result = tsr_order_join(hStream, per_thread);                                                                 \
        before(hStream, per_thread);                                                                        \
        if (result == CUDA_SUCCESS)                                                                                            \
            result = tsr_real.symbol arguments;                                                                                \
        result = after(start, TSR_ROW_##symbol, result, tsr_stream_named(hStream, per_thread));                                \
        tsr_captures_change_end();                                                                                              \
        tsr_gate_leave(gated);                                                                                                 \
        return result;                                                                                                         \
    }

#define TO_GRAPH                                                                                                               \
    (CUstream hStream, CUgraph hGraph, const CUgraphNode *dependencies, const CUgraphEdgeData *dependencyData,                 \
     size_t numDependencies, CUstreamCaptureMode mode)
#define TO_GRAPH_NAMES (hStream, hGraph, dependencies, dependencyData, numDependencies, mode)

CAPTURE(cuStreamBeginCapture, false, tsr_graph_capture_begins, tsr_copies_capture_begins, begun, (CUstream hStream), (hStream))
CAPTURE(cuStreamBeginCapture_ptsz, true, tsr_graph_capture_begins, tsr_copies_capture_begins, begun, (CUstream hStream),
        (hStream))
CAPTURE(cuStreamBeginCapture_v2, false, tsr_graph_capture_begins, tsr_copies_capture_begins, begun,
        (CUstream hStream, CUstreamCaptureMode mode), (hStream, mode))
CAPTURE(cuStreamBeginCapture_v2_ptsz, true, tsr_graph_capture_begins, tsr_copies_capture_begins, begun,
        (CUstream hStream, CUstreamCaptureMode mode), (hStream, mode))
CAPTURE(cuStreamBeginCaptureToGraph, false, tsr_graph_capture_begins, tsr_copies_capture_begins, begun, TO_GRAPH,
        TO_GRAPH_NAMES)
CAPTURE(cuStreamBeginCaptureToGraph_ptsz, true, tsr_graph_capture_begins, tsr_copies_capture_begins, begun, TO_GRAPH,
        TO_GRAPH_NAMES)
CAPTURE(cuStreamEndCapture, false, nothing_first, nothing_before, ended, (CUstream hStream, CUgraph *phGraph),
        (hStream, phGraph))
CAPTURE(cuStreamEndCapture_ptsz, true, nothing_first, nothing_before, ended, (CUstream hStream, CUgraph *phGraph),
        (hStream, phGraph))

/* changes: of captures, which a step may have to wait for */
static CUresult wait_in(CUstream stream, bool per_thread, CUevent event, unsigned flags, bool changes)
{
    struct tsr_order_hold hold;
    CUresult result = changes ? tsr_order_enter_between(stream, per_thread, &hold) : tsr_order_enter(stream, per_thread, &hold);
    if (result != CUDA_SUCCESS)
        return result;
    result = tsr_real.cuStreamWaitEvent(tsr_stream_named(stream, per_thread), event, flags);
    tsr_order_leave(&hold);
    return result == CUDA_SUCCESS ? tsr_order_state() : result;
}

/* A stream that waits for an event of a capture becomes part of it. */
static CUresult wait_for_event(CUstream stream, bool per_thread, CUevent event, unsigned flags)
{
    bool may_join = tsr_is_any_capture() && !tsr_is_capturing(tsr_stream_named(stream, per_thread));
    if (!may_join)
        return wait_in(stream, per_thread, event, flags, false);
    bool gated = tsr_gate_enter();
    tsr_captures_change_begin();
    tsr_copies_may_join_capture(stream, per_thread);
    CUresult result = wait_in(stream, per_thread, event, flags, true);
    tsr_captures_change_end();
    tsr_gate_leave(gated);
    return result;
}

TSR_REDIRECTED(cuStreamWaitEvent)(CUstream hStream, CUevent hEvent, unsigned int Flags)
{
    return wait_for_event(hStream, false, hEvent, Flags);
}

TSR_REDIRECTED(cuStreamWaitEvent_ptsz)(CUstream hStream, CUevent hEvent, unsigned int Flags)
{
    return wait_for_event(hStream, true, hEvent, Flags);
}
