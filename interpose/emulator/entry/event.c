/* Events, also between processes. */
#include "guard.h"

#include "../context/handles.h"
#include "../stream/engine.h"
#include "../stream/event.h"
#include "../stream/event_share.h"

CUresult CUDAAPI cuEventCreate(CUevent *phEvent, unsigned int Flags)
{
    struct tsr_context *context;
    struct tsr_event *event;
    TSR_TRY(tsr_context_current(&context));
    TSR_REQUIRE(phEvent, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(tsr_event_create(context, Flags, &event));
    *phEvent = event->handle;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuEventDestroy_v2(CUevent hEvent)
{
    TSR_TRY(tsr_driver_ready());
    return tsr_event_destroy(hEvent);
}

CUresult CUDAAPI cuEventDestroy(CUevent hEvent)
{
    return cuEventDestroy_v2(hEvent);
}

/* Both for the time of one call. */
static CUresult find(CUevent handle, CUstream stream_handle, struct tsr_event **event, struct tsr_emulated_stream **stream)
{
    TSR_TRY(tsr_driver_ready());
    *event = tsr_event_get(handle);
    TSR_REQUIRE(*event, CUDA_ERROR_INVALID_HANDLE);
    CUresult result = tsr_stream_get(tsr_driver_stream(stream_handle), stream);
    if (result)
        tsr_event_put(*event);
    return result;
}

CUresult CUDAAPI cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned int flags)
{
    struct tsr_event *event;
    struct tsr_emulated_stream *stream;
    TSR_REQUIRE(!(flags & ~(unsigned)CU_EVENT_RECORD_EXTERNAL), CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(find(hEvent, hStream, &event, &stream));
    CUresult result = tsr_event_record(event, stream, flags);
    tsr_stream_put(stream);
    tsr_event_put(event);
    return result;
}

CUresult CUDAAPI cuEventRecord(CUevent hEvent, CUstream hStream)
{
    return cuEventRecordWithFlags(hEvent, hStream, CU_EVENT_RECORD_DEFAULT);
}

CUresult CUDAAPI cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags)
{
    struct tsr_event *event;
    struct tsr_emulated_stream *stream;
    TSR_REQUIRE(!(Flags & ~(unsigned)CU_EVENT_WAIT_EXTERNAL), CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(find(hEvent, hStream, &event, &stream));
    CUresult result = tsr_event_wait_stream(event, stream, Flags);
    tsr_stream_put(stream);
    tsr_event_put(event);
    return result;
}

CUresult CUDAAPI cuEventQuery(CUevent hEvent)
{
    TSR_TRY(tsr_driver_ready());
    struct tsr_event *event = tsr_event_get(hEvent);
    TSR_REQUIRE(event, CUDA_ERROR_INVALID_HANDLE);
    CUresult result = tsr_event_query(event);
    tsr_event_put(event);
    return result;
}

CUresult CUDAAPI cuEventSynchronize(CUevent hEvent)
{
    TSR_TRY(tsr_driver_ready());
    struct tsr_event *event = tsr_event_get(hEvent);
    TSR_REQUIRE(event, CUDA_ERROR_INVALID_HANDLE);
    CUresult result = tsr_event_wait(event);
    tsr_event_put(event);
    return result;
}

CUresult CUDAAPI cuEventElapsedTime_v2(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
    int64_t ns;
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(pMilliseconds, CUDA_ERROR_INVALID_HANDLE);
    struct tsr_event *start = tsr_event_get(hStart), *end = tsr_event_get(hEnd);
    CUresult result = start && end ? tsr_event_elapsed(start, end, &ns) : CUDA_ERROR_INVALID_HANDLE;
    if (!result)
        *pMilliseconds = (float)((double)ns / 1e6);
    if (start)
        tsr_event_put(start);
    if (end)
        tsr_event_put(end);
    return result;
}

CUresult CUDAAPI cuEventElapsedTime(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
    return cuEventElapsedTime_v2(pMilliseconds, hStart, hEnd);
}

static CUresult of_context(CUcontext handle, CUevent event_handle, struct tsr_context **context, struct tsr_event **event)
{
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(handle, CUDA_ERROR_INVALID_CONTEXT);
    TSR_TRY(tsr_context_from_handle(handle, context));
    *event = tsr_event_get(event_handle);
    return *event ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult CUDAAPI cuCtxRecordEvent(CUcontext hCtx, CUevent hEvent)
{
    struct tsr_context *context;
    struct tsr_event *event;
    TSR_TRY(of_context(hCtx, hEvent, &context, &event));
    CUresult result = tsr_event_record_context(event, context);
    tsr_event_put(event);
    return result;
}

CUresult CUDAAPI cuCtxWaitEvent(CUcontext hCtx, CUevent hEvent)
{
    struct tsr_context *context;
    struct tsr_event *event;
    TSR_TRY(of_context(hCtx, hEvent, &context, &event));
    CUresult result = tsr_event_wait_context(event, context);
    tsr_event_put(event);
    return result;
}

CUresult CUDAAPI cuIpcGetEventHandle(CUipcEventHandle *pHandle, CUevent hEvent)
{
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(pHandle, CUDA_ERROR_INVALID_VALUE);
    struct tsr_event *event = tsr_event_get(hEvent);
    TSR_REQUIRE(event, CUDA_ERROR_INVALID_HANDLE);
    CUresult result = event->share && !event->imported ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
    if (!result)
        tsr_event_share_export(event->share, pHandle);
    tsr_event_put(event);
    return result;
}

CUresult CUDAAPI cuIpcOpenEventHandle(CUevent *phEvent, CUipcEventHandle handle)
{
    struct tsr_context *context;
    struct tsr_event_share *share;
    struct tsr_event *event;
    TSR_TRY(tsr_context_current(&context));
    TSR_REQUIRE(phEvent, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(tsr_event_share_import(&handle, &share));
    CUresult result = tsr_event_create(context, CU_EVENT_DISABLE_TIMING, &event);
    if (result) {
        tsr_event_share_put(share);
        return result;
    }
    event->share = share;
    event->imported = true;
    *phEvent = event->handle;
    return CUDA_SUCCESS;
}
