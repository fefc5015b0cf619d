/* Graphs as a whole: nodes and edges, cloning, instantiation, launch, update, user objects, graph memory. */
#include "cudart/state.h"

_Static_assert(sizeof(cudaGraphEdgeData) == sizeof(CUgraphEdgeData), "one layout");
_Static_assert(sizeof(cudaGraphInstantiateParams) == sizeof(CUDA_GRAPH_INSTANTIATE_PARAMS), "one layout");
_Static_assert(sizeof(cudaGraphExecUpdateResultInfo) == sizeof(CUgraphExecUpdateResultInfo), "one layout");
_Static_assert((int)cudaGraphNodeTypeConditional == (int)CU_GRAPH_NODE_TYPE_CONDITIONAL, "one numbering");

cudaError_t cudaGraphCreate(cudaGraph_t *graph, unsigned int flags)
{
    return TSR_CALL(cuGraphCreate(graph, flags));
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    return TSR_CALL(cuGraphDestroy(graph));
}

cudaError_t cudaGraphClone(cudaGraph_t *clone, cudaGraph_t graph)
{
    return TSR_CALL(cuGraphClone(clone, graph));
}

cudaError_t cudaGraphNodeFindInClone(cudaGraphNode_t *found, cudaGraphNode_t node, cudaGraph_t clone)
{
    return TSR_CALL(cuGraphNodeFindInClone(found, node, clone));
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, enum cudaGraphNodeType *type)
{
    return TSR_CALL(cuGraphNodeGetType(node, (CUgraphNodeType *)type));
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count)
{
    return TSR_CALL(cuGraphGetNodes(graph, nodes, count));
}

cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count)
{
    return TSR_CALL(cuGraphGetRootNodes(graph, nodes, count));
}

cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to, cudaGraphEdgeData *data,
                              size_t *count)
{
    return TSR_CALL(cuGraphGetEdges(graph, from, to, (CUgraphEdgeData *)data, count));
}

cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t *dependencies, cudaGraphEdgeData *data,
                                         size_t *count)
{
    return TSR_CALL(cuGraphNodeGetDependencies(node, dependencies, (CUgraphEdgeData *)data, count));
}

cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t *dependents, cudaGraphEdgeData *data,
                                           size_t *count)
{
    return TSR_CALL(cuGraphNodeGetDependentNodes(node, dependents, (CUgraphEdgeData *)data, count));
}

cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to,
                                     const cudaGraphEdgeData *data, size_t count)
{
    return TSR_CALL(cuGraphAddDependencies(graph, from, to, (const CUgraphEdgeData *)data, count));
}

cudaError_t cudaGraphRemoveDependencies(cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to,
                                        const cudaGraphEdgeData *data, size_t count)
{
    return TSR_CALL(cuGraphRemoveDependencies(graph, from, to, (const CUgraphEdgeData *)data, count));
}

cudaError_t cudaGraphDestroyNode(cudaGraphNode_t node)
{
    return TSR_CALL(cuGraphDestroyNode(node));
}

cudaError_t cudaGraphDebugDotPrint(cudaGraph_t graph, const char *path, unsigned int flags)
{
    return TSR_CALL(cuGraphDebugDotPrint(graph, path, flags));
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *executable, cudaGraph_t graph, unsigned long long flags)
{
    return TSR_CALL(cuGraphInstantiateWithFlags(executable, graph, flags));
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *executable, cudaGraph_t graph, unsigned long long flags)
{
    return cudaGraphInstantiate(executable, graph, flags);
}

cudaError_t cudaGraphInstantiateWithParams(cudaGraphExec_t *executable, cudaGraph_t graph, cudaGraphInstantiateParams *params)
{
    return TSR_CALL(cuGraphInstantiateWithParams(executable, graph, (CUDA_GRAPH_INSTANTIATE_PARAMS *)params));
}

TSR_CUDART_EXPORT cudaError_t cudaGraphInstantiateWithParams_ptsz(cudaGraphExec_t *, cudaGraph_t, cudaGraphInstantiateParams *);
cudaError_t cudaGraphInstantiateWithParams_ptsz(cudaGraphExec_t *executable, cudaGraph_t graph,
                                                cudaGraphInstantiateParams *params)
{
    if (!params)
        return tsr_cudart_result(cudaErrorInvalidValue);
    cudaGraphInstantiateParams own = *params;
    own.uploadStream = tsr_cudart_per_thread(params->uploadStream);
    cudaError_t status = cudaGraphInstantiateWithParams(executable, graph, &own);
    params->errNode_out = own.errNode_out;
    params->result_out = own.result_out;
    return status;
}

cudaError_t cudaGraphExecGetFlags(cudaGraphExec_t executable, unsigned long long *flags)
{
    return TSR_CALL(cuGraphExecGetFlags(executable, (cuuint64_t *)flags));
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable)
{
    return TSR_CALL(cuGraphExecDestroy(executable));
}

cudaError_t cudaGraphExecUpdate(cudaGraphExec_t executable, cudaGraph_t graph, cudaGraphExecUpdateResultInfo *info)
{
    return TSR_CALL(cuGraphExecUpdate(executable, graph, (CUgraphExecUpdateResultInfo *)info));
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream)
{
    return TSR_CALL(cuGraphLaunch(executable, stream));
}

cudaError_t cudaGraphUpload(cudaGraphExec_t executable, cudaStream_t stream)
{
    return TSR_CALL(cuGraphUpload(executable, stream));
}

TSR_CUDART_PER_THREAD(cudaGraphLaunch, (cudaGraphExec_t executable, cudaStream_t stream), executable,
                      tsr_cudart_per_thread(stream))
TSR_CUDART_PER_THREAD(cudaGraphUpload, (cudaGraphExec_t executable, cudaStream_t stream), executable,
                      tsr_cudart_per_thread(stream))

cudaError_t cudaGraphNodeSetEnabled(cudaGraphExec_t executable, cudaGraphNode_t node, unsigned int enabled)
{
    return TSR_CALL(cuGraphNodeSetEnabled(executable, node, enabled));
}

cudaError_t cudaGraphNodeGetEnabled(cudaGraphExec_t executable, cudaGraphNode_t node, unsigned int *enabled)
{
    return TSR_CALL(cuGraphNodeGetEnabled(executable, node, enabled));
}

cudaError_t cudaUserObjectCreate(cudaUserObject_t *object, void *pointer, cudaHostFn_t destroy, unsigned int references,
                                 unsigned int flags)
{
    return TSR_CALL(cuUserObjectCreate(object, pointer, destroy, references, flags));
}

cudaError_t cudaUserObjectRetain(cudaUserObject_t object, unsigned int count)
{
    return TSR_CALL(cuUserObjectRetain(object, count));
}

cudaError_t cudaUserObjectRelease(cudaUserObject_t object, unsigned int count)
{
    return TSR_CALL(cuUserObjectRelease(object, count));
}

cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned int count, unsigned int flags)
{
    return TSR_CALL(cuGraphRetainUserObject(graph, object, count, flags));
}

cudaError_t cudaGraphReleaseUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned int count)
{
    return TSR_CALL(cuGraphReleaseUserObject(graph, object, count));
}

cudaError_t cudaDeviceGraphMemTrim(int device)
{
    return TSR_CALL_WITHOUT_CONTEXT(cuDeviceGraphMemTrim(device));
}

cudaError_t cudaDeviceGetGraphMemAttribute(int device, enum cudaGraphMemAttributeType attribute, void *value)
{
    return TSR_CALL_WITHOUT_CONTEXT(cuDeviceGetGraphMemAttribute(device, (CUgraphMem_attribute)attribute, value));
}

cudaError_t cudaDeviceSetGraphMemAttribute(int device, enum cudaGraphMemAttributeType attribute, void *value)
{
    return TSR_CALL_WITHOUT_CONTEXT(cuDeviceSetGraphMemAttribute(device, (CUgraphMem_attribute)attribute, value));
}
