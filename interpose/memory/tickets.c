/* See tickets.h. Queue and their tickets. */
#include "memory/tickets.h"

#include <stdlib.h>

#include "driver/real.h"
#include "driver/stream_handle.h"
#include "lane/streams.h"
#include "memory/copies.h"
#include "memory/copies_parts.h"

#ifndef TSR_TICKETS_MOST_QUEUES
#define TSR_TICKETS_MOST_QUEUES 4096u
#endif
#define MOST_PLACES ((1u << (64 - TSR_TICKET_SHIFT)) - 1)
#define OWN_IDS 0x10000u /* of threads' own streams: from here on */

__thread uint64_t tsr_ticket_taken;
struct tsr_tickets tsr_tickets = {.ends = PTHREAD_RWLOCK_INITIALIZER};

CUcontext tsr_tickets_context(void)
{
    CUcontext context = NULL;
    tsr_real.cuCtxGetCurrent(&context);
    return context;
}

static struct tsr_ticket_queue *new_locked(CUstream handle, CUcontext context)
{
    struct tsr_ticket_queue *queue = tsr_tickets.free;
    if (queue)
        tsr_tickets.free = queue->free;
    else
        queue = aligned_alloc(_Alignof(struct tsr_ticket_queue), sizeof *queue);
    if (queue)
        *queue = (struct tsr_ticket_queue){.handle = handle, .context = context};
    return queue;
}

struct tsr_ticket_queue *tsr_ticket_queue_add_locked(CUstream handle, CUcontext context)
{
    if (tsr_tickets.queues.count >= MOST_PLACES || !tsr_vec_reserve(&tsr_tickets.queues, tsr_tickets.queues.count + 1))
        return NULL;
    struct tsr_ticket_queue *queue = new_locked(handle, context);
    if (!queue)
        return NULL;
    tsr_tickets.queues.data[tsr_tickets.queues.count] = queue;
    __atomic_store_n(&tsr_tickets.queues.count, tsr_tickets.queues.count + 1, __ATOMIC_RELEASE);
    return queue;
}

static void take_back_locked(void)
{
    struct tsr_ticket_queue *queue = tsr_tickets.queues.data[tsr_tickets.queues.count - 1];
    __atomic_store_n(&tsr_tickets.queues.count, tsr_tickets.queues.count - 1, __ATOMIC_RELEASE);
    queue->free = tsr_tickets.free;
    tsr_tickets.free = queue;
}

uint32_t tsr_ticket_queue_find_locked(CUstream named)
{
    bool is_default = tsr_stream_is_default(named);
    CUcontext context = is_default ? tsr_tickets_context() : NULL;
    uint64_t key = is_default ? (uintptr_t)context : (uintptr_t)named;
    uint32_t place = (uint32_t)(uintptr_t)tsr_map_find(&tsr_tickets.places, key);
    if (place)
        return place - 1;
    if (!is_default)
        tsr_real.cuStreamGetCtx(named, &context);
    if (!tsr_ticket_queue_add_locked(is_default ? CU_STREAM_LEGACY : named, context))
        return TSR_NO_QUEUE;
    if (!tsr_map_set(&tsr_tickets.places, key, (void *)tsr_tickets.queues.count)) {
        take_back_locked();
        return TSR_NO_QUEUE;
    }
    return (uint32_t)tsr_tickets.queues.count - 1;
}

bool tsr_asker_init_locked(struct tsr_asker *asker, CUstream named)
{
    bool own = named == CU_STREAM_PER_THREAD;
    uint32_t queue = tsr_ticket_queue_find_locked(named);
    *asker = (struct tsr_asker){queue, own, own ? OWN_IDS + (uint32_t)tsr_stream_thread() : queue};
    return queue != TSR_NO_QUEUE;
}

uint64_t tsr_ticket_take_locked(const struct tsr_asker *asker)
{
    return (uint64_t)asker->queue << TSR_TICKET_SHIFT | tsr_ticket_number(tsr_tickets.queues.data[asker->queue]);
}

uint64_t tsr_ticket_pair(uint32_t later, uint32_t earlier)
{
    return (later + 1ull) << 32 | (earlier + 1ull);
}

uint64_t tsr_ticket_last_locked(uint32_t queue)
{
    return queue < tsr_tickets.queues.count ? __atomic_load_n(&tsr_tickets.queues.data[queue]->last, __ATOMIC_SEQ_CST) : 0;
}

bool tsr_ticket_is_met_locked(const struct tsr_asker *asker, uint64_t ticket)
{
    uint32_t queue = tsr_ticket_queue_of(ticket);
    uint64_t number = ticket & TSR_TICKET_LATEST;
    if (queue >= tsr_tickets.queues.count || (queue == asker->queue && !asker->own) || tsr_tickets.queues.data[queue]->dead)
        return true;
    if (number == TSR_TICKET_LATEST)
        number = tsr_ticket_last_locked(queue);
    return (uint64_t)(uintptr_t)tsr_map_find(&tsr_tickets.after, tsr_ticket_pair(asker->id, queue)) >= number;
}

bool tsr_tickets_are_crowded(void)
{
    return tsr_tickets_count() > TSR_TICKETS_MOST_QUEUES;
}

void tsr_tickets_part_from_streams(void)
{
    for (struct tsr_stream *at = tsr_stream_first(); at; at = at->next) {
        pthread_mutex_lock(&at->lock);
        at->queue = NULL;
        pthread_mutex_unlock(&at->lock);
    }
}

void tsr_ticket_queue_drop_event_locked(struct tsr_ticket_queue *queue)
{
    if (queue->event && !queue->dead && tsr_vec_reserve(&tsr_tickets.dropped, tsr_tickets.dropped.count + 1))
        tsr_tickets.dropped.data[tsr_tickets.dropped.count++] = queue->event;
    queue->event = NULL;
}

void tsr_tickets_destroy_dropped_locked(void)
{
    while (tsr_tickets.dropped.count)
        tsr_real.cuEventDestroy_v2(tsr_tickets.dropped.data[--tsr_tickets.dropped.count]);
}

void tsr_tickets_forget_queues_locked(void)
{
    while (tsr_tickets.queues.count) {
        tsr_ticket_queue_drop_event_locked(tsr_tickets.queues.data[tsr_tickets.queues.count - 1]);
        take_back_locked();
    }
    tsr_map_fini(&tsr_tickets.places);
    tsr_map_fini(&tsr_tickets.after);
    tsr_tickets.after = tsr_tickets.places = (struct tsr_map){0};
    uint64_t nobodys = (uint64_t)MOST_PLACES << TSR_TICKET_SHIFT | 1; /* it is complete */
    __atomic_store_n(&tsr_tickets.before_all, nobodys, __ATOMIC_RELEASE);
}

static bool is_of(uint64_t key, const void *value, const void *context)
{
    (void)key;
    return tsr_tickets.queues.data[(uintptr_t)value - 1]->context == context;
}

void tsr_copies_context_gone(CUcontext context)
{
    pthread_mutex_lock(&tsr_copies_lock);
    struct tsr_map_entries entries = tsr_map_remove_if(&tsr_tickets.places, is_of, context);
    tsr_vec_fini(&entries);
    for (size_t i = 0; i < tsr_tickets.queues.count; i++)
        tsr_tickets.queues.data[i]->dead |= tsr_tickets.queues.data[i]->context == context;
    tsr_copies_pull_stream_gone_locked(context);
    for (size_t i = 0; context == tsr_tickets.retired.context && i < tsr_tickets.queues.count; i++)
        tsr_tickets.queues.data[i]->dead |= tsr_tickets.queues.data[i]->gone;
    if (context == tsr_tickets.retired.context)
        tsr_tickets.retired = (struct tsr_ticket_queue){0};
    pthread_mutex_unlock(&tsr_copies_lock);
}

void tsr_tickets_forget(void)
{
    pthread_rwlock_init(&tsr_tickets.ends, NULL);
    tsr_tickets.queues.count = tsr_tickets.dropped.count = 0;
    tsr_tickets.after = tsr_tickets.places = (struct tsr_map){0};
    tsr_tickets.before_all = 0;
    tsr_tickets.retired = (struct tsr_ticket_queue){0};
}
