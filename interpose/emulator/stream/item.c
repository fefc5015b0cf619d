#include "item.h"

#include "engine.h"
#include "host_clock.h"
#include "stream_object.h"

#include <stdlib.h>

static uint64_t submissions; /* lock */

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

struct tsr_item *tsr_item_create_locked(struct tsr_streams *streams, struct tsr_work *work, uint64_t host_ns)
{
    struct tsr_item *item = calloc(1, sizeof *item);
    if (!item)
        return NULL;
    item->work = *work;
    *work = (struct tsr_work){.kind = TSR_WORK_EMPTY};
    item->streams = streams;
    item->sequence = ++submissions;
    item->references = 2; /* the caller's, and one until it is complete */
    item->blockers = 1;
    item->ready_ns = host_ns;
    item->previous = streams->newest;
    *(streams->newest ? &streams->newest->next : &streams->oldest) = item;
    streams->newest = item;
    return item;
}

bool tsr_item_after_locked(struct tsr_item *item, struct tsr_item *predecessor)
{
    if (!predecessor || predecessor == item)
        return true;
    if (predecessor->state == TSR_ITEM_DONE) {
        item->ready_ns = later(item->ready_ns, predecessor->end_ns);
        return true;
    }
    size_t count = predecessor->successors.count;
    if (count && predecessor->successors.data[count - 1] == item)
        return true;
    if (!tsr_vec_push(&predecessor->successors, tsr_item_get(item))) {
        tsr_item_put(item);
        return false;
    }
    item->blockers++;
    return true;
}

/* Takes no time and needs no thread: complete as soon as it is ready. */
static bool immediate(const struct tsr_item *item)
{
    return item->work.kind == TSR_WORK_EMPTY || item->work.kind == TSR_WORK_RECORD ||
           (item->work.kind == TSR_WORK_WAIT && !item->awaited);
}

static void unlink_locked(struct tsr_item *item)
{
    struct tsr_streams *streams = item->streams;
    *(item->previous ? &item->previous->next : &streams->oldest) = item->next;
    *(item->next ? &item->next->previous : &streams->newest) = item->previous;
    item->previous = item->next = NULL;
}

/* Items that became complete together, first to last. */
struct chain {
    struct tsr_item *first, **end;
};

/* Marks it complete and appends to the chain the items that thereby are complete at once. */
static void finish_locked(struct tsr_item *item, struct chain *chain)
{
    struct tsr_streams *streams = item->streams;
    unlink_locked(item);
    item->state = TSR_ITEM_DONE;
    item->streams = NULL;
    streams->latest_ns = later(streams->latest_ns, item->end_ns);
    if (item->completed)
        item->completed(item);
    for (size_t i = 0; i < item->successors.count; i++) {
        struct tsr_item *successor = item->successors.data[i];
        successor->ready_ns = later(successor->ready_ns, item->end_ns);
        if (--successor->blockers == 0 && successor->state == TSR_ITEM_BLOCKED) {
            if (immediate(successor)) {
                successor->end_ns = successor->ready_ns;
                successor->chained = NULL;
                *chain->end = successor;
                chain->end = &successor->chained;
            } else {
                tsr_engine_push_ready_locked(successor);
            }
        }
        tsr_item_put(successor);
    }
    tsr_vec_fini(&item->successors);
}

void tsr_item_complete_locked(struct tsr_item *item, uint64_t end_ns)
{
    struct chain chain = {.first = item, .end = &item->chained};
    item->end_ns = end_ns;
    item->chained = NULL;
    while (chain.first) {
        struct tsr_item *next = chain.first;
        finish_locked(next, &chain);
        chain.first = next->chained;
        tsr_engine_leave_locked(next);
    }
    tsr_engine_completed_locked();
}

void tsr_item_submit_locked(struct tsr_item *item)
{
    if (--item->blockers)
        return;
    if (immediate(item))
        tsr_item_complete_locked(item, item->ready_ns);
    else
        tsr_engine_push_ready_locked(item);
}

void tsr_item_cancel_locked(struct tsr_item *item)
{
    tsr_item_complete_locked(item, item->ready_ns);
}

bool tsr_item_wait_locked(struct tsr_item *item)
{
    while (item->state != TSR_ITEM_DONE && !tsr_engine_ending_locked())
        tsr_engine_pause_locked();
    bool done = item->state == TSR_ITEM_DONE;
    if (done)
        tsr_host_clock_advance(item->end_ns);
    return done;
}

struct tsr_item *tsr_item_get(struct tsr_item *item)
{
    if (item)
        __atomic_fetch_add(&item->references, 1, __ATOMIC_RELAXED);
    return item;
}

void tsr_item_put(struct tsr_item *item)
{
    if (item && __atomic_sub_fetch(&item->references, 1, __ATOMIC_ACQ_REL) == 0)
        free(item);
}
