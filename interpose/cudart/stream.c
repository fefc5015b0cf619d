/* Streams, capture, host functions. Stream, graph and event handles are the driver's own. */
#include <stdlib.h>

#include "cudart/state.h"

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned int flags, int priority)
{
    return TSR_CALL(cuStreamCreateWithPriority(stream, flags, priority));
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned int flags)
{
    return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaStreamCreate(cudaStream_t *stream)
{
    return cudaStreamCreateWithPriority(stream, cudaStreamDefault, 0);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    return TSR_CALL(cuStreamDestroy(stream));
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    return TSR_CALL(cuStreamSynchronize(stream));
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    return TSR_CALL(cuStreamQuery(stream));
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags)
{
    return TSR_CALL(cuStreamWaitEvent(stream, event, flags));
}

cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned int *flags)
{
    return TSR_CALL(cuStreamGetFlags(stream, flags));
}

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int *priority)
{
    return TSR_CALL(cuStreamGetPriority(stream, priority));
}

cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long *id)
{
    return TSR_CALL(cuStreamGetId(stream, id));
}

cudaError_t cudaStreamGetDevice(cudaStream_t stream, int *device)
{
    return TSR_CALL(cuStreamGetDevice(stream, device));
}

cudaError_t cudaStreamAttachMemAsync(cudaStream_t stream, void *pointer, size_t bytes, unsigned int flags)
{
    return TSR_CALL(cuStreamAttachMemAsync(stream, (CUdeviceptr)pointer, bytes, flags));
}

cudaError_t cudaStreamGetAttribute(cudaStream_t stream, cudaStreamAttrID attribute, cudaStreamAttrValue *value)
{
    return TSR_CALL(cuStreamGetAttribute(stream, (CUstreamAttrID)attribute, (CUstreamAttrValue *)value));
}

cudaError_t cudaStreamSetAttribute(cudaStream_t stream, cudaStreamAttrID attribute, const cudaStreamAttrValue *value)
{
    return TSR_CALL(cuStreamSetAttribute(stream, (CUstreamAttrID)attribute, (const CUstreamAttrValue *)value));
}

cudaError_t cudaStreamCopyAttributes(cudaStream_t to, cudaStream_t from)
{
    return TSR_CALL(cuStreamCopyAttributes(to, from));
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *data)
{
    return TSR_CALL(cuLaunchHostFunc(stream, function, data));
}

/* A callback of the runtime, called through one of the driver's. */
struct callback {
    cudaStreamCallback_t function;
    void *data;
};

static void CUDA_CB call_back(CUstream stream, CUresult status, void *argument)
{
    struct callback callback = *(struct callback *)argument;
    free(argument);
    callback.function(stream, tsr_cudart_error(status), callback.data);
}

cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t function, void *data, unsigned int flags)
{
    struct callback *callback = function ? malloc(sizeof(*callback)) : NULL;
    if (!callback)
        return tsr_cudart_result(function ? cudaErrorMemoryAllocation : cudaErrorInvalidValue);
    *callback = (struct callback){function, data};
    cudaError_t status = TSR_CALL(cuStreamAddCallback(stream, call_back, callback, flags));
    if (status != cudaSuccess)
        free(callback);
    return status;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    return TSR_CALL(cuStreamBeginCapture(stream, (CUstreamCaptureMode)mode));
}

cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t *dependencies,
                                          const cudaGraphEdgeData *edges, size_t count, enum cudaStreamCaptureMode mode)
{
    return TSR_CALL(cuStreamBeginCaptureToGraph(stream, graph, dependencies, (const CUgraphEdgeData *)edges, count,
                                                (CUstreamCaptureMode)mode));
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    return TSR_CALL(cuStreamEndCapture(stream, graph));
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status)
{
    return TSR_CALL(cuStreamIsCapturing(stream, (CUstreamCaptureStatus *)status));
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, enum cudaStreamCaptureStatus *status, unsigned long long *id,
                                     cudaGraph_t *graph, const cudaGraphNode_t **dependencies, const cudaGraphEdgeData **edges,
                                     size_t *count)
{
    return TSR_CALL(cuStreamGetCaptureInfo(stream, (CUstreamCaptureStatus *)status, (cuuint64_t *)id, graph, dependencies,
                                           (const CUgraphEdgeData **)edges, count));
}

cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t *dependencies,
                                                const cudaGraphEdgeData *edges, size_t count, unsigned int flags)
{
    return TSR_CALL(cuStreamUpdateCaptureDependencies(stream, dependencies, (const CUgraphEdgeData *)edges, count, flags));
}

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
    return TSR_CALL(cuThreadExchangeStreamCaptureMode((CUstreamCaptureMode *)mode));
}

#define OWN tsr_cudart_per_thread(stream)

TSR_CUDART_PER_THREAD(cudaStreamSynchronize, (cudaStream_t stream), OWN)
TSR_CUDART_PER_THREAD(cudaStreamQuery, (cudaStream_t stream), OWN)
TSR_CUDART_PER_THREAD(cudaStreamWaitEvent, (cudaStream_t stream, cudaEvent_t event, unsigned int flags), OWN, event, flags)
TSR_CUDART_PER_THREAD(cudaStreamGetFlags, (cudaStream_t stream, unsigned int *flags), OWN, flags)
TSR_CUDART_PER_THREAD(cudaStreamGetPriority, (cudaStream_t stream, int *priority), OWN, priority)
TSR_CUDART_PER_THREAD(cudaStreamGetId, (cudaStream_t stream, unsigned long long *id), OWN, id)
TSR_CUDART_PER_THREAD(cudaStreamGetDevice, (cudaStream_t stream, int *device), OWN, device)
TSR_CUDART_PER_THREAD(cudaStreamAttachMemAsync, (cudaStream_t stream, void *pointer, size_t bytes, unsigned int flags), OWN,
                      pointer, bytes, flags)
TSR_CUDART_PER_THREAD(cudaStreamGetAttribute, (cudaStream_t stream, cudaStreamAttrID attribute, cudaStreamAttrValue *value),
                      OWN, attribute, value)
TSR_CUDART_PER_THREAD(cudaStreamSetAttribute,
                      (cudaStream_t stream, cudaStreamAttrID attribute, const cudaStreamAttrValue *value), OWN, attribute,
                      value)
TSR_CUDART_PER_THREAD(cudaStreamCopyAttributes, (cudaStream_t to, cudaStream_t stream), tsr_cudart_per_thread(to), OWN)
TSR_CUDART_PER_THREAD(cudaLaunchHostFunc, (cudaStream_t stream, cudaHostFn_t function, void *data), OWN, function, data)
TSR_CUDART_PER_THREAD(cudaStreamAddCallback,
                      (cudaStream_t stream, cudaStreamCallback_t function, void *data, unsigned int flags), OWN, function, data,
                      flags)
TSR_CUDART_PER_THREAD(cudaStreamBeginCapture, (cudaStream_t stream, enum cudaStreamCaptureMode mode), OWN, mode)
TSR_CUDART_PER_THREAD(cudaStreamBeginCaptureToGraph,
                      (cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t *dependencies,
                       const cudaGraphEdgeData *edges, size_t count, enum cudaStreamCaptureMode mode),
                      OWN, graph, dependencies, edges, count, mode)
TSR_CUDART_PER_THREAD(cudaStreamEndCapture, (cudaStream_t stream, cudaGraph_t *graph), OWN, graph)
TSR_CUDART_PER_THREAD(cudaStreamIsCapturing, (cudaStream_t stream, enum cudaStreamCaptureStatus *status), OWN, status)

TSR_CUDART_EXPORT cudaError_t cudaStreamGetCaptureInfo_ptsz(cudaStream_t, enum cudaStreamCaptureStatus *, unsigned long long *,
                                                            cudaGraph_t *, const cudaGraphNode_t **, const cudaGraphEdgeData **,
                                                            size_t *);
cudaError_t cudaStreamGetCaptureInfo_ptsz(cudaStream_t stream, enum cudaStreamCaptureStatus *status, unsigned long long *id,
                                          cudaGraph_t *graph, const cudaGraphNode_t **dependencies,
                                          const cudaGraphEdgeData **edges, size_t *count)
{
    return cudaStreamGetCaptureInfo(OWN, status, id, graph, dependencies, edges, count);
}

TSR_CUDART_EXPORT cudaError_t cudaStreamUpdateCaptureDependencies_ptsz(cudaStream_t, cudaGraphNode_t *,
                                                                       const cudaGraphEdgeData *, size_t, unsigned int);
cudaError_t cudaStreamUpdateCaptureDependencies_ptsz(cudaStream_t stream, cudaGraphNode_t *dependencies,
                                                     const cudaGraphEdgeData *edges, size_t count, unsigned int flags)
{
    return cudaStreamUpdateCaptureDependencies(OWN, dependencies, edges, count, flags);
}
