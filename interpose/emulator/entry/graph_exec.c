/* Executable graphs: instantiating, launching, updating. */
#include "guard.h"

#include <string.h>

#include "../context/handles.h"
#include "../stream/engine.h"
#include "../stream/graph_exec.h"
#include "base/format.h"
#include "graph_lookup.h"
#include "graph_node.h"
#include "graph_params.h"

#define KNOWN_FLAGS                                                                                                            \
    (CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |                                    \
     CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY)

/*
 * A private copy of the graph is taken under the lock and prepared without it, so that contexts can be asked. The executable keeps
 * answering to the nodes of the graph that the application knows.
 */
static CUresult instantiate(CUgraph handle, unsigned long long flags, CUgraphExec *out)
{
    struct tsr_graph_exec *exec;
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(out && !(flags & ~(unsigned long long)KNOWN_FLAGS), CUDA_ERROR_INVALID_VALUE);
    TSR_REQUIRE(!(flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH), CUDA_ERROR_NOT_SUPPORTED);
    tsr_engine_lock();
    struct tsr_graph *graph = tsr_graph_find_locked(handle);
    struct tsr_graph *copy = graph ? tsr_graph_copy(graph, false) : NULL;
    tsr_engine_unlock();
    TSR_REQUIRE(graph, CUDA_ERROR_INVALID_VALUE);
    TSR_REQUIRE(copy, CUDA_ERROR_OUT_OF_MEMORY);
    TSR_TRY(tsr_graph_exec_create(copy, flags, &exec));
    *out = exec->handle;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphInstantiateWithFlags(CUgraphExec *phGraphExec, CUgraph hGraph, unsigned long long flags)
{
    TSR_REQUIRE(!(flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD), CUDA_ERROR_INVALID_VALUE);
    return instantiate(hGraph, flags, phGraphExec);
}

CUresult CUDAAPI cuGraphInstantiate_v2(CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode, char *logBuffer,
                                       size_t bufferSize)
{
    if (phErrorNode)
        *phErrorNode = NULL;
    if (logBuffer && bufferSize)
        logBuffer[0] = 0;
    CUresult result = instantiate(hGraph, 0, phGraphExec);
    if (result && logBuffer && bufferSize)
        tsr_format(logBuffer, bufferSize, "%s",
                   result == CUDA_ERROR_INVALID_VALUE ? "the graph is not valid or has a cycle" : "failed");
    return result;
}

CUresult CUDAAPI cuGraphInstantiate(CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode, char *logBuffer,
                                    size_t bufferSize)
{
    return cuGraphInstantiate_v2(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize);
}

CUresult CUDAAPI cuGraphInstantiateWithParams(CUgraphExec *phGraphExec, CUgraph hGraph,
                                              CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams)
{
    TSR_REQUIRE(instantiateParams, CUDA_ERROR_INVALID_VALUE);
    CUresult result = instantiate(hGraph, instantiateParams->flags, phGraphExec);
    instantiateParams->hErrNode_out = NULL;
    instantiateParams->result_out = !result                              ? CUDA_GRAPH_INSTANTIATE_SUCCESS
                                    : result == CUDA_ERROR_INVALID_VALUE ? CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE
                                                                         : CUDA_GRAPH_INSTANTIATE_ERROR;
    return result;
}

static struct tsr_graph_exec *find_locked(CUgraphExec handle)
{
    return tsr_handle_find(tsr_handle_table(), TSR_KIND_GRAPH_EXEC, handle);
}

CUresult CUDAAPI cuGraphExecGetFlags(CUgraphExec hGraphExec, cuuint64_t *flags)
{
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(flags, CUDA_ERROR_INVALID_VALUE);
    tsr_engine_lock();
    struct tsr_graph_exec *exec = find_locked(hGraphExec);
    if (exec)
        *flags = exec->flags;
    tsr_engine_unlock();
    return exec ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuGraphLaunch(CUgraphExec hGraphExec, CUstream hStream)
{
    struct tsr_emulated_stream *stream;
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(hGraphExec, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(tsr_stream_get(tsr_driver_stream(hStream), &stream));
    CUresult result = tsr_graph_exec_launch(hGraphExec, stream);
    tsr_stream_put(stream);
    return result;
}

/* Nothing needs to be brought to the device; the call only orders itself in the stream. */
CUresult CUDAAPI cuGraphUpload(CUgraphExec hGraphExec, CUstream hStream)
{
    struct tsr_emulated_stream *stream;
    struct tsr_work nothing = {.kind = TSR_WORK_EMPTY};
    TSR_TRY(tsr_driver_ready());
    tsr_engine_lock();
    bool known = find_locked(hGraphExec);
    tsr_engine_unlock();
    TSR_REQUIRE(known, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(tsr_stream_get(tsr_driver_stream(hStream), &stream));
    CUresult result =
        tsr_stream_capturing(stream) ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : tsr_stream_submit(stream, &nothing);
    tsr_stream_put(stream);
    return result;
}

CUresult CUDAAPI cuGraphExecDestroy(CUgraphExec hGraphExec)
{
    TSR_TRY(tsr_driver_ready());
    tsr_engine_lock();
    struct tsr_graph_exec *exec = find_locked(hGraphExec);
    if (exec)
        tsr_handle_remove(tsr_handle_table(), TSR_KIND_GRAPH_EXEC, hGraphExec);
    tsr_engine_unlock();
    TSR_REQUIRE(exec, CUDA_ERROR_INVALID_VALUE);
    tsr_graph_exec_free(exec);
    return CUDA_SUCCESS;
}

static CUresult update(CUgraphExec exec_handle, CUgraph graph_handle, CUgraphExecUpdateResult *why, CUgraphNode *node_out)
{
    struct tsr_graph *garbage = NULL;
    struct tsr_graph_node *node = NULL;
    TSR_TRY(tsr_driver_ready());
    *node_out = NULL;
    *why = CU_GRAPH_EXEC_UPDATE_ERROR;
    tsr_engine_lock();
    struct tsr_graph_exec *exec = find_locked(exec_handle);
    struct tsr_graph *graph = tsr_graph_find_locked(graph_handle);
    bool known = exec && graph;
    if (known)
        *why = tsr_graph_exec_update_locked(exec, graph, &garbage, &node);
    if (node)
        *node_out = node->handle;
    tsr_engine_unlock();
    tsr_graph_free(garbage);
    TSR_REQUIRE(known, CUDA_ERROR_INVALID_VALUE);
    return *why == CU_GRAPH_EXEC_UPDATE_SUCCESS ? CUDA_SUCCESS : CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
}

CUresult CUDAAPI cuGraphExecUpdate_v2(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphExecUpdateResultInfo *resultInfo)
{
    TSR_REQUIRE(resultInfo, CUDA_ERROR_INVALID_VALUE);
    resultInfo->errorFromNode = NULL;
    return update(hGraphExec, hGraph, &resultInfo->result, &resultInfo->errorNode);
}

CUresult CUDAAPI cuGraphExecUpdate(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphNode *hErrorNode_out,
                                   CUgraphExecUpdateResult *updateResult_out)
{
    TSR_REQUIRE(hErrorNode_out && updateResult_out, CUDA_ERROR_INVALID_VALUE);
    return update(hGraphExec, hGraph, updateResult_out, hErrorNode_out);
}

CUresult tsr_exec_node_set(CUgraphExec exec_handle, CUgraphNode handle, struct tsr_work *work)
{
    tsr_engine_lock();
    struct tsr_graph_exec *exec = find_locked(exec_handle);
    struct tsr_graph_node *node = exec ? tsr_graph_exec_node(exec, handle) : NULL;
    CUresult result = node && node->type == tsr_graph_type_of(work) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    bool kernel_moved = !result && work->kind == TSR_WORK_KERNEL && node->work.context != work->context;
    bool child_changed =
        !result && work->kind == TSR_WORK_CHILD && node->work.child.graph->nodes.count != work->child.graph->nodes.count;
    if (kernel_moved || child_changed)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result && work->kind == TSR_WORK_CHILD && tsr_graph_sort(work->child.graph))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result && !work->context)
        work->context = node->work.context;
    if (!result)
        tsr_graph_node_swap(node, work);
    tsr_engine_unlock();
    tsr_work_release(work);
    return result;
}

CUresult CUDAAPI cuGraphExecKernelNodeSetParams_v2(CUgraphExec hGraphExec, CUgraphNode hNode,
                                                   const CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
    struct tsr_work work;
    TSR_TRY(tsr_driver_ready());
    TSR_TRY(tsr_kernel_work((const CUDA_KERNEL_NODE_PARAMS_v3 *)(const void *)nodeParams, &work));
    return tsr_exec_node_set(hGraphExec, hNode, &work);
}

CUresult CUDAAPI cuGraphExecKernelNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                                const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
    CUDA_KERNEL_NODE_PARAMS params = {0};
    TSR_REQUIRE(nodeParams, CUDA_ERROR_INVALID_VALUE);
    memcpy(&params, nodeParams, sizeof *nodeParams); /* later versions add members at the end */
    return cuGraphExecKernelNodeSetParams_v2(hGraphExec, hNode, &params);
}

CUresult CUDAAPI cuGraphExecMemcpyNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode, const CUDA_MEMCPY3D *copyParams,
                                                CUcontext ctx)
{
    struct tsr_work work;
    TSR_TRY(tsr_driver_ready());
    TSR_TRY(tsr_memcpy_work(copyParams, ctx, &work));
    return tsr_exec_node_set(hGraphExec, hNode, &work);
}

CUresult CUDAAPI cuGraphExecMemsetNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                                const CUDA_MEMSET_NODE_PARAMS *memsetParams, CUcontext ctx)
{
    struct tsr_work work;
    TSR_TRY(tsr_driver_ready());
    TSR_TRY(tsr_memset_work(memsetParams, ctx, &work));
    return tsr_exec_node_set(hGraphExec, hNode, &work);
}

CUresult CUDAAPI cuGraphExecHostNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                              const CUDA_HOST_NODE_PARAMS *nodeParams)
{
    struct tsr_work work;
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(nodeParams, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(tsr_host_work(nodeParams->fn, nodeParams->userData, &work));
    return tsr_exec_node_set(hGraphExec, hNode, &work);
}

CUresult CUDAAPI cuGraphExecChildGraphNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode, CUgraph childGraph)
{
    struct tsr_work work;
    TSR_TRY(tsr_driver_ready());
    TSR_TRY(tsr_child_work(childGraph, &work));
    return tsr_exec_node_set(hGraphExec, hNode, &work);
}

CUresult CUDAAPI cuGraphExecEventRecordNodeSetEvent(CUgraphExec hGraphExec, CUgraphNode hNode, CUevent event)
{
    struct tsr_work work;
    TSR_TRY(tsr_driver_ready());
    TSR_TRY(tsr_event_work(event, TSR_WORK_RECORD, &work));
    return tsr_exec_node_set(hGraphExec, hNode, &work);
}

CUresult CUDAAPI cuGraphExecEventWaitNodeSetEvent(CUgraphExec hGraphExec, CUgraphNode hNode, CUevent event)
{
    struct tsr_work work;
    TSR_TRY(tsr_driver_ready());
    TSR_TRY(tsr_event_work(event, TSR_WORK_WAIT, &work));
    return tsr_exec_node_set(hGraphExec, hNode, &work);
}

CUresult CUDAAPI cuGraphExecBatchMemOpNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                                    const CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams)
{
    struct tsr_work work;
    TSR_TRY(tsr_driver_ready());
    TSR_TRY(tsr_values_work(nodeParams, &work));
    return tsr_exec_node_set(hGraphExec, hNode, &work);
}

CUresult CUDAAPI cuGraphExecNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode, CUgraphNodeParams *nodeParams)
{
    struct tsr_work work;
    TSR_TRY(tsr_driver_ready());
    TSR_TRY(tsr_node_work(nodeParams, &work));
    return tsr_exec_node_set(hGraphExec, hNode, &work);
}

/* Only kernels, copies and memsets can be left out. */
static struct tsr_graph_node *switchable_locked(CUgraphExec exec_handle, CUgraphNode handle)
{
    struct tsr_graph_exec *exec = find_locked(exec_handle);
    struct tsr_graph_node *node = exec ? tsr_graph_exec_node(exec, handle) : NULL;
    return node && node->type <= CU_GRAPH_NODE_TYPE_MEMSET ? node : NULL;
}

CUresult CUDAAPI cuGraphNodeSetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int isEnabled)
{
    TSR_TRY(tsr_driver_ready());
    tsr_engine_lock();
    struct tsr_graph_node *node = switchable_locked(hGraphExec, hNode);
    if (node)
        node->disabled = !isEnabled;
    tsr_engine_unlock();
    return node ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuGraphNodeGetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int *isEnabled)
{
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(isEnabled, CUDA_ERROR_INVALID_VALUE);
    tsr_engine_lock();
    struct tsr_graph_node *node = switchable_locked(hGraphExec, hNode);
    if (node)
        *isEnabled = !node->disabled;
    tsr_engine_unlock();
    return node ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
