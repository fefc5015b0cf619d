/*
 * Launches of graphs. How many kernels an instantiated graph has is counted when it is instantiated, child graphs included; the bodies of
 * conditional nodes are not, because how often they run is decided on the GPU. A node that is disabled does not count.
 */
#include <stdlib.h>

#include "base/map.h"
#include "graph/instance.h"
#include "launch/call_memory.h"
#include "launch/launch.h"
#include "memory/copies.h"
#include "object/session.h"
#include "order/order.h"
#include "shim/deferred.h"
#include "shim/graph_launch.h"
#include "driver/real.h"
#include "record/recorder.h"
#include "record/timing.h"
#include "record/writer.h"
#include "schedule/automatic.h"
#include "driver/stream_handle.h"

/* Kept in the map as its value, so that nobody can hold what another thread forgets. */
struct known_graph {
    uint32_t kernels, nodes;
};

#define MOST_DEPTH 16

static struct tsr_map graphs; /* CUgraphExec to struct known_graph */

static uint64_t key_of(CUgraphExec exec)
{
    return (uint64_t)(uintptr_t)exec;
}

static struct known_graph known_of(CUgraphExec exec)
{
    uint64_t value = exec ? (uint64_t)(uintptr_t)tsr_map_find(&graphs, key_of(exec)) : 0;
    return (struct known_graph){.kernels = (uint32_t)value, .nodes = (uint32_t)(value >> 32)};
}

static void set_known(CUgraphExec exec, struct known_graph known)
{
    tsr_map_set(&graphs, key_of(exec), (void *)(uintptr_t)((uint64_t)known.nodes << 32 | known.kernels));
}

static void count_nodes(CUgraph graph, struct known_graph *into, int depth)
{
    size_t count = 0;
    if (depth == MOST_DEPTH || tsr_real.cuGraphGetNodes(graph, NULL, &count) != CUDA_SUCCESS || !count)
        return;
    CUgraphNode *nodes = malloc(count * sizeof *nodes);
    if (!nodes || tsr_real.cuGraphGetNodes(graph, nodes, &count) != CUDA_SUCCESS)
        count = 0;
    for (size_t i = 0; i < count; i++) {
        CUgraphNodeType type;
        CUgraph child;
        if (tsr_real.cuGraphNodeGetType(nodes[i], &type) != CUDA_SUCCESS)
            continue;
        into->nodes++;
        into->kernels += type == CU_GRAPH_NODE_TYPE_KERNEL;
        if (type == CU_GRAPH_NODE_TYPE_GRAPH && tsr_real.cuGraphChildGraphNodeGetGraph(nodes[i], &child) == CUDA_SUCCESS)
            count_nodes(child, into, depth + 1);
    }
    free(nodes);
}

static void remember(CUgraphExec exec, CUgraph graph)
{
    struct known_graph counted = {0};
    count_nodes(graph, &counted, 0);
    set_known(exec, counted);
}

/* What follows an instantiation. */
#define MADE(flags) result == CUDA_SUCCESS ? tsr_instance_created(*phGraphExec, hGraph, flags) : (void)0

/* How graphs are instantiated and changed: the driver's function, then what it has made of which graph. */
#define CHANGES(symbol, parameters, arguments, exec, note)                                                                           \
    TSR_ENGAGED(symbol) parameters                                                                                             \
    {                                                                                                                          \
        CUresult result = tsr_real.symbol arguments;                                                                           \
        if (tsr_has_role(TSR_RECORDING) && result == CUDA_SUCCESS)                                                                                   \
            remember(exec, hGraph);                                                                                            \
        note;                                                                                                                  \
        tsr_record_failure(TSR_ROW_##symbol, result);                                                                   \
        return result;                                                                                                         \
    }

#define LOGGED (CUgraphExec * phGraphExec, CUgraph hGraph, CUgraphNode * phErrorNode, char *logBuffer, size_t bufferSize)
CHANGES(cuGraphInstantiate, LOGGED, (phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize), *phGraphExec, MADE(0))
CHANGES(cuGraphInstantiate_v2, LOGGED, (phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize), *phGraphExec, MADE(0))

#define FLAGGED (CUgraphExec * phGraphExec, CUgraph hGraph, unsigned long long flags)
CHANGES(cuGraphInstantiateWithFlags, FLAGGED, (phGraphExec, hGraph, flags), *phGraphExec, MADE(flags))

#define WITH_PARAMS (CUgraphExec * phGraphExec, CUgraph hGraph, CUDA_GRAPH_INSTANTIATE_PARAMS * instantiateParams)
CHANGES(cuGraphInstantiateWithParams, WITH_PARAMS, (phGraphExec, hGraph, instantiateParams), *phGraphExec,
        MADE(instantiateParams->flags))
CHANGES(cuGraphInstantiateWithParams_ptsz, WITH_PARAMS, (phGraphExec, hGraph, instantiateParams), *phGraphExec,
        MADE(instantiateParams->flags))

#define UPDATE                                                                                                                 \
    (CUgraphExec hGraphExec, CUgraph hGraph, CUgraphNode * hErrorNode_out, CUgraphExecUpdateResult * updateResult_out)
CHANGES(cuGraphExecUpdate, UPDATE, (hGraphExec, hGraph, hErrorNode_out, updateResult_out), hGraphExec,
        tsr_instance_update(hGraphExec, hGraph, result))
CHANGES(cuGraphExecUpdate_v2, (CUgraphExec hGraphExec, CUgraph hGraph, CUgraphExecUpdateResultInfo *resultInfo),
        (hGraphExec, hGraph, resultInfo), hGraphExec, tsr_instance_update(hGraphExec, hGraph, result))

TSR_REDIRECTED(cuGraphRetainUserObject)(CUgraph graph, CUuserObject object, unsigned int count, unsigned int flags)
{
    __atomic_store_n(&tsr_graphs_have_objects, true, __ATOMIC_RELEASE);
    return tsr_real.cuGraphRetainUserObject(graph, object, count, flags);
}

TSR_ENGAGED(cuGraphExecDestroy)(CUgraphExec hGraphExec)
{
    if (hGraphExec)
        tsr_map_remove(&graphs, key_of(hGraphExec));
    tsr_instance_forget(hGraphExec);
    CUresult result = tsr_real.cuGraphExecDestroy(hGraphExec);
    tsr_record_failure(TSR_ROW_cuGraphExecDestroy, result);
    return result;
}

TSR_ENGAGED(cuGraphNodeSetEnabled)(CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int isEnabled)
{
    unsigned int before = isEnabled;
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    tsr_real.cuGraphNodeGetEnabled(hGraphExec, hNode, &before);
    CUresult result = tsr_real.cuGraphNodeSetEnabled(hGraphExec, hNode, isEnabled);
    if (result == CUDA_SUCCESS)
        tsr_instance_switch(hGraphExec, hNode, isEnabled);
    struct known_graph known = known_of(hGraphExec);
    if (result == CUDA_SUCCESS && known.nodes && !before != !isEnabled &&
        tsr_real.cuGraphNodeGetType(hNode, &type) == CUDA_SUCCESS && type == CU_GRAPH_NODE_TYPE_KERNEL) {
        known.kernels += isEnabled ? 1 : UINT32_MAX;
        set_known(hGraphExec, known);
    }
    tsr_record_failure(TSR_ROW_cuGraphNodeSetEnabled, result);
    return result;
}

static bool record_launch(const struct tsr_launch *launch, CUresult result, CUgraphExec exec)
{
    struct tsr_thread *thread = tsr_thread();
    struct known_graph known = known_of(exec);
    if (result == CUDA_SUCCESS && thread) {
        tsr_ring_count(&thread->writer, &thread->writer.ring->graph_launches, 1);
        tsr_ring_count(&thread->writer, &thread->writer.ring->graph_kernels, known.kernels);
        if (launch->reason)
            tsr_ring_count(&thread->writer, &thread->writer.ring->kept_reasons[launch->reason], 1);
    }
    struct tsr_record *record =
        tsr_record_begin_on(launch->start, launch->row, TSR_RECORD_GRAPH, result, launch->stream, false);
    if (!record)
        return false;
    record->u.graph.exec = key_of(exec);
    record->u.graph.kernels = known.kernels;
    record->u.graph.nodes = known.nodes;
    record->u.graph.device = (uint8_t)launch->gpu;
    record->u.graph.reason = launch->reason;
    record->flags |= (launch->taken ? TSR_RECORD_REDIRECTED : 0) | (launch->reason ? TSR_RECORD_KEPT_HOME : 0);
    tsr_record_commit(record);
    return true;
}

static CUresult launch(enum tsr_row row, CUgraphExec exec, CUstream stream, CUresult (*real)(CUgraphExec, CUstream))
{
    uint64_t start = tsr_record_start();
    struct tsr_gathered no_parameters;
    no_parameters.done = true;
    no_parameters.bytes = 0;
    struct tsr_launch launched = {
        .row = row, .stream = stream, .gathered = &no_parameters, .session = tsr_session_counting(), .start = start};
    CUresult result = tsr_graph_redirect(&launched, exec);
    struct tsr_timing_pair *pair = result == CUDA_SUCCESS && !launched.taken ? tsr_timing_begin_work(start, stream) : NULL;
    if (result == CUDA_SUCCESS && !launched.taken)
        result = real(exec, stream);
    if (result == CUDA_SUCCESS && !launched.taken)
        tsr_graph_launched(&launched);
    else if (!launched.taken)
        tsr_automatic_ends(stream, true);
    if (pair)
        tsr_timing_mark(pair, stream, result == CUDA_SUCCESS);
    if (!launched.taken)
        tsr_order_leave(&launched.hold);
    if (result == CUDA_SUCCESS && !launched.taken)
        result = tsr_order_state();
    tsr_graph_redirect_finish(&launched, result);
    bool is_recorded = start && record_launch(&launched, result, exec);
    if (pair)
        tsr_timing_end_work(pair, is_recorded);
    tsr_call_enqueued();
    return result;
}

static CUresult launch_or_defer(enum tsr_row row, CUgraphExec exec, CUstream stream, CUresult (*real)(CUgraphExec, CUstream))
{
    CUresult result;
    if (tsr_deferred_graph(exec, stream, &result))
        return result;
    result = launch(row, exec, stream, real);
    if (result == CUDA_SUCCESS && tsr_deferred_is_on())
        tsr_instance_note_taken(exec);
    return result;
}

TSR_ENGAGED(cuGraphLaunch)(CUgraphExec hGraph, CUstream hStream)
{
    return launch_or_defer(TSR_ROW_cuGraphLaunch, hGraph, tsr_stream_named(hStream, false), tsr_real.cuGraphLaunch);
}

TSR_ENGAGED(cuGraphLaunch_ptsz)(CUgraphExec hGraph, CUstream hStream)
{
    return launch_or_defer(TSR_ROW_cuGraphLaunch_ptsz, hGraph, tsr_stream_named(hStream, true), tsr_real.cuGraphLaunch_ptsz);
}
