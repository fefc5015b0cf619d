/* Whether a call of the application concerns the home GPU, and whether a capture forbids calls of the shim's own. */
#ifndef TSR_MEMORY_HOME_H
#define TSR_MEMORY_HOME_H

#include "api/driver.h"

#include <stdbool.h>

/* Whether there is a session and the current context is of the home GPU. */
bool tsr_memory_at_home(void);

/* Whether a location is the home GPU. */
bool tsr_memory_is_home(const CUmemLocation *location);

/*
 * The calling thread may call what capture forbids (cuThreadExchangeStreamCaptureMode): between begin and end are calls of the shim's own,
 * of which the application's capture knows nothing.
 */
CUstreamCaptureMode tsr_memory_relax_begin(void);
void tsr_memory_relax_end(CUstreamCaptureMode mode);
/* cuEventQuery of an event of ours, which the program did not ask for. */
CUresult tsr_memory_event_query(CUevent event);

#endif
