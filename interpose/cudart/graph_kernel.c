/* Kernel nodes. The runtime names the host function where the driver names the kernel. */
#include "cudart/register.h"

_Static_assert(sizeof(cudaKernelNodeAttrValue) == sizeof(CUkernelNodeAttrValue), "one layout");

static cudaError_t to_driver(const struct cudaKernelNodeParams *in, CUDA_KERNEL_NODE_PARAMS *out)
{
    CUkernel kernel;
    cudaError_t status = in ? tsr_cudart_enter() : cudaErrorInvalidValue;
    if (status == cudaSuccess)
        status = tsr_cudart_kernel(in->func, &kernel);
    if (status != cudaSuccess)
        return tsr_cudart_result(status);
    *out = (CUDA_KERNEL_NODE_PARAMS){
        .kern = kernel,
        .gridDimX = in->gridDim.x,
        .gridDimY = in->gridDim.y,
        .gridDimZ = in->gridDim.z,
        .blockDimX = in->blockDim.x,
        .blockDimY = in->blockDim.y,
        .blockDimZ = in->blockDim.z,
        .sharedMemBytes = in->sharedMemBytes,
        .kernelParams = in->kernelParams,
        .extra = in->extra,
    };
    return cudaSuccess;
}

cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *dependencies, size_t count,
                                   const struct cudaKernelNodeParams *parameters)
{
    CUDA_KERNEL_NODE_PARAMS converted;
    cudaError_t status = to_driver(parameters, &converted);
    return status == cudaSuccess ? TSR_CALL(cuGraphAddKernelNode(node, graph, dependencies, count, &converted)) : status;
}

cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t node, const struct cudaKernelNodeParams *parameters)
{
    CUDA_KERNEL_NODE_PARAMS converted;
    cudaError_t status = to_driver(parameters, &converted);
    return status == cudaSuccess ? TSR_CALL(cuGraphKernelNodeSetParams(node, &converted)) : status;
}

cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t executable, cudaGraphNode_t node,
                                             const struct cudaKernelNodeParams *parameters)
{
    CUDA_KERNEL_NODE_PARAMS converted;
    cudaError_t status = to_driver(parameters, &converted);
    return status == cudaSuccess ? TSR_CALL(cuGraphExecKernelNodeSetParams(executable, node, &converted)) : status;
}

cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t node, struct cudaKernelNodeParams *parameters)
{
    CUDA_KERNEL_NODE_PARAMS in;
    if (!parameters)
        return tsr_cudart_result(cudaErrorInvalidValue);
    cudaError_t status = TSR_CALL(cuGraphKernelNodeGetParams(node, &in));
    if (status != cudaSuccess)
        return status;
    *parameters = (struct cudaKernelNodeParams){
        .func = tsr_cudart_host_function(in.kern ? in.kern : (CUkernel)in.func),
        .gridDim = {in.gridDimX, in.gridDimY, in.gridDimZ},
        .blockDim = {in.blockDimX, in.blockDimY, in.blockDimZ},
        .sharedMemBytes = in.sharedMemBytes,
        .kernelParams = in.kernelParams,
        .extra = in.extra,
    };
    return cudaSuccess;
}

cudaError_t cudaGraphKernelNodeCopyAttributes(cudaGraphNode_t to, cudaGraphNode_t from)
{
    return TSR_CALL(cuGraphKernelNodeCopyAttributes(to, from));
}

cudaError_t cudaGraphKernelNodeGetAttribute(cudaGraphNode_t node, cudaKernelNodeAttrID attribute,
                                            cudaKernelNodeAttrValue *value)
{
    return TSR_CALL(cuGraphKernelNodeGetAttribute(node, (CUkernelNodeAttrID)attribute, (CUkernelNodeAttrValue *)value));
}

cudaError_t cudaGraphKernelNodeSetAttribute(cudaGraphNode_t node, cudaKernelNodeAttrID attribute,
                                            const cudaKernelNodeAttrValue *value)
{
    return TSR_CALL(cuGraphKernelNodeSetAttribute(node, (CUkernelNodeAttrID)attribute, (const CUkernelNodeAttrValue *)value));
}
