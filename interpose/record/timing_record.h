/* What the harvest does with a time that it has read. */
#ifndef TSR_RECORD_TIMING_RECORD_H
#define TSR_RECORD_TIMING_RECORD_H

#include "api/driver.h"

#include <stdbool.h>
#include <stdint.h>

#include "times/clock.h"

/* A TIME record in the calling thread's ring. */
void tsr_timing_report(uint32_t ring, uint64_t number, uint64_t start_ns, uint64_t ns);
/* So many launches whose time could not be had. */
void tsr_timing_lose(uint64_t count);

/* The host's ticks in nanoseconds of CLOCK_MONOTONIC. */
uint64_t tsr_timing_host_ns(uint64_t ticks);

/* The driver's functions for it, the GPUs' clock included. Set before the first time is read. */
extern struct tsr_times_driver tsr_timing_driver __attribute__((visibility("hidden")));

#endif
