/* See assign.h. */
#include "schedule/assign.h"

#include <pthread.h>
#include <stdlib.h>

#include <tessera/apart.h>

#include "base/os.h"
#include "lane/lane_client.h"
#include "lane/streams.h"
#include "object/assigned.h"
#include "object/session.h"
#include "schedule/decide.h"

#define LATELY_NS 60000000000ull

/* Used again, never freed. */
struct thread {
    TSR_APART struct tsr_assigned assigned;
    struct thread *next; /* of all; lock */
    bool live;           /* lock */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* giving places, and the list of threads */
static struct thread *threads;                           /* lock */
static uint64_t epoch;                                   /* of the process' session */
static __thread struct thread *own;
static __thread uint64_t own_epoch;
static pthread_key_t thread_key;
static pthread_once_t thread_key_once = PTHREAD_ONCE_INIT;

static bool has_less(const struct tsr_assign_load *one, const struct tsr_assign_load *other)
{
    return one->used != other->used ? one->used < other->used : one->alive < other->alive;
}

uint32_t tsr_assign_choose(const struct tsr_assign_load *loads, uint32_t count)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < count; i++)
        if (!loads[i].lost && has_less(&loads[i], &loads[best]))
            best = i;
    return best;
}

void tsr_assign_add(struct tsr_assign_load *load, struct tsr_assigned *one, uint64_t now_ns)
{
    uint64_t launches = __atomic_load_n(&one->launches, __ATOMIC_RELAXED);
    if (launches != one->seen)
        one->used_ns = now_ns;
    one->seen = launches;
    load->used += now_ns - one->used_ns < LATELY_NS;
    load->alive++;
}

static void end_thread(void *ended)
{
    struct thread *thread = ended;
    pthread_mutex_lock(&lock);
    if (own_epoch == epoch) /* else another thread of a later session may have it */
        thread->live = false;
    pthread_mutex_unlock(&lock);
    own = NULL;
}

static void make_thread_key(void)
{
    pthread_key_create(&thread_key, end_thread);
}

static struct thread *new_thread_locked(void)
{
    struct thread *thread = threads;
    while (thread && thread->live)
        thread = thread->next;
    if (!thread) {
        thread = aligned_alloc(_Alignof(struct thread), sizeof *thread);
        if (!thread)
            return NULL;
        thread->next = threads;
        threads = thread;
    }
    thread->assigned = (struct tsr_assigned){0};
    thread->live = true;
    return thread;
}

/* NULL: no memory. */
static struct tsr_assigned *begin_thread(void)
{
    pthread_once(&thread_key_once, make_thread_key);
    pthread_mutex_lock(&lock);
    struct thread *thread = new_thread_locked();
    own_epoch = epoch;
    pthread_mutex_unlock(&lock);
    own = thread;
    pthread_setspecific(thread_key, thread);
    return thread ? &thread->assigned : NULL;
}

/* The launch's part in its stream's record, or its thread's. NULL: there is none, and it is not to be made or cannot be. */
static struct tsr_assigned *part_of(int32_t by, const struct tsr_decide_launch *launch)
{
    if (by == TSR_POLICY_BY_THREAD) {
        if (own && own_epoch == __atomic_load_n(&epoch, __ATOMIC_RELAXED))
            return &own->assigned;
        return launch->captured ? NULL : begin_thread();
    }
    struct tsr_stream *record = launch->record;
    if (!record && !launch->captured)
        record = tsr_stream_find(launch->stream, false);
    return record ? &record->assigned : NULL;
}

static bool is_lost(const struct tsr_session *session, uint32_t place)
{
    uint32_t lane = place - TSR_ASSIGNED_LANES;
    return place >= TSR_ASSIGNED_LANES && (lane >= session->lane_count || tsr_lane_is_lost(session->lanes[lane]));
}

static void look_at(struct tsr_assign_load *loads, uint32_t count, struct tsr_assigned *one, uint64_t now_ns)
{
    uint32_t place = __atomic_load_n(&one->place, __ATOMIC_RELAXED);
    if (place && place <= count)
        tsr_assign_add(&loads[place - 1], one, now_ns);
}

/* Writes what each place has to do. */
static void survey_locked(const struct tsr_session *session, struct tsr_assign_load *loads, uint64_t now_ns)
{
    uint32_t count = 1 + session->lane_count;
    for (uint32_t i = 0; i < count; i++)
        loads[i] = (struct tsr_assign_load){.lost = is_lost(session, TSR_ASSIGNED_HOME + i)};
    for (struct tsr_stream *at = tsr_stream_first(); at; at = at->next)
        if (__atomic_load_n(&at->live, __ATOMIC_ACQUIRE))
            look_at(loads, count, &at->assigned, now_ns);
    for (struct thread *at = threads; at; at = at->next)
        if (at->live)
            look_at(loads, count, &at->assigned, now_ns);
}

static void count_given(const struct tsr_session *session, int32_t by, uint32_t place)
{
    uint32_t gpu = place == TSR_ASSIGNED_HOME ? session->policy->home : session->lane_device[place - TSR_ASSIGNED_LANES];
    uint64_t *given = by == TSR_POLICY_BY_THREAD ? session->policy->given_threads : session->policy->given_streams;
    if (gpu < TSR_GPUS)
        __atomic_fetch_add(&given[gpu], 1, __ATOMIC_RELAXED);
}

/* False: somebody else has just done it. */
static bool give(const struct tsr_session *session, int32_t by, struct tsr_assigned *one)
{
    struct tsr_assign_load loads[1 + TSR_LANES];
    pthread_mutex_lock(&lock);
    uint64_t now_ns = tsr_os_monotonic_ns();
    uint32_t place = __atomic_load_n(&one->place, __ATOMIC_RELAXED);
    bool gives = place == 0 || is_lost(session, place);
    if (gives) {
        survey_locked(session, loads, now_ns);
        place = TSR_ASSIGNED_HOME + tsr_assign_choose(loads, 1 + session->lane_count);
        one->seen = __atomic_load_n(&one->launches, __ATOMIC_RELAXED);
        one->used_ns = now_ns;
        __atomic_store_n(&one->place, place, __ATOMIC_RELEASE);
        count_given(session, by, place);
    }
    pthread_mutex_unlock(&lock);
    return gives;
}

struct tsr_assignment tsr_assign(const struct tsr_session *session, int32_t by, const struct tsr_decide_launch *launch)
{
    struct tsr_assignment assignment = {0};
    if (session->lane_count == 0) {
        assignment.leaves = session->policy->executor_count != 0;
        return assignment;
    }
    struct tsr_assigned *one = part_of(by, launch);
    uint32_t place = one ? __atomic_load_n(&one->place, __ATOMIC_RELAXED) : 0;
    if (place == 0 || is_lost(session, place)) {
        if (launch->captured || !one) {
            assignment.leaves = launch->captured;
            return assignment;
        }
        assignment.is_new = give(session, by, one);
        place = __atomic_load_n(&one->place, __ATOMIC_RELAXED);
    }
    __atomic_store_n(&one->launches, __atomic_load_n(&one->launches, __ATOMIC_RELAXED) + 1, __ATOMIC_RELAXED);
    assignment.leaves = place >= TSR_ASSIGNED_LANES;
    assignment.lane = assignment.leaves ? session->lanes[place - TSR_ASSIGNED_LANES] : NULL;
    return assignment;
}

struct tsr_lane_client *tsr_assign_lane(const struct tsr_session *session, CUstream stream)
{
    struct tsr_stream *record = tsr_stream_seen(stream, false);
    uint32_t place = record ? __atomic_load_n(&record->assigned.place, __ATOMIC_RELAXED) : 0;
    return place >= TSR_ASSIGNED_LANES && !is_lost(session, place) ? session->lanes[place - TSR_ASSIGNED_LANES] : NULL;
}

void tsr_assign_start(void)
{
    pthread_mutex_init(&lock, NULL);
    for (struct thread *at = threads; at; at = at->next)
        at->live = false;
    __atomic_add_fetch(&epoch, 1, __ATOMIC_RELAXED);
}
