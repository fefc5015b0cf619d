/*
 * The lanes' fences as contexts at home see them. Registered host memory belongs to the context that registered it: it is unregistered when
 * that context ends, also for what other contexts' streams still wait for. So each context registers the lanes for itself, the first
 * one at the lanes' own addresses, the others at further mappings of the same memory, and the end of one is nothing to the others. Everywhere else a fence
 * is named by its address in the lane; only the driver at home is given the one that its context has.
 */
#ifndef TSR_LANE_FENCES_H
#define TSR_LANE_FENCES_H

#include "api/driver.h"

struct tsr_lane_client;

/* The context sees the lane's fences. Errors: the driver's. */
CUresult tsr_fences_open(CUcontext context, const struct tsr_lane_client *lane);

/* Operations on lanes' fences, in a stream of the context: their addresses become the context's. Errors: the driver's. */
CUresult tsr_fences_operate(CUcontext context, CUstream stream, unsigned count, CUstreamBatchMemOpParams *operations);

/* The driver has ended the context. */
void tsr_fences_context_ended(CUcontext context);

/* A process' session begins: no context sees any. */
void tsr_fences_start(void);

#endif
