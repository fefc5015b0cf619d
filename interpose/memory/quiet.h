/*
 * Quiet moments: all work that the application has given its GPUs and the executors is complete. What keeps it so is the gate
 * (gate.h), closed by the caller, who holds the memory lock.
 */
#ifndef TSR_MEMORY_QUIET_H
#define TSR_MEMORY_QUIET_H

#include "api/driver.h"

#include <stdint.h>

/* Waits. Errors: NOT_READY: not within the time; the driver's, such as that it is older than CUDA 12.5 or that a stream is captured. */
CUresult tsr_quiet_wait(uint64_t timeout_ns);

#endif
