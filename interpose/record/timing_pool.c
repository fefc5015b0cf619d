/* See timing_pool.h. */
#include "record/timing_pool.h"

#include <stdlib.h>

#include <tessera/records.h>

#include "driver/real.h"
#include "record/timing_record.h"

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

static void report(struct tsr_timing_pool *pool, const struct tsr_timing_pair *pair)
{
    uint64_t start, ns;
    struct tsr_times_asked asked = {.asked_ns = tsr_timing_host_ns(pair->asked),
                                    .begun_ns = tsr_timing_host_ns(pair->begun),
                                    .launched_ns = tsr_timing_host_ns(pair->launched)};
    if (tsr_times_read(&tsr_timing_driver, &pool->clock, pair->begin, pair->end, &asked, &start, &ns))
        tsr_timing_report(pair->ring, pair->number, start, ns);
    else
        tsr_timing_lose(1);
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
    bool ready = tsr_times_prepare(&tsr_timing_driver, &pool->clock);
    uint32_t not_ready = 0;
    struct tsr_timing_pair **link = &pool->waiting;
    while (*link && ready && not_ready < MOST_NOT_READY) {
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
        report(pool, pair);
        *link = pair->next;
        tsr_timing_pool_give_back(pair);
    }
    return not_ready + (pool->waiting && !ready);
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
