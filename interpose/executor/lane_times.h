/*
 * Times on the GPU of launches and copies whose records ask for it: an event before and one after, in the work's stream, read by a thread of their own,
 * which writes the answer into the lane. See tessera/lane.h.
 */
#ifndef TSR_EXECUTOR_LANE_TIMES_H
#define TSR_EXECUTOR_LANE_TIMES_H

#include <stdbool.h>

#include <cuda.h>
#include <tessera/lane.h>

struct tsr_lane_times;
struct tsr_lane_pair;

/* NULL: no memory; then nothing is timed. */
struct tsr_lane_times *tsr_lane_times_create(struct tsr_lane *lane, CUcontext context);
/* Nothing is launched any more, and all is complete; with the context current. NULL: nothing. */
void tsr_lane_times_destroy(struct tsr_lane_times *times);

/* On the lane's thread, right before one; NULL: it is not timed. And right after it. */
struct tsr_lane_pair *tsr_lane_times_begin(struct tsr_lane_times *times, const struct tsr_lane_record *record, CUstream stream);
void tsr_lane_times_end(struct tsr_lane_times *times, struct tsr_lane_pair *pair, const struct tsr_lane_record *record,
                        CUstream stream, bool launched);

#endif
