/* The wrappers that change instantiated graphs, whose nodes the shim keeps (graph/instance.h), and other graphs. */
#include "driver/engaged.h"
#include "driver/real.h"
#include "graph/instance.h"
#include "launch/captured_calls.h"
#include "object/registry.h"

#include <string.h>

TSR_REDIRECTED(cuGraphExecKernelNodeSetParams_v2)(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params)
{
    CUresult result = tsr_real.cuGraphExecKernelNodeSetParams_v2(exec, node, params);
    if (result == CUDA_SUCCESS)
        tsr_instance_set_kernel(exec, node, params);
    return result;
}

/* The first version has the members that later ones begin with. */
#undef cuGraphExecKernelNodeSetParams
TSR_REDIRECTED(cuGraphExecKernelNodeSetParams)(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
    CUDA_KERNEL_NODE_PARAMS all = {0};
    CUresult result = tsr_real.cuGraphExecKernelNodeSetParams(exec, node, params);
    if (result == CUDA_SUCCESS) {
        memcpy(&all, params, sizeof *params);
        tsr_instance_set_kernel(exec, node, &all);
    }
    return result;
}

TSR_REDIRECTED(cuGraphExecMemcpyNodeSetParams)(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D *params,
                                               CUcontext context)
{
    CUresult result = tsr_real.cuGraphExecMemcpyNodeSetParams(exec, node, params, context);
    if (result == CUDA_SUCCESS)
        tsr_instance_set_copy(exec, node, params);
    return result;
}

TSR_REDIRECTED(cuGraphExecMemsetNodeSetParams)(CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *params,
                                               CUcontext context)
{
    CUresult result = tsr_real.cuGraphExecMemsetNodeSetParams(exec, node, params, context);
    if (result == CUDA_SUCCESS)
        tsr_instance_set_set(exec, node, params);
    return result;
}

TSR_REDIRECTED(cuGraphExecNodeSetParams)(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams *params)
{
    CUDA_KERNEL_NODE_PARAMS kernel;
    CUDA_MEMSET_NODE_PARAMS set;
    CUresult result = tsr_real.cuGraphExecNodeSetParams(exec, node, params);
    if (result != CUDA_SUCCESS)
        return result;
    switch (params->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        memcpy(&kernel, &params->kernel, sizeof kernel); /* later versions add members at the end */
        tsr_instance_set_kernel(exec, node, &kernel);
        break;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        tsr_instance_set_copy(exec, node, &params->memcpy.copyParams);
        break;
    case CU_GRAPH_NODE_TYPE_MEMSET:
        memcpy(&set, &params->memset, sizeof set);
        tsr_instance_set_set(exec, node, &set);
        break;
    case CU_GRAPH_NODE_TYPE_GRAPH:
        tsr_instance_set_child(exec, node, params->graph.graph);
        break;
    default:
        tsr_instance_opaque(exec);
    }
    return result;
}

TSR_REDIRECTED(cuGraphExecBatchMemOpNodeSetParams)(CUgraphExec exec, CUgraphNode node,
                                                   const CUDA_BATCH_MEM_OP_NODE_PARAMS *params)
{
    CUresult result = tsr_real.cuGraphExecBatchMemOpNodeSetParams(exec, node, params);
    if (result == CUDA_SUCCESS)
        tsr_instance_set_batch(exec, node, params);
    return result;
}

TSR_REDIRECTED(cuGraphExecChildGraphNodeSetParams)(CUgraphExec exec, CUgraphNode node, CUgraph child)
{
    CUresult result = tsr_real.cuGraphExecChildGraphNodeSetParams(exec, node, child);
    if (result == CUDA_SUCCESS)
        tsr_instance_set_child(exec, node, child);
    return result;
}

#define ACTION(symbol, parameters, arguments, ...)                                                                             \
    TSR_REDIRECTED(symbol) parameters                                                                                          \
    {                                                                                                                          \
        CUresult result = tsr_real.symbol arguments;                                                                           \
        if (result == CUDA_SUCCESS)                                                                                            \
            tsr_instance_set_action(exec, node, &(struct tsr_node_action){__VA_ARGS__});                                       \
        return result;                                                                                                         \
    }
ACTION(cuGraphExecHostNodeSetParams, (CUgraphExec exec, CUgraphNode node, const CUDA_HOST_NODE_PARAMS *params),
       (exec, node, params), .kind = TSR_NODE_CALLS, .host = *params)
ACTION(cuGraphExecEventRecordNodeSetEvent, (CUgraphExec exec, CUgraphNode node, CUevent event), (exec, node, event),
       .kind = TSR_NODE_RECORDS, .event = event)
ACTION(cuGraphExecEventWaitNodeSetEvent, (CUgraphExec exec, CUgraphNode node, CUevent event), (exec, node, event),
       .kind = TSR_NODE_WAITS, .event = event)

/* Nodes that are not mirrored, so that their graph stays home. */
#define OTHER(symbol, parameters, arguments)                                                                                   \
    TSR_REDIRECTED(symbol) parameters                                                                                          \
    {                                                                                                                          \
        CUresult result = tsr_real.symbol arguments;                                                                           \
        if (result == CUDA_SUCCESS)                                                                                            \
            tsr_instance_opaque(exec);                                                                                         \
        return result;                                                                                                         \
    }
OTHER(cuGraphExecExternalSemaphoresSignalNodeSetParams,
      (CUgraphExec exec, CUgraphNode node, const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS *params), (exec, node, params))
OTHER(cuGraphExecExternalSemaphoresWaitNodeSetParams,
      (CUgraphExec exec, CUgraphNode node, const CUDA_EXT_SEM_WAIT_NODE_PARAMS *params), (exec, node, params))

/* What nodes of graphs were captured as is forgotten before their handles are given to others. */
TSR_REDIRECTED(cuGraphDestroy)(CUgraph graph)
{
    tsr_captured_nodes_forget();
    return tsr_real.cuGraphDestroy(graph);
}

/* Nodes of graphs that are not instantiated. */
#define LOOSE(symbol, parameters, arguments)                                                                                   \
    TSR_REDIRECTED(symbol) parameters                                                                                          \
    {                                                                                                                          \
        tsr_captured_nodes_change();                                                                                           \
        return tsr_real.symbol arguments;                                                                                      \
    }
#undef cuGraphKernelNodeSetParams
LOOSE(cuGraphDestroyNode, (CUgraphNode node), (node))

TSR_REDIRECTED(cuGraphNodeSetParams)(CUgraphNode node, CUgraphNodeParams *params)
{
    tsr_captured_nodes_change();
    CUresult result = tsr_real.cuGraphNodeSetParams(node, params);
    if (result == CUDA_SUCCESS && params->type == CU_GRAPH_NODE_TYPE_KERNEL)
        tsr_function_made_node(params->kernel.func, params->kernel.kern);
    return result;
}

/* A kernel node that the program makes is in no library call, even if one has launched the same. cuGraphAddNode: memory/memory_home.c. */
#define KERNEL(symbol, first, parameters, arguments, kernel)                                                                   \
    TSR_REDIRECTED(symbol) parameters                                                                                          \
    {                                                                                                                          \
        first;                                                                                                                 \
        CUresult result = tsr_real.symbol arguments;                                                                           \
        if (result == CUDA_SUCCESS)                                                                                            \
            tsr_function_made_node(params->func, kernel);                                                                      \
        return result;                                                                                                         \
    }
#define CHANGED tsr_captured_nodes_change()
#define NEW (void)0
KERNEL(cuGraphKernelNodeSetParams, CHANGED, (CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *params), (node, params), NULL)
KERNEL(cuGraphKernelNodeSetParams_v2, CHANGED, (CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params), (node, params),
       params->kern)
#undef cuGraphAddKernelNode
KERNEL(cuGraphAddKernelNode, NEW,
       (CUgraphNode * node, CUgraph graph, const CUgraphNode *dependencies, size_t count,
        const CUDA_KERNEL_NODE_PARAMS_v1 *params),
       (node, graph, dependencies, count, params), NULL)
KERNEL(cuGraphAddKernelNode_v2, NEW,
       (CUgraphNode * node, CUgraph graph, const CUgraphNode *dependencies, size_t count,
        const CUDA_KERNEL_NODE_PARAMS *params),
       (node, graph, dependencies, count, params), params->kern)
