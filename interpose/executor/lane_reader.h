/*
 * The executor's end of a lane: one thread that takes records in order and gives them to the driver. It sleeps when the lane is empty.
 * After the first driver error it writes the error into the lane, opens all fences so that nobody waits for work that will not
 * happen, and ignores the rest.
 */
#ifndef TSR_EXECUTOR_LANE_READER_H
#define TSR_EXECUTOR_LANE_READER_H

#include "executor/mirror.h"

struct tsr_lane_reader;

/* Maps the lane at its address, registers it with the current context and starts the thread. Errors: INVALID_VALUE for what is no lane. */
CUresult tsr_lane_reader_start(const struct tsr_message *hello, int descriptor, struct tsr_mirror *mirror, CUcontext context,
                               struct tsr_lane_reader **out);
/* Applies a change of what records refer to, once all that is on the lane now has been given to the driver. */
void tsr_lane_reader_change(struct tsr_lane_reader *reader, const struct tsr_message *message, int descriptor,
                            struct tsr_reply *reply);
/* Maps what GPUs see of another executor's lane, for records that wait for its fences. Errors: INVALID_VALUE for what is none. */
CUresult tsr_lane_reader_connect(struct tsr_lane_reader *reader, const struct tsr_message *message, int descriptor);
void tsr_lane_reader_stop(struct tsr_lane_reader *reader);

#endif
