/* Streams: making, asking, waiting. Capture is in capture.c, host functions in hostfn.c, values in valueop.c. */
#include "guard.h"

#include "../space/space.h"
#include "../stream/capture.h"
#include "../stream/engine.h"
#include "../stream/host_clock.h"
#include "../stream/stream.h"

CUresult CUDAAPI cuStreamCreateWithPriority(CUstream *phStream, unsigned int flags, int priority)
{
    struct tsr_context *context;
    TSR_TRY(tsr_context_current(&context));
    return tsr_stream_create(context, flags, priority, NULL, phStream);
}

CUresult CUDAAPI cuStreamCreate(CUstream *phStream, unsigned int Flags)
{
    return cuStreamCreateWithPriority(phStream, Flags, 0);
}

CUresult CUDAAPI cuStreamDestroy_v2(CUstream hStream)
{
    TSR_TRY(tsr_driver_ready());
    return tsr_stream_destroy(hStream);
}

CUresult CUDAAPI cuStreamDestroy(CUstream hStream)
{
    return cuStreamDestroy_v2(hStream);
}

/* The stream of a handle, for reading one of its constant properties; NULL with an error in *result. */
static struct tsr_emulated_stream *look_up(CUstream handle, CUresult *result)
{
    struct tsr_emulated_stream *stream = NULL;
    *result = tsr_driver_ready();
    if (!*result)
        *result = tsr_stream_get(tsr_driver_stream(handle), &stream);
    return *result ? NULL : stream;
}

CUresult CUDAAPI cuStreamGetPriority(CUstream hStream, int *priority)
{
    CUresult result;
    struct tsr_emulated_stream *stream = look_up(hStream, &result);
    if (stream && priority)
        *priority = stream->priority;
    else if (stream)
        result = CUDA_ERROR_INVALID_VALUE;
    if (stream)
        tsr_stream_put(stream);
    return result;
}

CUresult CUDAAPI cuStreamGetFlags(CUstream hStream, unsigned int *flags)
{
    CUresult result;
    struct tsr_emulated_stream *stream = look_up(hStream, &result);
    if (stream && flags) {
        tsr_engine_lock();
        result = tsr_capture_refuse_locked(stream); /* of all properties only this one may not be asked for */
        tsr_engine_unlock();
        *flags = stream->flags;
    } else if (stream) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    if (stream)
        tsr_stream_put(stream);
    return result;
}

CUresult CUDAAPI cuStreamGetId(CUstream hStream, unsigned long long *streamId)
{
    CUresult result;
    struct tsr_emulated_stream *stream = look_up(hStream, &result);
    if (stream && streamId)
        *streamId = stream->id;
    else if (stream)
        result = CUDA_ERROR_INVALID_VALUE;
    if (stream)
        tsr_stream_put(stream);
    return result;
}

CUresult CUDAAPI cuStreamGetDevice(CUstream hStream, CUdevice *device)
{
    CUresult result;
    struct tsr_emulated_stream *stream = look_up(hStream, &result);
    if (stream && device)
        *device = (CUdevice)tsr_emulated_context_device(tsr_stream_context(stream));
    else if (stream)
        result = CUDA_ERROR_INVALID_VALUE;
    if (stream)
        tsr_stream_put(stream);
    return result;
}

CUresult CUDAAPI cuStreamGetCtx(CUstream hStream, CUcontext *pctx)
{
    CUresult result;
    struct tsr_emulated_stream *stream = look_up(hStream, &result);
    if (stream && (!pctx || stream->green))
        result = stream->green ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
    else if (stream)
        *pctx = tsr_context_handle(tsr_stream_context(stream));
    if (stream)
        tsr_stream_put(stream);
    return result;
}

CUresult CUDAAPI cuStreamGetCtx_v2(CUstream hStream, CUcontext *pCtx, CUgreenCtx *pGreenCtx)
{
    CUresult result;
    struct tsr_emulated_stream *stream = look_up(hStream, &result);
    if (stream && !(pCtx && pGreenCtx))
        result = CUDA_ERROR_INVALID_VALUE;
    else if (stream) {
        *pCtx = stream->green ? NULL : tsr_context_handle(tsr_stream_context(stream));
        *pGreenCtx = stream->green;
    }
    if (stream)
        tsr_stream_put(stream);
    return result;
}

CUresult CUDAAPI cuStreamQuery(CUstream hStream)
{
    struct tsr_emulated_stream *stream;
    TSR_TRY(tsr_driver_ready());
    TSR_TRY(tsr_stream_get(tsr_driver_stream(hStream), &stream));
    CUresult result = tsr_stream_query(stream);
    tsr_stream_put(stream);
    return result;
}

CUresult CUDAAPI cuStreamSynchronize(CUstream hStream)
{
    struct tsr_emulated_stream *stream;
    TSR_TRY(tsr_driver_ready());
    TSR_TRY(tsr_stream_get(tsr_driver_stream(hStream), &stream));
    tsr_engine_lock();
    CUresult result = tsr_capture_refuse_locked(stream);
    if (!result)
        result = tsr_capture_check_legacy_locked(stream);
    tsr_engine_unlock();
    if (!result)
        result = tsr_stream_wait(stream);
    tsr_stream_put(stream);
    return result;
}

CUresult CUDAAPI cuCtxSynchronize(void)
{
    struct tsr_context *context;
    TSR_TRY(tsr_context_current(&context));
    TSR_TRY(tsr_capture_check_unsafe_call(context));
    return tsr_context_wait(context);
}

CUresult CUDAAPI cuCtxSynchronize_v2(CUcontext ctx)
{
    struct tsr_context *context;
    TSR_TRY(tsr_driver_ready());
    TSR_TRY(tsr_context_from_handle(ctx, &context));
    TSR_TRY(tsr_capture_check_unsafe_call(context));
    return tsr_context_wait(context);
}

/* All memory is coherent here: attaching orders itself in the stream and changes nothing else. */
CUresult CUDAAPI cuStreamAttachMemAsync(CUstream hStream, CUdeviceptr dptr, size_t length, unsigned int flags)
{
    struct tsr_emulated_stream *stream;
    (void)length;
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST || flags == CU_MEM_ATTACH_SINGLE,
                CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(tsr_stream_get(tsr_driver_stream(hStream), &stream));
    struct tsr_space *space = tsr_space_instance();
    const struct tsr_snapshot *snapshot = tsr_space_get(space);
    const struct tsr_range *range = tsr_snapshot_find(snapshot, dptr);
    bool managed = range && range->kind == TSR_RANGE_MANAGED;
    tsr_space_put(space, snapshot);
    struct tsr_work nothing = {.kind = TSR_WORK_EMPTY};
    CUresult result = managed ? tsr_stream_submit(stream, &nothing) : CUDA_ERROR_INVALID_VALUE;
    tsr_stream_put(stream);
    return result;
}

static CUresult get_attribute(const struct tsr_emulated_stream *stream, CUstreamAttrID attr, CUstreamAttrValue *value)
{
    switch ((int)attr) {
    case CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW:
        value->accessPolicyWindow = stream->access_policy.accessPolicyWindow;
        return CUDA_SUCCESS;
    case CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY:
        value->syncPolicy = stream->sync_policy;
        return CUDA_SUCCESS;
    case CU_STREAM_ATTRIBUTE_PRIORITY:
        value->priority = stream->priority;
        return CUDA_SUCCESS;
    case CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
        value->memSyncDomainMap = stream->memory_domains;
        return CUDA_SUCCESS;
    case CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN:
        value->memSyncDomain = stream->memory_domain;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

static CUresult set_attribute(struct tsr_emulated_stream *stream, CUstreamAttrID attr, const CUstreamAttrValue *value)
{
    switch ((int)attr) {
    case CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW:
        stream->access_policy.accessPolicyWindow = value->accessPolicyWindow;
        return CUDA_SUCCESS;
    case CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY:
        TSR_REQUIRE(value->syncPolicy >= CU_SYNC_POLICY_AUTO && value->syncPolicy <= CU_SYNC_POLICY_BLOCKING_SYNC,
                    CUDA_ERROR_INVALID_VALUE);
        stream->sync_policy = value->syncPolicy;
        return CUDA_SUCCESS;
    case CU_STREAM_ATTRIBUTE_PRIORITY:
        TSR_REQUIRE(value->priority <= 0 && value->priority >= TSR_STREAM_PRIORITY_GREATEST, CUDA_ERROR_INVALID_VALUE);
        stream->priority = value->priority;
        return CUDA_SUCCESS;
    case CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
        stream->memory_domains = value->memSyncDomainMap;
        return CUDA_SUCCESS;
    case CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN:
        stream->memory_domain = value->memSyncDomain;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult CUDAAPI cuStreamGetAttribute(CUstream hStream, CUstreamAttrID attr, CUstreamAttrValue *value)
{
    CUresult result;
    TSR_REQUIRE(value, CUDA_ERROR_INVALID_VALUE);
    struct tsr_emulated_stream *stream = look_up(hStream, &result);
    TSR_REQUIRE(stream, result);
    tsr_engine_lock();
    result = get_attribute(stream, attr, value);
    tsr_engine_unlock();
    tsr_stream_put(stream);
    return result;
}

CUresult CUDAAPI cuStreamSetAttribute(CUstream hStream, CUstreamAttrID attr, const CUstreamAttrValue *param)
{
    CUresult result;
    TSR_REQUIRE(param, CUDA_ERROR_INVALID_VALUE);
    struct tsr_emulated_stream *stream = look_up(hStream, &result);
    TSR_REQUIRE(stream, result);
    tsr_engine_lock();
    result = set_attribute(stream, attr, param);
    tsr_engine_unlock();
    tsr_stream_put(stream);
    return result;
}

CUresult CUDAAPI cuStreamCopyAttributes(CUstream dst, CUstream src)
{
    CUresult result;
    struct tsr_emulated_stream *from = look_up(src, &result);
    TSR_REQUIRE(from, result);
    struct tsr_emulated_stream *to = look_up(dst, &result);
    if (to) {
        tsr_engine_lock();
        to->access_policy = from->access_policy;
        to->sync_policy = from->sync_policy;
        to->memory_domain = from->memory_domain;
        to->memory_domains = from->memory_domains;
        tsr_engine_unlock();
        tsr_stream_put(to);
    }
    tsr_stream_put(from);
    return result;
}
