#include "graph_params.h"

#include <stdlib.h>
#include <string.h>

#include "../context/handles.h"
#include "../stream/copy.h"
#include "../stream/engine.h"
#include "../stream/event.h"
#include "../stream/value.h"
#include "copy_shape.h"
#include "graph_lookup.h"
#include "guard.h"
#include "launch.h"

static CUresult context_of(CUcontext handle, struct tsr_context **out)
{
    return handle ? tsr_context_from_handle(handle, out) : tsr_context_current(out);
}

CUresult tsr_kernel_work(const CUDA_KERNEL_NODE_PARAMS_v3 *params, struct tsr_work *out)
{
    struct tsr_context *context;
    TSR_REQUIRE(params, CUDA_ERROR_INVALID_VALUE);
    const void *function = params->func ? (const void *)params->func : (const void *)params->kern;
    TSR_REQUIRE(function, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(context_of(params->func ? NULL : params->ctx, &context));
    struct tsr_emulated_launch launch = {
        .function = function,
        .grid = {params->gridDimX, params->gridDimY, params->gridDimZ},
        .block = {params->blockDimX, params->blockDimY, params->blockDimZ},
        .shared_dynamic_bytes = params->sharedMemBytes,
        .params = params->kernelParams,
        .extra = params->extra,
    };
    return tsr_emulated_launch_prepare(context, &launch, out);
}

CUresult tsr_kernel_params_locked(struct tsr_graph_node *node, CUDA_KERNEL_NODE_PARAMS_v3 *out)
{
    const struct tsr_grid_desc *desc = &node->work.kernel.desc;
    const struct tsr_function *function = desc->function;
    if (!node->param_list && function->param_count) {
        node->param_list = malloc(function->param_count * sizeof *node->param_list);
        TSR_REQUIRE(node->param_list, CUDA_ERROR_OUT_OF_MEMORY);
        for (uint32_t i = 0; i < function->param_count; i++)
            node->param_list[i] = node->work.kernel.param_bytes + function->params[i].offset;
    }
    const void *handle = node->work.kernel.handle;
    bool kernel = tsr_handle_kind(tsr_handle_table(), handle) == TSR_KIND_KERNEL;
    *out = (CUDA_KERNEL_NODE_PARAMS_v3){
        .func = kernel ? NULL : (CUfunction)(uintptr_t)handle,
        .gridDimX = desc->grid[0],
        .gridDimY = desc->grid[1],
        .gridDimZ = desc->grid[2],
        .blockDimX = desc->block[0],
        .blockDimY = desc->block[1],
        .blockDimZ = desc->block[2],
        .sharedMemBytes = desc->shared_dynamic_bytes,
        .kernelParams = node->param_list,
        .kern = kernel ? (CUkernel)(uintptr_t)handle : NULL,
        .ctx = node->work.context ? tsr_context_handle(node->work.context) : NULL,
    };
    return CUDA_SUCCESS;
}

CUresult tsr_memcpy_work(const CUDA_MEMCPY3D *params, CUcontext handle, struct tsr_work *out)
{
    struct tsr_work work = {.kind = TSR_WORK_COPY};
    struct tsr_copy_places places;
    TSR_TRY(context_of(handle, &work.context));
    TSR_TRY(tsr_copy_from_3d(params, &work.copy.shape));
    TSR_TRY(tsr_copy_check(&work.copy.shape, work.context, &places));
    *out = work;
    return CUDA_SUCCESS;
}

CUresult tsr_memset_work(const CUDA_MEMSET_NODE_PARAMS_v1 *params, CUcontext handle, struct tsr_work *out)
{
    struct tsr_work work = {.kind = TSR_WORK_MEMSET};
    uint32_t location;
    size_t width_bytes;
    TSR_REQUIRE(params, CUDA_ERROR_INVALID_VALUE);
    TSR_REQUIRE(params->elementSize == 1 || params->elementSize == 2 || params->elementSize == 4, CUDA_ERROR_INVALID_VALUE);
    TSR_REQUIRE(!__builtin_mul_overflow(params->width, params->elementSize, &width_bytes), CUDA_ERROR_INVALID_VALUE);
    TSR_REQUIRE(params->dst % params->elementSize == 0, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(context_of(handle, &work.context));
    TSR_TRY(tsr_memset_check(params->dst, params->pitch, width_bytes, params->height, work.context, &location));
    work.memset.dst = params->dst;
    work.memset.pitch = params->pitch;
    work.memset.width = params->width;
    work.memset.height = params->height;
    work.memset.value = params->value;
    work.memset.element_bytes = params->elementSize;
    *out = work;
    return CUDA_SUCCESS;
}

CUresult tsr_host_work(CUhostFn fn, void *data, struct tsr_work *out)
{
    TSR_REQUIRE(fn, CUDA_ERROR_INVALID_VALUE);
    *out = (struct tsr_work){.kind = TSR_WORK_HOST, .host = {.fn = fn, .data = data}};
    return CUDA_SUCCESS;
}

CUresult tsr_event_work(CUevent handle, enum tsr_work_kind kind, struct tsr_work *out)
{
    struct tsr_event *event = tsr_event_get(handle);
    TSR_REQUIRE(event, CUDA_ERROR_INVALID_VALUE);
    *out = tsr_event_work_of(kind, event, 0);
    out->context = event->context;
    return CUDA_SUCCESS;
}

CUresult tsr_values_work(const CUDA_BATCH_MEM_OP_NODE_PARAMS_v1 *params, struct tsr_work *out)
{
    struct tsr_work work = {.kind = TSR_WORK_VALUES};
    TSR_REQUIRE(params && params->count && params->count <= 256 && params->paramArray && !params->flags,
                CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(context_of(params->ctx, &work.context));
    TSR_TRY(tsr_values_check(params->paramArray, params->count));
    work.values.count = params->count;
    work.values.ops = malloc(params->count * sizeof *work.values.ops);
    TSR_REQUIRE(work.values.ops, CUDA_ERROR_OUT_OF_MEMORY);
    memcpy(work.values.ops, params->paramArray, params->count * sizeof *work.values.ops);
    *out = work;
    return CUDA_SUCCESS;
}

CUresult tsr_child_work(CUgraph handle, struct tsr_work *out)
{
    tsr_engine_lock();
    const struct tsr_graph *graph = tsr_graph_find_locked(handle);
    struct tsr_graph *copy = graph ? tsr_graph_copy(graph, true) : NULL;
    tsr_engine_unlock();
    TSR_REQUIRE(graph, CUDA_ERROR_INVALID_VALUE);
    TSR_REQUIRE(copy, CUDA_ERROR_OUT_OF_MEMORY);
    *out = tsr_graph_work_of(copy);
    return CUDA_SUCCESS;
}

CUresult tsr_node_work(const CUgraphNodeParams *params, struct tsr_work *out)
{
    CUDA_MEMSET_NODE_PARAMS_v1 memset_params;
    CUDA_BATCH_MEM_OP_NODE_PARAMS_v1 values_params;
    TSR_REQUIRE(params && !params->reserved0[0] && !params->reserved0[1] && !params->reserved0[2] && !params->reserved2,
                CUDA_ERROR_INVALID_VALUE);
    switch (params->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return tsr_kernel_work(&params->kernel, out);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        TSR_REQUIRE(!params->memcpy.flags && !params->memcpy.reserved, CUDA_ERROR_INVALID_VALUE);
        return tsr_memcpy_work(&params->memcpy.copyParams, params->memcpy.copyCtx, out);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        memcpy(&memset_params, &params->memset, sizeof memset_params); /* the second version adds the context at the end */
        return tsr_memset_work(&memset_params, params->memset.ctx, out);
    case CU_GRAPH_NODE_TYPE_HOST:
        return tsr_host_work(params->host.fn, params->host.userData, out);
    case CU_GRAPH_NODE_TYPE_GRAPH:
        TSR_REQUIRE(params->graph.ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE, CUDA_ERROR_NOT_SUPPORTED);
        return tsr_child_work(params->graph.graph, out);
    case CU_GRAPH_NODE_TYPE_EMPTY:
        *out = (struct tsr_work){.kind = TSR_WORK_EMPTY};
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        return tsr_event_work(params->eventWait.event, TSR_WORK_WAIT, out);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        return tsr_event_work(params->eventRecord.event, TSR_WORK_RECORD, out);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        values_params = (CUDA_BATCH_MEM_OP_NODE_PARAMS_v1){params->memOp.ctx, params->memOp.count, params->memOp.paramArray,
                                                           params->memOp.flags};
        return tsr_values_work(&values_params, out);
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}
