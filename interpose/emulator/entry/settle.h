/* Waiting before memory goes away: for everything that may still use it. */
#ifndef TSR_ENTRY_SETTLE_H
#define TSR_ENTRY_SETTLE_H

#include "api/driver.h"

#include "../context/context.h"

/* Waits for the work of the context and of all contexts with the same root. Returns the sticky error of the context. */
CUresult tsr_settle(struct tsr_context *context);

#endif
