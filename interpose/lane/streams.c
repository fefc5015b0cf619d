/* See streams.h. */
#include "lane/streams.h"

#include <stdlib.h>
#include <string.h>

#include <tessera/lane.h>

#include "base/map.h"
#include "lane/lane_client.h"
#include "object/capture.h"
#include "object/place.h"
#include "driver/real.h"
#include "object/session.h"
#include "driver/stream_handle.h"

#define SHORT_CUTS 4u

struct slot {
    TSR_APART struct tsr_stream *owner; /* slots_lock */
    CUcontext context;                  /* of the owner, or of the last one */
    uint64_t value;                     /* lock of the owner; last one of either fence */
    uint64_t signalled[TSR_LANES];      /* atomic; last value of the away fence, by lane */
    uint32_t opened;                    /* lock of the owner; bit k: executor k has a stream for it */
    int priority;
};

/* Short cuts to the default streams that the thread used last, by context. */
struct thread_part {
    uint64_t number, epoch;
    struct tsr_stream *own[SHORT_CUTS], *legacy[SHORT_CUTS];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* making and forgetting records */
static struct tsr_stream *all, *unused;                  /* all: atomic; lock to change */
static struct tsr_map by_handle;                         /* explicit streams */
static uint64_t epoch = 1;                               /* atomic; counts what makes short cuts void */
static pthread_mutex_t slots_lock = PTHREAD_MUTEX_INITIALIZER;
static struct slot slots[TSR_LANE_STREAMS];
static uint32_t slot_count; /* slots_lock; ever used */
static uint64_t thread_count;
static __thread struct thread_part thread_part;
static pthread_key_t thread_key;
static pthread_once_t thread_key_once = PTHREAD_ONCE_INIT;

void (*tsr_stream_thread_ends)(struct tsr_stream *stream);

struct tsr_stream *tsr_stream_first(void)
{
    return __atomic_load_n(&all, __ATOMIC_ACQUIRE);
}

static bool is_of_thread(const struct tsr_stream *stream, uint64_t number)
{
    return tsr_stream_is(stream, TSR_STREAM_OWN) && __atomic_load_n(&stream->thread, __ATOMIC_RELAXED) == number;
}

static void end_thread(void *number)
{
    for (struct tsr_stream *at = tsr_stream_first(); at; at = at->next)
        if (is_of_thread(at, (uint64_t)(uintptr_t)number) && tsr_stream_thread_ends)
            tsr_stream_thread_ends(at);
}

static void make_thread_key(void)
{
    pthread_key_create(&thread_key, end_thread);
}

uint64_t tsr_stream_thread(void)
{
    if (!thread_part.number)
        thread_part.number = __atomic_add_fetch(&thread_count, 1, __ATOMIC_RELAXED);
    return thread_part.number;
}

static void watch_end_of_thread(void)
{
    pthread_once(&thread_key_once, make_thread_key);
    pthread_setspecific(thread_key, (void *)(uintptr_t)tsr_stream_thread());
}

static struct tsr_stream *new_locked(void)
{
    struct tsr_stream *stream = unused;
    if (stream) {
        unused = stream->free;
        return stream;
    }
    stream = aligned_alloc(_Alignof(struct tsr_stream), sizeof *stream);
    if (!stream)
        return NULL;
    *stream = (struct tsr_stream){0};
    stream->next = all;
    __atomic_store_n(&all, stream, __ATOMIC_RELEASE);
    return stream;
}

static bool is_home(uint32_t gpu)
{
    const struct tsr_session *session = tsr_session();
    return session && gpu == session->policy->home;
}

void tsr_stream_drop_marks(struct tsr_stream *stream)
{
    for (uint32_t strand = 0; stream->marks && strand <= TSR_LANES; strand++)
        stream->marks[strand].count = 0;
}

static void start_locked(struct tsr_stream *stream, CUstream handle, enum tsr_stream_kind kind, CUcontext context, uint32_t gpu)
{
    tsr_lock_take(&stream->lock);
    __atomic_store_n(&stream->kind, kind, __ATOMIC_RELAXED);
    __atomic_store_n(&stream->context, context, __ATOMIC_RELAXED);
    __atomic_store_n(&stream->thread, kind == TSR_STREAM_OWN ? tsr_stream_thread() : 0, __ATOMIC_RELAXED);
    stream->handle = handle;
    stream->gpu = gpu;
    stream->elsewhere = !is_home(gpu);
    stream->slot = TSR_STREAM_NO_SLOT;
    __atomic_store_n(&stream->lane, NULL, __ATOMIC_RELAXED);
    __atomic_store_n(&stream->away, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&stream->unsignalled, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&stream->forked, 0, __ATOMIC_RELAXED);
    stream->queue = NULL;
    stream->orphan = false;
    __atomic_store_n(&stream->touched, false, __ATOMIC_RELAXED);
    stream->aside = NULL;
    stream->aside_mark = NULL;
    stream->aside_used = false;
    tsr_stream_drop_marks(stream);
    stream->priority = 0;
    stream->assigned = (struct tsr_assigned){0};
    __atomic_store_n(&stream->live, true, __ATOMIC_RELEASE);
    tsr_lock_give(&stream->lock);
}

static struct tsr_stream *make_explicit(CUstream handle)
{
    unsigned flags;
    int priority = 0;
    CUcontext context = NULL;
    if (tsr_real.cuStreamGetFlags(handle, &flags) != CUDA_SUCCESS || tsr_real.cuStreamGetCtx(handle, &context) != CUDA_SUCCESS)
        return NULL;
    tsr_real.cuStreamGetPriority(handle, &priority);
    uint32_t gpu = tsr_place_of(handle);
    pthread_mutex_lock(&lock);
    struct tsr_stream *stream = tsr_map_find(&by_handle, (uint64_t)(uintptr_t)handle);
    if (!stream && (stream = new_locked())) {
        start_locked(stream, handle, flags & CU_STREAM_NON_BLOCKING ? TSR_STREAM_FREE : TSR_STREAM_BLOCKING, context, gpu);
        stream->priority = priority;
        if (!tsr_map_set(&by_handle, (uint64_t)(uintptr_t)handle, stream)) {
            __atomic_store_n(&stream->live, false, __ATOMIC_RELEASE);
            stream->free = unused;
            unused = stream;
            stream = NULL;
        }
    }
    pthread_mutex_unlock(&lock);
    return stream;
}

static struct tsr_stream *find_default(enum tsr_stream_kind kind, CUcontext context)
{
    for (struct tsr_stream *at = tsr_stream_first(); at; at = at->next)
        if (tsr_stream_is(at, kind) && tsr_stream_is_of(at, context) &&
            (kind != TSR_STREAM_OWN || is_of_thread(at, tsr_stream_thread())))
            return at;
    return NULL;
}

static struct tsr_stream *make_default(enum tsr_stream_kind kind, CUcontext context)
{
    uint32_t gpu = tsr_place_of(NULL);
    pthread_mutex_lock(&lock);
    struct tsr_stream *stream = find_default(kind, context);
    if (!stream && (stream = new_locked()))
        start_locked(stream, kind == TSR_STREAM_OWN ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY, kind, context, gpu);
    pthread_mutex_unlock(&lock);
    if (stream && kind == TSR_STREAM_OWN)
        watch_end_of_thread();
    return stream;
}

static struct tsr_stream *look_up(CUstream stream, bool per_thread, bool make)
{
    if (!tsr_stream_is_default(stream)) {
        struct tsr_stream *found = tsr_map_find(&by_handle, (uint64_t)(uintptr_t)stream);
        return found || !make ? found : make_explicit(stream);
    }
    CUcontext context = NULL;
    enum tsr_stream_kind kind =
        tsr_stream_named(stream, per_thread) == CU_STREAM_PER_THREAD ? TSR_STREAM_OWN : TSR_STREAM_LEGACY;
    if (tsr_real.cuCtxGetCurrent(&context) != CUDA_SUCCESS || !context)
        return NULL;
    struct thread_part *part = &thread_part;
    uint64_t now = __atomic_load_n(&epoch, __ATOMIC_ACQUIRE);
    if (part->epoch != now) {
        memset(part->own, 0, sizeof part->own);
        memset(part->legacy, 0, sizeof part->legacy);
        part->epoch = now;
    }
    unsigned place = ((uintptr_t)context >> 4 ^ (uintptr_t)context >> 12) % SHORT_CUTS;
    struct tsr_stream **short_cut = kind == TSR_STREAM_OWN ? &part->own[place] : &part->legacy[place];
    if (*short_cut && __atomic_load_n(&(*short_cut)->context, __ATOMIC_RELAXED) == context)
        return *short_cut;
    struct tsr_stream *found = find_default(kind, context);
    if (!found && make)
        found = make_default(kind, context);
    if (found)
        *short_cut = found;
    return found;
}

struct tsr_stream *tsr_stream_find(CUstream stream, bool per_thread)
{
    return look_up(stream, per_thread, true);
}

struct tsr_stream *tsr_stream_seen(CUstream stream, bool per_thread)
{
    return look_up(stream, per_thread, false);
}

uint32_t tsr_stream_place(CUstream stream, struct tsr_stream_found *found)
{
    found->epoch = __atomic_load_n(&epoch, __ATOMIC_ACQUIRE);
    /* While a capture is open anywhere, a stream that has no record yet is not asked the driver about: that may spoil its capture. */
    found->stream = look_up(stream, false, !tsr_is_any_capture());
    return found->stream ? found->stream->gpu : tsr_place_of(stream);
}

bool tsr_stream_is_same(const struct tsr_stream_found *found)
{
    return found->stream && __atomic_load_n(&epoch, __ATOMIC_ACQUIRE) == found->epoch;
}

static void release_slot(struct tsr_stream *stream)
{
    if (stream->slot == TSR_STREAM_NO_SLOT)
        return;
    pthread_mutex_lock(&slots_lock);
    slots[stream->slot].owner = NULL;
    pthread_mutex_unlock(&slots_lock);
    stream->slot = TSR_STREAM_NO_SLOT;
}

static void forget_locked(struct tsr_stream *stream)
{
    __atomic_store_n(&stream->live, false, __ATOMIC_RELEASE);
    __atomic_add_fetch(&stream->generation, 1, __ATOMIC_RELEASE);
    __atomic_add_fetch(&epoch, 1, __ATOMIC_RELEASE);
    if (stream->kind == TSR_STREAM_BLOCKING || stream->kind == TSR_STREAM_FREE)
        tsr_map_remove(&by_handle, (uint64_t)(uintptr_t)stream->handle);
    release_slot(stream);
    stream->free = unused;
    unused = stream;
}

void tsr_stream_forget(struct tsr_stream *stream)
{
    pthread_mutex_lock(&lock);
    tsr_lock_take(&stream->lock);
    if (stream->live)
        forget_locked(stream);
    tsr_lock_give(&stream->lock);
    pthread_mutex_unlock(&lock);
}

void tsr_stream_forget_orphans(void)
{
    pthread_mutex_lock(&lock);
    for (struct tsr_stream *at = tsr_stream_first(); at; at = at->next) {
        if (!tsr_stream_is(at, TSR_STREAM_OWN) || !tsr_lock_try(&at->lock))
            continue;
        if (at->live && !at->away && at->orphan)
            forget_locked(at);
        tsr_lock_give(&at->lock);
    }
    pthread_mutex_unlock(&lock);
}

void tsr_stream_forget_of(CUcontext context)
{
    pthread_mutex_lock(&lock);
    for (struct tsr_stream *at = tsr_stream_first(); at; at = at->next) {
        if (!tsr_stream_is_of(at, context))
            continue;
        tsr_lock_take(&at->lock);
        if (at->live && at->context == context && !at->away)
            forget_locked(at);
        tsr_lock_give(&at->lock);
    }
    pthread_mutex_unlock(&lock);
}

void tsr_stream_reset(void)
{
    pthread_mutex_init(&lock, NULL);
    pthread_mutex_init(&slots_lock, NULL);
    all = unused = NULL;
    by_handle = (struct tsr_map){0};
    memset(slots, 0, sizeof slots);
    slot_count = 0;
    epoch++;
}

static bool is_drained_on(const struct tsr_lane_client *lane, uint32_t slot)
{
    return tsr_lane_away_value(slot, lane) >= __atomic_load_n(&slots[slot].signalled[tsr_lane_number(lane)], __ATOMIC_ACQUIRE);
}

static bool is_drained(uint32_t slot)
{
    const struct tsr_session *session = tsr_session();
    for (uint32_t i = 0; session && i < session->lane_count; i++)
        if (!is_drained_on(session->lanes[i], slot))
            return false;
    return true;
}

static bool give(struct tsr_stream *stream, uint32_t number)
{
    struct slot *slot = &slots[number];
    slot->owner = stream;
    if (slot->priority != stream->priority)
        slot->opened = 0;
    slot->priority = stream->priority;
    slot->context = stream->context;
    stream->slot = number;
    return true;
}

static bool take_unowned_locked(struct tsr_stream *stream)
{
    for (uint32_t i = 0; i < slot_count; i++)
        if (!slots[i].owner && is_drained(i))
            return give(stream, i);
    return slot_count < TSR_LANE_STREAMS && give(stream, slot_count++);
}

/* From a stream that is at home and whose work elsewhere is complete. */
static bool take_idle_locked(struct tsr_stream *stream)
{
    for (uint32_t i = 0; i < slot_count; i++) {
        struct tsr_stream *owner = slots[i].owner;
        if (!owner || owner == stream || !tsr_lock_try(&owner->lock))
            continue;
        bool idle = !owner->away && is_drained(i);
        if (idle)
            owner->slot = TSR_STREAM_NO_SLOT;
        tsr_lock_give(&owner->lock);
        if (idle)
            return give(stream, i);
    }
    return false;
}

bool tsr_slot_take(struct tsr_stream *stream)
{
    if (stream->slot != TSR_STREAM_NO_SLOT)
        return true;
    pthread_mutex_lock(&slots_lock);
    bool taken = take_unowned_locked(stream) || take_idle_locked(stream);
    pthread_mutex_unlock(&slots_lock);
    return taken;
}

uint64_t tsr_slot_next_value(uint32_t slot)
{
    return ++slots[slot].value;
}

CUcontext tsr_slot_context(uint32_t slot)
{
    return slots[slot].context;
}

bool tsr_slot_opened(uint32_t slot, unsigned lane)
{
    return slots[slot].opened >> lane & 1;
}

void tsr_slot_set_opened(uint32_t slot, unsigned lane)
{
    slots[slot].opened |= 1u << lane;
}

void tsr_slot_set_signalled(uint32_t slot, const struct tsr_lane_client *lane, uint64_t value)
{
    __atomic_store_n(&slots[slot].signalled[tsr_lane_number(lane)], value, __ATOMIC_RELEASE);
}

bool tsr_slots_busy(const struct tsr_lane_client *lane)
{
    for (uint32_t i = 0; i < TSR_LANE_STREAMS; i++)
        if (!is_drained_on(lane, i))
            return true;
    return false;
}

/* Without locks, which may be held by somebody who waits for the executor: what is missed departs later, and then sees that it is lost. */
bool tsr_streams_are_with(const struct tsr_lane_client *lane)
{
    for (struct tsr_stream *at = tsr_stream_first(); at; at = at->next)
        if (__atomic_load_n(&at->live, __ATOMIC_ACQUIRE) && tsr_stream_lanes(&at->unsignalled) >> tsr_lane_number(lane) & 1)
            return true;
    return tsr_slots_busy(lane);
}
