/* Events: making, recording, asking and waiting (event_object.h says what they are). */
#ifndef TSR_STREAM_EVENT_H
#define TSR_STREAM_EVENT_H

#include "event_object.h"
#include "stream_object.h"

CUresult tsr_event_create(struct tsr_context *context, unsigned flags, struct tsr_event **out);
/* NULL: not valid. A reference is taken. */
struct tsr_event *tsr_event_get(CUevent handle);
CUresult tsr_event_destroy(CUevent handle);

/* In a capturing stream: marks the event, or adds a node when flags say external. */
CUresult tsr_event_record(struct tsr_event *event, struct tsr_emulated_stream *stream, unsigned flags);
CUresult tsr_event_wait_stream(struct tsr_event *event, struct tsr_emulated_stream *stream, unsigned flags);
/* All streams of the context: the record comes after everything they hold; what they are given from now on comes after the event. */
CUresult tsr_event_record_context(struct tsr_event *event, struct tsr_context *context);
CUresult tsr_event_wait_context(struct tsr_event *event, struct tsr_context *context);
CUresult tsr_event_query(struct tsr_event *event);
CUresult tsr_event_wait(struct tsr_event *event);
CUresult tsr_event_elapsed(struct tsr_event *start, struct tsr_event *end, int64_t *ns);
/* Virtual time at which it came to pass. Errors: NOT_READY; INVALID_HANDLE: it was never recorded, or in a capture. */
CUresult tsr_event_moment(struct tsr_event *event, uint64_t *ns);

#endif
