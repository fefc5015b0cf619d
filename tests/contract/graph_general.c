/* The calls that take any kind of node, user objects, and what they refuse. */
#include "contract.h"

#include <time.h>

GROUP(graph_general, use_primary)

static CUgraphNodeParams memset_params(CUdeviceptr a, unsigned value)
{
    CUgraphNodeParams params;
    memset(&params, 0, sizeof(params));
    params.type = CU_GRAPH_NODE_TYPE_MEMSET;
    params.memset.dst = a;
    params.memset.value = value;
    params.memset.elementSize = 4;
    params.memset.width = 64;
    params.memset.height = 1;
    return params;
}

static CUgraphNodeParams copy_params(CUdeviceptr from, void *to)
{
    CUgraphNodeParams params;
    memset(&params, 0, sizeof(params));
    params.type = CU_GRAPH_NODE_TYPE_MEMCPY;
    params.memcpy.copyParams.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    params.memcpy.copyParams.srcDevice = from;
    params.memcpy.copyParams.dstMemoryType = CU_MEMORYTYPE_HOST;
    params.memcpy.copyParams.dstHost = to;
    params.memcpy.copyParams.WidthInBytes = 256;
    params.memcpy.copyParams.Height = params.memcpy.copyParams.Depth = 1;
    return params;
}

TEST(nodes_are_added_and_changed)
{
    static uint32_t host[64];
    CUdeviceptr a = device_words(64, 0), b = device_words(64, 70);
    CUgraph graph = NULL;
    CUgraphNode set = NULL, copy = NULL;
    CUgraphExec exec = NULL;
    CUDA_MEMCPY3D read;
    CUgraphNodeParams setting = memset_params(a, 1), copying = copy_params(b, host);
    NEED_OK(cuGraphCreate(&graph, 0));
    NEED_OK(cuGraphAddNode(&set, graph, NULL, NULL, 0, &setting));
    NEED_OK(cuGraphAddNode(&copy, graph, &set, NULL, 1, &copying));
    NEED_OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphLaunch(exec, NULL));
    OK(cuCtxSynchronize());
    EQ(host[63], 70);
    TRUE(device_holds(a, 64, 1));
    copying = copy_params(a, host);
    OK(cuGraphNodeSetParams(copy, &copying));
    OK(cuGraphMemcpyNodeGetParams(copy, &read));
    EQ(read.srcDevice, a);
    setting.memset.value = 11;
    OK(cuGraphExecNodeSetParams(exec, set, &setting));
    OK(cuGraphExecNodeSetParams(exec, copy, &copying));
    OK(cuGraphLaunch(exec, NULL));
    OK(cuCtxSynchronize());
    EQ(host[0], 11);
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
    OK(cuMemFree(a));
    OK(cuMemFree(b));
}

static void CUDA_CB increase(void *data)
{
    ++*(int *)data;
}

TEST(kernel_host_and_empty_nodes)
{
    CUdeviceptr a = device_words(64, 0);
    uint32_t value = 5, words = 64;
    int calls = 0;
    void *arguments[] = {&a, &value, &words};
    CUgraph graph = NULL;
    CUgraphNode kernel = NULL, host = NULL, empty = NULL;
    CUgraphExec exec = NULL;
    CUgraphNodeParams params;
    memset(&params, 0, sizeof(params));
    params.type = CU_GRAPH_NODE_TYPE_KERNEL;
    params.kernel.func = contract_kernel("fill");
    params.kernel.gridDimX = 2;
    params.kernel.gridDimY = params.kernel.gridDimZ = params.kernel.blockDimY = params.kernel.blockDimZ = 1;
    params.kernel.blockDimX = 32;
    params.kernel.kernelParams = arguments;
    NEED_OK(cuGraphCreate(&graph, 0));
    NEED_OK(cuGraphAddNode(&kernel, graph, NULL, NULL, 0, &params));
    memset(&params, 0, sizeof(params));
    params.type = CU_GRAPH_NODE_TYPE_EMPTY;
    NEED_OK(cuGraphAddNode(&empty, graph, &kernel, NULL, 1, &params));
    memset(&params, 0, sizeof(params));
    params.type = CU_GRAPH_NODE_TYPE_HOST;
    params.host.fn = increase;
    params.host.userData = &calls;
    NEED_OK(cuGraphAddNode(&host, graph, &empty, NULL, 1, &params));
    NEED_OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphLaunch(exec, NULL));
    OK(cuCtxSynchronize());
    TRUE(device_holds(a, 64, 5));
    EQ(calls, 1);
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
    OK(cuMemFree(a));
}

TEST(instantiated_with_parameters)
{
    CUgraph graph = NULL;
    CUgraphNode node = NULL;
    CUgraphExec exec = NULL;
    CUDA_GRAPH_INSTANTIATE_PARAMS params;
    cuuint64_t flags = 0;
    memset(&params, 0, sizeof(params));
    params.flags = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
    NEED_OK(cuGraphCreate(&graph, 0));
    NEED_OK(cuGraphAddEmptyNode(&node, graph, NULL, 0));
    NEED_OK(cuGraphInstantiateWithParams(&exec, graph, &params));
    EQ(params.result_out, CUDA_GRAPH_INSTANTIATE_SUCCESS);
    OK(cuGraphExecGetFlags(exec, &flags));
    EQ(flags, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
    OK(cuGraphLaunch(exec, NULL));
    OK(cuCtxSynchronize());
    OK(cuGraphExecDestroy(exec));
    EXPECT_SURE(cuGraphInstantiate(&exec, graph, 1ull << 40), CUDA_ERROR_INVALID_VALUE);
    OK(cuGraphDestroy(graph));
}

TEST(user_object_is_released_with_the_graph)
{
    CUuserObject object = NULL;
    CUgraph graph = NULL;
    int released = 0;
    NEED_OK(cuUserObjectCreate(&object, &released, increase, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    NEED_OK(cuGraphCreate(&graph, 0));
    OK(cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
    EQ(released, 0);
    OK(cuGraphDestroy(graph));
    for (time_t end = time(NULL) + 5; !__atomic_load_n(&released, __ATOMIC_ACQUIRE) && time(NULL) < end;)
        cuCtxSynchronize();
    EQ(released, 1);
    EXPECT_SURE(cuUserObjectCreate(NULL, &released, increase, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC), CUDA_ERROR_INVALID_VALUE);
}

TEST(arguments_are_checked)
{
    CUdeviceptr a = device_words(64, 0);
    CUgraph graph = NULL;
    CUgraphNode node = NULL;
    CUgraphNodeParams params = memset_params(a, 1);
    CUgraphNodeType type = 0;
    NEED_OK(cuGraphCreate(&graph, 0));
    EXPECT_SURE(cuGraphAddNode(NULL, graph, NULL, NULL, 0, &params), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuGraphAddNode(&node, graph, NULL, NULL, 0, NULL), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuGraphAddNode(&node, NULL, NULL, NULL, 0, &params), CUDA_ERROR_INVALID_VALUE);
    params.memset.elementSize = 3;
    EXPECT_SURE(cuGraphAddNode(&node, graph, NULL, NULL, 0, &params), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuGraphNodeGetType(NULL, &type), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuGraphDestroy(NULL), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuGraphLaunch(NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuGraphExecDestroy(NULL), CUDA_ERROR_INVALID_VALUE);
    OK(cuGraphDestroy(graph));
    OK(cuMemFree(a));
}
