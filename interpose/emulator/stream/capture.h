/*
 * Stream capture. A capture collects what is submitted to its streams as nodes of a graph. It begins in one stream; others join it by
 * waiting for an event recorded in it, and must be joined back, by an event the first stream waits for, before it ends. What would need the
 * result of captured work now, or tie it to work outside, is refused and makes the capture invalid: then everything but
 * ending it fails.
 *
 * A thread may not make calls that wait for the whole device while a capture forbids it: captures of mode GLOBAL forbid it to all
 * threads, THREAD_LOCAL ones to the thread that began them, RELAXED ones to nobody; a thread may exempt itself by its own mode.
 */
#ifndef TSR_STREAM_CAPTURE_H
#define TSR_STREAM_CAPTURE_H

#include "graph.h"
#include "stream_object.h"

struct tsr_event;

struct tsr_capture_info {
    CUstreamCaptureStatus status;
    uint64_t id;
    CUgraph graph;
    const tsr_tips *tips; /* valid under the lock */
};

/* graph NULL: a new one. tips: nodes of the graph that the first captured nodes depend on. Errors: ILLEGAL_STATE, STREAM_CAPTURE_UNSUPPORTED, ... */
CUresult tsr_capture_begin(struct tsr_emulated_stream *stream, CUstreamCaptureMode mode, CUgraph graph, const tsr_tips *tips);
/* *out: NULL unless it succeeds. */
CUresult tsr_capture_end(struct tsr_emulated_stream *stream, CUgraph *out);
CUresult tsr_capture_info_locked(struct tsr_emulated_stream *stream, struct tsr_capture_info *info);
CUresult tsr_capture_tips_set(struct tsr_emulated_stream *stream, const tsr_tips *tips, bool replace);
CUstreamCaptureMode tsr_capture_mode_exchange(CUstreamCaptureMode mode);

/* The stream captures: *work becomes a node. */
CUresult tsr_capture_add_locked(struct tsr_emulated_stream *stream, struct tsr_work *work);
CUresult tsr_capture_record_locked(struct tsr_emulated_stream *stream, struct tsr_event *event);
/* The stream captures, or the event was recorded in a capture. */
CUresult tsr_capture_wait_locked(struct tsr_emulated_stream *stream, struct tsr_event *event);
/* For calls that a capturing stream does not allow: invalidates its capture. SUCCESS when it does not capture. */
CUresult tsr_capture_refuse_locked(struct tsr_emulated_stream *stream);
/* The same for calls that are about all streams of a context, of which one captures: invalidates all their captures. */
CUresult tsr_capture_refuse_all_locked(struct tsr_streams *streams);
/* The same for the host waiting for an event recorded in a capture: CAPTURED_EVENT. */
CUresult tsr_capture_invalidate_event_locked(struct tsr_event *event);
/* STREAM_CAPTURE_IMPLICIT for the legacy stream while a blocking stream of its context captures. */
CUresult tsr_capture_check_legacy_locked(struct tsr_emulated_stream *stream);

void tsr_capture_forget_event_locked(struct tsr_event *event);     /* it is no longer recorded in a capture */
void tsr_capture_leave_locked(struct tsr_emulated_stream *stream); /* the stream is destroyed */

#endif
