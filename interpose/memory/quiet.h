/*
 * Quiet moments: all work that the application has given its GPUs and the executors is complete. The gate (gate.h), which the caller has closed,
 * keeps it so. Called with the memory lock held.
 */
#ifndef TSR_MEMORY_QUIET_H
#define TSR_MEMORY_QUIET_H

#include "api/driver.h"

#include <stdint.h>

/* Waits. Errors: NOT_READY: not within the time; the driver's, such as that it is older than CUDA 12.5 or that a stream is captured. */
CUresult tsr_quiet_wait(uint64_t timeout_ns);

#endif
