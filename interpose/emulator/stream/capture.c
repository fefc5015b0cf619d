#include "capture.h"

#include "../context/handles.h"
#include "engine.h"
#include "event_object.h"

#include <stdlib.h>

struct tsr_capture {
    unsigned references;     /* lock; streams and events that name it, plus one while it is active */
    struct tsr_graph *graph; /* NULL once it has ended */
    bool owned;              /* the graph was made by it */
    CUstreamCaptureMode mode;
    uint64_t id;
    bool invalid, ended;
    struct tsr_emulated_stream *origin;            /* NULL when it has been destroyed */
    TSR_VEC(struct tsr_emulated_stream *) streams; /* that take part */
    const void *thread;                            /* identity of the thread that began it */
    struct tsr_capture *next;                      /* of all active ones */
};

static struct tsr_capture *active; /* atomic; lock to change, and to follow */
static uint64_t captures;          /* lock; also the source of ids */
static __thread CUstreamCaptureMode mode_here = CU_STREAM_CAPTURE_MODE_GLOBAL;

static const void *this_thread(void)
{
    return &mode_here;
}

static void put_locked(struct tsr_capture *capture)
{
    if (--capture->references)
        return;
    tsr_vec_fini(&capture->streams);
    free(capture);
}

static bool stream_join_locked(struct tsr_emulated_stream *stream, struct tsr_capture *capture)
{
    if (!tsr_vec_push(&capture->streams, stream))
        return false;
    stream->capture = capture;
    capture->references++;
    return true;
}

static void stream_leave_locked(struct tsr_emulated_stream *stream)
{
    struct tsr_capture *capture = stream->capture;
    for (size_t i = 0; i < capture->streams.count; i++)
        if (capture->streams.data[i] == stream)
            tsr_vec_remove_swap(&capture->streams, i);
    stream->capture = NULL;
    tsr_vec_clear(&stream->tips);
    put_locked(capture);
}

/* Every stream leaves it; returns the graph. The capture itself may be gone afterwards. */
static struct tsr_graph *finish_locked(struct tsr_capture *capture)
{
    struct tsr_graph *graph = capture->graph;
    for (struct tsr_capture **at = &active; *at; at = &(*at)->next)
        if (*at == capture) {
            __atomic_store_n(at, capture->next, __ATOMIC_RELAXED);
            break;
        }
    capture->graph = NULL;
    capture->ended = true;
    while (capture->streams.count)
        stream_leave_locked(capture->streams.data[0]);
    put_locked(capture);
    return graph;
}

CUresult tsr_capture_begin(struct tsr_emulated_stream *stream, CUstreamCaptureMode mode, CUgraph graph, const tsr_tips *tips)
{
    if (mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    struct tsr_capture *capture = calloc(1, sizeof *capture);
    struct tsr_graph *fresh = graph ? NULL : tsr_graph_create(true);
    CUresult result = CUDA_SUCCESS;
    tsr_engine_lock();
    struct tsr_graph *target = graph ? tsr_handle_find(tsr_handle_table(), TSR_KIND_GRAPH, graph) : fresh;
    if (!capture || (!graph && !fresh))
        result = CUDA_ERROR_OUT_OF_MEMORY;
    else if (!target)
        result = CUDA_ERROR_INVALID_VALUE;
    else if (!stream->streams)
        result = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    else if (stream == stream->streams->legacy)
        result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    else if (stream->capture)
        result = CUDA_ERROR_ILLEGAL_STATE;
    else if (tips && !tsr_tips_merge(&stream->tips, tips))
        result = CUDA_ERROR_OUT_OF_MEMORY;
    if (!result) {
        *capture = (struct tsr_capture){.references = 1,
                                        .graph = target,
                                        .owned = !graph,
                                        .mode = mode,
                                        .id = ++captures,
                                        .origin = stream,
                                        .thread = this_thread(),
                                        .next = active};
        if (stream_join_locked(stream, capture))
            __atomic_store_n(&active, capture, __ATOMIC_RELAXED);
        else
            result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    tsr_engine_unlock();
    if (result) {
        free(capture);
        tsr_graph_free(fresh);
    }
    return result;
}

/* What was captured in other streams must lead to the first stream's end. */
static bool joined_locked(struct tsr_capture *capture)
{
    tsr_graph_mark_ancestors(capture->graph, &capture->origin->tips);
    for (size_t s = 0; s < capture->streams.count; s++) {
        const tsr_tips *tips = &capture->streams.data[s]->tips;
        for (size_t i = 0; i < tips->count; i++)
            if (!tips->data[i].node->marked)
                return false;
    }
    return true;
}

CUresult tsr_capture_end(struct tsr_emulated_stream *stream, CUgraph *out)
{
    struct tsr_graph *garbage = NULL;
    CUresult result = CUDA_SUCCESS;
    *out = NULL;
    tsr_engine_lock();
    struct tsr_capture *capture = stream->capture;
    if (!stream->streams || !capture) {
        result = CUDA_ERROR_ILLEGAL_STATE;
    } else if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != this_thread()) {
        result = CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    } else if (capture->origin != stream) {
        capture->invalid = true;
        result = CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    } else {
        if (capture->invalid)
            result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
        else if (!joined_locked(capture))
            result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
        bool owned = capture->owned;
        struct tsr_graph *graph = finish_locked(capture);
        if (!result)
            *out = graph->handle;
        else if (owned)
            garbage = graph;
        if (garbage)
            tsr_graph_hide(garbage);
    }
    tsr_engine_unlock();
    tsr_graph_free(garbage);
    return result;
}

CUresult tsr_capture_info_locked(struct tsr_emulated_stream *stream, struct tsr_capture_info *info)
{
    *info = (struct tsr_capture_info){.status = CU_STREAM_CAPTURE_STATUS_NONE};
    if (!stream->streams)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    const struct tsr_capture *capture = stream->capture;
    if (!capture) {
        /* Asking must not disturb a capture: told apart from tsr_capture_check_legacy_locked, which invalidates it. */
        if (stream == stream->streams->legacy)
            for (struct tsr_emulated_stream *other = stream->streams->first; other; other = other->next)
                if (other->capture && !(other->flags & CU_STREAM_NON_BLOCKING))
                    return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
        return CUDA_SUCCESS;
    }
    info->status = capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    info->id = capture->id;
    info->graph = capture->graph->handle;
    info->tips = &stream->tips;
    return CUDA_SUCCESS;
}

CUresult tsr_capture_tips_set(struct tsr_emulated_stream *stream, const tsr_tips *tips, bool replace)
{
    CUresult result = CUDA_SUCCESS;
    tsr_engine_lock();
    struct tsr_capture *capture = stream->capture;
    if (!capture)
        result = CUDA_ERROR_ILLEGAL_STATE;
    else if (capture->invalid)
        result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    for (size_t i = 0; !result && i < tips->count; i++)
        if (tips->data[i].node->graph != capture->graph)
            result = CUDA_ERROR_INVALID_VALUE;
    if (!result && replace)
        tsr_vec_clear(&stream->tips);
    if (!result && !tsr_tips_merge(&stream->tips, tips))
        result = CUDA_ERROR_OUT_OF_MEMORY;
    tsr_engine_unlock();
    return result;
}

CUstreamCaptureMode tsr_capture_mode_exchange(CUstreamCaptureMode mode)
{
    CUstreamCaptureMode before = mode_here;
    mode_here = mode;
    return before;
}

CUresult tsr_capture_refuse_locked(struct tsr_emulated_stream *stream)
{
    if (!stream->capture)
        return CUDA_SUCCESS;
    stream->capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult tsr_capture_refuse_all_locked(struct tsr_streams *streams)
{
    CUresult result = CUDA_SUCCESS;
    for (struct tsr_emulated_stream *stream = streams->first; stream; stream = stream->next)
        if (stream->capture)
            result = tsr_capture_refuse_locked(stream);
    return result;
}

/* A programmatic launch depends on a kernel before it by a programmatic edge, which the emulator treats as a full one: that is always allowed. */
static void make_programmatic(tsr_tips *tips)
{
    struct tsr_tip *tip = tips->data;
    if (tips->count != 1 || tip->node->type != CU_GRAPH_NODE_TYPE_KERNEL)
        return;
    tip->edge.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
    tip->edge.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
}

CUresult tsr_capture_add_locked(struct tsr_emulated_stream *stream, struct tsr_work *work)
{
    struct tsr_capture *capture = stream->capture;
    struct tsr_graph_node *node;
    if (capture->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (work->kind == TSR_WORK_CALL || (work->kind == TSR_WORK_HOST && work->host.callback))
        return tsr_capture_refuse_locked(stream);
    if (work->kind == TSR_WORK_EMPTY)
        return CUDA_SUCCESS;
    work->context = stream->streams->context;
    if (!tsr_vec_reserve(&stream->tips, 1))
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (work->kind == TSR_WORK_KERNEL && work->kernel.programmatic)
        make_programmatic(&stream->tips);
    CUresult result = tsr_graph_add(capture->graph, tsr_graph_type_of(work), work, &stream->tips, &node);
    if (result)
        return result;
    tsr_vec_clear(&stream->tips);
    (void)tsr_vec_push(&stream->tips, (struct tsr_tip){.node = node});
    return CUDA_SUCCESS;
}

void tsr_capture_forget_event_locked(struct tsr_event *event)
{
    if (!event->capture)
        return;
    put_locked(event->capture);
    event->capture = NULL;
    tsr_vec_clear(&event->tips);
}

CUresult tsr_capture_record_locked(struct tsr_emulated_stream *stream, struct tsr_event *event)
{
    if (stream->capture->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    tsr_capture_forget_event_locked(event);
    if (!tsr_tips_merge(&event->tips, &stream->tips))
        return CUDA_ERROR_OUT_OF_MEMORY;
    event->capture = stream->capture;
    event->capture->references++;
    return CUDA_SUCCESS;
}

CUresult tsr_capture_wait_locked(struct tsr_emulated_stream *stream, struct tsr_event *event)
{
    struct tsr_capture *capture = stream->capture, *other = event->capture;
    if (capture && capture->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (!other) {
        if (!event->record)
            return CUDA_SUCCESS;
        capture->invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    }
    if (other->ended)
        return CUDA_ERROR_CAPTURED_EVENT;
    if (other->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (!capture && stream == stream->streams->legacy) {
        other->invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    if (capture && capture != other) {
        capture->invalid = other->invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    }
    if (!tsr_tips_merge(&stream->tips, &event->tips))
        return CUDA_ERROR_OUT_OF_MEMORY;
    return capture || stream_join_locked(stream, other) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult tsr_capture_invalidate_event_locked(struct tsr_event *event)
{
    if (!event->capture->ended)
        event->capture->invalid = true;
    return CUDA_ERROR_CAPTURED_EVENT;
}

CUresult tsr_capture_check_legacy_locked(struct tsr_emulated_stream *stream)
{
    bool found = false;
    if (stream != stream->streams->legacy)
        return CUDA_SUCCESS;
    for (struct tsr_emulated_stream *other = stream->streams->first; other; other = other->next)
        if (other->capture && !(other->flags & CU_STREAM_NON_BLOCKING))
            found = other->capture->invalid = true;
    return found ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT : CUDA_SUCCESS;
}

CUresult tsr_capture_check_unsafe_call(struct tsr_context *context)
{
    (void)context; /* the rules are about threads, not contexts */
    bool forbidden = false;
    if (mode_here == CU_STREAM_CAPTURE_MODE_RELAXED || !__atomic_load_n(&active, __ATOMIC_RELAXED))
        return CUDA_SUCCESS;
    tsr_engine_lock();
    for (struct tsr_capture *capture = active; capture; capture = capture->next) {
        bool own = capture->thread == this_thread() && capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
        bool everybody = capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL && mode_here == CU_STREAM_CAPTURE_MODE_GLOBAL;
        if (own || everybody)
            forbidden = capture->invalid = true;
    }
    tsr_engine_unlock();
    return forbidden ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

void tsr_capture_leave_locked(struct tsr_emulated_stream *stream)
{
    struct tsr_capture *capture = stream->capture;
    if (!capture)
        return;
    if (capture->origin != stream) {
        stream_leave_locked(stream);
        return;
    }
    bool owned = capture->owned;
    capture->invalid = true;
    capture->origin = NULL;
    struct tsr_graph *graph = finish_locked(capture);
    if (owned)
        tsr_graph_leave_locked(graph);
}
