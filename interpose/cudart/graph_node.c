/* The other node kinds (host, child graph, empty, events, memory), and nodes described by one parameter union. */
#include "cudart/register.h"

_Static_assert(sizeof(struct cudaHostNodeParams) == sizeof(CUDA_HOST_NODE_PARAMS_v1), "one layout");
_Static_assert(sizeof(struct cudaMemAllocNodeParams) == sizeof(CUDA_MEM_ALLOC_NODE_PARAMS_v1), "one layout");
_Static_assert(offsetof(struct cudaMemAllocNodeParams, dptr) == offsetof(CUDA_MEM_ALLOC_NODE_PARAMS_v1, dptr), "one layout");

cudaError_t cudaGraphAddHostNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *dependencies, size_t count,
                                 const struct cudaHostNodeParams *parameters)
{
    return TSR_CALL(cuGraphAddHostNode(node, graph, dependencies, count, (const CUDA_HOST_NODE_PARAMS *)parameters));
}

cudaError_t cudaGraphHostNodeGetParams(cudaGraphNode_t node, struct cudaHostNodeParams *parameters)
{
    return TSR_CALL(cuGraphHostNodeGetParams(node, (CUDA_HOST_NODE_PARAMS *)parameters));
}

cudaError_t cudaGraphHostNodeSetParams(cudaGraphNode_t node, const struct cudaHostNodeParams *parameters)
{
    return TSR_CALL(cuGraphHostNodeSetParams(node, (const CUDA_HOST_NODE_PARAMS *)parameters));
}

cudaError_t cudaGraphExecHostNodeSetParams(cudaGraphExec_t executable, cudaGraphNode_t node,
                                           const struct cudaHostNodeParams *parameters)
{
    return TSR_CALL(cuGraphExecHostNodeSetParams(executable, node, (const CUDA_HOST_NODE_PARAMS *)parameters));
}

cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *dependencies,
                                       size_t count, cudaGraph_t child)
{
    return TSR_CALL(cuGraphAddChildGraphNode(node, graph, dependencies, count, child));
}

cudaError_t cudaGraphChildGraphNodeGetGraph(cudaGraphNode_t node, cudaGraph_t *graph)
{
    return TSR_CALL(cuGraphChildGraphNodeGetGraph(node, graph));
}

cudaError_t cudaGraphExecChildGraphNodeSetParams(cudaGraphExec_t executable, cudaGraphNode_t node, cudaGraph_t child)
{
    return TSR_CALL(cuGraphExecChildGraphNodeSetParams(executable, node, child));
}

cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *dependencies, size_t count)
{
    return TSR_CALL(cuGraphAddEmptyNode(node, graph, dependencies, count));
}

cudaError_t cudaGraphAddEventRecordNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *dependencies,
                                        size_t count, cudaEvent_t event)
{
    return TSR_CALL(cuGraphAddEventRecordNode(node, graph, dependencies, count, event));
}

cudaError_t cudaGraphEventRecordNodeGetEvent(cudaGraphNode_t node, cudaEvent_t *event)
{
    return TSR_CALL(cuGraphEventRecordNodeGetEvent(node, event));
}

cudaError_t cudaGraphEventRecordNodeSetEvent(cudaGraphNode_t node, cudaEvent_t event)
{
    return TSR_CALL(cuGraphEventRecordNodeSetEvent(node, event));
}

cudaError_t cudaGraphExecEventRecordNodeSetEvent(cudaGraphExec_t executable, cudaGraphNode_t node, cudaEvent_t event)
{
    return TSR_CALL(cuGraphExecEventRecordNodeSetEvent(executable, node, event));
}

cudaError_t cudaGraphAddEventWaitNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *dependencies,
                                      size_t count, cudaEvent_t event)
{
    return TSR_CALL(cuGraphAddEventWaitNode(node, graph, dependencies, count, event));
}

cudaError_t cudaGraphEventWaitNodeGetEvent(cudaGraphNode_t node, cudaEvent_t *event)
{
    return TSR_CALL(cuGraphEventWaitNodeGetEvent(node, event));
}

cudaError_t cudaGraphEventWaitNodeSetEvent(cudaGraphNode_t node, cudaEvent_t event)
{
    return TSR_CALL(cuGraphEventWaitNodeSetEvent(node, event));
}

cudaError_t cudaGraphExecEventWaitNodeSetEvent(cudaGraphExec_t executable, cudaGraphNode_t node, cudaEvent_t event)
{
    return TSR_CALL(cuGraphExecEventWaitNodeSetEvent(executable, node, event));
}

cudaError_t cudaGraphAddMemAllocNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *dependencies,
                                     size_t count, struct cudaMemAllocNodeParams *parameters)
{
    return TSR_CALL(cuGraphAddMemAllocNode(node, graph, dependencies, count, (CUDA_MEM_ALLOC_NODE_PARAMS *)parameters));
}

cudaError_t cudaGraphMemAllocNodeGetParams(cudaGraphNode_t node, struct cudaMemAllocNodeParams *parameters)
{
    return TSR_CALL(cuGraphMemAllocNodeGetParams(node, (CUDA_MEM_ALLOC_NODE_PARAMS *)parameters));
}

cudaError_t cudaGraphAddMemFreeNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *dependencies, size_t count,
                                    void *pointer)
{
    return TSR_CALL(cuGraphAddMemFreeNode(node, graph, dependencies, count, (CUdeviceptr)pointer));
}

cudaError_t cudaGraphMemFreeNodeGetParams(cudaGraphNode_t node, void *pointer)
{
    return TSR_CALL(cuGraphMemFreeNodeGetParams(node, (CUdeviceptr *)pointer));
}

static struct cudaKernelNodeParams kernel_parameters(const struct cudaKernelNodeParamsV2 *in)
{
    return (struct cudaKernelNodeParams){.func = in->func,
                                         .gridDim = {in->gridDim.x, in->gridDim.y, in->gridDim.z},
                                         .blockDim = {in->blockDim.x, in->blockDim.y, in->blockDim.z},
                                         .sharedMemBytes = in->sharedMemBytes,
                                         .kernelParams = in->kernelParams,
                                         .extra = in->extra};
}

static struct cudaMemsetParams memset_parameters(const struct cudaMemsetParamsV2 *in)
{
    return (struct cudaMemsetParams){in->dst, in->pitch, in->value, in->elementSize, in->width, in->height};
}

static cudaError_t add_allocation(cudaGraphNode_t *node, cudaGraph_t graph, struct cudaMemAllocNodeParamsV2 *in)
{
    struct cudaMemAllocNodeParams plain = {.poolProps = in->poolProps,
                                           .accessDescs = in->accessDescs,
                                           .accessDescCount = in->accessDescCount,
                                           .bytesize = in->bytesize};
    cudaError_t status = cudaGraphAddMemAllocNode(node, graph, NULL, 0, &plain);
    in->dptr = plain.dptr;
    return status;
}

static cudaError_t add_unconnected(cudaGraphNode_t *node, cudaGraph_t graph, struct cudaGraphNodeParams *in)
{
    switch (in->type) {
    case cudaGraphNodeTypeKernel: {
        struct cudaKernelNodeParams kernel = kernel_parameters(&in->kernel);
        return cudaGraphAddKernelNode(node, graph, NULL, 0, &kernel);
    }
    case cudaGraphNodeTypeMemcpy:
        return cudaGraphAddMemcpyNode(node, graph, NULL, 0, &in->memcpy.copyParams);
    case cudaGraphNodeTypeMemset: {
        struct cudaMemsetParams plain = memset_parameters(&in->memset);
        return cudaGraphAddMemsetNode(node, graph, NULL, 0, &plain);
    }
    case cudaGraphNodeTypeHost: {
        struct cudaHostNodeParams host = {in->host.fn, in->host.userData};
        return cudaGraphAddHostNode(node, graph, NULL, 0, &host);
    }
    case cudaGraphNodeTypeGraph:
        return cudaGraphAddChildGraphNode(node, graph, NULL, 0, in->graph.graph);
    case cudaGraphNodeTypeEmpty:
        return cudaGraphAddEmptyNode(node, graph, NULL, 0);
    case cudaGraphNodeTypeWaitEvent:
        return cudaGraphAddEventWaitNode(node, graph, NULL, 0, in->eventWait.event);
    case cudaGraphNodeTypeEventRecord:
        return cudaGraphAddEventRecordNode(node, graph, NULL, 0, in->eventRecord.event);
    case cudaGraphNodeTypeMemAlloc:
        return add_allocation(node, graph, &in->alloc);
    case cudaGraphNodeTypeMemFree:
        return cudaGraphAddMemFreeNode(node, graph, NULL, 0, in->free.dptr);
    default:
        return tsr_cudart_result(cudaErrorNotSupported);
    }
}

cudaError_t cudaGraphAddNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *dependencies,
                             const cudaGraphEdgeData *edges, size_t count, struct cudaGraphNodeParams *parameters)
{
    if (!node || !parameters || (count && !dependencies))
        return tsr_cudart_result(cudaErrorInvalidValue);
    cudaError_t status = add_unconnected(node, graph, parameters);
    if (status != cudaSuccess)
        return status;
    for (size_t i = 0; i < count && status == cudaSuccess; i++)
        status = cudaGraphAddDependencies(graph, &dependencies[i], node, edges ? &edges[i] : NULL, 1);
    if (status != cudaSuccess)
        cudaGraphDestroyNode(*node);
    return status;
}

cudaError_t cudaGraphNodeSetParams(cudaGraphNode_t node, struct cudaGraphNodeParams *in)
{
    if (!in)
        return tsr_cudart_result(cudaErrorInvalidValue);
    switch (in->type) {
    case cudaGraphNodeTypeKernel: {
        struct cudaKernelNodeParams kernel = kernel_parameters(&in->kernel);
        return cudaGraphKernelNodeSetParams(node, &kernel);
    }
    case cudaGraphNodeTypeMemcpy:
        return cudaGraphMemcpyNodeSetParams(node, &in->memcpy.copyParams);
    case cudaGraphNodeTypeMemset: {
        struct cudaMemsetParams plain = memset_parameters(&in->memset);
        return cudaGraphMemsetNodeSetParams(node, &plain);
    }
    case cudaGraphNodeTypeHost: {
        struct cudaHostNodeParams host = {in->host.fn, in->host.userData};
        return cudaGraphHostNodeSetParams(node, &host);
    }
    case cudaGraphNodeTypeWaitEvent:
        return cudaGraphEventWaitNodeSetEvent(node, in->eventWait.event);
    case cudaGraphNodeTypeEventRecord:
        return cudaGraphEventRecordNodeSetEvent(node, in->eventRecord.event);
    default:
        return tsr_cudart_result(cudaErrorNotSupported);
    }
}

cudaError_t cudaGraphExecNodeSetParams(cudaGraphExec_t executable, cudaGraphNode_t node, struct cudaGraphNodeParams *in)
{
    if (!in)
        return tsr_cudart_result(cudaErrorInvalidValue);
    switch (in->type) {
    case cudaGraphNodeTypeKernel: {
        struct cudaKernelNodeParams kernel = kernel_parameters(&in->kernel);
        return cudaGraphExecKernelNodeSetParams(executable, node, &kernel);
    }
    case cudaGraphNodeTypeMemcpy:
        return cudaGraphExecMemcpyNodeSetParams(executable, node, &in->memcpy.copyParams);
    case cudaGraphNodeTypeMemset: {
        struct cudaMemsetParams plain = memset_parameters(&in->memset);
        return cudaGraphExecMemsetNodeSetParams(executable, node, &plain);
    }
    case cudaGraphNodeTypeHost: {
        struct cudaHostNodeParams host = {in->host.fn, in->host.userData};
        return cudaGraphExecHostNodeSetParams(executable, node, &host);
    }
    case cudaGraphNodeTypeGraph:
        return cudaGraphExecChildGraphNodeSetParams(executable, node, in->graph.graph);
    case cudaGraphNodeTypeWaitEvent:
        return cudaGraphExecEventWaitNodeSetEvent(executable, node, in->eventWait.event);
    case cudaGraphNodeTypeEventRecord:
        return cudaGraphExecEventRecordNodeSetEvent(executable, node, in->eventRecord.event);
    default:
        return tsr_cudart_result(cudaErrorNotSupported);
    }
}
