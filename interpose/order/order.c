/* See order.h. Locks, in this order: `related` (shared by blocking streams, exclusive for legacy ones), a stream's, the lane's. */
#include "order/order.h"

#include <pthread.h>
#include <string.h>

#include "base/os.h"
#include "driver/real.h"
#include "object/capture.h"
#include "order/aside.h"
#include "order/gate.h"
#include "lane/lane_client.h"
#include "object/session.h"
#include "object/stream_number.h"
#include "lane/failover.h"
#include "lane/fences.h"
#include "lane/streams.h"
#include "lane/watch.h"
#include "order/order_parts.h"
#include "order/strands.h"
#include "driver/stream_handle.h"

#define FOR_EVER UINT64_MAX
#define STEP_LOOK_NS 1000000000ull
#define MOST_STEPS 64u

/* How work is entered. */
#define TRACKED 1u
#define BETWEEN 2u /* also between the pieces of another thread's step */
/* Of what is not BETWEEN: another thread is in a step; it is to be tried again after that. */
#define IN_STEP ((CUresult)-1)

static TSR_APART pthread_rwlock_t related = PTHREAD_RWLOCK_INITIALIZER;
static TSR_APART uint32_t step_count; /* atomic; under way */
static uint32_t steps_ended;          /* atomic; futex */
/* Those under way. A stream's record may be forgotten meanwhile, and made again: they tell streams by what stays. */
static struct {
    uint64_t thread; /* this and all: atomic; 0: no step; UINT64_MAX: it is about to begin */
    CUstream handle;
    CUcontext context;
    enum tsr_stream_kind kind;
} steps[MOST_STEPS];
bool tsr_order_strict;
uint64_t tsr_order_exposed;

CUresult tsr_order_operate_locked(const struct tsr_stream *stream, unsigned operations, CUstreamBatchMemOpParams *what)
{
    return tsr_fences_operate(stream->context, stream->handle, operations, what);
}

static bool are_related(enum tsr_stream_kind kind, enum tsr_stream_kind other)
{
    return kind == TSR_STREAM_LEGACY ? other == TSR_STREAM_BLOCKING || other == TSR_STREAM_OWN
                                     : kind != TSR_STREAM_FREE && other == TSR_STREAM_LEGACY;
}

static bool waits_for(const struct tsr_stream *stream, const struct tsr_stream *other)
{
    return __atomic_load_n(&other->live, __ATOMIC_ACQUIRE) &&
           are_related(stream->kind, __atomic_load_n(&other->kind, __ATOMIC_RELAXED)) &&
           __atomic_load_n(&other->context, __ATOMIC_RELAXED) == stream->context;
}

/* `related` is held exclusively. */
static CUresult join_related_locked(struct tsr_stream *stream)
{
    CUresult result = CUDA_SUCCESS;
    for (struct tsr_stream *at = tsr_stream_first(); at && result == CUDA_SUCCESS; at = at->next) {
        if (at == stream || !__atomic_load_n(&at->live, __ATOMIC_ACQUIRE))
            continue;
        tsr_lock_take(&at->lock);
        if (at->live && at->away && waits_for(stream, at))
            result = tsr_strands_join_for(at, stream);
        tsr_lock_give(&at->lock);
    }
    return result;
}

static uint32_t away_related_to(const struct tsr_stream *stream)
{
    return stream->kind == TSR_STREAM_LEGACY ? tsr_strands_away_of(TSR_STREAM_BLOCKING) + tsr_strands_away_of(TSR_STREAM_OWN)
                                             : tsr_strands_away_of(TSR_STREAM_LEGACY);
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
    tsr_lock_give(&hold->stream->lock);
    if (hold->related)
        pthread_rwlock_unlock(&related);
    hold->stream = NULL;
}

/* Whether another thread is in a step there, or in a related stream. The stream is held: steps begin before that, or after it is given back. */
static bool must_wait_for_step(const struct tsr_stream *stream)
{
    bool must = false;
    for (uint32_t i = 0; tsr_order_is_any_step() && i < MOST_STEPS && !must; i++) {
        uint64_t thread = __atomic_load_n(&steps[i].thread, __ATOMIC_ACQUIRE);
        if (!thread || thread == UINT64_MAX || thread == tsr_stream_thread() ||
            __atomic_load_n(&steps[i].context, __ATOMIC_RELAXED) != stream->context)
            continue;
        enum tsr_stream_kind kind = __atomic_load_n(&steps[i].kind, __ATOMIC_RELAXED);
        bool is_same = kind != TSR_STREAM_OWN && __atomic_load_n(&steps[i].handle, __ATOMIC_RELAXED) == stream->handle;
        must = is_same || are_related(stream->kind, kind);
    }
    return must;
}

/* `ended`: how many had ended before it was seen that one goes on. Nothing is held. */
static void await_step(uint32_t ended)
{
    tsr_os_futex_wait(&steps_ended, ended, STEP_LOOK_NS, false);
}

static uint32_t steps_ended_now(void)
{
    return __atomic_load_n(&steps_ended, __ATOMIC_ACQUIRE);
}

/* Holds the stream, after joining the streams that it waits for. Errors: also IN_STEP. */
static CUresult hold_joined(struct tsr_order_hold *hold, struct tsr_stream *stream, unsigned how)
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
    tsr_lock_take(&stream->lock);
    if (result == CUDA_SUCCESS && !(how & BETWEEN) && must_wait_for_step(stream))
        result = IN_STEP;
    if (result != CUDA_SUCCESS)
        release(hold);
    return result;
}

/* Before tracked work (strands.h) the stream's own strands are not joined. */
static CUresult enter_held(struct tsr_order_hold *hold, struct tsr_stream *stream, unsigned how)
{
    CUresult result = hold_joined(hold, stream, how);
    if (result != CUDA_SUCCESS)
        return result;
    if (!(how & TRACKED) || !tsr_strands_are_apart(stream))
        result = tsr_strands_join(stream);
    else if (stream->lane)
        __atomic_store_n(&stream->lane, NULL, __ATOMIC_RELEASE);
    if (result != CUDA_SUCCESS)
        release(hold);
    return result;
}

static CUresult enter(CUstream handle, bool per_thread, struct tsr_order_hold *hold, unsigned how)
{
    *hold = (struct tsr_order_hold){0};
    if (!tsr_strands_any_away() && !__atomic_load_n(&tsr_order_strict, __ATOMIC_ACQUIRE)) {
        *hold = (struct tsr_order_hold){.loose = true, .handle = handle, .per_thread = per_thread};
        return CUDA_SUCCESS;
    }
    bool captured = tsr_is_capturing(tsr_stream_named(handle, per_thread)); /* then it is home, and must not be queried */
    struct tsr_stream *stream = captured ? NULL : tsr_stream_find(handle, per_thread);
    return stream && !stream->elsewhere ? enter_held(hold, stream, how) : CUDA_SUCCESS;
}

/* Ends a try, which keeps the gate if it succeeded. True: a step was in the way, and is over or is to be looked at again. */
static bool comes_again(struct tsr_order_hold *hold, bool gated, CUresult result, uint32_t ended)
{
    hold->gated = gated && result == CUDA_SUCCESS;
    if (result != CUDA_SUCCESS)
        tsr_gate_leave(gated);
    if (result == IN_STEP)
        await_step(ended);
    return result == IN_STEP;
}

static CUresult enter_gated(CUstream handle, bool per_thread, struct tsr_order_hold *hold, unsigned how)
{
    uint32_t ended;
    bool gated;
    CUresult result;
    do {
        ended = steps_ended_now();
        gated = tsr_gate_enter();
        result = enter(handle, per_thread, hold, how);
    } while (comes_again(hold, gated, result, ended));
    return result;
}

void tsr_order_expose(void)
{
    if (tsr_order_by_data)
        __atomic_add_fetch(&tsr_order_exposed, 1, __ATOMIC_RELEASE);
}

CUresult tsr_order_enter(CUstream handle, bool per_thread, struct tsr_order_hold *hold)
{
    tsr_order_expose();
    return enter_gated(handle, per_thread, hold, 0);
}

CUresult tsr_order_enter_between(CUstream handle, bool per_thread, struct tsr_order_hold *hold)
{
    tsr_order_expose();
    return enter_gated(handle, per_thread, hold, BETWEEN);
}

CUresult tsr_order_enter_tracked(CUstream handle, bool per_thread, struct tsr_order_hold *hold)
{
    return enter_gated(handle, per_thread, hold, TRACKED);
}

bool tsr_order_enter_found(const struct tsr_stream_found *found, bool tracked, struct tsr_order_hold *hold)
{
    if (!found->stream || tsr_is_any_capture())
        return false;
    if (!tracked)
        tsr_order_expose();
    *hold = (struct tsr_order_hold){.gated = tsr_gate_enter()};
    if (enter_held(hold, found->stream, tracked ? TRACKED : 0) == CUDA_SUCCESS) {
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

void tsr_order_touch_all(void)
{
    for (struct tsr_stream *at = tsr_strands_any_away() ? tsr_stream_first() : NULL; at; at = at->next)
        if (__atomic_load_n(&at->live, __ATOMIC_ACQUIRE))
            touch(at);
}

static void leave_note(const struct tsr_order_hold *hold)
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
    else if (hold->loose && tsr_strands_any_away())
        leave_note(hold);
    tsr_gate_leave(hold->gated);
}

bool tsr_order_is_any_step(void)
{
    return __builtin_expect(__atomic_load_n(&step_count, __ATOMIC_ACQUIRE) != 0, 0);
}

/* The stream is held. False: there are too many. */
static bool begin_step_locked(const struct tsr_stream *stream)
{
    uint32_t place = 0;
    uint64_t none = 0;
    while (place < MOST_STEPS &&
           !__atomic_compare_exchange_n(&steps[place].thread, &none, UINT64_MAX, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
        place++;
        none = 0;
    }
    if (place == MOST_STEPS)
        return false;
    __atomic_store_n(&steps[place].handle, stream->handle, __ATOMIC_RELAXED);
    __atomic_store_n(&steps[place].context, stream->context, __ATOMIC_RELAXED);
    __atomic_store_n(&steps[place].kind, stream->kind, __ATOMIC_RELAXED);
    __atomic_store_n(&steps[place].thread, tsr_stream_thread(), __ATOMIC_RELEASE);
    __atomic_add_fetch(&step_count, 1, __ATOMIC_SEQ_CST);
    return true;
}

bool tsr_order_step_begin(CUstream handle)
{
    for (;;) {
        struct tsr_order_hold hold = {0};
        uint32_t ended = steps_ended_now();
        bool gated = tsr_gate_enter();
        struct tsr_stream *stream = tsr_stream_find(handle, false);
        CUresult result = stream && !stream->elsewhere ? hold_joined(&hold, stream, 0) : CUDA_ERROR_NOT_SUPPORTED;
        bool begins = result == CUDA_SUCCESS && stream->live && begin_step_locked(stream);
        if (result == CUDA_SUCCESS)
            release(&hold);
        tsr_gate_leave(gated);
        if (result != IN_STEP)
            return begins;
        await_step(ended);
    }
}

void tsr_order_step_end(void)
{
    for (uint32_t i = 0; i < MOST_STEPS; i++)
        if (__atomic_load_n(&steps[i].thread, __ATOMIC_RELAXED) == tsr_stream_thread())
            __atomic_store_n(&steps[i].thread, 0, __ATOMIC_RELEASE);
    __atomic_sub_fetch(&step_count, 1, __ATOMIC_RELEASE);
    __atomic_add_fetch(&steps_ended, 1, __ATOMIC_RELEASE);
    tsr_os_futex_wake(&steps_ended, UINT32_MAX, false);
}

CUresult tsr_order_record(CUevent event, CUstream handle, bool per_thread, unsigned flags)
{
    struct tsr_order_hold hold;
    struct tsr_lane_client *last = tsr_order_lane(handle, per_thread);
    CUresult result = tsr_order_by_data ? tsr_order_enter_tracked(handle, per_thread, &hold) : CUDA_ERROR_NOT_SUPPORTED;
    if (result == CUDA_SUCCESS) {
        tsr_order_expose();
        if (hold.stream && last) /* it goes on where it was */
            __atomic_store_n(&hold.stream->lane, last, __ATOMIC_RELEASE);
        result = hold.stream ? tsr_aside_record(hold.stream, event, flags) : CUDA_ERROR_NOT_SUPPORTED;
        tsr_order_leave(&hold);
    }
    if (result != CUDA_ERROR_NOT_SUPPORTED)
        return result;
    result = tsr_order_enter(handle, per_thread, &hold);
    if (result != CUDA_SUCCESS)
        return result;
    result = flags ? tsr_real.cuEventRecordWithFlags(event, tsr_stream_named(handle, per_thread), flags)
                   : tsr_real.cuEventRecord(event, tsr_stream_named(handle, per_thread));
    tsr_order_leave(&hold);
    return result;
}

CUresult tsr_order_join(CUstream handle, bool per_thread)
{
    struct tsr_order_hold hold;
    CUresult result = enter(handle, per_thread, &hold, BETWEEN);
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
        tsr_lock_take(&at->lock);
        if (at->live && at->away)
            result = tsr_strands_join(at);
        tsr_lock_give(&at->lock);
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

/* Waits, on the host and without holding anything, for the work on one lane of a stream in which this thread cannot enqueue. */
static CUresult await_foreign_on(struct tsr_stream *stream, uint32_t number, uint64_t deadline_ns)
{
    struct tsr_lane_client *lane = tsr_session()->lanes[number];
    tsr_lock_take(&stream->lock);
    bool awaited = stream->live && (stream->away & ~stream->unsignalled) >> number & 1 && tsr_strands_are_foreign(stream);
    uint64_t value = stream->signalled[number];
    uint32_t slot = stream->slot;
    tsr_lock_give(&stream->lock);
    if (!awaited)
        return CUDA_SUCCESS;
    CUresult result = await(lane, slot, value, deadline_ns);
    tsr_lock_take(&stream->lock);
    bool same = stream->live && stream->slot == slot && (stream->away & ~stream->unsignalled) >> number & 1 &&
                stream->signalled[number] == value;
    if (result == CUDA_SUCCESS && same)
        tsr_strands_settle(stream, 1u << number);
    tsr_lock_give(&stream->lock);
    return result;
}

static CUresult await_foreign(struct tsr_stream *stream, uint64_t deadline_ns)
{
    CUresult result = CUDA_SUCCESS;
    for (uint32_t number = 0; number < TSR_LANES && result == CUDA_SUCCESS; number++)
        if (tsr_stream_lanes(&stream->away) >> number & 1)
            result = await_foreign_on(stream, number, deadline_ns);
    return result;
}

CUresult tsr_order_join_all(void)
{
    return tsr_order_join_all_until(FOR_EVER);
}

CUresult tsr_order_enter_all(void)
{
    tsr_order_expose();
    return tsr_order_join_all();
}

CUresult tsr_order_join_all_until(uint64_t deadline_ns)
{
    if (!tsr_strands_any_away())
        return CUDA_SUCCESS;
    pthread_rwlock_wrlock(&related);
    CUresult result = join_all_locked();
    pthread_rwlock_unlock(&related);
    for (struct tsr_stream *at = tsr_stream_first(); at && result == CUDA_SUCCESS && tsr_strands_any_away(); at = at->next)
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
    if (result != CUDA_SUCCESS)
        return result;
    tsr_lock_take(&stream->lock);
    if (stream->live && stream->handle == handle)
        tsr_strands_end(stream);
    tsr_lock_give(&stream->lock);
    tsr_stream_forget(stream);
    return result;
}

CUresult tsr_order_destroy_contexts(void)
{
    CUresult result = tsr_order_join_all();
    const struct tsr_session *session = tsr_session();
    for (uint32_t i = 0; session && i < session->lane_count; i++)
        tsr_failover_await(session->lanes[i]);
    return result;
}

/* If the stream is the context's, no work of it is waited for any more. Whether it is another one's, and has work on the lane. */
static bool drop_work(struct tsr_stream *stream, const struct tsr_lane_client *lane, CUcontext context)
{
    tsr_lock_take(&stream->lock);
    bool with_lane = stream->live && stream->away >> tsr_lane_number(lane) & 1, mine = stream->context == context;
    if (with_lane && mine) {
        __atomic_store_n(&stream->lane, NULL, __ATOMIC_RELEASE);
        tsr_strands_settle(stream, stream->away);
    }
    tsr_lock_give(&stream->lock);
    return with_lane && !mine;
}

void tsr_order_context_ended(CUcontext context)
{
    const struct tsr_session *session = tsr_session();
    for (uint32_t i = 0; session && i < session->lane_count; i++) {
        if (tsr_lane_state(session->lanes[i]) == CUDA_SUCCESS)
            continue;
        bool others = false;
        for (struct tsr_stream *at = tsr_stream_first(); at; at = at->next)
            others |= drop_work(at, session->lanes[i], context);
        if (!others)
            tsr_lane_pardon(session->lanes[i]);
    }
    tsr_stream_forget_of(context);
    tsr_fences_context_ended(context);
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
    CUresult result = stream->context ? tsr_fences_open(stream->context, lane) : CUDA_SUCCESS;
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

static CUresult depart_if_possible_locked(struct tsr_stream *stream, struct tsr_lane_client *lane)
{
    CUresult state = tsr_lane_state(lane);
    if (!tsr_lane_enter(lane))
        return stream->away >> tsr_lane_number(lane) & 1 && state != CUDA_SUCCESS ? state : CUDA_ERROR_NOT_SUPPORTED;
    CUresult result = tsr_strands_depart(stream, lane);
    tsr_lane_leave(lane);
    return result;
}

static bool has_forked(const struct tsr_stream *stream, const struct tsr_lane_client *lane)
{
    return tsr_stream_lanes(&stream->forked) >> tsr_lane_number(lane) & 1;
}

static bool is_there(const struct tsr_stream *stream, const struct tsr_lane_client *lane)
{
    return has_forked(stream, lane) && !__atomic_load_n(&stream->touched, __ATOMIC_ACQUIRE) && !tsr_lane_is_lost(lane);
}

/*
 * Holds, by its own lock alone, a stream that has forked to the lane (in stream order: whose last work went there) and has had no work at home since.
 * The stream counts as away, so a related stream that departs meanwhile takes `related` and this lock to join it; and this stream continues
 * only if no related one was away before.
 */
static bool hold_there(const struct tsr_stream_found *found, struct tsr_lane_client *lane, struct tsr_order_hold *hold)
{
    struct tsr_stream *stream = found->stream;
    tsr_lock_take(&stream->lock);
    bool stays = tsr_stream_is_same(found) && stream->live && !must_wait_for_step(stream) && is_there(stream, lane) &&
                 (stream->kind == TSR_STREAM_FREE || !away_related_to(stream));
    if (stays)
        hold->stream = stream;
    else
        tsr_lock_give(&stream->lock);
    return stays;
}

/* The usual case: the stream's last work went to the same lane. */
static bool goes_on(const struct tsr_stream_found *found, struct tsr_lane_client *lane, uint32_t *slot,
                    struct tsr_order_hold *hold)
{
    *hold = (struct tsr_order_hold){0};
    if (!found->stream || !has_forked(found->stream, lane))
        return false;
    tsr_lane_await_stream(lane, &found->stream->slot);
    if (!hold_there(found, lane, hold))
        return false;
    tsr_strands_go_on(found->stream, lane);
    *slot = found->stream->slot;
    return true;
}

static CUresult depart(CUstream handle, struct tsr_lane_client *lane, uint32_t *slot, struct tsr_order_hold *hold, unsigned how)
{
    struct tsr_stream *stream = tsr_stream_find(handle, false);
    if (!stream || stream->elsewhere)
        return CUDA_ERROR_NOT_SUPPORTED;
    CUresult result = hold_joined(hold, stream, how);
    if (result != CUDA_SUCCESS)
        return result;
    if (!is_there(stream, lane))
        result = depart_if_possible_locked(stream, lane);
    else
        tsr_strands_go_on(stream, lane);
    if (result == CUDA_SUCCESS)
        *slot = stream->slot;
    else
        release(hold);
    return result;
}

static CUresult depart_gated(const struct tsr_stream_found *found, CUstream handle, struct tsr_lane_client *lane,
                             uint32_t *slot, struct tsr_order_hold *hold, unsigned how)
{
    uint32_t ended;
    bool gated;
    CUresult result;
    do {
        ended = steps_ended_now();
        gated = tsr_gate_enter();
        result = goes_on(found, lane, slot, hold) ? CUDA_SUCCESS : depart(handle, lane, slot, hold, how);
    } while (comes_again(hold, gated, result, ended));
    return result;
}

CUresult tsr_order_depart(CUstream handle, bool per_thread, struct tsr_lane_client *lane, uint32_t *slot,
                          struct tsr_order_hold *hold)
{
    struct tsr_stream_found found;
    tsr_stream_place(tsr_stream_named(handle, per_thread), &found);
    return tsr_order_depart_found(&found, tsr_stream_named(handle, per_thread), lane, slot, hold);
}

CUresult tsr_order_depart_between(CUstream handle, struct tsr_lane_client *lane, uint32_t *slot, struct tsr_order_hold *hold)
{
    struct tsr_stream_found found;
    tsr_stream_place(handle, &found);
    return depart_gated(&found, handle, lane, slot, hold, BETWEEN);
}

CUresult tsr_order_depart_found(const struct tsr_stream_found *found, CUstream handle, struct tsr_lane_client *lane,
                                uint32_t *slot, struct tsr_order_hold *hold)
{
    return depart_gated(found, handle, lane, slot, hold, 0);
}

bool tsr_order_is_there(const struct tsr_stream *stream, const struct tsr_lane_client *lane)
{
    return stream && is_there(stream, lane);
}

struct tsr_lane_client *tsr_order_lane(CUstream handle, bool per_thread)
{
    const struct tsr_stream *stream = tsr_strands_any_away() ? tsr_stream_seen(handle, per_thread) : NULL;
    return stream ? __atomic_load_n(&stream->lane, __ATOMIC_RELAXED) : NULL;
}

/* Ended threads' streams whose work is complete. */
static void forget_orphans(void)
{
    for (struct tsr_stream *at = tsr_stream_first(); at; at = at->next) {
        if (!tsr_stream_is(at, TSR_STREAM_OWN))
            continue;
        tsr_lock_take(&at->lock);
        if (at->live && at->orphan && !at->unsignalled)
            tsr_strands_settle_complete(at);
        tsr_lock_give(&at->lock);
    }
    tsr_stream_forget_orphans();
}

/* The thread's own stream at home ends with the thread, its work elsewhere does not. */
static void end_own(struct tsr_stream *stream)
{
    if (!tsr_session())
        return;
    tsr_lock_take(&stream->lock);
    bool same = stream->live && stream->kind == TSR_STREAM_OWN && !tsr_strands_are_foreign(stream);
    stream->orphan |= same;
    if (same)
        tsr_strands_signal(stream);
    tsr_lock_give(&stream->lock);
    forget_orphans();
}

void tsr_order_start(bool by_data)
{
    pthread_rwlock_init(&related, NULL);
    tsr_strands_start(by_data);
    tsr_order_strict = false;
    memset(steps, 0, sizeof steps);
    step_count = 0;
    tsr_stream_reset();
    tsr_fences_start();
    tsr_watch_reset();
    tsr_stream_thread_ends = end_own;
}
