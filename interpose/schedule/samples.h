/*
 * How long launches really take: samples of a class (schedule/classes.h), by pairs of events around a launch at home, and by the executors' own measurements elsewhere.
 * Where work of other streams may run between a launch's events, the launch takes no longer than measured: that bounds its time, and is no sample.
 * Not for several threads at a time: who calls holds a lock.
 */
#ifndef TSR_SCHEDULE_SAMPLES_H
#define TSR_SCHEDULE_SAMPLES_H

#include "api/driver.h"

#include <stdbool.h>
#include <stdint.h>

#include <tessera/gpus.h>

#include "lane/lane_client.h"
#include "schedule/classes.h"
#include "schedule/sharing.h"
#include "times/clock.h"

#define TSR_SAMPLES 16u /* under way at home */

/* One under way. Without a function: none. */
struct tsr_sample_of {
    struct tsr_class_of class;
    uint64_t turns; /* of the GPU, when it began */
    bool shared;    /* other streams had work there */
};

/* One at home. */
struct tsr_sample {
    CUevent begin, end;
    uint64_t number; /* in the order in which they began */
    bool ended;      /* the launch has been given to its stream: until then `end` is that of another one */
    struct tsr_sample_of of;
};

/* One elsewhere: where its lane finds the time. */
struct tsr_sample_away {
    uint32_t lane, place;
    bool is_one;
};

struct tsr_samples {
    struct tsr_classes classes;
    struct tsr_times_driver times;
    struct tsr_sample home[TSR_SAMPLES];
    uint32_t under_way, turn;                                    /* at home; which one is polled next besides the oldest ones */
    uint64_t begun;                                              /* at home so far */
    CUcontext context;                                           /* of their events; NULL: none yet */
    bool none;                                                   /* at home, any more: an event failed */
    struct tsr_sample_of away[TSR_LANES][TSR_LANE_TIMES_PLACED]; /* on other GPUs, by lane */
    uint32_t under_way_away[TSR_LANES];                          /* of these */
    struct tsr_sharing sharing[TSR_GPUS];                        /* by rank */
};

void tsr_samples_init(struct tsr_samples *samples, bool emulated);

/* Reports those that are done to their classes. */
void tsr_samples_poll(struct tsr_samples *samples);

/* For the record of a launch that goes there (tessera/lane.h), whose class is due (classes.h); 0: its time is not taken. */
uint16_t tsr_samples_begin_away(struct tsr_samples *samples, const struct tsr_class_of *of, const struct tsr_lane_client *lane,
                                CUstream stream, bool shared, struct tsr_sample_away *away);
/* It was to be one, but has not gone there. */
void tsr_samples_drop(struct tsr_samples *samples, const struct tsr_sample_away *away);

/* Around a launch at home, whose class is due; NULL: its time is not taken. */
struct tsr_sample *tsr_samples_begin(struct tsr_samples *samples, const struct tsr_class_of *of, CUstream stream, bool shared);
/* It was to be one, but the driver refused it. */
void tsr_samples_drop_home(struct tsr_samples *samples, struct tsr_sample *sample);
void tsr_samples_end(struct tsr_samples *samples, struct tsr_sample *sample, CUstream stream);

#endif
