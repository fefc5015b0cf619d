/*
 * For launch_path.c and copies.c: threads that launch in bursts which begin together, each timed as a whole. The program sets `threads`, `bursts`
 * and `launches`, prepares the launchers, and says what a launch is.
 */
#ifndef BENCH_BURSTS_H
#define BENCH_BURSTS_H

#include <pthread.h>
#include <sched.h>

#include "start.h"

#define MOST_THREADS 64u

static unsigned threads, bursts, launches;
static CUcontext context;
static pthread_barrier_t barrier;
static unsigned arrived; /* atomic; threads, over all bursts */

struct launcher {
    pthread_t thread;
    CUstream stream;
    double begin_ns, end_ns;
} __attribute__((aligned(64)));

static struct launcher all[MOST_THREADS];

/* So many launches of the kernel that is timed. */
static void launch(struct launcher *self, unsigned count);

static void report(void)
{
    double begin = all[0].begin_ns, end = all[0].end_ns;
    for (unsigned i = 1; i < threads; i++) {
        begin = all[i].begin_ns < begin ? all[i].begin_ns : begin;
        end = all[i].end_ns > end ? all[i].end_ns : end;
    }
    printf("%.1f\n", (end - begin) / launches);
}

/* Nobody sleeps here, since waking takes longer than a burst. */
static void begin_together(unsigned burst)
{
    __atomic_fetch_add(&arrived, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&arrived, __ATOMIC_ACQUIRE) < threads * (burst + 1))
        sched_yield();
}

static void *run(void *argument)
{
    struct launcher *self = argument;
    CHECK(cuCtxSetCurrent(context));
    for (unsigned burst = 0; burst < bursts; burst++) {
        launch(self, 1);
        begin_together(burst);
        self->begin_ns = clock_ns(CLOCK_MONOTONIC);
        launch(self, launches);
        self->end_ns = clock_ns(CLOCK_MONOTONIC);
        CHECK(cuStreamSynchronize(self->stream));
        pthread_barrier_wait(&barrier);
        if (self == all)
            report();
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

/* The launchers are ready. */
static void run_all(void)
{
    pthread_barrier_init(&barrier, NULL, threads);
    for (unsigned i = 0; i < threads; i++)
        CHECK(pthread_create(&all[i].thread, NULL, run, &all[i]));
    for (unsigned i = 0; i < threads; i++)
        pthread_join(all[i].thread, NULL);
}

#endif
