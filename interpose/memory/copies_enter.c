/* See copies.h. Before work: the first elsewhere, coming after others, pulling, holding the stream. */
#include "memory/copies.h"

#include <pthread.h>

#include "base/log.h"
#include "driver/current.h"
#include "driver/real.h"
#include "driver/stream_handle.h"
#include "lane/streams.h"
#include "memory/allocation.h"
#include "memory/copies_parts.h"
#include "memory/home.h"
#include "memory/memory.h"
#include "memory/owners.h"
#include "memory/quiet.h"
#include "memory/spill.h"
#include "object/capture.h"
#include "object/session.h"
#include "order/gate.h"
#include "order/order.h"

#define MOST_TRIES 1000u /* before giving up because other threads keep changing something */
#define MOST_DUE 4096u
#define MOST_GIVEN 4096u        /* extents that one use makes copies of */
#define DRAIN_NS 500000000ull /* for threads that are giving a GPU work when the first work elsewhere begins */
#define QUIET_NS 5000000ull   /* for a quiet moment */

__thread uint32_t tsr_copies_loose_queue; /* 1 + its place */

static CUstream pull_stream; /* lock; pulls for streams of other devices; NULL: none has come yet */
static CUcontext pull_stream_context;

/* Attempts that fail make the next one rarer. */
static bool is_time(void)
{
    static uint32_t calls, due = 1; /* atomic */
    if (__atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED) < __atomic_load_n(&due, __ATOMIC_RELAXED))
        return false;
    __atomic_store_n(&calls, 0, __ATOMIC_RELAXED);
    uint32_t now = __atomic_load_n(&due, __ATOMIC_RELAXED);
    __atomic_store_n(&due, now < MOST_DUE ? 2 * now : now, __ATOMIC_RELAXED);
    return true;
}

/* From now on all uses are recorded. Earlier work was not: a use that comes after any of it comes after all of it. */
static CUresult begin_locked_memory(void)
{
    __atomic_store_n(&tsr_order_strict, true, __ATOMIC_RELEASE);
    __atomic_store_n(&tsr_copies_away, 1, __ATOMIC_SEQ_CST);
    if (!tsr_gate_drain(DRAIN_NS))
        return CUDA_ERROR_NOT_READY;
    tsr_captures_hold(); /* querying all work of a context invalidates captures there */
    CUresult result = tsr_is_any_capture() ? CUDA_ERROR_NOT_READY : tsr_tickets_retire_all();
    tsr_captures_release();
    return result;
}

/* When there are too many queues of tickets: forgets them, at a quiet moment. */
static CUresult tidy_locked_memory(void)
{
    CUresult result = CUDA_ERROR_NOT_READY;
    if (!tsr_gate_close(QUIET_NS))
        return result;
    if (!tsr_is_any_capture() && (result = tsr_quiet_wait(QUIET_NS)) == CUDA_SUCCESS)
        tsr_copies_settle();
    tsr_gate_open();
    return result;
}

/* Before the first work elsewhere. Errors: NOT_SUPPORTED: there was no quiet moment. */
static CUresult begin_or_tidy(void)
{
    if (!is_time() || tsr_is_any_capture() || !tsr_memory_at_home())
        return tsr_tickets_have_begun() ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
    CUstreamCaptureMode mode = tsr_memory_relax_begin();
    tsr_memory_lock();
    CUresult result = tsr_tickets_have_begun() ? tidy_locked_memory() : begin_locked_memory();
    tsr_memory_unlock();
    tsr_memory_relax_end(mode);
    if (result != CUDA_SUCCESS)
        tsr_debug("copies of memory: not the moment to begin (%d)", (int)result);
    return tsr_tickets_have_begun() ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

void tsr_copies_begin_locked(void)
{
    if (!tsr_tickets_have_begun() && !tsr_is_any_capture() && tsr_memory_at_home())
        begin_locked_memory();
}

void tsr_copies_begin(void)
{
    if (!tsr_tickets_have_begun())
        begin_or_tidy();
}

static bool is_under_way(const struct tsr_copies_use *use)
{
    return (tsr_tickets_have_begun() || !use->lane) && (use->locked || !tsr_tickets_are_crowded());
}

/* Gives the GPU copies of all extents that the use touches. */
static CUresult ask_with_copies(const struct tsr_copies_use *use, struct tsr_copies_waits *waits)
{
    if (tsr_owners_have_host() && !use->locked)
        tsr_spill_begins();
    CUresult result = tsr_copies_ask(use, waits);
    for (unsigned i = 0; i < MOST_GIVEN && result == CUDA_SUCCESS && waits->missing && !use->locked; i++) {
        result = tsr_copies_give(waits->missing, use->lane);
        if (result == CUDA_SUCCESS)
            result = tsr_copies_ask(use, waits);
    }
    tsr_spill_asked();
    return result == CUDA_SUCCESS && waits->missing ? CUDA_ERROR_NOT_SUPPORTED : result;
}

static CUresult come_after(const struct tsr_copies_use *use, const struct tsr_asker *asker, uint64_t ticket)
{
    CUstream named = tsr_stream_named(use->stream, use->per_thread);
    CUresult result = tsr_tickets_follow(named, use->lane, asker, ticket);
    if (result != CUDA_ERROR_NOT_SUPPORTED)
        return result;
    return tsr_tickets_come_after(use->stream, use->per_thread, asker, tsr_ticket_queue_of(ticket));
}

CUresult tsr_copies_prepare(const struct tsr_copies_use *use)
{
    struct tsr_copies_waits waits;
    CUresult result = is_under_way(use) ? CUDA_SUCCESS : begin_or_tidy();
    if (result != CUDA_SUCCESS && use->lane)
        return result;
    result = ask_with_copies(use, &waits);
    for (uint32_t i = 0; i < waits.count && result == CUDA_SUCCESS; i++)
        result = come_after(use, &waits.asker, waits.tickets[i]);
    return result;
}

CUresult tsr_copies_prepare_lightly(const struct tsr_copies_use *use)
{
    return is_under_way(use) ? CUDA_SUCCESS : tsr_copies_prepare(use);
}

/* GPUs on which the stream is to do the same need copies, and come after what was enqueued before uses were noted. Those that cannot do not do it. */
static void prepare_lanes(const struct tsr_copies_use *use)
{
    const struct tsr_session *session = tsr_session();
    const struct tsr_stream *stream = tsr_stream_seen(use->stream, use->per_thread);
    for (uint32_t i = 0; i < session->lane_count; i++) {
        struct tsr_copies_use there = *use;
        struct tsr_copies_waits waits;
        there.lane = session->lanes[i];
        if (!tsr_order_is_there(stream, there.lane))
            continue;
        CUresult asked = tsr_owners_have_begun() ? tsr_copies_ask(&there, &waits) : ask_with_copies(&there, &waits);
        if (asked != CUDA_SUCCESS || waits.missing)
            continue;
        uint32_t oldest = tsr_ticket_queue_of(__atomic_load_n(&tsr_tickets.before_all, __ATOMIC_ACQUIRE));
        if (waits.count == 1 && tsr_ticket_queue_of(waits.tickets[0]) == oldest)
            tsr_tickets_come_after(use->stream, use->per_thread, &waits.asker, oldest);
    }
}

static CUresult enter_at_home(const struct tsr_copies_use *use, struct tsr_order_hold *hold)
{
    CUresult result = CUDA_ERROR_NOT_READY;
    if (use->lanes)
        prepare_lanes(use);
    if (tsr_owners_have_host() && !use->locked)
        tsr_spill_look_ahead();
    for (unsigned i = 0; i < MOST_TRIES && result == CUDA_ERROR_NOT_READY; i++) {
        result = i ? tsr_copies_prepare(use) : tsr_copies_prepare_lightly(use);
        if (result == CUDA_SUCCESS)
            result = use->tracked ? tsr_order_enter_tracked(use->stream, use->per_thread, hold)
                                  : tsr_order_enter(use->stream, use->per_thread, hold);
        if (result != CUDA_SUCCESS)
            continue;
        result = tsr_copies_pull(use, hold, 0);
        if (result != CUDA_SUCCESS)
            tsr_order_leave(hold);
    }
    return result;
}

CUresult tsr_copies_pull_stream(CUstream *out)
{
    pthread_mutex_lock(&tsr_copies_lock);
    CUresult result = pull_stream ? CUDA_SUCCESS : tsr_real.cuStreamCreate(&pull_stream, CU_STREAM_NON_BLOCKING);
    if (result == CUDA_SUCCESS && !pull_stream_context)
        pull_stream_context = tsr_tickets_context();
    *out = pull_stream;
    pthread_mutex_unlock(&tsr_copies_lock);
    return result;
}

/* For a use in a stream of another device, which cannot pull itself: pulls in a stream of ours, and records an event after that. */
static CUresult pull_elsewhere(const struct tsr_copies_use *use, CUevent *event)
{
    struct tsr_order_hold hold;
    struct tsr_copies_use elsewhere = *use;
    CUresult result = tsr_copies_pull_stream(&elsewhere.stream);
    if (result != CUDA_SUCCESS)
        return result;
    elsewhere.per_thread = false;
    result = enter_at_home(&elsewhere, &hold);
    if (result != CUDA_SUCCESS)
        return result;
    result = tsr_ticket_queue_record(&(struct tsr_ticket_queue){.handle = elsewhere.stream}, event);
    tsr_order_leave(&hold);
    return result;
}

CUcontext tsr_copies_some_context(void)
{
    pthread_mutex_lock(&tsr_copies_lock);
    CUcontext context = pull_stream_context;
    if (!context && tsr_tickets.contexts.count)
        context = tsr_tickets.contexts.data[0];
    pthread_mutex_unlock(&tsr_copies_lock);
    return context;
}

CUresult tsr_copies_pull_home(struct tsr_copies_use *use)
{
    struct tsr_order_hold hold;
    bool pushed = false;
    CUcontext context = tsr_copies_some_context();
    CUresult result = context ? tsr_current_push(context, &pushed) : CUDA_SUCCESS;
    if (result == CUDA_SUCCESS)
        result = tsr_copies_pull_stream(&use->stream);
    if (result == CUDA_SUCCESS)
        result = tsr_copies_enter(use, &hold);
    if (result == CUDA_SUCCESS) {
        tsr_order_leave(&hold);
        result = tsr_real.cuStreamSynchronize(use->stream);
    }
    tsr_current_pop(pushed);
    return result;
}

static CUresult enter_elsewhere(const struct tsr_copies_use *use, struct tsr_order_hold *hold)
{
    CUevent event = NULL;
    CUcontext popped;
    CUcontext context = tsr_copies_some_context();
    if (!context) /* no stream that still exists has recorded uses: other GPUs hold nothing */
        return tsr_order_enter(use->stream, use->per_thread, hold);
    CUresult result = tsr_real.cuCtxPushCurrent_v2(context);
    if (result != CUDA_SUCCESS)
        return result;
    result = pull_elsewhere(use, &event);
    tsr_real.cuCtxPopCurrent_v2(&popped);
    if (result != CUDA_SUCCESS)
        return result;
    result = tsr_real.cuStreamWaitEvent(tsr_stream_named(use->stream, use->per_thread), event, 0);
    tsr_real.cuEventDestroy_v2(event);
    return result == CUDA_SUCCESS ? tsr_order_enter(use->stream, use->per_thread, hold) : result;
}

CUresult tsr_copies_enter(const struct tsr_copies_use *use, struct tsr_order_hold *hold)
{
    struct tsr_stream_found found;
    bool is_home = tsr_stream_place(tsr_stream_named(use->stream, use->per_thread), &found) == tsr_session()->policy->home;
    return is_home ? enter_at_home(use, hold) : enter_elsewhere(use, hold);
}

CUresult tsr_copies_enter_found(const struct tsr_copies_use *use, const struct tsr_stream_found *found,
                                struct tsr_order_hold *hold)
{
    if (!is_under_way(use) || !tsr_order_enter_found(found, use->tracked, hold))
        return tsr_copies_enter(use, hold);
    CUresult result = tsr_copies_pull(use, hold, 0);
    if (result != CUDA_SUCCESS)
        tsr_order_leave(hold);
    return result == CUDA_ERROR_NOT_READY ? tsr_copies_enter(use, hold) : result;
}

CUresult tsr_copies_enter_all(CUstream stream, bool per_thread, struct tsr_order_hold *hold)
{
    struct tsr_copies_use use = {.everything = true, .stream = stream, .per_thread = per_thread};
    tsr_memory_open_for_all();
    CUresult result = tsr_order_enter(stream, per_thread, hold);
    if (result != CUDA_SUCCESS || !tsr_copies_matter() || tsr_is_capturing(tsr_stream_named(stream, per_thread)))
        return result;
    tsr_order_leave(hold);
    return tsr_copies_enter(&use, hold);
}

CUresult tsr_copies_loose_slow(const struct tsr_copies_use *use)
{
    struct tsr_order_hold hold;
    CUstream named = tsr_stream_named(use->stream, use->per_thread);
    if (tsr_is_capturing(named)) /* a captured call runs with its graph, which may touch anything */
        return CUDA_SUCCESS;
    CUresult result = tsr_copies_enter(use, &hold);
    if (result != CUDA_SUCCESS)
        return result;
    pthread_mutex_lock(&tsr_copies_lock);
    uint32_t place = hold.stream ? tsr_ticket_queue_find_locked(named) : TSR_NO_QUEUE; /* of another device: none */
    if (place != TSR_NO_QUEUE)
        tsr_tickets.queues.data[place]->loose++;
    pthread_mutex_unlock(&tsr_copies_lock);
    tsr_copies_loose_queue = place + 1;
    tsr_order_leave(&hold);
    return CUDA_SUCCESS;
}

void tsr_copies_loose_end_slow(void)
{
    pthread_mutex_lock(&tsr_copies_lock);
    if (tsr_copies_loose_queue <= tsr_tickets.queues.count)
        tsr_tickets.queues.data[tsr_copies_loose_queue - 1]->loose--;
    pthread_mutex_unlock(&tsr_copies_lock);
    tsr_copies_loose_queue = 0;
}

CUresult tsr_copies_loose_open(CUstream stream, bool per_thread)
{
    struct tsr_copies_use use = {.everything = true, .stream = stream, .per_thread = per_thread};
    return tsr_copies_loose(&use);
}

CUresult tsr_copies_loose_all(CUstream stream, bool per_thread)
{
    tsr_memory_open_for_all();
    return tsr_copies_loose_open(stream, per_thread);
}

CUresult tsr_copies_loose_bytes(CUstream stream, bool per_thread, uint64_t to, uint64_t from, uint64_t bytes)
{
    struct tsr_touch touches[] = {{.first = from, .end = from + bytes, .pulls = true},
                                  {.first = to, .end = to + bytes, .writes = true}};
    struct tsr_copies_use use = {
        .touches = touches, .count = 2, .stream = stream, .per_thread = per_thread, .cause = TSR_PULL_COPY};
    tsr_memory_open_for_copy(tsr_stream_named(stream, per_thread), to, from);
    return tsr_copies_loose(&use);
}

CUresult tsr_copies_loose_rows(CUstream stream, bool per_thread, uint64_t to, uint64_t pitch, uint64_t width, uint64_t height)
{
    uint64_t bytes = height ? (height - 1) * pitch + width : 0;
    struct tsr_touch touch = {.first = to, .end = to + bytes, .pulls = height > 1, .writes = true};
    struct tsr_copies_use use = {
        .touches = &touch, .count = 1, .stream = stream, .per_thread = per_thread, .cause = TSR_PULL_COPY};
    tsr_memory_open_for_copy(tsr_stream_named(stream, per_thread), to, 0);
    return tsr_copies_loose(&use);
}

void tsr_copies_pull_stream_gone_locked(CUcontext context)
{
    if (context != pull_stream_context)
        return;
    pull_stream = NULL;
    pull_stream_context = NULL;
}

void tsr_copies_pull_stream_forget(void)
{
    pull_stream = NULL;
    pull_stream_context = NULL;
}
