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
#define LAST_QUEUES 64u /* that may still come until there is a quiet moment */
#define OWN_IDS 0x10000u /* of threads' own streams: from here on */

struct tsr_tickets tsr_tickets = {.ends = PTHREAD_RWLOCK_INITIALIZER, .strands = 1};
__thread uint64_t tsr_ticket_taken;

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
    size_t place = tsr_tickets.queues.count, end = place + tsr_tickets.strands;
    if (end > MOST_PLACES || !tsr_vec_reserve(&tsr_tickets.queues, end))
        return NULL;
    struct tsr_ticket_queue *queue = new_locked(handle, context);
    if (!queue)
        return NULL;
    queue->place = (uint32_t)place;
    for (size_t at = place; at < end; at++)
        tsr_tickets.queues.data[at] = queue;
    __atomic_store_n(&tsr_tickets.queues.count, end, __ATOMIC_RELEASE);
    return queue;
}

static void take_back_locked(void)
{
    struct tsr_ticket_queue *queue = tsr_tickets.queues.data[tsr_tickets.queues.count - 1];
    __atomic_store_n(&tsr_tickets.queues.count, queue->place, __ATOMIC_RELEASE);
    queue->free = tsr_tickets.free;
    tsr_tickets.free = queue;
}

static bool note_context_locked(CUcontext context)
{
    for (size_t i = 0; i < tsr_tickets.contexts.count; i++)
        if (tsr_tickets.contexts.data[i] == context)
            return true;
    return tsr_vec_push(&tsr_tickets.contexts, context);
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
    const struct tsr_ticket_queue *queue = tsr_ticket_queue_add_locked(is_default ? CU_STREAM_LEGACY : named, context);
    if (!queue)
        return TSR_NO_QUEUE;
    place = queue->place;
    if (!note_context_locked(context) || !tsr_map_set(&tsr_tickets.places, key, (void *)(uintptr_t)(place + 1))) {
        take_back_locked();
        return TSR_NO_QUEUE;
    }
    return place;
}

bool tsr_asker_init_locked(struct tsr_asker *asker, CUstream named, const struct tsr_lane_client *lane)
{
    bool own = named == CU_STREAM_PER_THREAD;
    uint32_t queue = tsr_ticket_queue_find_locked(named);
    *asker = (struct tsr_asker){.queue = queue,
                                .strand = own || tsr_tickets.strands == 1 ? 0 : tsr_lane_rank(lane),
                                .own = own,
                                .id = own ? OWN_IDS + (uint32_t)tsr_stream_thread() : queue};
    asker->id += asker->strand;
    return queue != TSR_NO_QUEUE;
}

uint64_t tsr_ticket_take_locked(const struct tsr_asker *asker)
{
    return (uint64_t)(asker->queue + asker->strand) << TSR_TICKET_SHIFT |
           tsr_ticket_number(tsr_tickets.queues.data[asker->queue], asker->strand);
}

uint64_t tsr_ticket_pair(uint32_t later, uint32_t earlier)
{
    return (later + 1ull) << 32 | (earlier + 1ull);
}

uint64_t tsr_ticket_last_of(const struct tsr_ticket_queue *queue, uint32_t strand)
{
    return __atomic_load_n(&queue->strands[strand].last, __ATOMIC_SEQ_CST);
}

uint64_t tsr_ticket_last_locked(uint32_t place)
{
    const struct tsr_ticket_queue *queue = place < tsr_tickets.queues.count ? tsr_tickets.queues.data[place] : NULL;
    return queue ? tsr_ticket_last_of(queue, place - queue->place) : 0;
}

uint64_t tsr_ticket_number_of_locked(uint64_t ticket)
{
    uint64_t number = ticket & TSR_TICKET_LATEST;
    return number == TSR_TICKET_LATEST ? tsr_ticket_last_locked(tsr_ticket_queue_of(ticket)) : number;
}

bool tsr_ticket_is_satisfied_locked(const struct tsr_asker *asker, uint64_t ticket)
{
    uint32_t place = tsr_ticket_queue_of(ticket);
    if (place >= tsr_tickets.queues.count)
        return true;
    const struct tsr_ticket_queue *queue = tsr_tickets.queues.data[place];
    return (queue->place == asker->queue && !asker->own) || queue->dead ||
           (uint64_t)(uintptr_t)tsr_map_find(&tsr_tickets.after, tsr_ticket_pair(asker->id, place)) >=
               tsr_ticket_number_of_locked(ticket);
}

uint32_t tsr_ticket_other_strand_locked(const struct tsr_asker *asker, uint64_t ticket)
{
    uint32_t place = tsr_ticket_queue_of(ticket);
    if (place >= tsr_tickets.queues.count || asker->own || tsr_tickets.queues.data[place]->place != asker->queue ||
        place == asker->queue + asker->strand)
        return TSR_STRANDS;
    return place - asker->queue;
}

bool tsr_ticket_is_tied_locked(const struct tsr_asker *asker, uint64_t ticket)
{
    uint32_t other = tsr_ticket_queue_of(ticket) - asker->queue;
    const struct tsr_ticket_queue *queue = tsr_tickets.queues.data[asker->queue];
    uint64_t number = tsr_ticket_number_of_locked(ticket);
    return queue->strands[other].joined >= number || queue->strands[asker->strand].after[other] >= number;
}

CUresult tsr_tickets_tie_locked(const struct tsr_asker *asker, struct tsr_stream *stream, uint32_t strand, uint64_t number)
{
    struct tsr_ticket_queue *queue = tsr_tickets.queues.data[asker->queue];
    uint64_t last = tsr_ticket_last_of(queue, strand);
    CUresult result = CUDA_SUCCESS;
    uint64_t marked = stream->queue != queue ? 0 : tsr_strands_after_mark(stream, strand, number, asker->strand, &result);
    if (marked) {
        if (result == CUDA_SUCCESS)
            queue->strands[asker->strand].after[strand] = marked;
        return result;
    }
    result = tsr_strands_tie(stream, strand, asker->strand);
    if (result == CUDA_SUCCESS)
        queue->strands[asker->strand].after[strand] = last;
    return result;
}

uint32_t tsr_tickets_used_strands(CUstream named)
{
    uint32_t used = 0;
    pthread_mutex_lock(&tsr_copies_lock);
    uint32_t place = tsr_ticket_queue_find_locked(named);
    for (uint32_t strand = 0; place != TSR_NO_QUEUE && strand < tsr_tickets.strands; strand++)
        used |= (uint32_t)tsr_ticket_strand_is_used(tsr_tickets.queues.data[place], strand) << strand;
    pthread_mutex_unlock(&tsr_copies_lock);
    return used;
}

CUresult tsr_tickets_mark(struct tsr_stream *stream, uint32_t strand)
{
    bool apart = stream->queue && tsr_strands_are_apart(stream);
    return apart ? tsr_strands_mark(stream, strand, tsr_ticket_last_of(stream->queue, strand)) : CUDA_SUCCESS;
}

/* Per-thread default streams may take numbers of strand 0 of the legacy queue meanwhile; for those it does not matter what has been joined. */
static void joined(struct tsr_stream *stream)
{
    struct tsr_ticket_queue *queue = stream->queue;
    for (uint32_t strand = 0; queue && strand < tsr_tickets.strands; strand++)
        queue->strands[strand].joined = tsr_ticket_last_of(queue, strand);
}

static void forked(struct tsr_stream *stream, uint32_t strand)
{
    if (stream->queue)
        stream->queue->strands[strand].after[0] = tsr_ticket_last_of(stream->queue, 0);
}

void tsr_tickets_start(uint32_t strands)
{
    static const struct tsr_strands_listener listener = {.joined = joined, .forked = forked};
    tsr_tickets.strands = strands;
    tsr_strands_listen(&listener);
}

bool tsr_tickets_are_crowded(void)
{
    size_t most = (size_t)TSR_TICKETS_MOST_QUEUES * tsr_tickets.strands, room = (size_t)LAST_QUEUES * tsr_tickets.strands;
    return tsr_tickets_count() > (most < MOST_PLACES - room ? most : MOST_PLACES - room);
}

void tsr_tickets_part_from_streams(void)
{
    for (struct tsr_stream *at = tsr_stream_first(); at; at = at->next) {
        tsr_lock_take(&at->lock);
        at->queue = NULL;
        tsr_stream_drop_marks(at);
        tsr_lock_give(&at->lock);
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
    tsr_map_clear(
        &tsr_tickets.places); /* as large again soon: megabytes that come and go would scatter what else is allocated */
    tsr_map_clear(&tsr_tickets.after);
    uint64_t nobodys = (uint64_t)MOST_PLACES << TSR_TICKET_SHIFT | 1; /* it is complete */
    __atomic_store_n(&tsr_tickets.before_all, nobodys, __ATOMIC_RELEASE);
}

static bool is_of(uint64_t key, const void *value, const void *context)
{
    (void)key;
    return tsr_tickets.queues.data[(uintptr_t)value - 1]->context == context;
}

static void forget_context(CUcontext context)
{
    pthread_mutex_lock(&tsr_copies_lock);
    struct tsr_map_entries entries = tsr_map_remove_if(&tsr_tickets.places, is_of, context);
    tsr_vec_fini(&entries);
    for (size_t i = tsr_tickets.contexts.count; i-- > 0;)
        if (tsr_tickets.contexts.data[i] == context)
            tsr_vec_remove_swap(&tsr_tickets.contexts, i);
    for (size_t i = 0; i < tsr_tickets.queues.count; i++)
        tsr_tickets.queues.data[i]->dead |= tsr_tickets.queues.data[i]->context == context;
    tsr_copies_pull_stream_gone_locked(context);
    for (size_t i = 0; context == tsr_tickets.retired.context && i < tsr_tickets.queues.count; i++)
        tsr_tickets.queues.data[i]->dead |= tsr_tickets.queues.data[i]->gone;
    if (context == tsr_tickets.retired.context)
        tsr_tickets.retired = (struct tsr_ticket_queue){0};
    pthread_mutex_unlock(&tsr_copies_lock);
}

void tsr_copies_context_end_begin(void)
{
    pthread_rwlock_wrlock(&tsr_tickets.ends);
}

void tsr_copies_context_end_finish(CUcontext gone)
{
    if (gone)
        forget_context(gone);
    pthread_rwlock_unlock(&tsr_tickets.ends);
}

void tsr_tickets_forget(void)
{
    pthread_rwlock_init(&tsr_tickets.ends, NULL);
    tsr_tickets.queues.count = tsr_tickets.dropped.count = tsr_tickets.contexts.count = 0;
    tsr_tickets.after = tsr_tickets.places = (struct tsr_map){0};
    tsr_tickets.before_all = 0;
    tsr_tickets.retired = (struct tsr_ticket_queue){0};
}
