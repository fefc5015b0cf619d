/* The host waits. */
#ifndef TSR_SHIM_HOST_WAITS_H
#define TSR_SHIM_HOST_WAITS_H

#include "api/driver.h"

/* For all that the stream was given, on all GPUs. Errors: the driver's, and the executors'. */
CUresult tsr_host_wait_for(CUstream stream);

#endif
