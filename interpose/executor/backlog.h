/*
 * Records for which the driver has no room yet. A stream's queue in the driver is bounded, and a call that adds to a full one blocks until the stream
 * makes progress, which may depend on a record that comes later on the lane. So no stream is given more than is sure to
 * fit; further records wait here, in the stream's order, and other streams go on.
 *
 * Called by the lane's thread only, except for tsr_backlog_is_empty and tsr_backlog_launches.
 */
#ifndef TSR_BACKLOG_H
#define TSR_BACKLOG_H

#include <stdbool.h>
#include <stdint.h>

#include <cuda.h>

#include <tessera/lane.h>

struct tsr_backlog;

/* NULL: no memory. */
struct tsr_backlog *tsr_backlog_create(void);
void tsr_backlog_destroy(struct tsr_backlog *backlog);

/* Whether the stream's next record has to wait here. */
bool tsr_backlog_must_wait(struct tsr_backlog *backlog, uint32_t slot);
/* Whether records of the stream wait here. */
bool tsr_backlog_holds(const struct tsr_backlog *backlog, uint32_t slot);
bool tsr_backlog_is_empty(const struct tsr_backlog *backlog);
/* Whether a launch of that function (TSR_LANE_LAUNCH) or graph (TSR_LANE_GRAPH) waits here. */
bool tsr_backlog_launches(const struct tsr_backlog *backlog, uint16_t kind, uint32_t id);

/* Copies the record. False: no memory. */
bool tsr_backlog_add(struct tsr_backlog *backlog, const struct tsr_lane_record *record);
/* The first record of a stream that has room, NULL: there is none; then it is to be given to the driver and removed. */
const struct tsr_lane_record *tsr_backlog_next(struct tsr_backlog *backlog);
void tsr_backlog_remove(struct tsr_backlog *backlog, uint32_t slot);

/* The driver has taken so many operations of the stream. */
void tsr_backlog_given(struct tsr_backlog *backlog, uint32_t slot, CUstream stream, unsigned count);

#endif
