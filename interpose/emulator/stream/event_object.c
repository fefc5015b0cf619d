#include "event_object.h"

#include "event_share.h"

#include <stdlib.h>

struct tsr_event *tsr_event_retain(struct tsr_event *event)
{
    __atomic_fetch_add(&event->references, 1, __ATOMIC_RELAXED);
    return event;
}

void tsr_event_put(struct tsr_event *event)
{
    if (__atomic_sub_fetch(&event->references, 1, __ATOMIC_ACQ_REL))
        return;
    tsr_item_put(event->record);
    tsr_vec_fini(&event->tips);
    tsr_event_share_put(event->share);
    free(event);
}

static void put(void *event)
{
    tsr_event_put(event);
}

static void retain(void *event)
{
    tsr_event_retain(event);
}

struct tsr_work tsr_event_work_of(enum tsr_work_kind kind, struct tsr_event *event, unsigned flags)
{
    static const struct tsr_work_owned owned = {.retain = retain, .release = put};
    return (struct tsr_work){.kind = kind, .event = {event, &owned, flags}};
}

/* The item's event has come to pass. */
static void recorded_locked(struct tsr_item *item)
{
    struct tsr_event *event = item->work.event.event;
    if (event->share)
        tsr_event_share_completed(event->share, item->awaited, item->end_ns);
}

void tsr_event_name_locked(struct tsr_event *event, struct tsr_item *item)
{
    tsr_item_put(event->record);
    event->record = tsr_item_get(item);
    item->completed = recorded_locked;
    if (event->share)
        item->awaited = tsr_event_share_submitted(event->share);
}

/* An interprocess event may have been recorded last by another process; then the record is only in the shared page. */
bool tsr_event_is_elsewhere_locked(const struct tsr_event *event, uint64_t *count)
{
    if (!event->share)
        return false;
    *count = tsr_event_share_latest(event->share);
    return *count && (!event->record || event->record->awaited != *count);
}

bool tsr_event_before_locked(struct tsr_event *event, struct tsr_item *item)
{
    uint64_t count;
    if (tsr_event_is_elsewhere_locked(event, &count)) {
        item->awaited = count;
        return true;
    }
    return tsr_item_after_locked(item, event->record);
}
