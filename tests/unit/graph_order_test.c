/* Graphs: capture and its rules, explicit nodes, launches in order of dependency, changes, errors. */
#include "driver_fixture.h"

#include "check.h"

static int trace[64];
static unsigned traced; /* atomic */

static bool mark(struct fake_kernel *kernel, bool *progress)
{
    (void)progress;
    trace[__atomic_fetch_add(&traced, 1, __ATOMIC_ACQ_REL) % 64] = (int)(intptr_t)kernel->data;
    return true;
}

static void CUDA_CB host_mark(void *number)
{
    trace[__atomic_fetch_add(&traced, 1, __ATOMIC_ACQ_REL) % 64] = (int)(intptr_t)number;
}

static struct fake_kernel marks[10];

static void begin(void)
{
    fixture_start();
    traced = 0;
    memset(trace, 0, sizeof trace);
    for (intptr_t i = 0; i < 10; i++)
        marks[i] = (struct fake_kernel){.run = mark, .data = (void *)i};
}

static int place_of(int number)
{
    for (unsigned i = 0; i < traced; i++)
        if (trace[i] == number)
            return (int)i;
    return -1;
}

TEST(capture_with_fork_and_join)
{
    CUstream a, b;
    CUevent fork_event, join;
    CUgraph graph;
    CUgraphExec exec;
    size_t count = 0;
    CUstreamCaptureStatus status;
    begin();
    REQUIRE(!cuStreamCreate(&a, CU_STREAM_NON_BLOCKING) && !cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    REQUIRE(!cuEventCreate(&fork_event, 0) && !cuEventCreate(&join, 0));
    REQUIRE(!cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    CHECK_EQ(cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), CUDA_ERROR_ILLEGAL_STATE);
    CHECK_EQ(fixture_launch(a, &marks[1]), CUDA_SUCCESS);
    CHECK_EQ(cuEventRecord(fork_event, a), CUDA_SUCCESS);
    CHECK_EQ(cuStreamWaitEvent(b, fork_event, 0), CUDA_SUCCESS);
    CHECK_EQ(cuStreamIsCapturing(b, &status), CUDA_SUCCESS);
    CHECK_EQ(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    CHECK_EQ(fixture_launch(b, &marks[2]), CUDA_SUCCESS);
    CHECK_EQ(cuLaunchHostFunc(a, host_mark, (void *)3), CUDA_SUCCESS);
    CHECK_EQ(cuEventRecord(join, b), CUDA_SUCCESS);
    CHECK_EQ(cuStreamWaitEvent(a, join, 0), CUDA_SUCCESS);
    CHECK_EQ(fixture_launch(a, &marks[4]), CUDA_SUCCESS);
    CHECK_EQ(cuStreamEndCapture(b, &graph), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    CHECK_EQ(cuStreamEndCapture(a, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    CHECK(graph == NULL);
    REQUIRE(!cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    fixture_launch(a, &marks[1]);
    cuEventRecord(fork_event, a);
    cuStreamWaitEvent(b, fork_event, 0);
    fixture_launch(b, &marks[2]);
    cuLaunchHostFunc(a, host_mark, (void *)3);
    cuEventRecord(join, b);
    cuStreamWaitEvent(a, join, 0);
    fixture_launch(a, &marks[4]);
    CHECK_EQ(cuStreamEndCapture(a, &graph), CUDA_SUCCESS);
    CHECK_EQ(traced, 0);
    CHECK_EQ(cuGraphGetNodes(graph, NULL, &count), CUDA_SUCCESS);
    CHECK_EQ(count, 4);
    CHECK_EQ(cuGraphGetEdges(graph, NULL, NULL, &count), CUDA_SUCCESS);
    CHECK_EQ(count, 4);
    CHECK_EQ(cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
    for (int i = 0; i < 3; i++) {
        traced = 0;
        CHECK_EQ(cuGraphLaunch(exec, a), CUDA_SUCCESS);
        CHECK_EQ(cuStreamSynchronize(a), CUDA_SUCCESS);
        CHECK_EQ(traced, 4);
        CHECK(place_of(1) == 0 && place_of(4) == 3);
    }
    CHECK_EQ(cuGraphLaunch(exec, a), CUDA_SUCCESS);
    CHECK_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS); /* while it runs */
    CHECK_EQ(cuGraphLaunch(exec, a), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
    CHECK_EQ(cuGraphDestroy(graph), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cuStreamSynchronize(a), CUDA_SUCCESS);
    cuEventDestroy_v2(fork_event);
    cuEventDestroy_v2(join);
    cuStreamDestroy_v2(a);
    cuStreamDestroy_v2(b);
}

TEST(what_a_capture_refuses)
{
    CUstream a, b;
    CUevent event;
    CUgraph graph;
    CUdeviceptr memory;
    begin();
    REQUIRE(!cuStreamCreate(&a, CU_STREAM_DEFAULT) && !cuStreamCreate(&b, CU_STREAM_NON_BLOCKING) && !cuEventCreate(&event, 0));
    CHECK_EQ(cuStreamBeginCapture_v2(CU_STREAM_LEGACY, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    CHECK_EQ(cuStreamEndCapture(a, &graph), CUDA_ERROR_ILLEGAL_STATE);
    /* waiting for the stream */
    cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_RELAXED);
    CHECK_EQ(cuStreamSynchronize(a), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    CHECK_EQ(fixture_launch(a, &marks[1]), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    CHECK_EQ(cuStreamEndCapture(a, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    /* the legacy stream beside a blocking one */
    cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_RELAXED);
    CHECK_EQ(fixture_launch(CU_STREAM_LEGACY, &marks[1]), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    CHECK_EQ(cuStreamEndCapture(a, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    /* a side stream that does not come back */
    cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_RELAXED);
    cuEventRecord(event, a);
    cuStreamWaitEvent(b, event, 0);
    fixture_launch(b, &marks[1]);
    CHECK_EQ(cuEventQuery(event), CUDA_ERROR_CAPTURED_EVENT);
    CHECK_EQ(cuStreamEndCapture(a, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_RELAXED);
    cuEventRecord(event, a);
    cuStreamWaitEvent(b, event, 0);
    fixture_launch(b, &marks[1]);
    CHECK_EQ(cuStreamEndCapture(a, &graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    /* an event from outside */
    CHECK_EQ(cuEventRecord(event, b), CUDA_SUCCESS);
    cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_RELAXED);
    CHECK_EQ(cuStreamWaitEvent(a, event, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    CHECK_EQ(cuStreamEndCapture(a, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    /* allocating, unless the thread exempts itself */
    cuStreamBeginCapture_v2(b, CU_STREAM_CAPTURE_MODE_GLOBAL);
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    CHECK_EQ(cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
    CHECK_EQ(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
    CHECK_EQ(cuMemAlloc_v2(&memory, 64), CUDA_SUCCESS);
    CHECK_EQ(cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
    CHECK_EQ(cuStreamEndCapture(b, &graph), CUDA_SUCCESS);
    cuGraphDestroy(graph);
    cuMemFree_v2(memory);
    cuEventDestroy_v2(event);
    cuStreamDestroy_v2(a);
    cuStreamDestroy_v2(b);
}

static CUgraphNode add_host(CUgraph graph, intptr_t number, const CUgraphNode *before, size_t count)
{
    CUgraphNode node = NULL;
    CUDA_HOST_NODE_PARAMS params = {host_mark, (void *)number};
    CHECK_EQ(cuGraphAddHostNode(&node, graph, before, count, &params), CUDA_SUCCESS);
    return node;
}

TEST(nodes_by_hand)
{
    CUgraph graph, clone, child;
    CUgraphExec exec;
    CUgraphNode first, second, third, found, list[4];
    CUgraphNodeType type;
    size_t count = 4;
    begin();
    REQUIRE(!cuGraphCreate(&graph, 0));
    CHECK_EQ(cuGraphCreate(&clone, 1), CUDA_ERROR_INVALID_VALUE);
    third = add_host(graph, 3, NULL, 0);
    first = add_host(graph, 1, NULL, 0);
    second = add_host(graph, 2, &first, 1);
    CHECK_EQ(cuGraphAddDependencies(graph, &second, &third, 1), CUDA_SUCCESS);
    CHECK_EQ(cuGraphAddDependencies(graph, &second, &third, 1), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cuGraphGetRootNodes(graph, list, &count), CUDA_SUCCESS);
    CHECK_EQ(count, 1);
    CHECK(list[0] == first && !list[1]);
    CHECK_EQ(cuGraphNodeGetType(third, &type), CUDA_SUCCESS);
    CHECK_EQ(type, CU_GRAPH_NODE_TYPE_HOST);
    CHECK_EQ(cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
    CHECK_EQ(cuGraphLaunch(exec, NULL), CUDA_SUCCESS);
    CHECK_EQ(cuStreamSynchronize(NULL), CUDA_SUCCESS);
    CHECK(trace[0] == 1 && trace[1] == 2 && trace[2] == 3);
    /* one node's parameters in the executable */
    CUDA_HOST_NODE_PARAMS params = {host_mark, (void *)7};
    CHECK_EQ(cuGraphExecHostNodeSetParams(exec, second, &params), CUDA_SUCCESS);
    traced = 0;
    cuGraphLaunch(exec, NULL);
    cuStreamSynchronize(NULL);
    CHECK_EQ(trace[1], 7);
    /* the whole executable, from a clone */
    CHECK_EQ(cuGraphClone(&clone, graph), CUDA_SUCCESS);
    CHECK_EQ(cuGraphNodeFindInClone(&found, second, clone), CUDA_SUCCESS);
    params.userData = (void *)8;
    CHECK_EQ(cuGraphHostNodeSetParams(found, &params), CUDA_SUCCESS);
    CUgraphExecUpdateResultInfo info;
    CHECK_EQ(cuGraphExecUpdate_v2(exec, clone, &info), CUDA_SUCCESS);
    traced = 0;
    cuGraphLaunch(exec, NULL);
    cuStreamSynchronize(NULL);
    CHECK_EQ(trace[1], 8);
    CHECK_EQ(cuGraphAddEmptyNode(&found, clone, NULL, 0), CUDA_SUCCESS);
    CHECK_EQ(cuGraphExecUpdate_v2(exec, clone, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    CHECK_EQ(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
    /* a child graph */
    REQUIRE(!cuGraphCreate(&child, 0));
    CHECK_EQ(cuGraphAddChildGraphNode(&found, child, NULL, 0, graph), CUDA_SUCCESS);
    add_host(child, 9, &found, 1);
    CUgraphExec outer;
    CHECK_EQ(cuGraphInstantiateWithFlags(&outer, child, 0), CUDA_SUCCESS);
    traced = 0;
    cuGraphLaunch(outer, NULL);
    cuStreamSynchronize(NULL);
    CHECK_EQ(traced, 4);
    CHECK(trace[0] == 1 && trace[2] == 3 && trace[3] == 9);
    /* a cycle */
    CHECK_EQ(cuGraphAddDependencies(graph, &third, &first, 1), CUDA_SUCCESS);
    CUgraphExec never;
    CHECK_EQ(cuGraphInstantiateWithFlags(&never, graph, 0), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cuGraphRemoveDependencies(graph, &third, &first, 1), CUDA_SUCCESS);
    CHECK_EQ(cuGraphDestroyNode(second), CUDA_SUCCESS);
    CHECK_EQ(cuGraphNodeGetType(second, &type), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cuGraphGetEdges(graph, NULL, NULL, &count), CUDA_SUCCESS);
    CHECK_EQ(count, 0);
    CHECK_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
    CHECK_EQ(cuGraphExecDestroy(outer), CUDA_SUCCESS);
    CHECK_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
    CHECK_EQ(cuGraphDestroy(clone), CUDA_SUCCESS);
    CHECK_EQ(cuGraphDestroy(child), CUDA_SUCCESS);
}

TEST(memory_nodes_and_events)
{
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode set, copy, record;
    CUdeviceptr memory;
    CUevent event;
    uint32_t words[4] = {0};
    begin();
    REQUIRE(!cuGraphCreate(&graph, 0) && !cuMemAlloc_v2(&memory, 4096) && !cuEventCreate(&event, 0));
    CUDA_MEMSET_NODE_PARAMS fill = {.dst = memory, .value = 0xabcd, .elementSize = 4, .width = 4, .height = 1};
    CUcontext context;
    cuCtxGetCurrent(&context);
    CHECK_EQ(cuGraphAddMemsetNode(&set, graph, NULL, 0, &fill, context), CUDA_SUCCESS);
    CUDA_MEMCPY3D move = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = memory,
                          .dstMemoryType = CU_MEMORYTYPE_HOST,
                          .dstHost = words,
                          .WidthInBytes = 16,
                          .Height = 1,
                          .Depth = 1};
    CHECK_EQ(cuGraphAddMemcpyNode(&copy, graph, &set, 1, &move, context), CUDA_SUCCESS);
    CHECK_EQ(cuGraphAddEventRecordNode(&record, graph, &copy, 1, event), CUDA_SUCCESS);
    CHECK_EQ(cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
    CHECK_EQ(cuGraphLaunch(exec, NULL), CUDA_SUCCESS);
    CHECK_EQ(cuEventSynchronize(event), CUDA_SUCCESS);
    CHECK_EQ(words[3], 0xabcd);
    CHECK_EQ(cuGraphNodeSetEnabled(exec, copy, 0), CUDA_SUCCESS);
    words[3] = 5;
    cuGraphLaunch(exec, NULL);
    CHECK_EQ(cuStreamSynchronize(NULL), CUDA_SUCCESS);
    CHECK_EQ(words[3], 5);
    fill.elementSize = 3;
    CHECK_EQ(cuGraphMemsetNodeSetParams(set, &fill), CUDA_ERROR_INVALID_VALUE);
    cuGraphExecDestroy(exec);
    cuGraphDestroy(graph);
    cuMemFree_v2(memory);
    cuEventDestroy_v2(event);
}

static unsigned destroyed;
static void CUDA_CB destroy_object(void *pointer)
{
    (void)pointer;
    destroyed++;
}

TEST(user_objects_live_as_long_as_graphs)
{
    CUgraph graph;
    CUgraphExec exec;
    CUuserObject object;
    begin();
    REQUIRE(!cuGraphCreate(&graph, 0));
    CHECK_EQ(cuUserObjectCreate(&object, NULL, destroy_object, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC), CUDA_SUCCESS);
    CHECK_EQ(cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE), CUDA_SUCCESS);
    CHECK_EQ(cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
    cuGraphDestroy(graph);
    CHECK_EQ(destroyed, 0);
    cuGraphExecDestroy(exec);
    CHECK_EQ(destroyed, 1);
    CHECK_EQ(cuUserObjectRetain(object, 1), CUDA_ERROR_INVALID_VALUE);
}
