/* See aside.h. */
#include "order/aside.h"

#include "driver/current.h"
#include "lane/fences.h"
#include "object/capture.h"
#include "order/order_parts.h"
#include "order/strands.h"

static CUresult make(struct tsr_stream *stream)
{
    CUresult result = CUDA_SUCCESS;
    if (!stream->aside_mark)
        result = tsr_real.cuEventCreate(&stream->aside_mark, CU_EVENT_DISABLE_TIMING);
    if (result == CUDA_SUCCESS && !stream->aside)
        result = tsr_real.cuStreamCreateWithPriority(&stream->aside, CU_STREAM_NON_BLOCKING, stream->priority);
    return result;
}

/* `later` comes after what `earlier` was given. */
static CUresult follow(const struct tsr_stream *stream, CUstream earlier, CUstream later)
{
    CUresult result = tsr_real.cuEventRecord(stream->aside_mark, earlier);
    return result == CUDA_SUCCESS ? tsr_real.cuStreamWaitEvent(later, stream->aside_mark, 0) : result;
}

CUresult tsr_aside_record(struct tsr_stream *stream, CUevent event, unsigned flags)
{
    CUstreamBatchMemOpParams waits[TSR_LANES];
    unsigned count = 0;
    bool pushed = false;
    if (!tsr_strands_are_apart(stream) || !stream->away || tsr_is_any_capture())
        return CUDA_ERROR_NOT_SUPPORTED;
    CUresult result = tsr_current_push(stream->context, &pushed);
    if (result != CUDA_SUCCESS)
        return CUDA_ERROR_NOT_SUPPORTED;
    result = make(stream);
    if (result == CUDA_SUCCESS)
        result = tsr_strands_add_waits(stream, waits, &count);
    if (result == CUDA_SUCCESS)
        result = follow(stream, stream->handle, stream->aside);
    if (result == CUDA_SUCCESS)
        result = tsr_fences_operate(stream->context, stream->aside, count, waits);
    stream->aside_used |= result == CUDA_SUCCESS;
    if (result == CUDA_SUCCESS)
        result = tsr_real.cuEventRecordWithFlags(event, stream->aside, flags);
    tsr_current_pop(pushed);
    return result;
}

CUresult tsr_aside_join(struct tsr_stream *stream)
{
    bool pushed = false;
    if (!stream->aside_used)
        return CUDA_SUCCESS;
    CUresult result = tsr_current_push(stream->context, &pushed);
    if (result == CUDA_SUCCESS)
        result = follow(stream, stream->aside, stream->handle);
    stream->aside_used = result != CUDA_SUCCESS;
    tsr_current_pop(pushed);
    return result;
}

void tsr_aside_end(struct tsr_stream *stream)
{
    if (stream->aside)
        tsr_real.cuStreamDestroy_v2(stream->aside);
    if (stream->aside_mark)
        tsr_real.cuEventDestroy_v2(stream->aside_mark);
    stream->aside = NULL;
    stream->aside_mark = NULL;
    stream->aside_used = false;
}
