/*
 * Quiet moments: all work that the application has given its GPUs and the executors is complete. What keeps it so is the gate
 * (gate.h), closed by the caller, who holds the memory lock.
 */
#ifndef TSR_SHIM_QUIET_H
#define TSR_SHIM_QUIET_H

#include "api/driver.h"

#include <stdint.h>

/* How long to sleep between two looks when so much time is left: little of a short time, at most a millisecond. */
static inline uint64_t tsr_quiet_pause_ns(uint64_t left_ns)
{
    uint64_t part_ns = left_ns / 16 + 1;
    return part_ns < 1000000 ? part_ns : 1000000;
}

/* Waits. Errors: NOT_READY: not within the time; the driver's, such as that it is older than CUDA 12.5 or that a stream is captured. */
CUresult tsr_quiet_wait(uint64_t timeout_ns);

#endif
