/* Graphs built node by node: nodes, dependencies, instantiation, launch, update. */
#include "contract.h"

GROUP(graph, use_primary)

static CUcontext current(void)
{
    CUcontext context = NULL;
    OK(cuCtxGetCurrent(&context));
    return context;
}

static CUDA_KERNEL_NODE_PARAMS kernel_params(const char *name, void **arguments)
{
    CUDA_KERNEL_NODE_PARAMS params;
    memset(&params, 0, sizeof(params));
    params.func = contract_kernel(name);
    params.gridDimX = 2;
    params.gridDimY = params.gridDimZ = params.blockDimY = params.blockDimZ = 1;
    params.blockDimX = 32;
    params.kernelParams = arguments;
    return params;
}

static CUDA_MEMSET_NODE_PARAMS memset_params(CUdeviceptr a, unsigned value, size_t words)
{
    CUDA_MEMSET_NODE_PARAMS params;
    memset(&params, 0, sizeof(params));
    params.dst = a;
    params.value = value;
    params.elementSize = 4;
    params.width = words;
    params.height = 1;
    return params;
}

TEST(empty_graph_runs)
{
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    size_t nodes = 99;
    NEED_OK(cuGraphCreate(&graph, 0));
    OK(cuGraphGetNodes(graph, NULL, &nodes));
    EQ(nodes, 0);
    NEED_OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphLaunch(exec, NULL));
    OK(cuCtxSynchronize());
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
    EXPECT_SURE(cuGraphCreate(&graph, 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuGraphCreate(NULL, 0), CUDA_ERROR_INVALID_VALUE);
}

TEST(memset_then_kernel)
{
    CUdeviceptr a = device_words(64, 0);
    uint32_t value = 3, words = 64;
    void *arguments[] = {&a, &value, &words};
    CUgraph graph = NULL;
    CUgraphNode set = NULL, add = NULL;
    CUgraphExec exec = NULL;
    CUgraphNodeType type = 0;
    CUDA_MEMSET_NODE_PARAMS filled = memset_params(a, 10, 64);
    CUDA_KERNEL_NODE_PARAMS params = kernel_params("add", arguments);
    NEED_OK(cuGraphCreate(&graph, 0));
    NEED_OK(cuGraphAddMemsetNode(&set, graph, NULL, 0, &filled, current()));
    NEED_OK(cuGraphAddKernelNode(&add, graph, &set, 1, &params));
    OK(cuGraphNodeGetType(set, &type));
    EQ(type, CU_GRAPH_NODE_TYPE_MEMSET);
    OK(cuGraphNodeGetType(add, &type));
    EQ(type, CU_GRAPH_NODE_TYPE_KERNEL);
    value = 100;
    NEED_OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphUpload(exec, NULL));
    for (int i = 0; i < 3; i++)
        EQ(cuGraphLaunch(exec, NULL), CUDA_SUCCESS);
    OK(cuCtxSynchronize());
    TRUE(device_holds(a, 64, 13));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
    OK(cuMemFree(a));
}

TEST(dependencies_are_listed)
{
    CUgraph graph = NULL;
    CUgraphNode a = NULL, b = NULL, c = NULL, found[4], from[4], to[4];
    CUgraphEdgeData data[4];
    size_t count = 0;
    NEED_OK(cuGraphCreate(&graph, 0));
    NEED_OK(cuGraphAddEmptyNode(&a, graph, NULL, 0));
    NEED_OK(cuGraphAddEmptyNode(&b, graph, &a, 1));
    NEED_OK(cuGraphAddEmptyNode(&c, graph, NULL, 0));
    OK(cuGraphAddDependencies(graph, &b, &c, NULL, 1));
    count = 4;
    OK(cuGraphGetNodes(graph, found, &count));
    EQ(count, 3);
    count = 4;
    OK(cuGraphGetRootNodes(graph, found, &count));
    EQ(count, 1);
    TRUE(found[0] == a);
    count = 4;
    OK(cuGraphGetEdges(graph, from, to, data, &count));
    EQ(count, 2);
    count = 4;
    OK(cuGraphNodeGetDependencies(c, found, data, &count));
    EQ(count, 1);
    TRUE(found[0] == b);
    count = 4;
    OK(cuGraphNodeGetDependentNodes(a, found, data, &count));
    EQ(count, 1);
    TRUE(found[0] == b);
    OK(cuGraphRemoveDependencies(graph, &b, &c, NULL, 1));
    OK(cuGraphGetEdges(graph, NULL, NULL, NULL, &count));
    EQ(count, 1);
    EXPECT_SURE(cuGraphAddDependencies(graph, &a, &b, NULL, 1), CUDA_ERROR_INVALID_VALUE);
    OK(cuGraphDestroyNode(a));
    OK(cuGraphGetNodes(graph, NULL, &count));
    EQ(count, 2);
    OK(cuGraphDestroy(graph));
}

TEST(a_cycle_is_refused)
{
    CUgraph graph = NULL;
    CUgraphNode a = NULL, b = NULL;
    CUgraphExec exec = NULL;
    NEED_OK(cuGraphCreate(&graph, 0));
    NEED_OK(cuGraphAddEmptyNode(&a, graph, NULL, 0));
    NEED_OK(cuGraphAddEmptyNode(&b, graph, &a, 1));
    CUresult added = cuGraphAddDependencies(graph, &b, &a, NULL, 1);
    TRUE(added != CUDA_SUCCESS || cuGraphInstantiate(&exec, graph, 0) != CUDA_SUCCESS);
    OK(cuGraphDestroy(graph));
}

TEST(copies_between_host_and_device)
{
    static uint32_t host[64], back[64];
    CUdeviceptr a = device_words(64, 0);
    CUgraph graph = NULL;
    CUgraphNode in = NULL, out = NULL;
    CUgraphExec exec = NULL;
    CUDA_MEMCPY3D copy;
    for (uint32_t i = 0; i < 64; i++)
        host[i] = i * 3;
    memset(&copy, 0, sizeof(copy));
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = host;
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.dstDevice = a;
    copy.WidthInBytes = 256;
    copy.Height = copy.Depth = 1;
    NEED_OK(cuGraphCreate(&graph, 0));
    NEED_OK(cuGraphAddMemcpyNode(&in, graph, NULL, 0, &copy, current()));
    copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = a;
    copy.dstMemoryType = CU_MEMORYTYPE_HOST;
    copy.dstHost = back;
    NEED_OK(cuGraphAddMemcpyNode(&out, graph, &in, 1, &copy, current()));
    CUDA_MEMCPY3D read;
    OK(cuGraphMemcpyNodeGetParams(out, &read));
    EQ(read.srcDevice, a);
    EQ(read.WidthInBytes, 256);
    NEED_OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphLaunch(exec, NULL));
    OK(cuCtxSynchronize());
    BYTES(back, host, sizeof(host));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
    OK(cuMemFree(a));
}

static void CUDA_CB increase(void *data)
{
    ++*(int *)data;
}

TEST(host_node)
{
    CUgraph graph = NULL;
    CUgraphNode node = NULL;
    CUgraphExec exec = NULL;
    int calls = 0;
    CUDA_HOST_NODE_PARAMS params = {increase, &calls}, read;
    NEED_OK(cuGraphCreate(&graph, 0));
    NEED_OK(cuGraphAddHostNode(&node, graph, NULL, 0, &params));
    OK(cuGraphHostNodeGetParams(node, &read));
    TRUE(read.fn == increase && read.userData == &calls);
    NEED_OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphLaunch(exec, NULL));
    OK(cuGraphLaunch(exec, NULL));
    OK(cuCtxSynchronize());
    EQ(calls, 2);
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
}

TEST(event_nodes)
{
    CUgraph graph = NULL;
    CUgraphNode record = NULL, wait = NULL;
    CUgraphExec exec = NULL;
    CUevent event = NULL, read = NULL;
    NEED_OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    NEED_OK(cuGraphCreate(&graph, 0));
    NEED_OK(cuGraphAddEventRecordNode(&record, graph, NULL, 0, event));
    NEED_OK(cuGraphAddEventWaitNode(&wait, graph, &record, 1, event));
    OK(cuGraphEventRecordNodeGetEvent(record, &read));
    TRUE(read == event);
    OK(cuGraphEventWaitNodeGetEvent(wait, &read));
    TRUE(read == event);
    NEED_OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphLaunch(exec, NULL));
    OK(cuEventSynchronize(event));
    OK(cuCtxSynchronize());
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
    OK(cuEventDestroy(event));
}

TEST(child_graph)
{
    CUdeviceptr a = device_words(64, 0);
    uint32_t value = 4, words = 64;
    void *arguments[] = {&a, &value, &words};
    CUgraph inner = NULL, outer = NULL, copy = NULL;
    CUgraphNode node = NULL, set = NULL, child = NULL;
    CUgraphExec exec = NULL;
    CUDA_KERNEL_NODE_PARAMS params = kernel_params("add", arguments);
    CUDA_MEMSET_NODE_PARAMS filled = memset_params(a, 1, 64);
    size_t count = 0;
    NEED_OK(cuGraphCreate(&inner, 0));
    NEED_OK(cuGraphAddKernelNode(&node, inner, NULL, 0, &params));
    NEED_OK(cuGraphCreate(&outer, 0));
    NEED_OK(cuGraphAddMemsetNode(&set, outer, NULL, 0, &filled, current()));
    NEED_OK(cuGraphAddChildGraphNode(&child, outer, &set, 1, inner));
    OK(cuGraphDestroy(inner));
    OK(cuGraphChildGraphNodeGetGraph(child, &copy));
    OK(cuGraphGetNodes(copy, NULL, &count));
    EQ(count, 1);
    NEED_OK(cuGraphInstantiate(&exec, outer, 0));
    OK(cuGraphLaunch(exec, NULL));
    OK(cuCtxSynchronize());
    TRUE(device_holds(a, 64, 5));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(outer));
    OK(cuMemFree(a));
}

TEST(clone_is_independent)
{
    CUgraph graph = NULL, clone = NULL;
    CUgraphNode a = NULL, b = NULL, there = NULL;
    size_t count = 0;
    NEED_OK(cuGraphCreate(&graph, 0));
    NEED_OK(cuGraphAddEmptyNode(&a, graph, NULL, 0));
    NEED_OK(cuGraphAddEmptyNode(&b, graph, &a, 1));
    NEED_OK(cuGraphClone(&clone, graph));
    OK(cuGraphNodeFindInClone(&there, b, clone));
    TRUE(there != NULL && there != b);
    OK(cuGraphDestroyNode(b));
    OK(cuGraphGetNodes(clone, NULL, &count));
    EQ(count, 2);
    OK(cuGraphDestroy(graph));
    OK(cuGraphGetNodes(clone, NULL, &count));
    EQ(count, 2);
    OK(cuGraphDestroy(clone));
}

TEST(kernel_parameters_of_a_node)
{
    CUdeviceptr a = device_words(64, 0);
    uint32_t value = 4, words = 64;
    void *arguments[] = {&a, &value, &words};
    CUgraph graph = NULL;
    CUgraphNode node = NULL;
    CUgraphExec exec = NULL;
    CUDA_KERNEL_NODE_PARAMS params = kernel_params("fill", arguments), read;
    NEED_OK(cuGraphCreate(&graph, 0));
    NEED_OK(cuGraphAddKernelNode(&node, graph, NULL, 0, &params));
    OK(cuGraphKernelNodeGetParams(node, &read));
    TRUE(read.func == params.func);
    EQ(read.gridDimX, 2);
    EQ(read.blockDimX, 32);
    EQ(*(uint32_t *)read.kernelParams[1], 4);
    value = 5;
    OK(cuGraphKernelNodeSetParams(node, &params));
    NEED_OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphLaunch(exec, NULL));
    OK(cuCtxSynchronize());
    TRUE(device_holds(a, 64, 5));
    value = 6;
    OK(cuGraphExecKernelNodeSetParams(exec, node, &params));
    OK(cuGraphLaunch(exec, NULL));
    OK(cuCtxSynchronize());
    TRUE(device_holds(a, 64, 6));
    params.blockDimX = 2048;
    EXPECT_SURE(cuGraphExecKernelNodeSetParams(exec, node, &params), CUDA_ERROR_INVALID_VALUE);
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
    OK(cuMemFree(a));
}

TEST(memset_parameters_of_a_node)
{
    CUdeviceptr a = device_words(64, 0);
    CUgraph graph = NULL;
    CUgraphNode node = NULL;
    CUgraphExec exec = NULL;
    CUDA_MEMSET_NODE_PARAMS params = memset_params(a, 7, 64), read;
    NEED_OK(cuGraphCreate(&graph, 0));
    NEED_OK(cuGraphAddMemsetNode(&node, graph, NULL, 0, &params, current()));
    OK(cuGraphMemsetNodeGetParams(node, &read));
    EQ(read.value, 7);
    EQ(read.width, 64);
    EQ(read.dst, a);
    NEED_OK(cuGraphInstantiate(&exec, graph, 0));
    params.value = 8;
    OK(cuGraphExecMemsetNodeSetParams(exec, node, &params, current()));
    OK(cuGraphLaunch(exec, NULL));
    OK(cuCtxSynchronize());
    TRUE(device_holds(a, 64, 8));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
    OK(cuMemFree(a));
}

static CUgraph one_fill(CUdeviceptr a, uint32_t value, int extra)
{
    uint32_t words = 64;
    void *arguments[] = {&a, &value, &words};
    CUgraph graph = NULL;
    CUgraphNode node = NULL, more = NULL;
    CUDA_KERNEL_NODE_PARAMS params = kernel_params("fill", arguments);
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddKernelNode(&node, graph, NULL, 0, &params));
    if (extra)
        OK(cuGraphAddEmptyNode(&more, graph, &node, 1));
    return graph;
}

TEST(executable_is_updated)
{
    CUdeviceptr a = device_words(64, 0);
    CUgraph first = one_fill(a, 1, 0), second = one_fill(a, 2, 0), longer = one_fill(a, 3, 1);
    CUgraphExec exec = NULL;
    CUgraphExecUpdateResultInfo info;
    NEED_OK(cuGraphInstantiate(&exec, first, 0));
    memset(&info, 0, sizeof(info));
    OK(cuGraphExecUpdate(exec, second, &info));
    EQ(info.result, CU_GRAPH_EXEC_UPDATE_SUCCESS);
    OK(cuGraphLaunch(exec, NULL));
    OK(cuCtxSynchronize());
    TRUE(device_holds(a, 64, 2));
    EXPECT_SURE(cuGraphExecUpdate(exec, longer, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    EQ(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(first));
    OK(cuGraphDestroy(second));
    OK(cuGraphDestroy(longer));
    OK(cuMemFree(a));
}

TEST(nodes_are_disabled)
{
    CUdeviceptr a = device_words(64, 0);
    CUgraph graph = one_fill(a, 9, 0);
    CUgraphNode node = NULL;
    CUgraphExec exec = NULL;
    size_t count = 1;
    unsigned enabled = 9;
    OK(cuGraphGetNodes(graph, &node, &count));
    NEED_OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphNodeGetEnabled(exec, node, &enabled));
    EQ(enabled, 1);
    OK(cuGraphNodeSetEnabled(exec, node, 0));
    OK(cuGraphLaunch(exec, NULL));
    OK(cuCtxSynchronize());
    TRUE(device_holds(a, 64, 0));
    OK(cuGraphNodeSetEnabled(exec, node, 1));
    OK(cuGraphLaunch(exec, NULL));
    OK(cuCtxSynchronize());
    TRUE(device_holds(a, 64, 9));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
    OK(cuMemFree(a));
}

TEST(launches_on_one_stream_are_ordered)
{
    CUdeviceptr a = device_words(64, 0);
    CUgraph first = one_fill(a, 1, 0), second = one_fill(a, 2, 0);
    CUgraphExec one = NULL, two = NULL;
    CUstream stream = NULL;
    NEED_OK(cuGraphInstantiate(&one, first, 0));
    NEED_OK(cuGraphInstantiate(&two, second, 0));
    NEED_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < 8; i++) {
        EQ(cuGraphLaunch(one, stream), CUDA_SUCCESS);
        EQ(cuGraphLaunch(two, stream), CUDA_SUCCESS);
    }
    OK(cuStreamSynchronize(stream));
    TRUE(device_holds(a, 64, 2));
    OK(cuStreamDestroy(stream));
    OK(cuGraphExecDestroy(one));
    OK(cuGraphExecDestroy(two));
    OK(cuGraphDestroy(first));
    OK(cuGraphDestroy(second));
    OK(cuMemFree(a));
}

TEST(added_by_the_general_call)
{
    CUdeviceptr a = device_words(64, 0);
    CUgraph graph = NULL;
    CUgraphNode node = NULL;
    CUgraphExec exec = NULL;
    CUgraphNodeParams params;
    memset(&params, 0, sizeof(params));
    params.type = CU_GRAPH_NODE_TYPE_MEMSET;
    params.memset.dst = a;
    params.memset.value = 12;
    params.memset.elementSize = 4;
    params.memset.width = 64;
    params.memset.height = 1;
    params.memset.ctx = current();
    NEED_OK(cuGraphCreate(&graph, 0));
    NEED_OK(cuGraphAddNode(&node, graph, NULL, NULL, 0, &params));
    NEED_OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphLaunch(exec, NULL));
    OK(cuCtxSynchronize());
    TRUE(device_holds(a, 64, 12));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
    OK(cuMemFree(a));
}
