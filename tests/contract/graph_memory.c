/* Graphs that own memory, and what the device tells about it. A driver without them says so for each call alike. */
#include "contract.h"

GROUP(graph_memory, use_primary)

static CUDA_MEM_ALLOC_NODE_PARAMS alloc_params(size_t bytes)
{
    CUDA_MEM_ALLOC_NODE_PARAMS params;
    memset(&params, 0, sizeof(params));
    params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    params.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    params.bytesize = bytes;
    return params;
}

static unsigned long long memory_number(CUgraphMem_attribute attribute)
{
    cuuint64_t value = ~0ull;
    OK(cuDeviceGetGraphMemAttribute(0, attribute, &value));
    return value;
}

static int supported(void)
{
    cuuint64_t value = 0;
    return cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &value) != CUDA_ERROR_NOT_SUPPORTED;
}

TEST(allocated_used_and_freed_by_nodes)
{
    CUdeviceptr out = device_words(64, 0), freed = 0;
    CUDA_MEM_ALLOC_NODE_PARAMS params = alloc_params(256), read;
    CUDA_MEMSET_NODE_PARAMS set;
    CUDA_MEMCPY3D copy;
    CUgraph graph = NULL;
    CUgraphNode alloc = NULL, fill = NULL, take = NULL, release = NULL;
    CUgraphExec exec = NULL;
    CUcontext context = NULL;
    SKIP_UNLESS(supported(), "graphs own no memory on this driver");
    OK(cuCtxGetCurrent(&context));
    NEED_OK(cuGraphCreate(&graph, 0));
    NEED_OK(cuGraphAddMemAllocNode(&alloc, graph, NULL, 0, &params));
    TRUE(params.dptr != 0);
    memset(&set, 0, sizeof(set));
    set.dst = params.dptr;
    set.value = 15;
    set.elementSize = 4;
    set.width = 64;
    set.height = 1;
    NEED_OK(cuGraphAddMemsetNode(&fill, graph, &alloc, 1, &set, context));
    memset(&copy, 0, sizeof(copy));
    copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = params.dptr;
    copy.dstDevice = out;
    copy.WidthInBytes = 256;
    copy.Height = copy.Depth = 1;
    NEED_OK(cuGraphAddMemcpyNode(&take, graph, &fill, 1, &copy, context));
    NEED_OK(cuGraphAddMemFreeNode(&release, graph, &take, 1, params.dptr));
    OK(cuGraphMemAllocNodeGetParams(alloc, &read));
    EQ(read.dptr, params.dptr);
    EQ(read.bytesize, 256);
    OK(cuGraphMemFreeNodeGetParams(release, &freed));
    EQ(freed, params.dptr);
    NEED_OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphLaunch(exec, NULL));
    OK(cuGraphLaunch(exec, NULL));
    OK(cuCtxSynchronize());
    TRUE(device_holds(out, 64, 15));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
    OK(cuMemFree(out));
}

TEST(reserved_memory_is_counted)
{
    CUDA_MEM_ALLOC_NODE_PARAMS params = alloc_params(1 << 20);
    CUgraph graph = NULL;
    CUgraphNode alloc = NULL, release = NULL;
    CUgraphExec exec = NULL;
    cuuint64_t zero = 0;
    SKIP_UNLESS(supported(), "graphs own no memory on this driver");
    NEED_OK(cuGraphCreate(&graph, 0));
    NEED_OK(cuGraphAddMemAllocNode(&alloc, graph, NULL, 0, &params));
    NEED_OK(cuGraphAddMemFreeNode(&release, graph, &alloc, 1, params.dptr));
    NEED_OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphLaunch(exec, NULL));
    OK(cuCtxSynchronize());
    TRUE(memory_number(CU_GRAPH_MEM_ATTR_USED_MEM_HIGH) >= 1 << 20);
    TRUE(memory_number(CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH) >= memory_number(CU_GRAPH_MEM_ATTR_USED_MEM_HIGH));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
    OK(cuDeviceGraphMemTrim(0));
    EQ(memory_number(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT), 0);
    OK(cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &zero));
    EQ(memory_number(CU_GRAPH_MEM_ATTR_USED_MEM_HIGH), memory_number(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT));
}

TEST(arguments_are_checked)
{
    CUDA_MEM_ALLOC_NODE_PARAMS params = alloc_params(256);
    CUgraph graph = NULL;
    CUgraphNode node = NULL;
    cuuint64_t value = 0;
    SKIP_UNLESS(supported(), "graphs own no memory on this driver");
    NEED_OK(cuGraphCreate(&graph, 0));
    params.poolProps.location.id = 99;
    EXPECT_SURE(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &params), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuGraphAddMemFreeNode(&node, graph, NULL, 0, 0x1234567800), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuDeviceGetGraphMemAttribute(0, (CUgraphMem_attribute)99, &value), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuDeviceGetGraphMemAttribute(99, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &value), CUDA_ERROR_INVALID_DEVICE);
    OK(cuGraphDestroy(graph));
}
