/* Stream capture. */
#include "guard.h"

#include <stdlib.h>

#include "../context/handles.h"
#include "../stream/capture.h"
#include "../stream/engine.h"
#include "../stream/stream.h"
#include "graph_lookup.h"

static CUresult begin(CUstream handle, CUgraph graph, const tsr_tips *tips, CUstreamCaptureMode mode)
{
    struct tsr_emulated_stream *stream;
    TSR_TRY(tsr_stream_get(tsr_driver_stream(handle), &stream));
    CUresult result = tsr_capture_begin(stream, mode, graph, tips);
    tsr_stream_put(stream);
    return result;
}

CUresult CUDAAPI cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode)
{
    TSR_TRY(tsr_driver_ready());
    return begin(hStream, NULL, NULL, mode);
}

CUresult CUDAAPI cuStreamBeginCapture(CUstream hStream)
{
    return cuStreamBeginCapture_v2(hStream, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

CUresult CUDAAPI cuStreamBeginCaptureToGraph(CUstream hStream, CUgraph hGraph, const CUgraphNode *dependencies,
                                             const CUgraphEdgeData *dependencyData, size_t numDependencies,
                                             CUstreamCaptureMode mode)
{
    tsr_tips tips = {0};
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(hGraph, CUDA_ERROR_INVALID_VALUE);
    tsr_engine_lock();
    struct tsr_graph *graph = tsr_handle_find(tsr_handle_table(), TSR_KIND_GRAPH, hGraph);
    CUresult result =
        graph ? tsr_tips_find_locked(graph, dependencies, dependencyData, numDependencies, &tips) : CUDA_ERROR_INVALID_VALUE;
    tsr_engine_unlock();
    if (!result)
        result = begin(hStream, hGraph, &tips, mode);
    tsr_vec_fini(&tips);
    return result;
}

CUresult CUDAAPI cuStreamEndCapture(CUstream hStream, CUgraph *phGraph)
{
    struct tsr_emulated_stream *stream;
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(phGraph, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(tsr_stream_get(tsr_driver_stream(hStream), &stream));
    CUresult result = tsr_capture_end(stream, phGraph);
    tsr_stream_put(stream);
    return result;
}

CUresult CUDAAPI cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(mode && *mode <= CU_STREAM_CAPTURE_MODE_RELAXED, CUDA_ERROR_INVALID_VALUE);
    *mode = tsr_capture_mode_exchange(*mode);
    return CUDA_SUCCESS;
}

/* What cuStreamGetCaptureInfo gives out stays readable until the thread asks again. */
struct answer {
    CUgraphNode *nodes;
    CUgraphEdgeData *edges;
    size_t count, capacity;
};
static __thread struct answer answer;

static bool answer_set(const tsr_tips *tips)
{
    size_t count = tips ? tips->count : 0;
    if (count > answer.capacity || !answer.nodes) {
        free(answer.nodes);
        free(answer.edges);
        answer.capacity = count + 8;
        answer.nodes = malloc(answer.capacity * sizeof *answer.nodes);
        answer.edges = malloc(answer.capacity * sizeof *answer.edges);
        if (!answer.nodes || !answer.edges)
            answer.capacity = 0;
        if (!answer.capacity)
            return false;
    }
    answer.count = count;
    for (size_t i = 0; i < count; i++) {
        answer.nodes[i] = tips->data[i].node->handle;
        answer.edges[i] = tips->data[i].edge;
    }
    return true;
}

static bool answer_has_edge_data(void)
{
    for (size_t i = 0; i < answer.count; i++)
        if (tsr_edge_special(&answer.edges[i]))
            return true;
    return false;
}

/* The stream's state; for one that captures, its nodes are in `answer`. */
static CUresult inform(CUstream handle, struct tsr_capture_info *info)
{
    struct tsr_emulated_stream *stream;
    TSR_TRY(tsr_driver_ready());
    TSR_TRY(tsr_stream_get(tsr_driver_stream(handle), &stream));
    tsr_engine_lock();
    CUresult result = tsr_capture_info_locked(stream, info);
    if (!result && !answer_set(info->tips))
        result = CUDA_ERROR_OUT_OF_MEMORY;
    tsr_engine_unlock();
    tsr_stream_put(stream);
    return result;
}

CUresult CUDAAPI cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus *captureStatus)
{
    struct tsr_capture_info info;
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(captureStatus, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(inform(hStream, &info));
    *captureStatus = info.status;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamGetCaptureInfo_v3(CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out,
                                           CUgraph *graph_out, const CUgraphNode **dependencies_out,
                                           const CUgraphEdgeData **edgeData_out, size_t *numDependencies_out)
{
    struct tsr_capture_info info;
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(captureStatus_out, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(inform(hStream, &info));
    bool active = info.status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
    TSR_REQUIRE(!active || !dependencies_out || edgeData_out || !answer_has_edge_data(), CUDA_ERROR_LOSSY_QUERY);
    *captureStatus_out = info.status;
    if (!active)
        return CUDA_SUCCESS;
    if (id_out)
        *id_out = info.id;
    if (graph_out)
        *graph_out = info.graph;
    if (dependencies_out)
        *dependencies_out = answer.nodes;
    if (edgeData_out)
        *edgeData_out = answer.edges;
    if (numDependencies_out)
        *numDependencies_out = answer.count;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamGetCaptureInfo_v2(CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out,
                                           CUgraph *graph_out, const CUgraphNode **dependencies_out,
                                           size_t *numDependencies_out)
{
    return cuStreamGetCaptureInfo_v3(hStream, captureStatus_out, id_out, graph_out, dependencies_out, NULL,
                                     numDependencies_out);
}

CUresult CUDAAPI cuStreamGetCaptureInfo(CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out)
{
    return cuStreamGetCaptureInfo_v3(hStream, captureStatus_out, id_out, NULL, NULL, NULL, NULL);
}

CUresult CUDAAPI cuStreamUpdateCaptureDependencies_v2(CUstream hStream, CUgraphNode *dependencies,
                                                      const CUgraphEdgeData *dependencyData, size_t numDependencies,
                                                      unsigned int flags)
{
    struct tsr_emulated_stream *stream;
    tsr_tips tips = {0};
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(flags == CU_STREAM_ADD_CAPTURE_DEPENDENCIES || flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES,
                CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(tsr_stream_get(tsr_driver_stream(hStream), &stream));
    tsr_engine_lock();
    CUresult result = tsr_tips_find_locked(NULL, dependencies, dependencyData, numDependencies, &tips);
    tsr_engine_unlock();
    if (!result)
        result = tsr_capture_tips_set(stream, &tips, flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES);
    tsr_vec_fini(&tips);
    tsr_stream_put(stream);
    return result;
}

CUresult CUDAAPI cuStreamUpdateCaptureDependencies(CUstream hStream, CUgraphNode *dependencies, size_t numDependencies,
                                                   unsigned int flags)
{
    return cuStreamUpdateCaptureDependencies_v2(hStream, dependencies, NULL, numDependencies, flags);
}
