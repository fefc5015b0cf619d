/* See tickets.h. How a stream comes after others: by events, recorded in them or, when they have ended, in the stream `retired`. */
#include "memory/tickets.h"

#include "base/os.h"
#include "driver/current.h"
#include "driver/real.h"
#include "driver/stream_handle.h"
#include "memory/contexts.h"
#include "memory/copies.h"
#include "memory/copies_parts.h"
#include "memory/home.h"
#include "object/capture.h"
#include "object/session.h"
#include "order/gate.h"
#include "order/order.h"
#include "order/strands.h"

#define LOOSE_LOOK_NS 20000ull /* between looks whether a call has come back that holds nothing, */
#define MOST_DROPPED 64u       /* events that wait to be destroyed */
#define MOMENT_NS 50000u
#define LOOSE_LOOKS 100000u    /* and how many */

static bool is_loose(uint32_t place)
{
    pthread_mutex_lock(&tsr_copies_lock);
    bool loose = place < tsr_tickets.queues.count && tsr_tickets.queues.data[place]->loose != 0;
    pthread_mutex_unlock(&tsr_copies_lock);
    return loose;
}

/*
 * As it is now; the asker is to come after it. One that has been forgotten is dead: its work is complete. What the queue is given from now on is not meant, so the bytes that this
 * may touch must say so: what was found for the queue is asked anew (copies_use.c).
 */
static struct tsr_ticket_queue snapshot(uint32_t place)
{
    struct tsr_ticket_queue now = {.place = place, .dead = true};
    pthread_mutex_lock(&tsr_copies_lock);
    __atomic_store_n(&tsr_lanes_quiet_for, NULL, __ATOMIC_SEQ_CST);
    const struct tsr_ticket_queue *queue = place < tsr_tickets.queues.count ? tsr_tickets.queues.data[place] : &now;
    now = (struct tsr_ticket_queue){.place = queue->place,
                                    .handle = queue->handle,
                                    .context = queue->context,
                                    .event = queue->event,
                                    .recorded = queue->recorded,
                                    .gone = queue->gone,
                                    .dead = queue->dead};
    for (uint32_t strand = 0; strand < tsr_tickets.strands; strand++)
        now.strands[strand].last = __atomic_load_n(&queue->strands[strand].last, __ATOMIC_SEQ_CST);
    pthread_mutex_unlock(&tsr_copies_lock);
    return now;
}

static uint64_t given_to(const struct tsr_ticket_queue *queue)
{
    uint64_t given = 0;
    for (uint32_t strand = 0; strand < tsr_tickets.strands; strand++)
        given += queue->strands[strand].last;
    return given;
}

/* What the asker's strand comes after. False: no memory. */
static bool note_strand(uint32_t id, uint32_t place, uint64_t number)
{
    uint64_t key = tsr_ticket_pair(id, place);
    uint64_t known = (uintptr_t)tsr_map_find(&tsr_tickets.after, key);
    return known >= number || tsr_map_set(&tsr_tickets.after, key, (void *)(uintptr_t)number);
}

/* All strands have been joined, and all of the asker's come after that. */
static bool note_after(const struct tsr_asker *asker, const struct tsr_ticket_queue *earlier)
{
    bool noted = true;
    for (uint32_t later = 0; later < (asker->own ? 1 : tsr_tickets.strands); later++)
        for (uint32_t strand = 0; strand < tsr_tickets.strands; strand++)
            noted &= note_strand(asker->id - asker->strand + later, earlier->place + strand, earlier->strands[strand].last);
    return noted;
}

/* A call of another thread that holds nothing enqueues soon; until then nobody can come after it. */
static CUresult await_loose(uint32_t place)
{
    static const uint32_t never;
    for (unsigned i = 0; is_loose(place); i++) {
        if (i == LOOSE_LOOKS)
            return CUDA_ERROR_NOT_READY;
        tsr_os_futex_wait(&never, 0, LOOSE_LOOK_NS, false);
    }
    return CUDA_SUCCESS;
}

/* Into *event, which is made if there is none. */
CUresult tsr_ticket_queue_record(const struct tsr_ticket_queue *of, CUevent *event)
{
    CUevent made = NULL;
    CUresult result = *event ? CUDA_SUCCESS : tsr_real.cuEventCreate(&made, CU_EVENT_DISABLE_TIMING);
    if (result == CUDA_SUCCESS)
        result = tsr_real.cuEventRecord(made ? made : *event, of->handle);
    if (made && result != CUDA_SUCCESS)
        tsr_real.cuEventDestroy_v2(made);
    else if (made)
        *event = made;
    return result;
}

/* An event after all that a queue was given, joined home. */
static CUresult record(const struct tsr_ticket_queue *queue, CUevent *event)
{
    struct tsr_order_hold hold = {0};
    bool pushed = false;
    const struct tsr_ticket_queue *of = queue->gone ? &tsr_tickets.retired : queue;
    CUresult result = of->context ? tsr_current_push(of->context, &pushed) : CUDA_SUCCESS;
    if (result != CUDA_SUCCESS)
        return result;
    if (!queue->gone)
        result = tsr_order_enter_between(of->handle, false, &hold);
    if (result == CUDA_SUCCESS) {
        result = tsr_ticket_queue_record(of, event);
        if (!queue->gone)
            tsr_order_leave(&hold);
    }
    tsr_current_pop(pushed);
    return result;
}

static bool
    blocking_captured; /* atomic; among the streams of the captures that are open may be one that legacy ones wait for */

static bool is_blocking(CUstream named)
{
    unsigned flags = 0;
    return named == CU_STREAM_PER_THREAD || tsr_real.cuStreamGetFlags(named, &flags) != CUDA_SUCCESS ||
           !(flags & CU_STREAM_NON_BLOCKING);
}

/* A stream that is captured must not be asked, nor a legacy one while a stream is captured that it would wait for. */
static bool is_forbidden(const struct tsr_ticket_queue *queue)
{
    bool legacy = queue->handle == CU_STREAM_LEGACY;
    return !queue->gone && (legacy ? tsr_is_any_capture() && __atomic_load_n(&blocking_captured, __ATOMIC_ACQUIRE)
                                   : tsr_is_capturing(queue->handle));
}

/*
 * The same, also during captures: then it is the event from before. Of threads' own default streams there is none that comes after what
 * they were given meanwhile: only those may wait for that whom the program has made to.
 */
static CUresult find_event(uint32_t place, const struct tsr_ticket_queue *queue, CUevent *event, bool *made)
{
    tsr_captures_hold();
    *made = !is_forbidden(queue);
    *event = *made ? NULL : snapshot(place).event; /* a capture may have begun since */
    CUresult result = *made ? record(queue, event) : CUDA_SUCCESS;
    tsr_captures_release();
    return result;
}

static CUresult wait_for(CUstream stream, bool per_thread, CUevent event)
{
    struct tsr_order_hold hold;
    CUresult result = tsr_order_enter_between(stream, per_thread, &hold);
    if (result != CUDA_SUCCESS)
        return result;
    result = tsr_real.cuStreamWaitEvent(tsr_stream_named(stream, per_thread), event, 0);
    tsr_order_leave(&hold);
    return result;
}

/*
 * Under data order: whether it is complete, or is within a moment. Then nothing has to wait for it, which would join all strands of the stream
 * and make them fork behind what it has been given.
 */
static bool is_over(CUevent event)
{
    uint64_t end_ns = tsr_os_monotonic_ns() + MOMENT_NS;
    CUresult result = CUDA_ERROR_NOT_READY;
    while (tsr_order_by_data && result == CUDA_ERROR_NOT_READY && tsr_os_monotonic_ns() < end_ns)
        result = tsr_memory_event_query(event);
    return result == CUDA_SUCCESS;
}

CUresult tsr_tickets_come_after(CUstream stream, bool per_thread, const struct tsr_asker *asker, uint32_t place)
{
    CUevent event = NULL;
    bool made = false;
    CUresult result = await_loose(place);
    if (result != CUDA_SUCCESS)
        return result;
    pthread_rwlock_rdlock(&tsr_tickets.ends);
    struct tsr_ticket_queue earlier = snapshot(place);
    if (!earlier.dead)
        result = find_event(place, &earlier, &event, &made);
    if (result == CUDA_SUCCESS && event && !(made && is_over(event)))
        result = wait_for(stream, per_thread, event);
    pthread_rwlock_unlock(&tsr_tickets.ends);
    if (made && event)
        tsr_real.cuEventDestroy_v2(event);
    if (result == CUDA_SUCCESS && !note_after(asker, &earlier))
        result = CUDA_ERROR_OUT_OF_MEMORY;
    tsr_copies_count(&tsr_session()->policy->waits, 1);
    return result;
}

/* The value that the away fence of its strand gets when the work is done. Its stream is one that no other waits for by CUDA's rules. */
static CUresult find_value(const struct tsr_ticket_queue *queue, uint32_t strand, uint64_t number, uint32_t *slot,
                           uint64_t *value)
{
    struct tsr_stream *stream = tsr_stream_seen(queue->handle, false);
    CUresult result = CUDA_ERROR_NOT_SUPPORTED;
    if (!stream)
        return result;
    bool gated = tsr_gate_enter();
    tsr_lock_take(&stream->lock);
    if (stream->live && stream->kind == TSR_STREAM_FREE && stream->handle == queue->handle && stream->queue &&
        stream->queue->place == queue->place && stream->away >> (strand - 1) & 1) { /* or home has joined it */
        *slot = stream->slot;
        result = tsr_strands_reach(stream, strand, number, value);
    }
    tsr_lock_give(&stream->lock);
    tsr_gate_leave(gated);
    return result;
}

static CUresult await_value(CUstream stream, struct tsr_lane_client *lane, uint32_t slot, uint64_t value)
{
    struct tsr_order_hold hold;
    uint32_t own_slot;
    CUresult result = tsr_order_depart_between(stream, lane, &own_slot, &hold);
    if (result != CUDA_SUCCESS)
        return result;
    result = tsr_strands_are_apart(hold.stream) ? tsr_strands_await(hold.stream, tsr_lane_rank(lane), slot, value)
                                                : CUDA_ERROR_NOT_SUPPORTED;
    tsr_order_leave(&hold);
    return result;
}

CUresult tsr_tickets_follow(CUstream stream, struct tsr_lane_client *lane, const struct tsr_asker *asker, uint64_t ticket)
{
    uint32_t place = tsr_ticket_queue_of(ticket), slot;
    uint64_t value;
    if (!tsr_order_by_data || !lane || asker->own || tsr_stream_is_default(stream))
        return CUDA_ERROR_NOT_SUPPORTED;
    pthread_rwlock_rdlock(&tsr_tickets.ends);
    struct tsr_ticket_queue queue = snapshot(place);
    uint64_t number = queue.strands[asker->strand].last < (ticket & TSR_TICKET_LATEST) ? queue.strands[asker->strand].last
                                                                                       : ticket & TSR_TICKET_LATEST;
    bool possible = !queue.gone && !queue.dead && place - queue.place == asker->strand && !tsr_stream_is_default(queue.handle);
    CUresult result = possible ? find_value(&queue, asker->strand, number, &slot, &value) : CUDA_ERROR_NOT_SUPPORTED;
    if (result == CUDA_SUCCESS)
        result = await_value(stream, lane, slot, value);
    pthread_rwlock_unlock(&tsr_tickets.ends);
    if (result != CUDA_SUCCESS)
        return result;
    pthread_mutex_lock(&tsr_copies_lock);
    bool noted = note_strand(asker->id, place, number);
    pthread_mutex_unlock(&tsr_copies_lock);
    tsr_copies_count(&tsr_session()->policy->waits, 1);
    return noted ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Who comes after what is gone comes after the event, too. The context is one of the home GPU. */
static CUresult retire(CUcontext context, CUevent event)
{
    CUresult result = CUDA_SUCCESS;
    CUcontext popped;
    pthread_mutex_lock(&tsr_copies_lock);
    if (!tsr_tickets.retired.handle && (result = tsr_real.cuCtxPushCurrent_v2(context)) == CUDA_SUCCESS) {
        result = tsr_real.cuStreamCreate(&tsr_tickets.retired.handle, CU_STREAM_NON_BLOCKING);
        tsr_tickets.retired.context = context;
        tsr_real.cuCtxPopCurrent_v2(&popped);
    }
    if (result == CUDA_SUCCESS)
        result = tsr_real.cuStreamWaitEvent(tsr_tickets.retired.handle, event, 0);
    pthread_mutex_unlock(&tsr_copies_lock);
    return result;
}

/* All streams of the context. */
static CUresult retire_context(CUcontext context)
{
    CUevent event;
    CUcontext popped;
    CUresult result = tsr_real.cuCtxPushCurrent_v2(context);
    if (result != CUDA_SUCCESS)
        return result;
    result = tsr_real.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
    if (result == CUDA_SUCCESS) {
        result = tsr_real.cuCtxRecordEvent(context, event);
        if (result == CUDA_SUCCESS)
            result = retire(context, event);
        tsr_real.cuEventDestroy_v2(event);
    }
    tsr_real.cuCtxPopCurrent_v2(&popped);
    return result;
}

/* What has been enqueued so far counts as one queue's, who is gone; it may have written anything. */
CUresult tsr_tickets_retire_all(void)
{
    CUcontext contexts[TSR_MEMORY_CONTEXTS];
    unsigned found = 0;
    CUresult result = tsr_memory_contexts_locked(contexts, &found) ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
    for (unsigned i = 0; i < found && result == CUDA_SUCCESS; i++)
        result = retire_context(contexts[i]);
    pthread_mutex_lock(&tsr_copies_lock);
    struct tsr_ticket_queue *gone = result == CUDA_SUCCESS ? tsr_ticket_queue_add_locked(NULL, NULL) : NULL;
    if (result == CUDA_SUCCESS && !gone)
        result = CUDA_ERROR_OUT_OF_MEMORY;
    if (gone) {
        gone->gone = true;
        gone->strands[0].last = 1;
        __atomic_store_n(&tsr_tickets.before_all, (uint64_t)gone->place << TSR_TICKET_SHIFT | gone->strands[0].last,
                         __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&tsr_copies_lock);
    return result;
}

/* Unless somebody may still wait for them. */
static void destroy_dropped(void)
{
    if (tsr_tickets.dropped.count < MOST_DROPPED || pthread_rwlock_trywrlock(&tsr_tickets.ends) != 0)
        return;
    pthread_mutex_lock(&tsr_copies_lock);
    tsr_tickets_destroy_dropped_locked();
    pthread_mutex_unlock(&tsr_copies_lock);
    pthread_rwlock_unlock(&tsr_tickets.ends);
}

/* The stream is about to be captured: records events, so that other streams can still wait for the work that it, or the legacy one, was given. */
static void remember_work(CUstream named)
{
    for (uint32_t i = 0; i < tsr_tickets_count(); i++) {
        struct tsr_ticket_queue queue = snapshot(i);
        bool concerned = queue.handle == named || queue.handle == CU_STREAM_LEGACY;
        CUevent event = NULL; /* a new one: another thread may be about to wait for the old one */
        if (!concerned || queue.gone || queue.dead || queue.place != i || queue.recorded == given_to(&queue) ||
            is_forbidden(&queue) || record(&queue, &event) != CUDA_SUCCESS)
            continue;
        pthread_mutex_lock(&tsr_copies_lock);
        struct tsr_ticket_queue *now = i < tsr_tickets_count() ? tsr_tickets.queues.data[i] : &queue;
        bool known = now != &queue && now->handle == queue.handle && !now->gone; /* it has not been forgotten */
        if (known) {
            tsr_ticket_queue_drop_event_locked(now);
            now->event = event;
            now->recorded = given_to(&queue);
        }
        pthread_mutex_unlock(&tsr_copies_lock);
        if (!known)
            tsr_real.cuEventDestroy_v2(event);
    }
    destroy_dropped();
}

void tsr_copies_capture_begins(CUstream stream, bool per_thread)
{
    CUstream named = tsr_stream_named(stream, per_thread);
    if (!tsr_copies_matter())
        return;
    if (!tsr_is_any_capture())
        __atomic_store_n(&blocking_captured, false, __ATOMIC_RELEASE);
    remember_work(named);
    if (is_blocking(named))
        __atomic_store_n(&blocking_captured, true, __ATOMIC_RELEASE);
}

void tsr_copies_may_join_capture(CUstream stream, bool per_thread)
{
    CUstream named = tsr_stream_named(stream, per_thread);
    if (!tsr_copies_matter() || named == CU_STREAM_LEGACY || tsr_is_capturing(named))
        return;
    remember_work(named);
    if (is_blocking(named))
        __atomic_store_n(&blocking_captured, true, __ATOMIC_RELEASE);
}

/* Its work goes on; who comes after it waits for a stream of ours that does. */
void tsr_copies_stream_ends(CUstream stream)
{
    CUevent event = NULL;
    bool made = false;
    if (!tsr_copies_matter() || tsr_stream_is_default(stream))
        return;
    pthread_rwlock_wrlock(&tsr_tickets.ends);
    pthread_mutex_lock(&tsr_copies_lock);
    uint32_t place = (uint32_t)(uintptr_t)tsr_map_find(&tsr_tickets.places, (uintptr_t)stream) - 1;
    pthread_mutex_unlock(&tsr_copies_lock);
    struct tsr_ticket_queue queue = snapshot(place);
    CUresult result = queue.gone || queue.dead ? CUDA_SUCCESS : find_event(place, &queue, &event, &made);
    if (result == CUDA_SUCCESS && event)
        result = retire(queue.context, event);
    if (made && event)
        tsr_real.cuEventDestroy_v2(event);
    pthread_mutex_lock(&tsr_copies_lock);
    if (place < tsr_tickets.queues.count) {
        __atomic_store_n(&tsr_tickets.queues.data[place]->gone, true, __ATOMIC_RELAXED);
        tsr_ticket_queue_drop_event_locked(tsr_tickets.queues.data[place]);
        tsr_tickets_destroy_dropped_locked();
        tsr_map_remove(&tsr_tickets.places, (uintptr_t)stream);
    }
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_DEINITIALIZED) /* the process ends, and its driver has */
        tsr_copies_fail_locked(result, "a stream that ended could not be waited for");
    pthread_mutex_unlock(&tsr_copies_lock);
    pthread_rwlock_unlock(&tsr_tickets.ends);
}
