/*
 * What is recorded of a launch. On the path of every launch: no lock, no allocation and no call of the operating system, except when
 * a thread, a context or a function is seen for the first time.
 */
#ifndef TSR_RECORD_LAUNCH_RECORD_H
#define TSR_RECORD_LAUNCH_RECORD_H

#include "api/driver.h"

struct tsr_lane_client;
struct tsr_launch;

/* For a launch that is recorded: looks up what is known of its thread and stream. */
void tsr_launch_note(struct tsr_launch *launch);
/* For one that is about to be posted to a lane: whether it is timed there. */
void tsr_launch_time_away(struct tsr_launch *launch, struct tsr_lane_client *lane);
/* The same just before the driver's own part, part of which may be measured. */
void tsr_launch_prepare(struct tsr_launch *launch);
/* After it, once the driver has answered. */
void tsr_launch_record(struct tsr_launch *launch, CUresult result);
/* In the place of all that where calls are not recorded: a function is defined with its first launch. */
void tsr_launch_define(struct tsr_launch *launch);

#endif
