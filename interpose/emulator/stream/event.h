/*
 * Events. An event names the item that recorded it last; querying, waiting and elapsed time ask that item. So recording an event
 * again does not disturb who already waits for the earlier record. An event recorded in a capturing stream names nodes of
 * the captured graph instead, and its earlier record is forgotten. What an event of another process knows is in event_share.h.
 */
#ifndef TSR_STREAM_EVENT_H
#define TSR_STREAM_EVENT_H

#include "stream.h"

struct tsr_event_share;

struct tsr_event {
    unsigned references; /* atomic */
    CUevent handle;
    struct tsr_context *context; /* lock; NULL after it has been destroyed */
    unsigned flags;
    struct tsr_item *record;       /* lock; reference; NULL: not recorded */
    struct tsr_capture *capture;   /* lock; reference; recorded in a capture */
    tsr_tips tips;                 /* lock; then: the nodes it stands for */
    struct tsr_event_share *share; /* lock; memory shared with other processes, or NULL */
    bool imported;
    struct tsr_event *previous, *next; /* lock; events of the context */
};

CUresult tsr_event_create(struct tsr_context *context, unsigned flags, struct tsr_event **out);
/* NULL: not valid. A reference is taken. */
struct tsr_event *tsr_event_get(CUevent handle);
void tsr_event_put(struct tsr_event *event);
struct tsr_event *tsr_event_retain(struct tsr_event *event);
CUresult tsr_event_destroy(CUevent handle);

/* In a capturing stream: marks the event, or adds a node when flags say external. */
CUresult tsr_event_record(struct tsr_event *event, struct tsr_stream *stream, unsigned flags);
CUresult tsr_event_wait_stream(struct tsr_event *event, struct tsr_stream *stream, unsigned flags);
/* All streams of the context: the record comes after everything they hold; what they are given from now on comes after the event. */
CUresult tsr_event_record_context(struct tsr_event *event, struct tsr_context *context);
CUresult tsr_event_wait_context(struct tsr_event *event, struct tsr_context *context);
CUresult tsr_event_query(struct tsr_event *event);
CUresult tsr_event_wait(struct tsr_event *event);
CUresult tsr_event_elapsed(struct tsr_event *start, struct tsr_event *end, int64_t *ns);
/* Virtual time at which it came to pass. Errors: NOT_READY; INVALID_HANDLE: it was never recorded, or in a capture. */
CUresult tsr_event_moment(struct tsr_event *event, uint64_t *ns);
/* The item's event has come to pass. */
void tsr_event_recorded_locked(struct tsr_event *event, struct tsr_item *item);
/* Makes item, a record of event that is about to be submitted, the one the event names. */
void tsr_event_name_locked(struct tsr_event *event, struct tsr_item *item);
/* Makes item wait for what the event names now. False: out of memory. */
bool tsr_event_before_locked(struct tsr_event *event, struct tsr_item *item);

#endif
