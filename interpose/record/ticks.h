/*
 * The clock of records: the CPU's time stamp counter where it runs evenly on all CPUs, else nanoseconds of CLOCK_MONOTONIC.
 */
#ifndef TSR_RECORD_TICKS_H
#define TSR_RECORD_TICKS_H

#include "base/os.h"

#include <stdbool.h>
#include <stdint.h>

struct tsr_anchor;

extern bool tsr_ticks_are_counter __attribute__((visibility("hidden"))); /* set once, by tsr_ticks_choose */

/* Without x86intrin.h, which takes longer to read than all else that includes this. */
static inline uint64_t tsr_ticks(void)
{
    return __builtin_expect(tsr_ticks_are_counter, 1) ? __builtin_ia32_rdtsc() : tsr_os_monotonic_ns();
}

/* Before the first record. */
void tsr_ticks_choose(void);

/* The same moment on all clocks, to some ten nanoseconds unless the thread loses its CPU several times in a row. */
struct tsr_anchor tsr_ticks_anchor(void);

#endif
