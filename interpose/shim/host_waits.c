/* What the program's host waits for: under data order not always for all that its stream was given (memory/readback.h). */
#include "shim/host_waits.h"

#include "driver/engaged.h"
#include "driver/real.h"
#include "driver/stream_handle.h"
#include "memory/copies.h"
#include "memory/readback.h"
#include "order/order.h"
#include "schedule/automatic.h"
#include "shim/deferred.h"
#include "shim/skipped_wait.h"

static CUresult copy_in_stream(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    struct tsr_order_hold hold;
    CUresult result = tsr_order_enter_loose(stream, false, &hold);
    if (result == CUDA_SUCCESS)
        result = tsr_copies_loose_bytes(stream, false, 0, from, bytes);
    if (result == CUDA_SUCCESS)
        result = tsr_real.cuMemcpyDtoHAsync_v2(to, from, bytes, stream);
    tsr_copies_loose_end();
    tsr_order_leave(&hold);
    return result == CUDA_SUCCESS ? tsr_order_state() : result;
}

/* To other memory of the host, the driver copies before it returns. */
static bool is_page_locked(void *host)
{
    CUmemorytype type;
    return tsr_real.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)(uintptr_t)host) ==
           CUDA_SUCCESS;
}

TSR_REDIRECTED(cuMemcpyDtoHAsync_v2)(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream)
{
    struct tsr_readback readback = {.waits = tsr_automatic_wait_begins};
    CUstream named = tsr_stream_named(hStream, false);
    CUresult result;
    if (tsr_readback(named, dstHost, srcDevice, ByteCount, &readback, &result)) {
        tsr_automatic_waited_for(named, readback.ticket);
        return result == CUDA_SUCCESS ? tsr_order_state() : result;
    }
    bool waits = tsr_automatic_is_on && !is_page_locked(dstHost);
    if (waits)
        tsr_automatic_wait_begins();
    result = copy_in_stream(dstHost, srcDevice, ByteCount, hStream);
    if (waits)
        tsr_automatic_waited(named);
    if (result == CUDA_SUCCESS)
        tsr_readback_missed(named, ByteCount);
    return result;
}

CUresult tsr_host_wait_for(CUstream stream)
{
    uint64_t exposed = tsr_order_exposed_now(), began = tsr_wait_begins();
    CUresult result = tsr_order_join(stream, false);
    if (result == CUDA_SUCCESS)
        result = tsr_real.cuStreamSynchronize(stream);
    if (result == CUDA_SUCCESS)
        result = tsr_order_state();
    if (result == CUDA_SUCCESS) {
        tsr_readback_waited(tsr_stream_named(stream, false), exposed);
        tsr_wait_made(tsr_stream_named(stream, false), began);
    }
    return result;
}

TSR_REDIRECTED(cuStreamSynchronize)(CUstream hStream)
{
    CUstream named = tsr_stream_named(hStream, false);
    uint64_t stamp;
    if (!tsr_readback_covers(named, &stamp) || !tsr_wait_skip(named, stamp))
        return tsr_host_wait_for(hStream);
    tsr_automatic_waits_not();
    return tsr_order_state();
}

/* It waits for no GPU. What the program takes for done is so; if it has given the stream more since, that may be what is not ready. */
static CUresult query(CUstream stream, bool per_thread)
{
    CUstream named = tsr_stream_named(stream, per_thread);
    CUresult result = tsr_deferred_await(named);
    if (result == CUDA_SUCCESS)
        result = tsr_wait_settle_for_query(named);
    if (result == CUDA_SUCCESS && tsr_wait_is_taken_as_made(named))
        return tsr_order_state();
    if (result == CUDA_SUCCESS)
        result = tsr_order_join(stream, per_thread);
    if (result == CUDA_SUCCESS)
        result = tsr_real.cuStreamQuery(named);
    if ((result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_READY) && tsr_order_state() != CUDA_SUCCESS)
        result = tsr_order_state();
    return result;
}

TSR_REDIRECTED(cuStreamQuery)(CUstream hStream)
{
    return query(hStream, false);
}

TSR_REDIRECTED(cuStreamQuery_ptsz)(CUstream hStream)
{
    return query(hStream, true);
}

/* named: the context is given, else it is the current one. */
static CUresult wait_for_all(bool named, CUcontext context)
{
    CUcontext current = NULL;
    bool is_other = named && (tsr_real.cuCtxGetCurrent(&current) != CUDA_SUCCESS || context != current);
    uint64_t exposed = tsr_order_exposed_now(), began = tsr_wait_begins();
    CUresult result = tsr_order_join_all();
    if (result == CUDA_SUCCESS)
        result = named ? tsr_real.cuCtxSynchronize_v2(context) : tsr_real.cuCtxSynchronize();
    if (result == CUDA_SUCCESS)
        result = tsr_order_state();
    if (result == CUDA_SUCCESS && !is_other) {
        tsr_readback_waited(NULL, exposed);
        tsr_wait_made(NULL, began);
    }
    return result;
}

TSR_REDIRECTED(cuCtxSynchronize)(void)
{
    return wait_for_all(false, NULL);
}

TSR_REDIRECTED(cuCtxSynchronize_v2)(CUcontext ctx)
{
    return wait_for_all(true, ctx);
}
