/* What the harvest does with a time it has read, and the clock of emulated GPUs. */
#ifndef TSR_RECORD_TIMING_RECORD_H
#define TSR_RECORD_TIMING_RECORD_H

#include "api/driver.h"

#include <stdbool.h>
#include <stdint.h>

/* A TIME record in the calling thread's ring. */
void tsr_timing_tell(uint32_t ring, uint64_t number, uint64_t start_ns, uint64_t ns);
/* So many launches whose time could not be had. */
void tsr_timing_lose(uint64_t count);

/* The host's ticks in nanoseconds of CLOCK_MONOTONIC. */
uint64_t tsr_timing_host_ns(uint64_t ticks);

/* GPUs that are emulated, and those of them that have a time of their own because the host's stands still. Set before the first anchor. */
extern bool tsr_timing_emulated __attribute__((visibility("hidden")));
extern bool tsr_timing_own_clock __attribute__((visibility("hidden")));
/* When the event happened on that clock; in one order with all events asked for before. Harvest. */
uint64_t tsr_timing_own_ns(CUevent event);

#endif
