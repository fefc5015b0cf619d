/*
 * Stream order across GPUs: the application's stream at home is the spine (DESIGN: order 1, needs no analysis).
 *
 * For each stream the shim knows where its last work went. A launch that goes to an executor first departs: home work before it signals the
 * stream's home fence and the executor's stream waits for it. Anything enqueued at home first joins: the executor's stream signals the
 * away fence and the home stream waits for it; then the home driver's own rules (legacy default stream, events, synchronisation) hold
 * for what ran elsewhere too. Consecutive launches of a stream on one executor need no fence.
 */
#ifndef TSR_SHIM_ORDER_H
#define TSR_SHIM_ORDER_H

#include "api/driver.h"

#include <stdbool.h>
#include <stdint.h>

struct tsr_lane_client;

/* The stream a handle means, without regard to which default stream the caller's functions have. */
static inline CUstream tsr_order_stream(CUstream stream, bool per_thread)
{
    return stream ? stream : per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
}

/* Joins the stream (NULL: the default stream, the per-thread one if per_thread). Errors: the executor's, when it has failed. */
CUresult tsr_order_join(CUstream stream, bool per_thread);
CUresult tsr_order_join_all(void);

/* The error of an executor that has failed: sticky, the answer of every call that waits for work or enqueues it. */
CUresult tsr_order_state(void);

/* Makes the stream's next work possible on the lane; gives the lane's stream slot. Errors: the driver's, or the executor's. */
CUresult tsr_order_depart(CUstream stream, bool per_thread, struct tsr_lane_client *lane, uint32_t *slot);

#endif
