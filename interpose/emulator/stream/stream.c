#include "stream.h"

#include "../context/handles.h"
#include "capture.h"
#include "engine.h"
#include "event_object.h"
#include "graph_exec.h"
#include "host_clock.h"
#include "loop.h"

#include "base/options.h"

#include <pthread.h>
#include <stdlib.h>

static uint64_t next_id = 1;                         /* lock */
static uint64_t next_thread = 1;                     /* atomic */
static __thread uint64_t thread_here;                /* identity of the thread for per-thread streams; 0 until asked */
static __thread struct tsr_emulated_stream *my_last; /* of the thread's default streams, of all contexts; references */
static pthread_key_t thread_key;
static pthread_once_t thread_key_once = PTHREAD_ONCE_INIT;

static uint64_t thread_identity(void)
{
    if (!thread_here)
        thread_here = __atomic_fetch_add(&next_thread, 1, __ATOMIC_RELAXED);
    return thread_here;
}

static void stream_put_locked(struct tsr_emulated_stream *stream)
{
    if (--stream->references)
        return;
    tsr_item_put(stream->last);
    for (uint64_t i = 0; stream->recent && i < tsr_options()->queue; i++)
        tsr_item_put(stream->recent[i]);
    free(stream->recent);
    tsr_vec_fini(&stream->tips);
    free(stream);
}

bool tsr_stream_idle_locked(const struct tsr_emulated_stream *stream)
{
    return !stream->last || stream->last->state == TSR_ITEM_DONE;
}

static struct tsr_emulated_stream *add_locked(struct tsr_streams *streams, unsigned flags, int priority)
{
    struct tsr_emulated_stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return NULL;
    stream->references = 1;
    stream->streams = streams;
    stream->flags = flags;
    stream->priority = priority;
    stream->id = next_id++;
    stream->sync_policy = CU_SYNC_POLICY_AUTO;
    stream->memory_domains = (CUlaunchMemSyncDomainMap){0, 1};
    stream->next = streams->first;
    streams->first = stream;
    return stream;
}

/* Takes destroyed streams that have become idle out of the list. */
static void prune_locked(struct tsr_streams *streams)
{
    for (struct tsr_emulated_stream **at = &streams->first; *at;) {
        struct tsr_emulated_stream *stream = *at;
        if (!stream->destroyed || !tsr_stream_idle_locked(stream)) {
            at = &stream->next;
            continue;
        }
        *at = stream->next;
        stream->streams = NULL;
        stream_put_locked(stream);
    }
}

/* The context is destroyed: what can run is run, what waits for something outside is dropped. */
static void streams_destroy(struct tsr_context *context, void *value)
{
    struct tsr_streams *streams = value;
    tsr_engine_lock();
    streams->dying = true;
    tsr_engine_kick_locked();
    while (streams->oldest && !tsr_engine_ending_locked())
        tsr_engine_pause_locked();
    bool abandoned = streams->oldest;
    for (struct tsr_emulated_stream *stream = streams->first, *next; stream; stream = next) {
        next = stream->next;
        tsr_capture_leave_locked(stream);
        if (stream->handle && stream->handle != CU_STREAM_LEGACY && stream->handle != CU_STREAM_PER_THREAD)
            tsr_handle_remove(tsr_handle_table(), TSR_KIND_STREAM, stream->handle);
        stream->handle = NULL;
        stream->streams = NULL;
        stream->next = NULL;
        stream_put_locked(stream);
    }
    streams->first = NULL;
    for (struct tsr_event *event = streams->events, *next; event; event = next) {
        next = event->next;
        event->context = NULL;
        event->previous = event->next = NULL;
    }
    tsr_graphs_forget_locked(context);
    tsr_graph_execs_forget_locked(context);
    tsr_engine_unlock();
    if (!abandoned) /* items of a process that is ending still name it */
        free(streams);
}

CUresult tsr_streams_of(struct tsr_context *context, struct tsr_streams **out)
{
    struct tsr_streams *streams = tsr_context_slot(context, TSR_SLOT_STREAMS);
    if (!streams) {
        struct tsr_streams *fresh = calloc(1, sizeof *fresh);
        if (!fresh)
            return CUDA_ERROR_OUT_OF_MEMORY;
        fresh->context = context;
        tsr_engine_lock();
        fresh->legacy = add_locked(fresh, CU_STREAM_DEFAULT, 0);
        tsr_engine_unlock();
        if (!fresh->legacy) {
            free(fresh);
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        fresh->legacy->handle = CU_STREAM_LEGACY;
        streams = tsr_context_slot_set(context, TSR_SLOT_STREAMS, fresh, streams_destroy);
        if (streams != fresh) {
            free(fresh->legacy);
            free(fresh);
        }
    }
    *out = streams;
    return CUDA_SUCCESS;
}

CUresult tsr_stream_create(struct tsr_context *context, unsigned flags, int priority, void *green, CUstream *out)
{
    struct tsr_streams *streams;
    if (!out || flags & ~(unsigned)CU_STREAM_NON_BLOCKING)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = tsr_streams_of(context, &streams);
    if (result)
        return result;
    priority = priority > 0 ? 0 : priority < TSR_STREAM_PRIORITY_GREATEST ? TSR_STREAM_PRIORITY_GREATEST : priority;
    tsr_engine_lock();
    prune_locked(streams);
    struct tsr_emulated_stream *stream = add_locked(streams, flags, priority);
    if (stream) {
        stream->green = green;
        stream->handle = tsr_handle_create(tsr_handle_table(), TSR_KIND_STREAM, stream, NULL);
        if (!stream->handle) {
            streams->first = stream->next;
            stream_put_locked(stream);
            stream = NULL;
        }
    }
    CUstream handle = stream ? stream->handle : NULL;
    tsr_engine_unlock();
    if (!handle)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *out = handle;
    return CUDA_SUCCESS;
}

CUresult tsr_stream_destroy(CUstream handle)
{
    if (!handle || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD)
        return CUDA_ERROR_INVALID_HANDLE;
    tsr_engine_lock();
    struct tsr_emulated_stream *stream = tsr_handle_find(tsr_handle_table(), TSR_KIND_STREAM, handle);
    if (stream) {
        tsr_capture_leave_locked(stream);
        tsr_handle_remove(tsr_handle_table(), TSR_KIND_STREAM, handle);
        stream->handle = NULL;
        stream->destroyed = true;
        prune_locked(stream->streams);
    }
    tsr_engine_unlock();
    return stream ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

static void end_thread(void *unused)
{
    (void)unused;
    tsr_engine_lock();
    for (struct tsr_emulated_stream *stream = my_last, *next; stream; stream = next) {
        next = stream->of_thread;
        stream->destroyed = true;
        if (stream->streams) {
            tsr_capture_leave_locked(stream);
            prune_locked(stream->streams);
        }
        stream_put_locked(stream);
    }
    my_last = NULL;
    tsr_engine_unlock();
}

static void make_thread_key(void)
{
    pthread_key_create(&thread_key, end_thread);
}

/* Its streams end with the thread. */
static void own_locked(struct tsr_emulated_stream *stream)
{
    stream->references++;
    stream->of_thread = my_last;
    my_last = stream;
    pthread_once(&thread_key_once, make_thread_key);
    pthread_setspecific(thread_key, stream);
}

static struct tsr_emulated_stream *per_thread_locked(struct tsr_streams *streams)
{
    uint64_t thread = thread_identity();
    for (struct tsr_emulated_stream *stream = streams->first; stream; stream = stream->next)
        if (stream->thread == thread)
            return stream;
    struct tsr_emulated_stream *stream = add_locked(streams, CU_STREAM_DEFAULT, 0);
    if (stream) {
        stream->handle = CU_STREAM_PER_THREAD;
        stream->thread = thread;
        own_locked(stream);
    }
    return stream;
}

static CUresult default_stream(CUstream handle, struct tsr_emulated_stream **out)
{
    struct tsr_context *context;
    struct tsr_streams *streams;
    CUresult result = tsr_context_current(&context);
    if (result || (result = tsr_streams_of(context, &streams)))
        return result;
    tsr_engine_lock();
    struct tsr_emulated_stream *stream = handle == CU_STREAM_PER_THREAD ? per_thread_locked(streams) : streams->legacy;
    if (stream)
        stream->references++;
    tsr_engine_unlock();
    *out = stream;
    return stream ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult tsr_stream_get(CUstream handle, struct tsr_emulated_stream **out)
{
    struct tsr_context *context;
    if (!handle || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD)
        return default_stream(handle, out);
    CUresult result = tsr_context_current_any(&context);
    if (result)
        return result;
    tsr_engine_lock();
    struct tsr_emulated_stream *stream = tsr_handle_find(tsr_handle_table(), TSR_KIND_STREAM, handle);
    result = stream ? tsr_context_sticky(stream->streams->context) : CUDA_ERROR_INVALID_HANDLE;
    if (!result) {
        stream->references++;
        *out = stream;
    }
    tsr_engine_unlock();
    return result;
}

void tsr_stream_put(struct tsr_emulated_stream *stream)
{
    tsr_engine_lock();
    stream_put_locked(stream);
    tsr_engine_unlock();
}

struct tsr_context *tsr_stream_context(struct tsr_emulated_stream *stream)
{
    return stream->streams->context;
}

bool tsr_stream_capturing(struct tsr_emulated_stream *stream)
{
    tsr_engine_lock();
    bool capturing = stream->capture;
    tsr_engine_unlock();
    return capturing;
}

/* The legacy stream and the blocking streams wait for each other. */
static bool legacy_rules_locked(struct tsr_emulated_stream *stream, struct tsr_item *item)
{
    struct tsr_streams *streams = stream->streams;
    if (stream->flags & CU_STREAM_NON_BLOCKING)
        return true;
    if (stream != streams->legacy)
        return tsr_item_after_locked(item, streams->legacy->last);
    for (struct tsr_emulated_stream *other = streams->first; other; other = other->next)
        if (!(other->flags & CU_STREAM_NON_BLOCKING) && !tsr_item_after_locked(item, other->last))
            return false;
    return true;
}

CUresult tsr_stream_item_locked(struct tsr_emulated_stream *stream, struct tsr_work *work, struct tsr_item **out)
{
    if (!stream->streams)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    CUresult result = tsr_loop_ready_locked();
    if (result)
        return result;
    work->context = stream->streams->context;
    struct tsr_item *item = tsr_item_create_locked(stream->streams, work, tsr_host_clock_now());
    if (!item)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (!tsr_item_after_locked(item, stream->last) || !legacy_rules_locked(stream, item)) {
        tsr_item_cancel_locked(item);
        tsr_item_put(item);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = item;
    return CUDA_SUCCESS;
}

void tsr_stream_append_locked(struct tsr_emulated_stream *stream, struct tsr_item *item)
{
    tsr_item_put(stream->last);
    stream->last = tsr_item_get(item);
}

/* Where the oldest item stands that the queue holds, and where the next one will. */
static struct tsr_item **oldest_locked(struct tsr_emulated_stream *stream)
{
    return &stream->recent[stream->submitted % tsr_options()->queue];
}

/* A call that adds to a full queue waits, as a GPU's driver does. */
static void await_room_locked(struct tsr_emulated_stream *stream)
{
    uint64_t most = tsr_options()->queue;
    if (!most || stream->capture || (!stream->recent && !(stream->recent = calloc(most, sizeof *stream->recent))))
        return;
    struct tsr_item *oldest;
    while ((oldest = *oldest_locked(stream)) && oldest->state != TSR_ITEM_DONE) {
        tsr_item_get(oldest);
        bool done = tsr_item_wait_locked(oldest);
        tsr_item_put(oldest);
        if (!done)
            return;
    }
}

static void note_recent_locked(struct tsr_emulated_stream *stream, struct tsr_item *item)
{
    if (!stream->recent)
        return;
    struct tsr_item **place = oldest_locked(stream);
    tsr_item_put(*place);
    *place = tsr_item_get(item);
    stream->submitted++;
}

static CUresult submit_locked(struct tsr_emulated_stream *stream, struct tsr_work *work)
{
    CUresult result = stream->streams ? tsr_context_sticky(stream->streams->context) : CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (result)
        return result;
    if (stream->capture)
        return tsr_capture_add_locked(stream, work);
    if ((result = tsr_capture_check_legacy_locked(stream)))
        return result;
    struct tsr_item *item;
    if ((result = tsr_stream_item_locked(stream, work, &item)))
        return result;
    tsr_stream_append_locked(stream, item);
    note_recent_locked(stream, item);
    tsr_item_submit_locked(item);
    tsr_item_put(item);
    return CUDA_SUCCESS;
}

CUresult tsr_stream_submit(struct tsr_emulated_stream *stream, struct tsr_work *work)
{
    tsr_host_clock_enter();
    tsr_engine_lock();
    await_room_locked(stream);
    CUresult result = submit_locked(stream, work);
    tsr_engine_unlock();
    tsr_work_release(work);
    tsr_host_clock_leave();
    return result;
}

CUresult tsr_stream_wait(struct tsr_emulated_stream *stream)
{
    CUresult result = CUDA_SUCCESS;
    tsr_host_clock_enter();
    tsr_engine_lock();
    if (!stream->streams) {
        result = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    } else {
        struct tsr_item *last = tsr_item_get(stream->last);
        /* Waiting for the legacy stream includes what its next item would wait for. */
        struct tsr_work nothing = {.kind = TSR_WORK_EMPTY};
        struct tsr_item *marker = NULL;
        if (stream == stream->streams->legacy && !(result = tsr_stream_item_locked(stream, &nothing, &marker))) {
            tsr_item_submit_locked(marker);
            tsr_item_put(last);
            last = marker;
        }
        if (!result && last && last->state != TSR_ITEM_DONE)
            result = tsr_loop_ready_locked();
        if (!result && last && !tsr_item_wait_locked(last))
            result = CUDA_ERROR_DEINITIALIZED;
        tsr_item_put(last);
        if (!result)
            result = stream->streams ? tsr_context_sticky(stream->streams->context) : CUDA_ERROR_CONTEXT_IS_DESTROYED;
    }
    tsr_engine_unlock();
    tsr_host_clock_leave();
    return result;
}

CUresult tsr_stream_query(struct tsr_emulated_stream *stream)
{
    tsr_engine_lock();
    CUresult result = stream->streams ? tsr_capture_refuse_locked(stream) : CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (!result)
        result = tsr_capture_check_legacy_locked(stream);
    if (!result)
        result = tsr_context_sticky(stream->streams->context);
    bool legacy = !result && stream == stream->streams->legacy;
    for (struct tsr_emulated_stream *other = legacy ? stream->streams->first : NULL; other; other = other->next)
        if (!(other->flags & CU_STREAM_NON_BLOCKING) && !tsr_stream_idle_locked(other))
            result = CUDA_ERROR_NOT_READY;
    if (!result && !tsr_stream_idle_locked(stream))
        result = CUDA_ERROR_NOT_READY;
    if (!result && stream->last)
        tsr_host_clock_seen(stream->last->end_ns);
    tsr_engine_unlock();
    return result;
}

CUresult tsr_context_wait(struct tsr_context *context)
{
    struct tsr_streams *streams = tsr_context_slot(context, TSR_SLOT_STREAMS);
    CUresult result = CUDA_SUCCESS;
    tsr_host_clock_enter();
    if (streams) {
        tsr_engine_lock();
        uint64_t newest = streams->newest ? streams->newest->sequence : 0;
        if (newest)
            result = tsr_loop_ready_locked();
        while (!result && streams->oldest && streams->oldest->sequence <= newest) {
            if (tsr_engine_ending_locked())
                result = CUDA_ERROR_DEINITIALIZED;
            else
                tsr_engine_pause_locked();
        }
        tsr_host_clock_advance(streams->latest_ns);
        tsr_engine_unlock();
    }
    tsr_host_clock_leave();
    return result ? result : tsr_context_sticky(context);
}
