/* Nodes of other kinds than kernels and memsets: memory operations, and what an executable graph's nodes are changed to. */
#include "contract.h"

GROUP(graph_nodes, use_primary)

static CUstreamBatchMemOpParams write_of(CUdeviceptr to, uint32_t value)
{
    CUstreamBatchMemOpParams step;
    memset(&step, 0, sizeof(step));
    step.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    step.writeValue.address = to;
    step.writeValue.value = value;
    return step;
}

static CUDA_BATCH_MEM_OP_NODE_PARAMS batch_of(CUstreamBatchMemOpParams *steps, unsigned count)
{
    CUDA_BATCH_MEM_OP_NODE_PARAMS batch;
    memset(&batch, 0, sizeof(batch));
    OK(cuCtxGetCurrent(&batch.ctx));
    batch.count = count;
    batch.paramArray = steps;
    return batch;
}

static CUDA_KERNEL_NODE_PARAMS add_params(void **arguments)
{
    CUDA_KERNEL_NODE_PARAMS params;
    memset(&params, 0, sizeof(params));
    params.func = contract_kernel("add");
    params.gridDimX = params.gridDimY = params.gridDimZ = params.blockDimY = params.blockDimZ = 1;
    params.blockDimX = 32;
    params.kernelParams = arguments;
    return params;
}

TEST(memory_operations_between_others)
{
    CUdeviceptr a = device_words(16, 0);
    uint32_t value = 100, words = 2, read[2];
    void *arguments[] = {&a, &value, &words};
    CUstreamBatchMemOpParams steps[2] = {write_of(a, 7), write_of(a + 4, 8)};
    CUDA_BATCH_MEM_OP_NODE_PARAMS batch = batch_of(steps, 2), got;
    CUDA_KERNEL_NODE_PARAMS params = add_params(arguments);
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    CUgraph graph = NULL;
    CUgraphNode node = NULL, add = NULL;
    CUgraphExec exec = NULL;
    NEED_OK(cuGraphCreate(&graph, 0));
    NEED_OK(cuGraphAddBatchMemOpNode(&node, graph, NULL, 0, &batch));
    NEED_OK(cuGraphAddKernelNode(&add, graph, &node, 1, &params));
    OK(cuGraphNodeGetType(node, &type));
    EQ(type, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);
    OK(cuGraphBatchMemOpNodeGetParams(node, &got));
    EQ(got.count, 2);
    EQ(got.paramArray[1].writeValue.value, 8);
    NEED_OK(cuGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 2; i++)
        OK(cuGraphLaunch(exec, NULL));
    OK(cuMemcpyDtoH(read, a, sizeof(read)));
    EQ(read[0], 107);
    EQ(read[1], 108);
    steps[0] = write_of(a, 20);
    OK(cuGraphExecBatchMemOpNodeSetParams(exec, node, &batch));
    OK(cuGraphLaunch(exec, NULL));
    OK(cuMemcpyDtoH(read, a, sizeof(read)));
    EQ(read[0], 120);
    EQ(read[1], 108);
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
    OK(cuMemFree(a));
}

static void CUDA_CB increase(void *data)
{
    ++*(int *)data;
}

TEST(host_functions_are_changed)
{
    int calls[2] = {0, 0};
    CUDA_HOST_NODE_PARAMS params = {increase, &calls[0]};
    CUgraph graph = NULL;
    CUgraphNode node = NULL;
    CUgraphExec exec = NULL;
    NEED_OK(cuGraphCreate(&graph, 0));
    NEED_OK(cuGraphAddHostNode(&node, graph, NULL, 0, &params));
    NEED_OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphLaunch(exec, NULL));
    OK(cuCtxSynchronize());
    params.userData = &calls[1];
    OK(cuGraphExecHostNodeSetParams(exec, node, &params));
    OK(cuGraphLaunch(exec, NULL));
    OK(cuGraphLaunch(exec, NULL));
    OK(cuCtxSynchronize());
    EQ(calls[0], 1);
    EQ(calls[1], 2);
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
}

TEST(events_are_changed)
{
    CUevent events[2] = {NULL, NULL};
    CUgraph graph = NULL;
    CUgraphNode record = NULL, wait = NULL;
    CUgraphExec exec = NULL;
    struct gate gate;
    CUstream stream = NULL;
    NEED_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < 2; i++)
        NEED_OK(cuEventCreate(&events[i], CU_EVENT_DISABLE_TIMING));
    NEED_OK(cuGraphCreate(&graph, 0));
    NEED_OK(cuGraphAddEventWaitNode(&wait, graph, NULL, 0, events[0]));
    NEED_OK(cuGraphAddEventRecordNode(&record, graph, &wait, 1, events[0]));
    NEED_OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphExecEventRecordNodeSetEvent(exec, record, events[1]));
    OK(cuGraphExecEventWaitNodeSetEvent(exec, wait, events[1]));
    OK(cuCtxSynchronize());
    if (gate_close(&gate, stream)) {
        OK(cuGraphLaunch(exec, stream));
        EQ(cuEventQuery(events[0]), CUDA_SUCCESS);
        EQ(cuEventQuery(events[1]), CUDA_ERROR_NOT_READY);
        gate_open(&gate);
        OK(cuEventSynchronize(events[1]));
        OK(cuStreamSynchronize(stream));
    }
    gate_free(&gate);
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
    OK(cuStreamDestroy(stream));
    for (int i = 0; i < 2; i++)
        OK(cuEventDestroy(events[i]));
}

TEST(child_graphs_are_changed)
{
    CUdeviceptr a = device_words(16, 0), b = device_words(16, 0);
    uint32_t value = 4, words = 16;
    CUdeviceptr at = a;
    void *arguments[] = {&at, &value, &words};
    CUgraph inner = NULL, outer = NULL;
    CUgraphNode node = NULL, child = NULL;
    CUgraphExec exec = NULL;
    CUDA_KERNEL_NODE_PARAMS params = add_params(arguments);
    NEED_OK(cuGraphCreate(&inner, 0));
    NEED_OK(cuGraphAddKernelNode(&node, inner, NULL, 0, &params));
    NEED_OK(cuGraphCreate(&outer, 0));
    NEED_OK(cuGraphAddChildGraphNode(&child, outer, NULL, 0, inner));
    NEED_OK(cuGraphInstantiate(&exec, outer, 0));
    OK(cuGraphLaunch(exec, NULL));
    at = b;
    value = 9;
    OK(cuGraphKernelNodeSetParams(node, &params));
    OK(cuGraphLaunch(exec, NULL)); /* it has its own */
    OK(cuGraphExecChildGraphNodeSetParams(exec, child, inner));
    OK(cuGraphLaunch(exec, NULL));
    OK(cuCtxSynchronize());
    TRUE(device_holds(a, 16, 8));
    TRUE(device_holds(b, 16, 9));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(inner));
    OK(cuGraphDestroy(outer));
    OK(cuMemFree(a));
    OK(cuMemFree(b));
}
