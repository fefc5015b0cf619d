/*
 * Events. An event names the item that recorded it last; querying, waiting and elapsed time ask that item. So recording an event
 * again does not disturb who already waits for the earlier record. An event recorded in a capturing stream names nodes of
 * the captured graph instead, and its earlier record is forgotten. What an event of another process knows is in event_share.h.
 */
#ifndef TSR_STREAM_EVENT_OBJECT_H
#define TSR_STREAM_EVENT_OBJECT_H

#include "item.h"
#include "tips.h"

struct tsr_capture;
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

void tsr_event_put(struct tsr_event *event);
struct tsr_event *tsr_event_retain(struct tsr_event *event);
/* Makes item, a record of event that is about to be submitted, the one the event names. */
void tsr_event_name_locked(struct tsr_event *event, struct tsr_item *item);
/* Makes item wait for what the event names now. False: out of memory. */
bool tsr_event_before_locked(struct tsr_event *event, struct tsr_item *item);
/* Whether another process recorded it last; then which record that is. */
bool tsr_event_is_elsewhere_locked(const struct tsr_event *event, uint64_t *count);
/* The work of recording the event, or of waiting for it; takes over a reference. */
struct tsr_work tsr_event_work_of(enum tsr_work_kind kind, struct tsr_event *event, unsigned flags);

#endif
