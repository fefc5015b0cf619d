/* See timing_pool.h. */
#include "record/timing_pool.h"

#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include <tessera/records.h>

#include "base/os.h"
#include "driver/real.h"
#include "record/timing_record.h"

#define ANCHOR_AGE_NS 1000000000ull
#define ANCHOR_SPIN_NS 200000ull      /* an idle GPU needs a few microseconds */
#define ANCHOR_PATIENCE_NS 20000000ull
#define ANCHOR_ATTEMPTS 3
#define USUAL_DELAY_NS 2000 /* by which events on an idle stream differ */
#define DRIFT_NS 100 /* of the host's clock against the GPU's, from anchor to anchor */
#define MOST_NOT_READY 64 /* that one pass asks for */

struct tsr_timing_pool *tsr_timing_pool_create(CUcontext handle, uint16_t context)
{
    struct tsr_timing_pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        return NULL;
    pool->handle = handle;
    pool->context = context;
    pthread_mutex_init(&pool->lock, NULL);
    return pool;
}

static void die(struct tsr_timing_pool *pool)
{
    __atomic_store_n(&pool->dead, true, __ATOMIC_RELAXED);
}

static struct tsr_timing_pair *make(struct tsr_timing_pool *pool)
{
    struct tsr_timing_pair *pair = calloc(1, sizeof *pair);
    if (!pair)
        return NULL;
    pair->pool = pool;
    if (tsr_real.cuEventCreate(&pair->begin, CU_EVENT_DEFAULT) != CUDA_SUCCESS)
        goto free_pair;
    if (tsr_real.cuEventCreate(&pair->end, CU_EVENT_DEFAULT) == CUDA_SUCCESS)
        return pair;
    tsr_real.cuEventDestroy_v2(pair->begin);
free_pair:
    free(pair);
    die(pool);
    return NULL;
}

struct tsr_timing_pair *tsr_timing_pool_take(struct tsr_timing_pool *pool)
{
    if (pthread_mutex_trylock(&pool->lock) != 0)
        return NULL;
    bool dead = __atomic_load_n(&pool->dead, __ATOMIC_RELAXED);
    struct tsr_timing_pair *pair = dead ? NULL : pool->free;
    bool create = !dead && !pair && pool->made < TSR_TIMING_PAIRS;
    if (pair)
        pool->free = pair->next;
    pool->made += create;
    pthread_mutex_unlock(&pool->lock);
    return create ? make(pool) : pair;
}

void tsr_timing_pool_give_back(struct tsr_timing_pair *pair)
{
    struct tsr_timing_pool *pool = pair->pool;
    pthread_mutex_lock(&pool->lock);
    pair->next = pool->free;
    pool->free = pair;
    pthread_mutex_unlock(&pool->lock);
}

void tsr_timing_pool_submit(struct tsr_timing_pair *pair)
{
    struct tsr_timing_pool *pool = pair->pool;
    pair->next = NULL;
    pthread_mutex_lock(&pool->lock);
    if (pool->pending)
        pool->last->next = pair;
    else
        pool->pending = pair;
    pool->last = pair;
    pthread_mutex_unlock(&pool->lock);
}

/* Waits a bounded moment for an event on our own stream. */
static bool await(CUevent event)
{
    uint64_t since = tsr_os_monotonic_ns(), waited = 0;
    CUresult result;
    while ((result = tsr_real.cuEventQuery(event)) == CUDA_ERROR_NOT_READY && waited < ANCHOR_PATIENCE_NS) {
        if (waited < ANCHOR_SPIN_NS)
            sched_yield();
        else
            nanosleep(&(struct timespec){.tv_nsec = (long)ANCHOR_SPIN_NS}, NULL);
        waited = tsr_os_monotonic_ns() - since;
    }
    return result == CUDA_SUCCESS;
}

/* When `event` happens, to half the time between asking for it and seeing it. 0: it has not, in time. */
static uint64_t happen(CUstream stream, CUevent event, uint64_t *width)
{
    uint64_t before = tsr_os_monotonic_ns();
    if (tsr_real.cuEventRecord(event, stream) != CUDA_SUCCESS || !await(event))
        return 0;
    *width = tsr_os_monotonic_ns() - before;
    return before + *width / 2;
}

static bool prepare_anchor(struct tsr_timing_pool *pool)
{
    if (!pool->stream && tsr_real.cuStreamCreate(&pool->stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS)
        return false;
    return pool->spare || tsr_real.cuEventCreate(&pool->spare, CU_EVENT_DEFAULT) == CUDA_SUCCESS;
}

static bool elapsed_ns(CUevent from, CUevent to, int64_t *ns)
{
    float milliseconds;
    if (tsr_real.cuEventElapsedTime(&milliseconds, from, to) != CUDA_SUCCESS)
        return false;
    *ns = (int64_t)((double)milliseconds * 1e6);
    return true;
}

/* A new anchor is wrong by another amount than the one before, and so are all delays. The host's clock may drift a little. */
static void set_anchor(struct tsr_timing_pool *pool, struct tsr_timing_anchor anchor)
{
    int64_t since;
    if (!pool->anchor.event)
        pool->least_delay_ns = INT64_MAX;
    else if (pool->least_delay_ns != INT64_MAX && elapsed_ns(pool->anchor.event, anchor.event, &since))
        pool->least_delay_ns += (int64_t)(anchor.ns - pool->anchor.ns) - since + DRIFT_NS;
    pool->spare = pool->anchor.event;
    pool->anchor = anchor;
}

static void renew_anchor(struct tsr_timing_pool *pool)
{
    uint64_t now = tsr_os_monotonic_ns(), narrowest = UINT64_MAX, width = 0;
    if (pool->anchor.event && now - pool->anchor.taken_ns < ANCHOR_AGE_NS)
        return;
    for (int attempt = 0; attempt < ANCHOR_ATTEMPTS && prepare_anchor(pool); attempt++) {
        uint64_t ns = happen(pool->stream, pool->spare, &width);
        if (!ns)
            return;
        if (width >= narrowest)
            continue;
        narrowest = width;
        set_anchor(pool,
                   (struct tsr_timing_anchor){pool->spare, tsr_timing_own_clock ? tsr_timing_own_ns(pool->spare) : ns, now});
    }
}

/*
 * How long the GPU had nothing to do between the first event and the launch, because the host had not made the launch yet: the time that
 * took the host, less the time by which the stream was behind when the event was recorded. A host that loses its CPU makes delays longer,
 * never shorter, so the least one is to be trusted.
 */
static int64_t gap_ns(struct tsr_timing_pool *pool, const struct tsr_timing_pair *pair, uint64_t start_ns)
{
    if (tsr_timing_emulated) /* a launch begins when it is called, not when the call ends */
        return 0;
    int64_t delay = (int64_t)start_ns - (int64_t)tsr_timing_host_ns(pair->asked);
    if (delay < pool->least_delay_ns)
        pool->least_delay_ns = delay;
    int64_t behind = delay - pool->least_delay_ns - USUAL_DELAY_NS;
    int64_t gap = (int64_t)(tsr_timing_host_ns(pair->launched) - tsr_timing_host_ns(pair->begun)) - (behind > 0 ? behind : 0);
    return gap > 0 ? gap : 0;
}

static void tell(struct tsr_timing_pool *pool, const struct tsr_timing_pair *pair)
{
    int64_t since, length;
    if (!elapsed_ns(pool->anchor.event, pair->begin, &since) || !elapsed_ns(pair->begin, pair->end, &length)) {
        tsr_timing_lose(1);
        return;
    }
    uint64_t start = pool->anchor.ns + (uint64_t)since;
    int64_t gap = gap_ns(pool, pair, start);
    if (gap > length)
        gap = length > 0 ? length : 0;
    tsr_timing_tell(pair->ring, pair->number, start + (uint64_t)gap, (uint64_t)(length - gap));
}

static void take_over_pending(struct tsr_timing_pool *pool)
{
    struct tsr_timing_pair **end = &pool->waiting;
    while (*end)
        end = &(*end)->next;
    pthread_mutex_lock(&pool->lock);
    *end = pool->pending;
    pool->pending = pool->last = NULL;
    pthread_mutex_unlock(&pool->lock);
}

uint32_t tsr_timing_pool_harvest(struct tsr_timing_pool *pool)
{
    take_over_pending(pool);
    if (!pool->waiting || __atomic_load_n(&pool->dead, __ATOMIC_RELAXED))
        return 0;
    renew_anchor(pool);
    uint32_t not_ready = 0;
    struct tsr_timing_pair **link = &pool->waiting;
    while (*link && pool->anchor.event && not_ready < MOST_NOT_READY) {
        struct tsr_timing_pair *pair = *link;
        CUresult result = tsr_real.cuEventQuery(pair->end);
        if (result == CUDA_ERROR_NOT_READY) {
            not_ready++;
            link = &pair->next;
            continue;
        }
        if (result != CUDA_SUCCESS) {
            die(pool);
            return 0;
        }
        tell(pool, pair);
        *link = pair->next;
        tsr_timing_pool_give_back(pair);
    }
    return not_ready + (pool->waiting && !pool->anchor.event);
}

static uint32_t free_list(struct tsr_timing_pair *pair)
{
    uint32_t count = 0;
    for (struct tsr_timing_pair *next; pair; pair = next, count++) {
        next = pair->next;
        free(pair);
    }
    return count;
}

void tsr_timing_pool_abandon(struct tsr_timing_pool *pool)
{
    die(pool);
    take_over_pending(pool);
    tsr_timing_lose(free_list(pool->waiting));
    pthread_mutex_lock(&pool->lock);
    free_list(pool->free);
    pool->free = NULL;
    pthread_mutex_unlock(&pool->lock);
    pool->waiting = NULL;
}
