/* See order.h. Locks, in this order: `related` (shared by blocking streams, exclusive for legacy ones), a stream's, the lane's. */
#include "order/order.h"

#include <pthread.h>

#include "base/os.h"
#include "object/capture.h"
#include "order/gate.h"
#include "lane/lane_client.h"
#include "driver/real.h"
#include "object/session.h"
#include "object/stream_number.h"
#include "lane/failover.h"
#include "lane/streams.h"
#include "lane/watch.h"
#include "order/order_parts.h"
#include "driver/stream_handle.h"

#define FOR_EVER UINT64_MAX

static TSR_APART pthread_rwlock_t related = PTHREAD_RWLOCK_INITIALIZER;
static struct {
    TSR_APART uint32_t kinds[TSR_STREAM_KINDS]; /* atomic; streams with a lane or something pending, by kind */
    uint32_t all;                               /* atomic; their sum */
} away;

bool tsr_order_strict;

static void count(const struct tsr_stream *stream, bool was, bool is)
{
    if (was == is)
        return;
    uint32_t step = is ? 1 : UINT32_MAX;
    __atomic_fetch_add(&away.kinds[stream->kind], step, __ATOMIC_SEQ_CST);
    __atomic_fetch_add(&away.all, step, __ATOMIC_SEQ_CST);
}

static bool is_away(const struct tsr_stream *stream)
{
    return stream->lane || stream->pending;
}

static bool any_away(void)
{
    return __atomic_load_n(&away.all, __ATOMIC_SEQ_CST) != 0;
}

/* Another thread cannot enqueue in a thread's own stream. */
static bool is_foreign(const struct tsr_stream *stream)
{
    return stream->kind == TSR_STREAM_OWN && (stream->orphan || stream->thread != tsr_stream_thread());
}

/* Default streams are those of the current context. */
CUresult tsr_order_operate_locked(const struct tsr_stream *stream, unsigned operations, CUstreamBatchMemOpParams *what)
{
    CUcontext current = NULL, popped;
    bool is_default = stream->kind == TSR_STREAM_LEGACY || stream->kind == TSR_STREAM_OWN;
    bool push = is_default && (tsr_real.cuCtxGetCurrent(&current) != CUDA_SUCCESS || current != stream->context);
    if (push && tsr_real.cuCtxPushCurrent_v2(stream->context) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_CONTEXT;
    CUresult result = tsr_real.cuStreamBatchMemOp_v2(stream->handle, operations, what, 0);
    if (push)
        tsr_real.cuCtxPopCurrent_v2(&popped);
    return result;
}

/* The executor's stream signals; what must wait for it at home is pending. */
static CUresult signal_locked(struct tsr_stream *stream)
{
    if (!stream->lane)
        return CUDA_SUCCESS;
    uint64_t value = tsr_slot_next_value(stream->slot);
    struct tsr_lane_record signal = {.kind = TSR_LANE_SIGNAL, .stream = stream->slot, .value = value};
    tsr_slot_set_signalled(stream->slot, stream->lane, value);
    CUresult result = tsr_lane_post(stream->lane, &signal, NULL);
    if (result != CUDA_SUCCESS)
        return result;
    stream->pending = stream->lane;
    stream->pending_value = value;
    __atomic_store_n(&stream->lane, NULL, __ATOMIC_RELEASE);
    return CUDA_SUCCESS;
}

static void settle_locked(struct tsr_stream *stream)
{
    stream->pending = NULL;
    count(stream, true, false);
}

static CUresult join_locked(struct tsr_stream *stream)
{
    CUresult result = signal_locked(stream);
    if (result != CUDA_SUCCESS || !stream->pending || is_foreign(stream))
        return result;
    CUstreamBatchMemOpParams wait =
        tsr_order_wait_operation(tsr_lane_away_fence(stream->slot, stream->pending), stream->pending_value);
    result = tsr_order_operate_locked(stream, 1, &wait);
    if (result == CUDA_SUCCESS)
        settle_locked(stream);
    return result;
}

/* The same for a stream that `waiter` waits for: one of another thread cannot be made to wait itself. */
static CUresult join_for_locked(struct tsr_stream *stream, const struct tsr_stream *waiter)
{
    CUresult result = join_locked(stream);
    if (result != CUDA_SUCCESS || !stream->pending)
        return result;
    if (tsr_lane_away_value(stream->slot, stream->pending) >= stream->pending_value) {
        settle_locked(stream);
        return CUDA_SUCCESS;
    }
    CUstreamBatchMemOpParams wait =
        tsr_order_wait_operation(tsr_lane_away_fence(stream->slot, stream->pending), stream->pending_value);
    return tsr_order_operate_locked(waiter, 1, &wait);
}

static bool waits_for(const struct tsr_stream *stream, const struct tsr_stream *other)
{
    bool related_kind = stream->kind == TSR_STREAM_LEGACY
                            ? tsr_stream_is(other, TSR_STREAM_BLOCKING) || tsr_stream_is(other, TSR_STREAM_OWN)
                            : tsr_stream_is(other, TSR_STREAM_LEGACY);
    return related_kind && __atomic_load_n(&other->context, __ATOMIC_RELAXED) == stream->context;
}

/* `related` is held exclusively. */
static CUresult join_related_locked(struct tsr_stream *stream)
{
    CUresult result = CUDA_SUCCESS;
    for (struct tsr_stream *at = tsr_stream_first(); at && result == CUDA_SUCCESS; at = at->next) {
        if (at == stream || !__atomic_load_n(&at->live, __ATOMIC_ACQUIRE))
            continue;
        pthread_mutex_lock(&at->lock);
        if (at->live && is_away(at) && waits_for(stream, at))
            result = join_for_locked(at, stream);
        pthread_mutex_unlock(&at->lock);
    }
    return result;
}

static uint32_t away_related_to(const struct tsr_stream *stream)
{
    return stream->kind == TSR_STREAM_LEGACY ? __atomic_load_n(&away.kinds[TSR_STREAM_BLOCKING], __ATOMIC_SEQ_CST) +
                                                   __atomic_load_n(&away.kinds[TSR_STREAM_OWN], __ATOMIC_SEQ_CST)
                                             : __atomic_load_n(&away.kinds[TSR_STREAM_LEGACY], __ATOMIC_SEQ_CST);
}

static void hold_stream(struct tsr_order_hold *hold, struct tsr_stream *stream)
{
    hold->stream = stream;
    hold->related = stream->kind != TSR_STREAM_FREE;
    if (stream->kind == TSR_STREAM_LEGACY)
        pthread_rwlock_wrlock(&related);
    else if (hold->related)
        pthread_rwlock_rdlock(&related);
}

static void release(struct tsr_order_hold *hold)
{
    pthread_mutex_unlock(&hold->stream->lock);
    if (hold->related)
        pthread_rwlock_unlock(&related);
    hold->stream = NULL;
}

/* Holds the stream with what it waits for joined. */
static CUresult hold_joined(struct tsr_order_hold *hold, struct tsr_stream *stream)
{
    CUresult result = CUDA_SUCCESS;
    hold_stream(hold, stream);
    if (hold->related && away_related_to(stream)) {
        if (stream->kind != TSR_STREAM_LEGACY) {
            pthread_rwlock_unlock(&related);
            pthread_rwlock_wrlock(&related);
        }
        result = join_related_locked(stream);
    }
    pthread_mutex_lock(&stream->lock);
    if (result != CUDA_SUCCESS)
        release(hold);
    return result;
}

static CUresult enter_record(struct tsr_stream *stream, struct tsr_order_hold *hold)
{
    CUresult result = hold_joined(hold, stream);
    if (result == CUDA_SUCCESS && (result = join_locked(stream)) != CUDA_SUCCESS)
        release(hold);
    return result;
}

static CUresult enter(CUstream handle, bool per_thread, struct tsr_order_hold *hold)
{
    *hold = (struct tsr_order_hold){0};
    if (!any_away() && !__atomic_load_n(&tsr_order_strict, __ATOMIC_ACQUIRE)) {
        *hold = (struct tsr_order_hold){.loose = true, .handle = handle, .per_thread = per_thread};
        return CUDA_SUCCESS;
    }
    bool captured =
        tsr_is_capturing(tsr_stream_named(handle, per_thread)); /* then it is home, and is not to be asked anything */
    struct tsr_stream *stream = captured ? NULL : tsr_stream_find(handle, per_thread);
    return stream && !stream->elsewhere ? enter_record(stream, hold) : CUDA_SUCCESS;
}

CUresult tsr_order_enter(CUstream handle, bool per_thread, struct tsr_order_hold *hold)
{
    bool gated = tsr_gate_enter();
    CUresult result = enter(handle, per_thread, hold);
    hold->gated = gated && result == CUDA_SUCCESS;
    if (result != CUDA_SUCCESS)
        tsr_gate_leave(gated);
    return result;
}

bool tsr_order_enter_found(const struct tsr_stream_found *found, struct tsr_order_hold *hold)
{
    if (!found->stream || tsr_is_any_capture())
        return false;
    *hold = (struct tsr_order_hold){.gated = tsr_gate_enter()};
    if (enter_record(found->stream, hold) == CUDA_SUCCESS) {
        if (tsr_stream_is_same(found) && !found->stream->elsewhere)
            return true;
        release(hold);
    }
    tsr_gate_leave(hold->gated);
    return false;
}

CUresult tsr_order_enter_loose(CUstream handle, bool per_thread, struct tsr_order_hold *hold)
{
    CUresult result = tsr_order_enter(handle, per_thread, hold);
    if (hold->stream)
        release(hold);
    *hold = (struct tsr_order_hold){
        .loose = result == CUDA_SUCCESS, .handle = handle, .per_thread = per_thread, .gated = hold->gated};
    return result;
}

static void touch(struct tsr_stream *stream)
{
    __atomic_store_n(&stream->touched, true, __ATOMIC_RELEASE);
}

static void leave_mark(const struct tsr_order_hold *hold)
{
    struct tsr_stream *stream = tsr_stream_seen(hold->handle, hold->per_thread);
    bool related_away = !stream || (stream->kind != TSR_STREAM_FREE && away_related_to(stream));
    if (stream)
        touch(stream);
    for (struct tsr_stream *at = related_away ? tsr_stream_first() : NULL; at; at = at->next)
        if (__atomic_load_n(&at->live, __ATOMIC_ACQUIRE) && (!stream || waits_for(stream, at)))
            touch(at);
}

void tsr_order_leave(struct tsr_order_hold *hold)
{
    if (hold->stream)
        release(hold);
    else if (hold->loose && any_away())
        leave_mark(hold);
    tsr_gate_leave(hold->gated);
}

CUresult tsr_order_join(CUstream handle, bool per_thread)
{
    struct tsr_order_hold hold;
    CUresult result = enter(handle, per_thread, &hold);
    if (hold.stream)
        release(&hold);
    return result;
}

static CUresult join_all_locked(void)
{
    CUresult result = CUDA_SUCCESS;
    for (struct tsr_stream *at = tsr_stream_first(); at && result == CUDA_SUCCESS; at = at->next) {
        if (!__atomic_load_n(&at->live, __ATOMIC_ACQUIRE))
            continue;
        pthread_mutex_lock(&at->lock);
        if (at->live && is_away(at))
            result = join_locked(at);
        pthread_mutex_unlock(&at->lock);
    }
    return result;
}

static CUresult await(struct tsr_lane_client *lane, uint32_t slot, uint64_t value, uint64_t deadline_ns)
{
    if (deadline_ns == FOR_EVER)
        return tsr_lane_await(lane, slot, value);
    static const uint32_t never;
    while (tsr_lane_away_value(slot, lane) < value) {
        uint64_t now = tsr_os_monotonic_ns();
        if (now >= deadline_ns)
            return CUDA_ERROR_NOT_READY;
        tsr_os_futex_wait(&never, 0, tsr_os_pause_ns(deadline_ns - now), false);
    }
    return tsr_lane_state(lane);
}

/* Waits, on the host and holding nothing, for work of a stream that nobody here can enqueue in. */
static CUresult await_foreign(struct tsr_stream *stream, uint64_t deadline_ns)
{
    pthread_mutex_lock(&stream->lock);
    bool awaited = stream->live && stream->pending && is_foreign(stream);
    struct tsr_lane_client *lane = stream->pending;
    uint64_t value = stream->pending_value;
    uint32_t slot = stream->slot;
    pthread_mutex_unlock(&stream->lock);
    if (!awaited)
        return CUDA_SUCCESS;
    CUresult result = await(lane, slot, value, deadline_ns);
    pthread_mutex_lock(&stream->lock);
    if (result == CUDA_SUCCESS && stream->live && stream->pending == lane && stream->pending_value == value)
        settle_locked(stream);
    pthread_mutex_unlock(&stream->lock);
    return result;
}

CUresult tsr_order_join_all(void)
{
    return tsr_order_join_all_until(FOR_EVER);
}

CUresult tsr_order_join_all_until(uint64_t deadline_ns)
{
    if (!any_away())
        return CUDA_SUCCESS;
    pthread_rwlock_wrlock(&related);
    CUresult result = join_all_locked();
    pthread_rwlock_unlock(&related);
    for (struct tsr_stream *at = tsr_stream_first(); at && result == CUDA_SUCCESS && any_away(); at = at->next)
        if (tsr_stream_is(at, TSR_STREAM_OWN))
            result = await_foreign(at, deadline_ns);
    return result;
}

CUresult tsr_order_destroy(CUstream handle)
{
    tsr_stream_number_forget(handle);
    struct tsr_stream *stream = tsr_stream_seen(handle, false);
    bool explicit = stream && (stream->kind == TSR_STREAM_BLOCKING || stream->kind == TSR_STREAM_FREE);
    if (!explicit)
        return CUDA_SUCCESS;
    CUresult result = tsr_order_join(handle, false);
    if (result == CUDA_SUCCESS)
        tsr_stream_forget(stream);
    return result;
}

CUresult tsr_order_destroy_contexts(void)
{
    CUresult result = tsr_order_join_all();
    tsr_stream_forget_settled(false);
    const struct tsr_session *session = tsr_session();
    for (uint32_t i = 0; session && i < session->lane_count; i++) {
        tsr_failover_await(session->lanes[i]);
        tsr_lane_unregister(session->lanes[i]);
    }
    return result;
}

/* Whether the stream had work on the lane, and if it is the context's: it has none any more. */
static bool drop_work(struct tsr_stream *stream, const struct tsr_lane_client *lane, CUcontext context)
{
    pthread_mutex_lock(&stream->lock);
    bool with_lane = stream->live && (stream->lane == lane || stream->pending == lane);
    if (with_lane && stream->context == context) {
        stream->lane = NULL;
        settle_locked(stream);
    }
    pthread_mutex_unlock(&stream->lock);
    return with_lane;
}

void tsr_order_context_ended(CUcontext context)
{
    const struct tsr_session *session = tsr_session();
    for (uint32_t i = 0; session && i < session->lane_count; i++) {
        if (tsr_lane_state(session->lanes[i]) == CUDA_SUCCESS)
            continue;
        bool others = false;
        for (struct tsr_stream *at = tsr_stream_first(); at; at = at->next) {
            bool had_work = drop_work(at, session->lanes[i], context);
            if (had_work && at->context == context)
                tsr_stream_forget(at);
            others |= had_work && at->context != context;
        }
        if (!others)
            tsr_lane_pardon(session->lanes[i]);
    }
    tsr_stream_forget_of(context);
}

CUresult tsr_order_state(void)
{
    const struct tsr_session *session = tsr_session();
    CUresult state = CUDA_SUCCESS;
    for (uint32_t i = 0; session && i < session->lane_count && state == CUDA_SUCCESS; i++)
        state = tsr_lane_state(session->lanes[i]);
    return state;
}

CUresult tsr_order_open_locked(const struct tsr_stream *stream, struct tsr_lane_client *lane)
{
    CUresult result = tsr_lane_register(lane); /* again, if it went with a context */
    if (result == CUDA_SUCCESS && tsr_slot_opened(stream->slot, tsr_lane_number(lane)))
        return CUDA_SUCCESS;
    struct tsr_message message = {.kind = TSR_MESSAGE_STREAM, .id = stream->slot, .detail = stream->priority};
    if (result == CUDA_SUCCESS)
        result = tsr_lane_ask(lane, &message, -1);
    if (result != CUDA_SUCCESS || tsr_lane_is_lost(lane))
        return tsr_lane_state(lane) == CUDA_SUCCESS ? CUDA_ERROR_NOT_SUPPORTED : tsr_lane_state(lane);
    tsr_slot_set_opened(stream->slot, tsr_lane_number(lane));
    return CUDA_SUCCESS;
}

/* From home, or from another lane by way of home: one batch there, then the executor's wait. */
static CUresult depart_locked(struct tsr_stream *stream, struct tsr_lane_client *lane)
{
    bool was_away = is_away(stream);
    CUresult result = stream->lane == lane ? CUDA_SUCCESS : signal_locked(stream);
    if (result == CUDA_SUCCESS && !tsr_slot_take(stream))
        result = CUDA_ERROR_NOT_SUPPORTED;
    if (result == CUDA_SUCCESS)
        result = tsr_order_open_locked(stream, lane);
    if (result != CUDA_SUCCESS)
        return result;
    CUstreamBatchMemOpParams operations[2];
    unsigned operation_count = 0;
    if (stream->pending)
        operations[operation_count++] =
            tsr_order_wait_operation(tsr_lane_away_fence(stream->slot, stream->pending), stream->pending_value);
    uint64_t value = tsr_slot_next_value(stream->slot);
    operations[operation_count++] = tsr_order_write_operation(tsr_lane_home_fence(stream->slot, lane), value);
    __atomic_store_n(&stream->touched, false, __ATOMIC_RELEASE);
    result = tsr_order_operate_locked(stream, operation_count, operations);
    struct tsr_lane_record wait = {.kind = TSR_LANE_WAIT, .stream = stream->slot, .value = value};
    if (result == CUDA_SUCCESS)
        result = tsr_lane_post(lane, &wait, NULL);
    if (result != CUDA_SUCCESS)
        return result;
    stream->pending = NULL;
    __atomic_store_n(&stream->lane, lane, __ATOMIC_RELEASE);
    count(stream, was_away, true);
    return CUDA_SUCCESS;
}

static CUresult depart_if_possible_locked(struct tsr_stream *stream, struct tsr_lane_client *lane)
{
    CUresult state = tsr_lane_state(lane);
    if (!tsr_lane_enter(lane))
        return stream->lane == lane && state != CUDA_SUCCESS ? state : CUDA_ERROR_NOT_SUPPORTED;
    CUresult result = depart_locked(stream, lane);
    tsr_lane_leave(lane);
    return result;
}

/*
 * Holds a stream whose last work went to the lane, and which nothing at home has touched since, by its own lock alone. It counts as away, so a
 * related stream that departs meanwhile takes `related` and this lock to join it; and it goes on only if no related one was away before.
 */
static bool hold_there(const struct tsr_stream_found *found, const struct tsr_lane_client *lane, struct tsr_order_hold *hold)
{
    struct tsr_stream *stream = found->stream;
    if (!stream || __atomic_load_n(&stream->lane, __ATOMIC_ACQUIRE) != lane)
        return false;
    pthread_mutex_lock(&stream->lock);
    bool stays = tsr_stream_is_same(found) && stream->live && stream->lane == lane &&
                 !__atomic_load_n(&stream->touched, __ATOMIC_ACQUIRE) &&
                 (stream->kind == TSR_STREAM_FREE || !away_related_to(stream)) && !tsr_lane_is_lost(lane);
    if (stays)
        hold->stream = stream;
    else
        pthread_mutex_unlock(&stream->lock);
    return stays;
}

/* The usual case: the stream's last work went there, too. */
static bool goes_on(const struct tsr_stream_found *found, struct tsr_lane_client *lane, uint32_t *slot,
                    struct tsr_order_hold *hold)
{
    *hold = (struct tsr_order_hold){0};
    if (!found->stream || __atomic_load_n(&found->stream->lane, __ATOMIC_RELAXED) != lane)
        return false;
    tsr_lane_await_stream(lane, &found->stream->slot);
    if (!hold_there(found, lane, hold))
        return false;
    *slot = found->stream->slot;
    return true;
}

static CUresult depart(CUstream handle, struct tsr_lane_client *lane, uint32_t *slot, struct tsr_order_hold *hold)
{
    struct tsr_stream *stream = tsr_stream_find(handle, false);
    if (!stream || stream->elsewhere)
        return CUDA_ERROR_NOT_SUPPORTED;
    CUresult result = hold_joined(hold, stream);
    if (result != CUDA_SUCCESS)
        return result;
    if (stream->lane != lane || __atomic_load_n(&stream->touched, __ATOMIC_ACQUIRE) || tsr_lane_is_lost(lane))
        result = depart_if_possible_locked(stream, lane);
    if (result == CUDA_SUCCESS)
        *slot = stream->slot;
    else
        release(hold);
    return result;
}

CUresult tsr_order_depart(CUstream handle, bool per_thread, struct tsr_lane_client *lane, uint32_t *slot,
                          struct tsr_order_hold *hold)
{
    struct tsr_stream_found found;
    tsr_stream_place(tsr_stream_named(handle, per_thread), &found);
    return tsr_order_depart_found(&found, tsr_stream_named(handle, per_thread), lane, slot, hold);
}

CUresult tsr_order_depart_found(const struct tsr_stream_found *found, CUstream handle, struct tsr_lane_client *lane,
                                uint32_t *slot, struct tsr_order_hold *hold)
{
    bool gated = tsr_gate_enter();
    CUresult result = goes_on(found, lane, slot, hold) ? CUDA_SUCCESS : depart(handle, lane, slot, hold);
    hold->gated = gated && result == CUDA_SUCCESS;
    if (result != CUDA_SUCCESS)
        tsr_gate_leave(gated);
    return result;
}

struct tsr_lane_client *tsr_order_lane(CUstream handle, bool per_thread)
{
    const struct tsr_stream *stream = any_away() ? tsr_stream_seen(handle, per_thread) : NULL;
    return stream ? __atomic_load_n(&stream->lane, __ATOMIC_RELAXED) : NULL;
}

/* Ended threads' streams whose work is complete. */
static void forget_orphans(void)
{
    for (struct tsr_stream *at = tsr_stream_first(); at; at = at->next) {
        if (!tsr_stream_is(at, TSR_STREAM_OWN))
            continue;
        pthread_mutex_lock(&at->lock);
        bool complete =
            at->live && at->orphan && at->pending && tsr_lane_away_value(at->slot, at->pending) >= at->pending_value;
        if (complete)
            settle_locked(at);
        pthread_mutex_unlock(&at->lock);
    }
    tsr_stream_forget_settled(true);
}

/* The thread's own stream at home ends with the thread, its work elsewhere does not. */
static void end_own(struct tsr_stream *stream)
{
    if (!tsr_session())
        return;
    pthread_mutex_lock(&stream->lock);
    bool same = stream->live && stream->kind == TSR_STREAM_OWN && !is_foreign(stream);
    stream->orphan |= same;
    if (same)
        signal_locked(stream);
    pthread_mutex_unlock(&stream->lock);
    forget_orphans();
}

void tsr_order_start(void)
{
    pthread_rwlock_init(&related, NULL);
    for (unsigned i = 0; i < TSR_STREAM_KINDS; i++)
        away.kinds[i] = 0;
    away.all = 0;
    tsr_order_strict = false;
    tsr_stream_reset();
    tsr_watch_reset();
    tsr_stream_thread_ends = end_own;
}
