/* Nodes of graphs: adding, reading and setting each kind. */
#include "graph_node.h"

#include <string.h>

#include "../stream/engine.h"
#include "../stream/event.h"
#include "copy_shape.h"
#include "graph_lookup.h"
#include "graph_params.h"
#include "guard.h"

CUresult tsr_node_add(const struct tsr_node_place *place, struct tsr_work *work, CUgraphNode *out)
{
    tsr_tips tips = {0};
    struct tsr_graph_node *node = NULL;
    tsr_engine_lock();
    struct tsr_graph *graph = tsr_graph_find_locked(place->graph);
    CUresult result = graph && out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = tsr_tips_find_locked(graph, place->dependencies, place->edges, place->count, &tips);
    if (!result)
        result = tsr_graph_add(graph, tsr_graph_type_of(work), work, &tips, &node);
    if (!result)
        *out = node->handle;
    tsr_engine_unlock();
    tsr_vec_fini(&tips);
    tsr_work_release(work);
    return result;
}

CUresult tsr_node_set(CUgraphNode handle, struct tsr_work *work)
{
    tsr_engine_lock();
    struct tsr_graph_node *node = tsr_graph_node_find_locked(handle);
    CUresult result = node && node->type == tsr_graph_type_of(work) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (!result)
        tsr_graph_node_swap(node, work);
    tsr_engine_unlock();
    tsr_work_release(work);
    return result;
}

static CUresult add(CUgraphNode *out, CUgraph graph, const CUgraphNode *dependencies, size_t count, CUresult made,
                    struct tsr_work *work)
{
    struct tsr_node_place place = {graph, dependencies, NULL, count};
    return made ? made : tsr_node_add(&place, work, out);
}

/* The node if it is of that type; then the lock is held. */
static struct tsr_graph_node *lock_node(CUgraphNode handle, CUgraphNodeType type)
{
    tsr_engine_lock();
    struct tsr_graph_node *node = tsr_graph_node_find_locked(handle);
    if (node && node->type == type)
        return node;
    tsr_engine_unlock();
    return NULL;
}

/* kernel */

static CUDA_KERNEL_NODE_PARAMS_v3 newest(const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
    CUDA_KERNEL_NODE_PARAMS_v3 all = {0};
    memcpy(&all, params, sizeof *params); /* later versions add members at the end */
    return all;
}

CUresult CUDAAPI cuGraphAddKernelNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                                         size_t numDependencies, const CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
    struct tsr_work work;
    TSR_TRY(tsr_driver_ready());
    return add(phGraphNode, hGraph, dependencies, numDependencies,
               tsr_kernel_work((const CUDA_KERNEL_NODE_PARAMS_v3 *)(const void *)nodeParams, &work), &work);
}

CUresult CUDAAPI cuGraphAddKernelNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                                      size_t numDependencies, const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(nodeParams, CUDA_ERROR_INVALID_VALUE);
    CUDA_KERNEL_NODE_PARAMS_v3 params = newest(nodeParams);
    return cuGraphAddKernelNode_v2(phGraphNode, hGraph, dependencies, numDependencies,
                                   (const CUDA_KERNEL_NODE_PARAMS *)(const void *)&params);
}

CUresult CUDAAPI cuGraphKernelNodeGetParams_v2(CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
    CUDA_KERNEL_NODE_PARAMS_v3 params;
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(nodeParams, CUDA_ERROR_INVALID_VALUE);
    struct tsr_graph_node *node = lock_node(hNode, CU_GRAPH_NODE_TYPE_KERNEL);
    TSR_REQUIRE(node, CUDA_ERROR_INVALID_VALUE);
    CUresult result = tsr_kernel_params_locked(node, &params);
    tsr_engine_unlock();
    if (!result)
        memcpy(nodeParams, &params, sizeof *nodeParams);
    return result;
}

CUresult CUDAAPI cuGraphKernelNodeGetParams(CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
    CUDA_KERNEL_NODE_PARAMS params;
    TSR_REQUIRE(nodeParams, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(cuGraphKernelNodeGetParams_v2(hNode, &params));
    if (!params.func)
        params.func = (CUfunction)(void *)params.kern;
    memcpy(nodeParams, &params, sizeof *nodeParams);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphKernelNodeSetParams_v2(CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
    struct tsr_work work;
    TSR_TRY(tsr_driver_ready());
    TSR_TRY(tsr_kernel_work((const CUDA_KERNEL_NODE_PARAMS_v3 *)(const void *)nodeParams, &work));
    return tsr_node_set(hNode, &work);
}

CUresult CUDAAPI cuGraphKernelNodeSetParams(CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(nodeParams, CUDA_ERROR_INVALID_VALUE);
    CUDA_KERNEL_NODE_PARAMS_v3 params = newest(nodeParams);
    return cuGraphKernelNodeSetParams_v2(hNode, (const CUDA_KERNEL_NODE_PARAMS *)(const void *)&params);
}

static CUresult attribute_get(const struct tsr_work *work, CUkernelNodeAttrID attr, CUkernelNodeAttrValue *value)
{
    const struct tsr_grid_desc *desc = &work->kernel.desc;
    switch ((int)attr) {
    case CU_KERNEL_NODE_ATTRIBUTE_COOPERATIVE:
        value->cooperative = desc->cooperative;
        return CUDA_SUCCESS;
    case CU_KERNEL_NODE_ATTRIBUTE_PRIORITY:
        value->priority = work->kernel.priority;
        return CUDA_SUCCESS;
    case CU_KERNEL_NODE_ATTRIBUTE_CLUSTER_DIMENSION:
        value->clusterDim.x = desc->cluster[0];
        value->clusterDim.y = desc->cluster[1];
        value->clusterDim.z = desc->cluster[2];
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

static CUresult attribute_set(struct tsr_work *work, CUkernelNodeAttrID attr, const CUkernelNodeAttrValue *value)
{
    struct tsr_grid_desc *desc = &work->kernel.desc;
    switch ((int)attr) {
    case CU_KERNEL_NODE_ATTRIBUTE_COOPERATIVE:
        desc->cooperative = value->cooperative != 0;
        return CUDA_SUCCESS;
    case CU_KERNEL_NODE_ATTRIBUTE_PRIORITY:
        work->kernel.priority = value->priority;
        return CUDA_SUCCESS;
    case CU_KERNEL_NODE_ATTRIBUTE_CLUSTER_DIMENSION:
        TSR_REQUIRE(value->clusterDim.x && value->clusterDim.y && value->clusterDim.z, CUDA_ERROR_INVALID_VALUE);
        TSR_REQUIRE(desc->grid[0] % value->clusterDim.x == 0 && desc->grid[1] % value->clusterDim.y == 0 &&
                        desc->grid[2] % value->clusterDim.z == 0,
                    CUDA_ERROR_INVALID_VALUE);
        desc->cluster[0] = value->clusterDim.x;
        desc->cluster[1] = value->clusterDim.y;
        desc->cluster[2] = value->clusterDim.z;
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
        return CUDA_SUCCESS; /* a hint about speed */
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

CUresult CUDAAPI cuGraphKernelNodeGetAttribute(CUgraphNode hNode, CUkernelNodeAttrID attr, CUkernelNodeAttrValue *value_out)
{
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(value_out, CUDA_ERROR_INVALID_VALUE);
    struct tsr_graph_node *node = lock_node(hNode, CU_GRAPH_NODE_TYPE_KERNEL);
    TSR_REQUIRE(node, CUDA_ERROR_INVALID_VALUE);
    CUresult result = attribute_get(&node->work, attr, value_out);
    tsr_engine_unlock();
    return result;
}

CUresult CUDAAPI cuGraphKernelNodeSetAttribute(CUgraphNode hNode, CUkernelNodeAttrID attr, const CUkernelNodeAttrValue *value)
{
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(value, CUDA_ERROR_INVALID_VALUE);
    struct tsr_graph_node *node = lock_node(hNode, CU_GRAPH_NODE_TYPE_KERNEL);
    TSR_REQUIRE(node, CUDA_ERROR_INVALID_VALUE);
    CUresult result = attribute_set(&node->work, attr, value);
    tsr_engine_unlock();
    return result;
}

CUresult CUDAAPI cuGraphKernelNodeCopyAttributes(CUgraphNode dst, CUgraphNode src)
{
    TSR_TRY(tsr_driver_ready());
    tsr_engine_lock();
    struct tsr_graph_node *to = tsr_graph_node_find_locked(dst), *from = tsr_graph_node_find_locked(src);
    bool valid = to && from && to->type == CU_GRAPH_NODE_TYPE_KERNEL && from->type == CU_GRAPH_NODE_TYPE_KERNEL;
    if (valid) {
        to->work.kernel.priority = from->work.kernel.priority;
        to->work.kernel.desc.cooperative = from->work.kernel.desc.cooperative;
        memcpy(to->work.kernel.desc.cluster, from->work.kernel.desc.cluster, sizeof to->work.kernel.desc.cluster);
    }
    tsr_engine_unlock();
    return valid ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* memcpy, memset */

CUresult CUDAAPI cuGraphAddMemcpyNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                                      size_t numDependencies, const CUDA_MEMCPY3D *copyParams, CUcontext ctx)
{
    struct tsr_work work;
    TSR_TRY(tsr_driver_ready());
    return add(phGraphNode, hGraph, dependencies, numDependencies, tsr_memcpy_work(copyParams, ctx, &work), &work);
}

CUresult CUDAAPI cuGraphMemcpyNodeGetParams(CUgraphNode hNode, CUDA_MEMCPY3D *nodeParams)
{
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(nodeParams, CUDA_ERROR_INVALID_VALUE);
    struct tsr_graph_node *node = lock_node(hNode, CU_GRAPH_NODE_TYPE_MEMCPY);
    TSR_REQUIRE(node, CUDA_ERROR_INVALID_VALUE);
    tsr_copy_to_3d(&node->work.copy.shape, nodeParams);
    tsr_engine_unlock();
    return CUDA_SUCCESS;
}

/* The node stays in its context. */
static CUcontext context_of_node(CUgraphNode handle)
{
    tsr_engine_lock();
    struct tsr_graph_node *node = tsr_graph_node_find_locked(handle);
    CUcontext context = node && node->work.context ? tsr_context_handle(node->work.context) : NULL;
    tsr_engine_unlock();
    return context;
}

CUresult CUDAAPI cuGraphMemcpyNodeSetParams(CUgraphNode hNode, const CUDA_MEMCPY3D *nodeParams)
{
    struct tsr_work work;
    TSR_TRY(tsr_driver_ready());
    TSR_TRY(tsr_memcpy_work(nodeParams, context_of_node(hNode), &work));
    return tsr_node_set(hNode, &work);
}

CUresult CUDAAPI cuGraphAddMemsetNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                                      size_t numDependencies, const CUDA_MEMSET_NODE_PARAMS *memsetParams, CUcontext ctx)
{
    struct tsr_work work;
    TSR_TRY(tsr_driver_ready());
    return add(phGraphNode, hGraph, dependencies, numDependencies, tsr_memset_work(memsetParams, ctx, &work), &work);
}

CUresult CUDAAPI cuGraphMemsetNodeGetParams(CUgraphNode hNode, CUDA_MEMSET_NODE_PARAMS *nodeParams)
{
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(nodeParams, CUDA_ERROR_INVALID_VALUE);
    struct tsr_graph_node *node = lock_node(hNode, CU_GRAPH_NODE_TYPE_MEMSET);
    TSR_REQUIRE(node, CUDA_ERROR_INVALID_VALUE);
    *nodeParams = (CUDA_MEMSET_NODE_PARAMS){
        .dst = node->work.memset.dst,
        .pitch = node->work.memset.pitch,
        .value = node->work.memset.value,
        .elementSize = node->work.memset.element_bytes,
        .width = node->work.memset.width,
        .height = node->work.memset.height,
    };
    tsr_engine_unlock();
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphMemsetNodeSetParams(CUgraphNode hNode, const CUDA_MEMSET_NODE_PARAMS *nodeParams)
{
    struct tsr_work work;
    TSR_TRY(tsr_driver_ready());
    TSR_TRY(tsr_memset_work(nodeParams, context_of_node(hNode), &work));
    return tsr_node_set(hNode, &work);
}

/* host function, child graph, nothing */

CUresult CUDAAPI cuGraphAddHostNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                                    size_t numDependencies, const CUDA_HOST_NODE_PARAMS *nodeParams)
{
    struct tsr_work work;
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(nodeParams, CUDA_ERROR_INVALID_VALUE);
    return add(phGraphNode, hGraph, dependencies, numDependencies, tsr_host_work(nodeParams->fn, nodeParams->userData, &work),
               &work);
}

CUresult CUDAAPI cuGraphHostNodeGetParams(CUgraphNode hNode, CUDA_HOST_NODE_PARAMS *nodeParams)
{
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(nodeParams, CUDA_ERROR_INVALID_VALUE);
    struct tsr_graph_node *node = lock_node(hNode, CU_GRAPH_NODE_TYPE_HOST);
    TSR_REQUIRE(node, CUDA_ERROR_INVALID_VALUE);
    *nodeParams = (CUDA_HOST_NODE_PARAMS){node->work.host.fn, node->work.host.data};
    tsr_engine_unlock();
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphHostNodeSetParams(CUgraphNode hNode, const CUDA_HOST_NODE_PARAMS *nodeParams)
{
    struct tsr_work work;
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(nodeParams, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(tsr_host_work(nodeParams->fn, nodeParams->userData, &work));
    return tsr_node_set(hNode, &work);
}

CUresult CUDAAPI cuGraphAddChildGraphNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                                          size_t numDependencies, CUgraph childGraph)
{
    struct tsr_work work;
    TSR_TRY(tsr_driver_ready());
    return add(phGraphNode, hGraph, dependencies, numDependencies, tsr_child_work(childGraph, &work), &work);
}

CUresult CUDAAPI cuGraphChildGraphNodeGetGraph(CUgraphNode hNode, CUgraph *phGraph)
{
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(phGraph, CUDA_ERROR_INVALID_VALUE);
    struct tsr_graph_node *node = lock_node(hNode, CU_GRAPH_NODE_TYPE_GRAPH);
    TSR_REQUIRE(node, CUDA_ERROR_INVALID_VALUE);
    *phGraph = node->work.child.graph->handle;
    tsr_engine_unlock();
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphAddEmptyNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                                     size_t numDependencies)
{
    struct tsr_work work = {.kind = TSR_WORK_EMPTY};
    TSR_TRY(tsr_driver_ready());
    return add(phGraphNode, hGraph, dependencies, numDependencies, CUDA_SUCCESS, &work);
}

/* events */

static CUresult event_of(CUgraphNode handle, CUgraphNodeType type, CUevent *out)
{
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(out, CUDA_ERROR_INVALID_VALUE);
    struct tsr_graph_node *node = lock_node(handle, type);
    TSR_REQUIRE(node, CUDA_ERROR_INVALID_VALUE);
    *out = node->work.event.event->handle;
    tsr_engine_unlock();
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphAddEventRecordNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                                           size_t numDependencies, CUevent event)
{
    struct tsr_work work;
    TSR_TRY(tsr_driver_ready());
    return add(phGraphNode, hGraph, dependencies, numDependencies, tsr_event_work(event, TSR_WORK_RECORD, &work), &work);
}

CUresult CUDAAPI cuGraphEventRecordNodeGetEvent(CUgraphNode hNode, CUevent *event_out)
{
    return event_of(hNode, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event_out);
}

CUresult CUDAAPI cuGraphEventRecordNodeSetEvent(CUgraphNode hNode, CUevent event)
{
    struct tsr_work work;
    TSR_TRY(tsr_driver_ready());
    TSR_TRY(tsr_event_work(event, TSR_WORK_RECORD, &work));
    return tsr_node_set(hNode, &work);
}

CUresult CUDAAPI cuGraphAddEventWaitNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                                         size_t numDependencies, CUevent event)
{
    struct tsr_work work;
    TSR_TRY(tsr_driver_ready());
    return add(phGraphNode, hGraph, dependencies, numDependencies, tsr_event_work(event, TSR_WORK_WAIT, &work), &work);
}

CUresult CUDAAPI cuGraphEventWaitNodeGetEvent(CUgraphNode hNode, CUevent *event_out)
{
    return event_of(hNode, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event_out);
}

CUresult CUDAAPI cuGraphEventWaitNodeSetEvent(CUgraphNode hNode, CUevent event)
{
    struct tsr_work work;
    TSR_TRY(tsr_driver_ready());
    TSR_TRY(tsr_event_work(event, TSR_WORK_WAIT, &work));
    return tsr_node_set(hNode, &work);
}

/* values */

CUresult CUDAAPI cuGraphAddBatchMemOpNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                                          size_t numDependencies, const CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams)
{
    struct tsr_work work;
    TSR_TRY(tsr_driver_ready());
    return add(phGraphNode, hGraph, dependencies, numDependencies, tsr_values_work(nodeParams, &work), &work);
}

CUresult CUDAAPI cuGraphBatchMemOpNodeGetParams(CUgraphNode hNode, CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams_out)
{
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(nodeParams_out, CUDA_ERROR_INVALID_VALUE);
    struct tsr_graph_node *node = lock_node(hNode, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);
    TSR_REQUIRE(node, CUDA_ERROR_INVALID_VALUE);
    *nodeParams_out = (CUDA_BATCH_MEM_OP_NODE_PARAMS){
        .ctx = node->work.context ? tsr_context_handle(node->work.context) : NULL,
        .count = node->work.values.count,
        .paramArray = node->work.values.ops,
    };
    tsr_engine_unlock();
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphBatchMemOpNodeSetParams(CUgraphNode hNode, const CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams)
{
    struct tsr_work work;
    TSR_TRY(tsr_driver_ready());
    TSR_TRY(tsr_values_work(nodeParams, &work));
    return tsr_node_set(hNode, &work);
}

/* any kind */

CUresult CUDAAPI cuGraphAddNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                                   const CUgraphEdgeData *dependencyData, size_t numDependencies, CUgraphNodeParams *nodeParams)
{
    struct tsr_node_place place = {hGraph, dependencies, dependencyData, numDependencies};
    struct tsr_work work;
    TSR_TRY(tsr_driver_ready());
    TSR_TRY(tsr_node_work(nodeParams, &work));
    TSR_TRY(tsr_node_add(&place, &work, phGraphNode));
    if (nodeParams->type == CU_GRAPH_NODE_TYPE_GRAPH) /* the node's own copy is given back */
        return cuGraphChildGraphNodeGetGraph(*phGraphNode, &nodeParams->graph.graph);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphAddNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                                size_t numDependencies, CUgraphNodeParams *nodeParams)
{
    return cuGraphAddNode_v2(phGraphNode, hGraph, dependencies, NULL, numDependencies, nodeParams);
}

CUresult CUDAAPI cuGraphNodeSetParams(CUgraphNode hNode, CUgraphNodeParams *nodeParams)
{
    struct tsr_work work;
    TSR_TRY(tsr_driver_ready());
    TSR_TRY(tsr_node_work(nodeParams, &work));
    return tsr_node_set(hNode, &work);
}

CUresult CUDAAPI cuGraphDestroyNode(CUgraphNode hNode)
{
    TSR_TRY(tsr_driver_ready());
    tsr_engine_lock();
    struct tsr_graph_node *node = tsr_graph_node_find_locked(hNode);
    if (node)
        tsr_graph_take(node);
    tsr_engine_unlock();
    TSR_REQUIRE(node, CUDA_ERROR_INVALID_VALUE);
    tsr_graph_node_free(node);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphNodeGetType(CUgraphNode hNode, CUgraphNodeType *type)
{
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(type, CUDA_ERROR_INVALID_VALUE);
    tsr_engine_lock();
    struct tsr_graph_node *node = tsr_graph_node_find_locked(hNode);
    if (node)
        *type = node->type;
    tsr_engine_unlock();
    return node ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
