/*
 * The pairs of events of one context, on their way from free to pending to read and back. Threads that launch take from it and put into it;
 * one thread at a time, which holds the harvest's lock, reads.
 */
#ifndef TSR_RECORD_TIMING_POOL_H
#define TSR_RECORD_TIMING_POOL_H

#include "api/driver.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "times/clock.h"

#define TSR_TIMING_PAIRS 2048u /* of a context, at most */

struct tsr_timing_pool;

struct tsr_timing_pair {
    struct tsr_timing_pair *next;
    struct tsr_timing_pool *pool;
    CUevent begin, end;
    bool marked;                     /* the second event has been recorded */
    uint64_t asked, begun, launched; /* ticks of the host: before the first event was recorded, after it, after the launch */
    uint64_t number;                 /* of the launch's record, */
    uint32_t ring;                   /* in this ring */
};

struct tsr_timing_pool {
    CUcontext handle;
    uint16_t context;                       /* number */
    pthread_mutex_t lock;                   /* guards the lists' heads */
    struct tsr_timing_pair *free;           /* lock */
    struct tsr_timing_pair *pending, *last; /* lock; in the order of launches */
    uint32_t made;                          /* lock */
    bool dead;                              /* atomic; an error or its end has ended timing in this context */

    struct tsr_timing_pair *waiting; /* harvest; pending ones that it has taken over, not done when last looked at */
    struct tsr_times_clock clock;    /* harvest */
};

/* A pool of the current context; NULL: no memory. */
struct tsr_timing_pool *tsr_timing_pool_create(CUcontext handle, uint16_t context);
/* A free pair, made if need be; NULL: none, or others are at it. */
struct tsr_timing_pair *tsr_timing_pool_take(struct tsr_timing_pool *pool);
void tsr_timing_pool_give_back(struct tsr_timing_pair *pair);
void tsr_timing_pool_submit(struct tsr_timing_pair *pair);

/* Harvest, with the pool's context current: reads what is done. Returns how many are not. */
uint32_t tsr_timing_pool_harvest(struct tsr_timing_pool *pool);
/* Harvest: the context has ended, and its events with it. What was not read is lost; a thread may still hold the pool, which stays. */
void tsr_timing_pool_abandon(struct tsr_timing_pool *pool);

#endif
