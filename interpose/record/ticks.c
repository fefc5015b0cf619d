/* See ticks.h. */
#include "record/ticks.h"

#include "driver/engaged.h"

#include <cpuid.h>
#include <pthread.h>
#include <time.h>

#include <tessera/records.h>

#define ATTEMPTS 8

bool tsr_ticks_are_counter TSR_HOT;

static void choose(void)
{
    unsigned a, b, c, d;
    tsr_ticks_are_counter = __get_cpuid(0x80000007u, &a, &b, &c, &d) && (d & 1u << 8); /* invariant TSC */
}

void tsr_ticks_choose(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, choose);
}

static uint64_t read_clock(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

struct tsr_anchor tsr_ticks_anchor(void)
{
    struct tsr_anchor best = {0};
    uint64_t narrowest = UINT64_MAX;
    for (int i = 0; i < ATTEMPTS; i++) {
        uint64_t before = tsr_ticks();
        struct tsr_anchor now = {.monotonic_ns = read_clock(CLOCK_MONOTONIC), .realtime_ns = read_clock(CLOCK_REALTIME)};
        uint64_t width = tsr_ticks() - before;
        now.ticks = before + width / 2;
        if (width < narrowest) {
            narrowest = width;
            best = now;
        }
    }
    return best;
}
