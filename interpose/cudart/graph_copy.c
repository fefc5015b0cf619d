/* Copy and memset nodes. They belong to the context that is current when they are added. */
#include "cudart/box.h"

_Static_assert(sizeof(struct cudaMemsetParams) == sizeof(CUDA_MEMSET_NODE_PARAMS), "one layout");

static cudaError_t current(CUcontext *context)
{
    cudaError_t status = tsr_cudart_enter();
    return status == cudaSuccess ? tsr_cudart_error(tsr_driver.cuCtxGetCurrent(context)) : status;
}

static cudaError_t add_copy(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *dependencies, size_t count,
                            const CUDA_MEMCPY3D *copy)
{
    CUcontext context;
    cudaError_t status = current(&context);
    if (status == cudaSuccess)
        status = tsr_cudart_error(tsr_driver.cuGraphAddMemcpyNode(node, graph, dependencies, count, copy, context));
    return tsr_cudart_result(status);
}

static cudaError_t set_executable_copy(cudaGraphExec_t executable, cudaGraphNode_t node, const CUDA_MEMCPY3D *copy)
{
    CUcontext context;
    cudaError_t status = current(&context);
    if (status == cudaSuccess)
        status = tsr_cudart_error(tsr_driver.cuGraphExecMemcpyNodeSetParams(executable, node, copy, context));
    return tsr_cudart_result(status);
}

/* The copy between a registered variable and memory; `to_symbol` gives the direction. */
static cudaError_t symbol_copy(const void *symbol, size_t offset, void *memory, size_t bytes, int to_symbol,
                               CUDA_MEMCPY3D *copy)
{
    CUdeviceptr start;
    size_t size;
    cudaError_t status = tsr_cudart_enter();
    if (status == cudaSuccess)
        status = tsr_cudart_variable(symbol, &start, &size);
    if (status == cudaSuccess && (offset > size || bytes > size - offset))
        status = cudaErrorInvalidValue;
    if (status != cudaSuccess)
        return tsr_cudart_result(status);
    void *part = (void *)(start + offset);
    *copy = to_symbol ? tsr_cudart_row(part, memory, bytes) : tsr_cudart_row(memory, part, bytes);
    return cudaSuccess;
}

cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *dependencies, size_t count,
                                   const struct cudaMemcpy3DParms *parameters)
{
    CUDA_MEMCPY3D copy;
    cudaError_t status = tsr_cudart_box(parameters, &copy);
    return status == cudaSuccess ? add_copy(node, graph, dependencies, count, &copy) : tsr_cudart_result(status);
}

cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *dependencies,
                                     size_t count, void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    CUDA_MEMCPY3D copy = tsr_cudart_row(to, from, bytes);
    return (unsigned)kind <= cudaMemcpyDefault ? add_copy(node, graph, dependencies, count, &copy)
                                               : tsr_cudart_result(cudaErrorInvalidMemcpyDirection);
}

cudaError_t cudaGraphAddMemcpyNodeToSymbol(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *dependencies,
                                           size_t count, const void *symbol, const void *from, size_t bytes, size_t offset,
                                           enum cudaMemcpyKind kind)
{
    CUDA_MEMCPY3D copy;
    (void)kind;
    cudaError_t status = symbol_copy(symbol, offset, (void *)from, bytes, 1, &copy);
    return status == cudaSuccess ? add_copy(node, graph, dependencies, count, &copy) : status;
}

cudaError_t cudaGraphAddMemcpyNodeFromSymbol(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *dependencies,
                                             size_t count, void *to, const void *symbol, size_t bytes, size_t offset,
                                             enum cudaMemcpyKind kind)
{
    CUDA_MEMCPY3D copy;
    (void)kind;
    cudaError_t status = symbol_copy(symbol, offset, to, bytes, 0, &copy);
    return status == cudaSuccess ? add_copy(node, graph, dependencies, count, &copy) : status;
}

cudaError_t cudaGraphMemcpyNodeGetParams(cudaGraphNode_t node, struct cudaMemcpy3DParms *out)
{
    CUDA_MEMCPY3D copy;
    if (!out)
        return tsr_cudart_result(cudaErrorInvalidValue);
    cudaError_t status = TSR_CALL(cuGraphMemcpyNodeGetParams(node, &copy));
    if (status != cudaSuccess)
        return status;
    void *from = copy.srcMemoryType == CU_MEMORYTYPE_HOST ? (void *)copy.srcHost : (void *)copy.srcDevice;
    void *to = copy.dstMemoryType == CU_MEMORYTYPE_HOST ? copy.dstHost : (void *)copy.dstDevice;
    *out = (struct cudaMemcpy3DParms){
        .srcPos = {copy.srcXInBytes, copy.srcY, copy.srcZ},
        .srcPtr = {from, copy.srcPitch, copy.srcPitch, copy.srcHeight},
        .dstPos = {copy.dstXInBytes, copy.dstY, copy.dstZ},
        .dstPtr = {to, copy.dstPitch, copy.dstPitch, copy.dstHeight},
        .extent = {copy.WidthInBytes, copy.Height, copy.Depth},
        .kind = cudaMemcpyDefault,
    };
    return cudaSuccess;
}

cudaError_t cudaGraphMemcpyNodeSetParams(cudaGraphNode_t node, const struct cudaMemcpy3DParms *parameters)
{
    CUDA_MEMCPY3D copy;
    cudaError_t status = tsr_cudart_box(parameters, &copy);
    return status == cudaSuccess ? TSR_CALL(cuGraphMemcpyNodeSetParams(node, &copy)) : tsr_cudart_result(status);
}

cudaError_t cudaGraphMemcpyNodeSetParams1D(cudaGraphNode_t node, void *to, const void *from, size_t bytes,
                                           enum cudaMemcpyKind kind)
{
    CUDA_MEMCPY3D copy = tsr_cudart_row(to, from, bytes);
    (void)kind;
    return TSR_CALL(cuGraphMemcpyNodeSetParams(node, &copy));
}

cudaError_t cudaGraphMemcpyNodeSetParamsToSymbol(cudaGraphNode_t node, const void *symbol, const void *from, size_t bytes,
                                                 size_t offset, enum cudaMemcpyKind kind)
{
    CUDA_MEMCPY3D copy;
    (void)kind;
    cudaError_t status = symbol_copy(symbol, offset, (void *)from, bytes, 1, &copy);
    return status == cudaSuccess ? TSR_CALL(cuGraphMemcpyNodeSetParams(node, &copy)) : status;
}

cudaError_t cudaGraphMemcpyNodeSetParamsFromSymbol(cudaGraphNode_t node, void *to, const void *symbol, size_t bytes,
                                                   size_t offset, enum cudaMemcpyKind kind)
{
    CUDA_MEMCPY3D copy;
    (void)kind;
    cudaError_t status = symbol_copy(symbol, offset, to, bytes, 0, &copy);
    return status == cudaSuccess ? TSR_CALL(cuGraphMemcpyNodeSetParams(node, &copy)) : status;
}

cudaError_t cudaGraphExecMemcpyNodeSetParams(cudaGraphExec_t executable, cudaGraphNode_t node,
                                             const struct cudaMemcpy3DParms *parameters)
{
    CUDA_MEMCPY3D copy;
    cudaError_t status = tsr_cudart_box(parameters, &copy);
    return status == cudaSuccess ? set_executable_copy(executable, node, &copy) : tsr_cudart_result(status);
}

cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t executable, cudaGraphNode_t node, void *to, const void *from,
                                               size_t bytes, enum cudaMemcpyKind kind)
{
    CUDA_MEMCPY3D copy = tsr_cudart_row(to, from, bytes);
    (void)kind;
    return set_executable_copy(executable, node, &copy);
}

cudaError_t cudaGraphExecMemcpyNodeSetParamsToSymbol(cudaGraphExec_t executable, cudaGraphNode_t node, const void *symbol,
                                                     const void *from, size_t bytes, size_t offset, enum cudaMemcpyKind kind)
{
    CUDA_MEMCPY3D copy;
    (void)kind;
    cudaError_t status = symbol_copy(symbol, offset, (void *)from, bytes, 1, &copy);
    return status == cudaSuccess ? set_executable_copy(executable, node, &copy) : status;
}

cudaError_t cudaGraphExecMemcpyNodeSetParamsFromSymbol(cudaGraphExec_t executable, cudaGraphNode_t node, void *to,
                                                       const void *symbol, size_t bytes, size_t offset,
                                                       enum cudaMemcpyKind kind)
{
    CUDA_MEMCPY3D copy;
    (void)kind;
    cudaError_t status = symbol_copy(symbol, offset, to, bytes, 0, &copy);
    return status == cudaSuccess ? set_executable_copy(executable, node, &copy) : status;
}

cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *dependencies, size_t count,
                                   const struct cudaMemsetParams *parameters)
{
    CUcontext context;
    cudaError_t status = current(&context);
    if (status == cudaSuccess)
        status = tsr_cudart_error(tsr_driver.cuGraphAddMemsetNode(node, graph, dependencies, count,
                                                                  (const CUDA_MEMSET_NODE_PARAMS *)parameters, context));
    return tsr_cudart_result(status);
}

cudaError_t cudaGraphMemsetNodeGetParams(cudaGraphNode_t node, struct cudaMemsetParams *parameters)
{
    return TSR_CALL(cuGraphMemsetNodeGetParams(node, (CUDA_MEMSET_NODE_PARAMS *)parameters));
}

cudaError_t cudaGraphMemsetNodeSetParams(cudaGraphNode_t node, const struct cudaMemsetParams *parameters)
{
    return TSR_CALL(cuGraphMemsetNodeSetParams(node, (const CUDA_MEMSET_NODE_PARAMS *)parameters));
}

cudaError_t cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t executable, cudaGraphNode_t node,
                                             const struct cudaMemsetParams *parameters)
{
    CUcontext context;
    cudaError_t status = current(&context);
    if (status == cudaSuccess)
        status = tsr_cudart_error(
            tsr_driver.cuGraphExecMemsetNodeSetParams(executable, node, (const CUDA_MEMSET_NODE_PARAMS *)parameters, context));
    return tsr_cudart_result(status);
}
