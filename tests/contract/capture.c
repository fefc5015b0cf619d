/* Graphs recorded from streams. */
#include "contract.h"

GROUP(capture, use_primary)

static CUstream new_stream(void)
{
    CUstream stream = NULL;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuCtxSynchronize());
    return stream;
}

static CUresult launch_add(CUdeviceptr a, uint32_t value, CUstream stream)
{
    uint32_t words = 64;
    void *arguments[] = {&a, &value, &words};
    return cuLaunchKernel(contract_kernel("add"), 2, 1, 1, 32, 1, 1, 0, stream, arguments, NULL);
}

/* Launches the graph once, waits, destroys both. */
static void run_once(CUgraph graph)
{
    CUgraphExec exec = NULL;
    if (OK(cuGraphInstantiate(&exec, graph, 0))) {
        OK(cuGraphLaunch(exec, NULL));
        OK(cuCtxSynchronize());
        OK(cuGraphExecDestroy(exec));
    }
    OK(cuGraphDestroy(graph));
}

TEST(records_instead_of_running)
{
    CUdeviceptr a = device_words(64, 0);
    CUstream stream = new_stream();
    CUgraph graph = NULL;
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    cuuint64_t id = 0;
    size_t count = 0;
    contract_kernel("add");
    NEED_OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuStreamIsCapturing(stream, &status));
    EQ(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    OK(cuStreamGetCaptureInfo(stream, &status, &id, &graph, NULL, NULL, &count));
    EQ(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    TRUE(id != 0 && graph != NULL);
    EQ(count, 0);
    OK(cuMemsetD32Async(a, 5, 64, stream));
    OK(launch_add(a, 2, stream));
    OK(launch_add(a, 2, stream));
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuStreamIsCapturing(stream, &status));
    EQ(status, CU_STREAM_CAPTURE_STATUS_NONE);
    TRUE(device_holds(a, 64, 0));
    OK(cuGraphGetNodes(graph, NULL, &count));
    EQ(count, 3);
    OK(cuGraphGetEdges(graph, NULL, NULL, NULL, &count));
    EQ(count, 2);
    run_once(graph);
    TRUE(device_holds(a, 64, 9));
    OK(cuStreamDestroy(stream));
    OK(cuMemFree(a));
}

/* Whoever asks for edges without what they say is told that they say more; who asks for their number is told that. */
TEST(programmatic_launches_become_edges)
{
    CUdeviceptr a = device_words(64, 0);
    CUstream stream = new_stream();
    CUgraph graph = NULL;
    CUgraphNode from[2], to[2];
    CUgraphEdgeData data[2];
    uint32_t value = 2, words = 64;
    size_t count = 2;
    void *arguments[] = {&a, &value, &words};
    CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                                   .value.programmaticStreamSerializationAllowed = 1};
    CUlaunchConfig config = {.gridDimX = 2,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = 32,
                             .blockDimY = 1,
                             .blockDimZ = 1,
                             .hStream = stream,
                             .attrs = &attribute,
                             .numAttrs = 1};
    contract_kernel("add");
    NEED_OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuMemsetD32Async(a, 5, 64, stream));
    OK(cuLaunchKernelEx(&config, contract_kernel("add"), arguments, NULL));
    OK(cuLaunchKernelEx(&config, contract_kernel("add"), arguments, NULL));
    OK(cuStreamEndCapture(stream, &graph));
    EXPECT_GUESS(cuGraphGetEdges(graph, NULL, NULL, NULL, &count), CUDA_SUCCESS);
    count = 2;
    EXPECT_GUESS(cuGraphGetEdges(graph, from, to, NULL, &count), CUDA_ERROR_LOSSY_QUERY);
    count = 2;
    OK(cuGraphGetEdges(graph, from, to, data, &count));
    EQ(count, 2);
    for (int i = 0; i < 2; i++) {
        CUgraphNodeType type;
        OK(cuGraphNodeGetType(from[i], &type));
        EQ(data[i].type,
           type == CU_GRAPH_NODE_TYPE_KERNEL ? CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC : CU_GRAPH_DEPENDENCY_TYPE_DEFAULT);
    }
    run_once(graph);
    TRUE(device_holds(a, 64, 9));
    OK(cuStreamDestroy(stream));
    OK(cuMemFree(a));
}

TEST(follows_events_into_other_streams)
{
    CUdeviceptr a = device_words(64, 0), b = device_words(64, 0);
    CUstream first = new_stream(), second = new_stream();
    CUevent fork = NULL, join = NULL;
    CUgraph graph = NULL;
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    size_t count = 0;
    OK(cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
    OK(cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));
    contract_kernel("add");
    NEED_OK(cuStreamBeginCapture(first, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    OK(launch_add(a, 1, first));
    OK(cuEventRecord(fork, first));
    OK(cuStreamWaitEvent(second, fork, 0));
    OK(cuStreamIsCapturing(second, &status));
    EQ(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    OK(launch_add(b, 2, second));
    OK(launch_add(a, 4, first));
    OK(cuEventRecord(join, second));
    OK(cuStreamWaitEvent(first, join, 0));
    OK(launch_add(b, 8, first));
    OK(cuStreamEndCapture(first, &graph));
    OK(cuGraphGetNodes(graph, NULL, &count));
    EQ(count, 4);
    OK(cuGraphGetEdges(graph, NULL, NULL, NULL, &count));
    EQ(count, 4);
    run_once(graph);
    TRUE(device_holds(a, 64, 5));
    TRUE(device_holds(b, 64, 10));
    OK(cuEventDestroy(fork));
    OK(cuEventDestroy(join));
    OK(cuStreamDestroy(first));
    OK(cuStreamDestroy(second));
    OK(cuMemFree(a));
    OK(cuMemFree(b));
}

TEST(unjoined_stream_spoils_it)
{
    CUdeviceptr a = device_words(64, 0);
    CUstream first = new_stream(), second = new_stream();
    CUevent fork = NULL;
    CUgraph graph = (CUgraph)1;
    OK(cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
    contract_kernel("add");
    NEED_OK(cuStreamBeginCapture(first, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuEventRecord(fork, first));
    OK(cuStreamWaitEvent(second, fork, 0));
    OK(launch_add(a, 1, second));
    EXPECT_SURE(cuStreamEndCapture(first, &graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    TRUE(graph == NULL);
    OK(cuEventDestroy(fork));
    OK(cuStreamDestroy(first));
    OK(cuStreamDestroy(second));
    OK(cuMemFree(a));
}

TEST(waiting_is_refused_meanwhile)
{
    CUstream stream = new_stream();
    CUgraph graph = (CUgraph)1;
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    NEED_OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    EXPECT_SURE(cuStreamSynchronize(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    OK(cuStreamIsCapturing(stream, &status));
    EQ(status, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    EXPECT_SURE(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    TRUE(graph == NULL);
    OK(cuStreamIsCapturing(stream, &status));
    EQ(status, CU_STREAM_CAPTURE_STATUS_NONE);
    OK(cuStreamDestroy(stream));
}

TEST(flags_of_a_captured_stream_are_not_told)
{
    CUstream stream = new_stream();
    CUgraph graph = NULL;
    unsigned flags = 0;
    NEED_OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    EXPECT_SURE(cuStreamGetFlags(stream, &flags), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    EXPECT_SURE(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    OK(cuStreamDestroy(stream));
}

TEST(legacy_stream_cannot_be_captured)
{
    EXPECT_SURE(cuStreamBeginCapture(NULL, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    EXPECT_SURE(cuStreamBeginCapture(CU_STREAM_LEGACY, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

TEST(unsafe_calls_in_global_mode)
{
    CUstream stream = new_stream();
    CUgraph graph = NULL;
    CUdeviceptr a = 0;
    NEED_OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    EXPECT_SURE(cuMemAlloc(&a, 4096), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    EXPECT_SURE(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    NEED_OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuMemAlloc(&a, 4096));
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphDestroy(graph));
    OK(cuMemFree(a));
    OK(cuStreamDestroy(stream));
}

TEST(mode_of_a_thread_is_exchanged)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    CUstream stream = new_stream();
    CUgraph graph = NULL;
    CUdeviceptr a = 0;
    NEED_OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuThreadExchangeStreamCaptureMode(&mode));
    EQ(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
    OK(cuMemAlloc(&a, 4096));
    OK(cuThreadExchangeStreamCaptureMode(&mode));
    EQ(mode, CU_STREAM_CAPTURE_MODE_RELAXED);
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphDestroy(graph));
    OK(cuMemFree(a));
    OK(cuStreamDestroy(stream));
}

TEST(begin_and_end_must_pair)
{
    CUstream stream = new_stream();
    CUgraph graph = NULL;
    EXPECT_SURE(cuStreamEndCapture(stream, &graph), CUDA_ERROR_ILLEGAL_STATE);
    NEED_OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    EXPECT_SURE(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_ERROR_ILLEGAL_STATE);
    cuStreamEndCapture(stream, &graph);
    if (graph)
        OK(cuGraphDestroy(graph));
    EXPECT_SURE(cuStreamBeginCapture(stream, (CUstreamCaptureMode)9), CUDA_ERROR_INVALID_VALUE);
    OK(cuStreamDestroy(stream));
}

static void CUDA_CB increase(void *data)
{
    ++*(int *)data;
}

TEST(copies_memsets_and_host_functions)
{
    CUdeviceptr a = device_words(64, 0), b = device_words(64, 0);
    CUstream stream = new_stream();
    CUgraph graph = NULL;
    uint32_t *host = NULL;
    int calls = 0;
    NEED_OK(cuMemAllocHost((void **)&host, 256));
    NEED_OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuMemsetD32Async(a, 77, 64, stream));
    OK(cuMemcpyDtoDAsync(b, a, 256, stream));
    OK(cuMemcpyDtoHAsync(host, b, 256, stream));
    OK(cuLaunchHostFunc(stream, increase, &calls));
    OK(cuStreamEndCapture(stream, &graph));
    EQ(calls, 0);
    run_once(graph);
    EQ(calls, 1);
    EQ(host[63], 77);
    OK(cuMemFreeHost(host));
    OK(cuStreamDestroy(stream));
    OK(cuMemFree(a));
    OK(cuMemFree(b));
}

TEST(stream_ordered_memory)
{
    CUdeviceptr a = 0, out = device_words(64, 0);
    CUstream stream = new_stream();
    CUgraph graph = NULL;
    NEED_OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuMemAllocAsync(&a, 256, stream));
    TRUE(a != 0);
    OK(cuMemsetD32Async(a, 21, 64, stream));
    OK(cuMemcpyDtoDAsync(out, a, 256, stream));
    OK(cuMemFreeAsync(a, stream));
    OK(cuStreamEndCapture(stream, &graph));
    run_once(graph);
    TRUE(device_holds(out, 64, 21));
    OK(cuStreamDestroy(stream));
    OK(cuMemFree(out));
}

TEST(dependencies_are_told_and_changed)
{
    CUdeviceptr a = device_words(64, 0);
    CUstream stream = new_stream();
    CUgraph graph = NULL;
    const CUgraphNode *dependencies = NULL;
    CUgraphNode first = NULL;
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    size_t count = 9;
    NEED_OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuMemsetD32Async(a, 1, 32, stream));
    OK(cuStreamGetCaptureInfo(stream, &status, NULL, NULL, &dependencies, NULL, &count));
    EQ(count, 1);
    if (count == 1)
        first = dependencies[0];
    OK(cuStreamUpdateCaptureDependencies(stream, NULL, NULL, 0, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
    OK(cuMemsetD32Async(a + 128, 2, 32, stream));
    OK(cuStreamUpdateCaptureDependencies(stream, &first, NULL, 1, CU_STREAM_ADD_CAPTURE_DEPENDENCIES));
    OK(cuStreamGetCaptureInfo(stream, &status, NULL, NULL, &dependencies, NULL, &count));
    EQ(count, 2);
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphGetRootNodes(graph, NULL, &count));
    EQ(count, 2);
    run_once(graph);
    TRUE(device_holds(a, 32, 1));
    TRUE(device_holds(a + 128, 32, 2));
    OK(cuStreamDestroy(stream));
    OK(cuMemFree(a));
}

TEST(contexts_are_not_asked_meanwhile)
{
    CUstream stream = new_stream();
    CUcontext context = NULL;
    CUgraph graph = NULL;
    CUevent event = NULL;
    NEED_OK(cuCtxGetCurrent(&context));
    NEED_OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    NEED_OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    EXPECT_GUESS(cuCtxRecordEvent(context, event), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    EXPECT_GUESS(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    OK(cuCtxRecordEvent(context, event));
    NEED_OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    EXPECT_GUESS(cuCtxWaitEvent(context, event), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    EXPECT_GUESS(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    OK(cuEventDestroy(event));
    OK(cuStreamDestroy(stream));
}

TEST(into_an_existing_graph)
{
    CUdeviceptr a = device_words(64, 0);
    CUstream stream = new_stream();
    CUgraph graph = NULL, ended = NULL;
    CUgraphNode root = NULL;
    size_t count = 0;
    NEED_OK(cuGraphCreate(&graph, 0));
    NEED_OK(cuGraphAddEmptyNode(&root, graph, NULL, 0));
    NEED_OK(cuStreamBeginCaptureToGraph(stream, graph, &root, NULL, 1, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuMemsetD32Async(a, 3, 64, stream));
    OK(cuStreamEndCapture(stream, &ended));
    TRUE(ended == graph);
    OK(cuGraphGetEdges(graph, NULL, NULL, NULL, &count));
    EQ(count, 1);
    run_once(graph);
    TRUE(device_holds(a, 64, 3));
    OK(cuStreamDestroy(stream));
    OK(cuMemFree(a));
}
