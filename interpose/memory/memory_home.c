/*
 * Memory that cannot be shared with executors: managed memory, the application's own memory that it page-locks, variables of modules, what
 * graphs allocate, and what comes from other processes' pools or other interfaces.
 */
#include "driver/engaged.h"
#include "memory/home_only.h"
#include "object/registry.h"
#include "memory/memory.h"
#include "memory/room.h"
#include "order/order.h"
#include "driver/real.h"
#include "object/session.h"

TSR_REDIRECTED(cuMemAllocManaged)(CUdeviceptr *dptr, size_t bytesize, unsigned int flags)
{
    struct tsr_room room = {.device = TSR_ROOM_CURRENT, .bytes = bytesize};
    CUresult result;
    do
        result = tsr_real.cuMemAllocManaged(dptr, bytesize, flags);
    while (tsr_room_is_made(&room, result));
    if (result == CUDA_SUCCESS)
        tsr_home_only_add(*dptr, bytesize, TSR_REASON_MEMORY_MANAGED);
    return result;
}

TSR_REDIRECTED(cuMemHostRegister_v2)(void *p, size_t bytesize, unsigned int Flags)
{
    CUresult result = tsr_real.cuMemHostRegister_v2(p, bytesize, Flags);
    CUdeviceptr device;
    if (result != CUDA_SUCCESS)
        return result;
    tsr_home_only_add((uint64_t)(uintptr_t)p, bytesize, TSR_REASON_MEMORY_REGISTERED);
    if (tsr_real.cuMemHostGetDevicePointer_v2(&device, p, 0) == CUDA_SUCCESS && device != (CUdeviceptr)(uintptr_t)p)
        tsr_home_only_add(device, bytesize, TSR_REASON_MEMORY_REGISTERED);
    return result;
}

TSR_REDIRECTED(cuMemHostUnregister)(void *p)
{
    CUdeviceptr device = 0;
    if (tsr_host_is_allocated(p))
        return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    CUresult result = tsr_order_join_all();
    if (result != CUDA_SUCCESS)
        return result;
    tsr_real.cuMemHostGetDevicePointer_v2(&device, p, 0);
    struct tsr_home_only here = tsr_home_only_take((uint64_t)(uintptr_t)p), there = tsr_home_only_take(device);
    result = tsr_real.cuMemHostUnregister(p);
    tsr_home_only_put_back(here, result);
    tsr_home_only_put_back(there, result);
    return result;
}

void tsr_memory_variable(const CUdeviceptr *address)
{
    size_t bytes = 0;
    if (address && *address && tsr_session() && tsr_real.cuMemGetAddressRange_v2(NULL, &bytes, *address) == CUDA_SUCCESS)
        tsr_home_only_add(*address, bytes, TSR_REASON_MEMORY_VARIABLE);
}

/* Memory of a graph stands at its address from the node's creation on. */
TSR_REDIRECTED(cuGraphAddMemAllocNode)(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                                       size_t numDependencies, CUDA_MEM_ALLOC_NODE_PARAMS *nodeParams)
{
    CUresult result = tsr_real.cuGraphAddMemAllocNode(phGraphNode, hGraph, dependencies, numDependencies, nodeParams);
    if (result == CUDA_SUCCESS)
        tsr_home_only_add(nodeParams->dptr, nodeParams->bytesize, TSR_REASON_MEMORY_GRAPH);
    return result;
}

static CUresult note_node(CUresult result, const CUgraphNodeParams *params)
{
    if (result == CUDA_SUCCESS && params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
        tsr_home_only_add(params->alloc.dptr, params->alloc.bytesize, TSR_REASON_MEMORY_GRAPH);
    if (result == CUDA_SUCCESS && params->type == CU_GRAPH_NODE_TYPE_KERNEL)
        tsr_function_made_node(params->kernel.func, params->kernel.kern);
    return result;
}

TSR_REDIRECTED(cuGraphAddNode)(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                               size_t numDependencies, CUgraphNodeParams *nodeParams)
{
    return note_node(tsr_real.cuGraphAddNode(phGraphNode, hGraph, dependencies, numDependencies, nodeParams), nodeParams);
}

TSR_REDIRECTED(cuGraphAddNode_v2)(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                                  const CUgraphEdgeData *dependencyData, size_t numDependencies, CUgraphNodeParams *nodeParams)
{
    return note_node(tsr_real.cuGraphAddNode_v2(phGraphNode, hGraph, dependencies, dependencyData, numDependencies, nodeParams),
                     nodeParams);
}

TSR_REDIRECTED(cuMemPoolImportPointer)(CUdeviceptr *ptr_out, CUmemoryPool pool, CUmemPoolPtrExportData *shareData)
{
    size_t bytes = 0;
    CUresult result = tsr_real.cuMemPoolImportPointer(ptr_out, pool, shareData);
    if (result == CUDA_SUCCESS && tsr_real.cuMemGetAddressRange_v2(NULL, &bytes, *ptr_out) == CUDA_SUCCESS)
        tsr_home_only_add(*ptr_out, bytes, TSR_REASON_MEMORY_POOL);
    return result;
}

TSR_REDIRECTED(cuExternalMemoryGetMappedBuffer)(CUdeviceptr *devPtr, CUexternalMemory extMem,
                                                const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *bufferDesc)
{
    CUresult result = tsr_real.cuExternalMemoryGetMappedBuffer(devPtr, extMem, bufferDesc);
    if (result == CUDA_SUCCESS)
        tsr_home_only_add(*devPtr, bufferDesc->size, TSR_REASON_MEMORY_IPC);
    return result;
}

TSR_REDIRECTED(cuGraphicsResourceGetMappedPointer_v2)(CUdeviceptr *pDevPtr, size_t *pSize, CUgraphicsResource resource)
{
    CUresult result = tsr_real.cuGraphicsResourceGetMappedPointer_v2(pDevPtr, pSize, resource);
    if (result == CUDA_SUCCESS && pDevPtr && pSize)
        tsr_home_only_add(*pDevPtr, *pSize, TSR_REASON_MEMORY_IPC);
    return result;
}
