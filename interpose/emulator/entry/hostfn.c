/* Functions of the application that run in stream order. */
#include "guard.h"

#include "../stream/work.h"

CUresult CUDAAPI cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void *userData)
{
    struct tsr_emulated_stream *stream;
    struct tsr_work work = {.kind = TSR_WORK_HOST, .host = {.fn = fn, .data = userData}};
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(fn, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(tsr_stream_get(tsr_driver_stream(hStream), &stream));
    CUresult result = tsr_stream_submit(stream, &work);
    tsr_stream_put(stream);
    return result;
}

CUresult CUDAAPI cuStreamAddCallback(CUstream hStream, CUstreamCallback callback, void *userData, unsigned int flags)
{
    struct tsr_emulated_stream *stream;
    struct tsr_work work = {.kind = TSR_WORK_HOST, .host = {.callback = callback, .stream = hStream, .data = userData}};
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(callback && !flags, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(tsr_stream_get(tsr_driver_stream(hStream), &stream));
    CUresult result = tsr_stream_submit(stream, &work);
    tsr_stream_put(stream);
    return result;
}
