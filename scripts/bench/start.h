/* How the programs that are timed begin, and their clock. */
#ifndef BENCH_START_H
#define BENCH_START_H

#include <time.h>

#include <cuda.h>

#include "check.h"

/* The first GPU's primary context, now current. */
static CUcontext start_context(void)
{
    CUcontext context;
    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
    return context;
}

/* CLOCK_MONOTONIC; CLOCK_THREAD_CPUTIME_ID: the processor time of this thread. */
static double clock_ns(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

#endif
