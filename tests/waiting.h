/*
 * For test programs that wait for another thread by asking again and again.
 */
#pragma once

#include <sched.h>
#include <time.h>

#define WAIT_YIELDS 20u
#define WAIT_SLEEP_NS 50000l

/* Between two questions, of which `times` have been asked. Threads that only yield keep a busy machine from the one that they wait for. */
static inline void wait_a_moment(unsigned times)
{
    if (times < WAIT_YIELDS)
        sched_yield();
    else
        nanosleep(&(struct timespec){.tv_nsec = WAIT_SLEEP_NS}, NULL);
}
