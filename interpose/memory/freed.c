/* See freed.h. */
#include "memory/freed.h"

#include "base/vec.h"
#include "lane/streams.h"
#include "driver/real.h"
#include "memory/pool.h"
#include "order/order.h"
#include "object/capture.h"

#define THREAD_SET (1ull << 63) /* of a stream that only its thread can ask about its work */
#define ENDED_SET (1ull << 62)

/* A stream whose work is not known to be complete. */
struct waiting {
    uint64_t set;
    CUstream stream; /* explicit */
    CUcontext context;
    CUevent event; /* instead of the stream, which has been destroyed or which only its thread can ask */
};

static TSR_VEC(struct waiting) waiting;    /* memory lock */
static uint64_t threads, ended;            /* atomic; memory lock */
static _Thread_local uint64_t this_thread; /* number of the thread; 0: none yet */

uint64_t tsr_freed_set(CUstream stream, CUcontext context)
{
    if (stream == CU_STREAM_LEGACY)
        return (uint64_t)(uintptr_t)context | 1;
    if (stream != CU_STREAM_PER_THREAD)
        return (uint64_t)(uintptr_t)stream;
    if (!this_thread)
        this_thread = __atomic_add_fetch(&threads, 1, __ATOMIC_RELAXED);
    return THREAD_SET | ((uint64_t)(uintptr_t)context ^ this_thread << 32);
}

static void forget_event(struct waiting *of)
{
    if (of->event)
        tsr_real.cuEventDestroy_v2(of->event);
    of->event = NULL;
}

static void release_set_locked(size_t index)
{
    tsr_pool_release_set_locked(waiting.data[index].set);
    forget_event(&waiting.data[index]);
    tsr_vec_remove_swap(&waiting, index);
}

/*
 * A stream's memory may be freed behind work of the legacy stream that it waits for by that stream's rules, with no work of its own. While
 * another blocking stream is captured, asking the legacy stream would end that capture.
 */
static bool legacy_is_complete(CUstream stream)
{
    unsigned flags = 0;
    if (stream == CU_STREAM_LEGACY ||
        (tsr_real.cuStreamGetFlags(stream, &flags) == CUDA_SUCCESS && flags == CU_STREAM_NON_BLOCKING))
        return true;
    return !tsr_is_capturing(CU_STREAM_LEGACY) && tsr_order_join(CU_STREAM_LEGACY, false) == CUDA_SUCCESS &&
           tsr_real.cuStreamQuery(CU_STREAM_LEGACY) == CUDA_SUCCESS;
}

/* Whether all work of the stream, wherever it runs, is complete. What cannot be asked, or not now, is not. */
static bool is_complete(const struct waiting *of)
{
    CUstreamCaptureStatus status;
    CUcontext popped;
    if (of->event)
        return tsr_real.cuEventQuery(of->event) == CUDA_SUCCESS;
    if (of->set & THREAD_SET)
        return false;
    if (tsr_real.cuCtxPushCurrent_v2(of->context) != CUDA_SUCCESS)
        return false;
    tsr_captures_hold();
    bool complete = tsr_real.cuStreamIsCapturing(of->stream, &status) == CUDA_SUCCESS &&
                    status == CU_STREAM_CAPTURE_STATUS_NONE && tsr_order_join(of->stream, false) == CUDA_SUCCESS &&
                    tsr_real.cuStreamQuery(of->stream) == CUDA_SUCCESS && legacy_is_complete(of->stream);
    tsr_captures_release();
    tsr_real.cuCtxPopCurrent_v2(&popped);
    return complete;
}

static bool is_at_home(CUstream stream, bool per_thread)
{
    const struct tsr_stream *seen = tsr_stream_seen(stream, per_thread);
    return !seen || !__atomic_load_n(&seen->away, __ATOMIC_ACQUIRE);
}

/* Of the thread's own stream and the legacy one, for which it waits: so that an event behind it is behind all that its frees are behind. */
static bool is_all_at_home(void)
{
    return is_at_home(CU_STREAM_PER_THREAD, true) && is_at_home(CU_STREAM_LEGACY, false);
}

/* The calling thread's own stream, with its work so far. Without an event its memory is free for all only when all work has been waited for. */
static void mark_thread(struct waiting *of)
{
    tsr_captures_hold();
    bool marked = !tsr_is_any_capture() && is_all_at_home() &&
                  (of->event || tsr_real.cuEventCreate(&of->event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS) &&
                  tsr_real.cuEventRecord(of->event, CU_STREAM_PER_THREAD) == CUDA_SUCCESS;
    tsr_captures_release();
    if (!marked)
        forget_event(of);
}

bool tsr_freed_note_locked(uint64_t set, CUstream stream, CUcontext context)
{
    size_t at = 0;
    while (at < waiting.count && waiting.data[at].set != set)
        at++;
    if (at == waiting.count && !tsr_vec_push(&waiting, (struct waiting){.set = set, .stream = stream, .context = context}))
        return false;
    if (stream == CU_STREAM_PER_THREAD)
        mark_thread(&waiting.data[at]);
    return true;
}

void tsr_freed_context_gone_locked(CUcontext context)
{
    for (size_t i = waiting.count; i-- > 0;) {
        if (waiting.data[i].context != context)
            continue;
        waiting.data[i].event = NULL; /* gone with it */
        release_set_locked(i);
    }
}

void tsr_freed_release_complete_locked(void)
{
    for (size_t i = waiting.count; i-- > 0;)
        if (is_complete(&waiting.data[i]))
            release_set_locked(i);
}

bool tsr_freed_is_any_waiting_locked(void)
{
    return waiting.count;
}

void tsr_freed_release_after_waiting_locked(void)
{
    bool complete = tsr_order_join_all() == CUDA_SUCCESS;
    for (size_t i = waiting.count; i-- > 0;) {
        CUcontext popped;
        if (!complete || tsr_real.cuCtxPushCurrent_v2(waiting.data[i].context) != CUDA_SUCCESS)
            continue;
        if (tsr_real.cuCtxSynchronize() == CUDA_SUCCESS)
            release_set_locked(i);
        tsr_real.cuCtxPopCurrent_v2(&popped);
    }
}

/* An event of the stream's work so far stands in for it. */
static void replace_by_event_locked(struct waiting *of)
{
    uint64_t set = ENDED_SET | ++ended;
    CUcontext popped;
    if (tsr_real.cuCtxPushCurrent_v2(of->context) == CUDA_SUCCESS) {
        if (tsr_real.cuEventCreate(&of->event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS ||
            tsr_real.cuEventRecord(of->event, of->stream) != CUDA_SUCCESS) {
            set |= THREAD_SET;
            forget_event(of);
        }
        tsr_real.cuCtxPopCurrent_v2(&popped);
    }
    tsr_pool_rename_set_locked(of->set, set);
    of->set = set;
}

void tsr_freed_stream_ends_locked(CUstream stream)
{
    for (size_t i = waiting.count; i-- > 0;) {
        if (waiting.data[i].stream != stream || waiting.data[i].event)
            continue;
        if (is_complete(&waiting.data[i]))
            release_set_locked(i);
        else
            replace_by_event_locked(&waiting.data[i]);
    }
}

void tsr_freed_forget(void)
{
    tsr_vec_clear(&waiting);
}
