#include "event.h"

#include "../context/handles.h"
#include "capture.h"
#include "engine.h"
#include "event_share.h"
#include "host_clock.h"
#include "loop.h"
#include "stream.h"

#include <stdlib.h>

#define KNOWN_FLAGS (CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS)

CUresult tsr_event_create(struct tsr_context *context, unsigned flags, struct tsr_event **out)
{
    if (flags & ~(unsigned)KNOWN_FLAGS || ((flags & CU_EVENT_INTERPROCESS) && !(flags & CU_EVENT_DISABLE_TIMING)))
        return CUDA_ERROR_INVALID_VALUE;
    struct tsr_streams *streams;
    CUresult result = tsr_streams_of(context, &streams);
    struct tsr_event *event = result ? NULL : calloc(1, sizeof *event);
    if (!event)
        return result ? result : CUDA_ERROR_OUT_OF_MEMORY;
    event->references = 1;
    event->context = context;
    event->flags = flags;
    if (flags & CU_EVENT_INTERPROCESS && !(event->share = tsr_event_share_create())) {
        free(event);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    event->handle = tsr_handle_create(tsr_handle_table(), TSR_KIND_EVENT, event, NULL);
    if (!event->handle) {
        tsr_event_put(event);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    tsr_engine_lock();
    event->next = streams->events;
    if (event->next)
        event->next->previous = event;
    streams->events = event;
    tsr_engine_unlock();
    *out = event;
    return CUDA_SUCCESS;
}

static void unlink_locked(struct tsr_event *event)
{
    struct tsr_streams *streams = event->context ? tsr_context_slot(event->context, TSR_SLOT_STREAMS) : NULL;
    if (event->previous)
        event->previous->next = event->next;
    else if (streams)
        streams->events = event->next;
    if (event->next)
        event->next->previous = event->previous;
    event->previous = event->next = NULL;
}

struct tsr_event *tsr_event_get(CUevent handle)
{
    tsr_engine_lock();
    struct tsr_event *event = tsr_handle_find(tsr_handle_table(), TSR_KIND_EVENT, handle);
    if (event)
        tsr_event_retain(event);
    tsr_engine_unlock();
    return event;
}

CUresult tsr_event_destroy(CUevent handle)
{
    tsr_engine_lock();
    struct tsr_event *event = tsr_handle_find(tsr_handle_table(), TSR_KIND_EVENT, handle);
    if (event) {
        tsr_handle_remove(tsr_handle_table(), TSR_KIND_EVENT, handle);
        event->handle = NULL;
        unlink_locked(event);
        tsr_capture_forget_event_locked(event);
    }
    tsr_engine_unlock();
    if (!event)
        return CUDA_ERROR_INVALID_HANDLE;
    tsr_event_put(event);
    return CUDA_SUCCESS;
}

CUresult tsr_event_record(struct tsr_event *event, struct tsr_emulated_stream *stream, unsigned flags)
{
    struct tsr_work work = tsr_event_work_of(TSR_WORK_RECORD, event, flags);
    struct tsr_item *item;
    CUresult result;
    tsr_host_clock_enter();
    tsr_engine_lock();
    tsr_event_retain(event); /* the work's */
    if (!stream->streams) {
        result = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    } else if ((result = tsr_context_sticky(stream->streams->context))) {
    } else if (stream->capture) {
        result =
            flags & CU_EVENT_RECORD_EXTERNAL ? tsr_capture_add_locked(stream, &work) : tsr_capture_record_locked(stream, event);
    } else if (event->context != stream->streams->context) {
        result = CUDA_ERROR_INVALID_HANDLE;
    } else if (!(result = tsr_capture_check_legacy_locked(stream)) &&
               !(result = tsr_stream_item_locked(stream, &work, &item))) {
        tsr_capture_forget_event_locked(event);
        tsr_event_name_locked(event, item);
        tsr_stream_append_locked(stream, item);
        tsr_item_submit_locked(item);
        tsr_item_put(item);
    }
    tsr_engine_unlock();
    tsr_work_release(&work);
    tsr_host_clock_leave();
    return result;
}

CUresult tsr_event_wait_stream(struct tsr_event *event, struct tsr_emulated_stream *stream, unsigned flags)
{
    struct tsr_work work = tsr_event_work_of(TSR_WORK_WAIT, event, flags);
    struct tsr_item *item;
    CUresult result;
    tsr_host_clock_enter();
    tsr_engine_lock();
    tsr_event_retain(event);
    if (!stream->streams) {
        result = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    } else if ((result = tsr_context_sticky(stream->streams->context))) {
    } else if (stream->capture && flags & CU_EVENT_WAIT_EXTERNAL) {
        result = tsr_capture_add_locked(stream, &work);
    } else if (stream->capture || event->capture) {
        result = tsr_capture_wait_locked(stream, event);
    } else if (!(result = tsr_capture_check_legacy_locked(stream)) &&
               !(result = tsr_stream_item_locked(stream, &work, &item))) {
        if (tsr_event_before_locked(event, item)) {
            tsr_stream_append_locked(stream, item);
            tsr_item_submit_locked(item);
        } else {
            result = CUDA_ERROR_OUT_OF_MEMORY;
            tsr_item_cancel_locked(item);
        }
        tsr_item_put(item);
    }
    tsr_engine_unlock();
    tsr_work_release(&work);
    tsr_host_clock_leave();
    return result;
}

static bool capturing_locked(const struct tsr_streams *streams)
{
    for (const struct tsr_emulated_stream *stream = streams->first; stream; stream = stream->next)
        if (stream->capture)
            return true;
    return false;
}

/* An item of the context that belongs to no stream. */
static CUresult context_item_locked(struct tsr_streams *streams, struct tsr_work *work, struct tsr_item **out)
{
    CUresult result = tsr_context_sticky(streams->context);
    if (!result && capturing_locked(streams))
        result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (!result)
        result = tsr_loop_ready_locked();
    if (result)
        return result;
    work->context = streams->context;
    *out = tsr_item_create_locked(streams, work, tsr_host_clock_now());
    return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Makes the item wait for what the context's streams hold. */
static CUresult after_all_locked(struct tsr_item *item, const struct tsr_streams *streams)
{
    for (const struct tsr_emulated_stream *stream = streams->first; stream; stream = stream->next)
        if (!tsr_item_after_locked(item, stream->last))
            return CUDA_ERROR_OUT_OF_MEMORY;
    return CUDA_SUCCESS;
}

static CUresult refuse_context_locked(const struct tsr_event *event, const struct tsr_streams *streams, enum tsr_work_kind kind)
{
    if (kind == TSR_WORK_RECORD && event->context != streams->context)
        return CUDA_ERROR_INVALID_HANDLE;
    if (kind == TSR_WORK_WAIT && event->capture)
        return CUDA_ERROR_CAPTURED_EVENT;
    return tsr_capture_refuse_all_locked(streams);
}

/* The item comes after what the context's streams hold. A record is what the event names; what follows a wait comes after the event. */
static CUresult place_in_context_locked(struct tsr_event *event, struct tsr_streams *streams, struct tsr_item *item,
                                        enum tsr_work_kind kind)
{
    CUresult result = after_all_locked(item, streams);
    if (kind == TSR_WORK_RECORD) {
        tsr_event_name_locked(event, item);
        return result;
    }
    if (!tsr_event_before_locked(event, item))
        result = CUDA_ERROR_OUT_OF_MEMORY;
    for (struct tsr_emulated_stream *stream = streams->first; stream; stream = stream->next)
        tsr_stream_append_locked(stream, item);
    return result;
}

static CUresult submit_in_context(struct tsr_event *event, struct tsr_context *context, enum tsr_work_kind kind)
{
    struct tsr_work work = tsr_event_work_of(kind, event, 0);
    struct tsr_streams *streams;
    struct tsr_item *item;
    CUresult result = tsr_streams_of(context, &streams);
    if (result)
        return result;
    tsr_host_clock_enter();
    tsr_engine_lock();
    tsr_event_retain(event);
    result = refuse_context_locked(event, streams, kind);
    if (!result)
        result = context_item_locked(streams, &work, &item);
    if (!result) {
        result = place_in_context_locked(event, streams, item, kind);
        tsr_item_submit_locked(item);
        tsr_item_put(item);
    }
    tsr_engine_unlock();
    tsr_work_release(&work);
    tsr_host_clock_leave();
    return result;
}

CUresult tsr_event_record_context(struct tsr_event *event, struct tsr_context *context)
{
    return submit_in_context(event, context, TSR_WORK_RECORD);
}

CUresult tsr_event_wait_context(struct tsr_event *event, struct tsr_context *context)
{
    return submit_in_context(event, context, TSR_WORK_WAIT);
}

static CUresult sticky_locked(const struct tsr_event *event)
{
    return event->context ? tsr_context_sticky(event->context) : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

CUresult tsr_event_query(struct tsr_event *event)
{
    uint64_t count, ns;
    CUresult result;
    tsr_engine_lock();
    if (event->capture) {
        result = tsr_capture_invalidate_event_locked(event);
    } else if (!(result = sticky_locked(event))) {
        if (tsr_event_is_elsewhere_locked(event, &count)) {
            if (!tsr_event_share_done(event->share, count, &ns))
                result = CUDA_ERROR_NOT_READY;
            else
                tsr_host_clock_seen(ns);
        } else if (event->record) {
            if (event->record->state != TSR_ITEM_DONE)
                result = CUDA_ERROR_NOT_READY;
            else
                tsr_host_clock_seen(event->record->end_ns);
        }
    }
    tsr_engine_unlock();
    return result;
}

CUresult tsr_event_wait(struct tsr_event *event)
{
    uint64_t count = 0, ns;
    CUresult result;
    bool elsewhere = false;
    tsr_host_clock_enter();
    tsr_engine_lock();
    if (event->capture) {
        result = tsr_capture_invalidate_event_locked(event);
    } else if (!(result = sticky_locked(event)) && !(elsewhere = tsr_event_is_elsewhere_locked(event, &count)) &&
               event->record) {
        struct tsr_item *record = tsr_item_get(event->record);
        if (record->state != TSR_ITEM_DONE)
            result = tsr_loop_ready_locked();
        if (!result && !tsr_item_wait_locked(record))
            result = CUDA_ERROR_DEINITIALIZED;
        tsr_item_put(record);
        if (!result)
            result = sticky_locked(event);
    }
    tsr_engine_unlock();
    if (elsewhere) {
        tsr_event_share_wait(event->share, count);
        tsr_event_share_done(event->share, count, &ns);
        tsr_host_clock_advance(ns);
    }
    tsr_host_clock_leave();
    return result;
}

CUresult tsr_event_elapsed(struct tsr_event *start, struct tsr_event *end, int64_t *ns)
{
    CUresult result;
    tsr_engine_lock();
    const struct tsr_item *from = start->record, *to = end->record;
    if ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING || start->capture || end->capture)
        result = CUDA_ERROR_INVALID_HANDLE;
    else if (!(result = sticky_locked(start)) && !(result = sticky_locked(end))) {
        if (!from || !to || start->context != end->context)
            result = CUDA_ERROR_INVALID_HANDLE;
        else if (from->state != TSR_ITEM_DONE || to->state != TSR_ITEM_DONE)
            result = CUDA_ERROR_NOT_READY;
        else
            *ns = (int64_t)(to->end_ns - from->end_ns);
    }
    tsr_engine_unlock();
    return result;
}

CUresult tsr_event_moment(struct tsr_event *event, uint64_t *ns)
{
    CUresult result;
    tsr_engine_lock();
    if (event->capture || !event->record)
        result = CUDA_ERROR_INVALID_HANDLE;
    else if (!(result = sticky_locked(event)) && event->record->state != TSR_ITEM_DONE)
        result = CUDA_ERROR_NOT_READY;
    else if (!result)
        *ns = event->record->end_ns;
    tsr_engine_unlock();
    return result;
}
