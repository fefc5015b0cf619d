/*
 * One launch on its way through the shim: what the application asked for, and what became of it.
 */
#ifndef TSR_SHIM_LAUNCH_H
#define TSR_SHIM_LAUNCH_H

#include "api/driver.h"

#include <stdbool.h>
#include <stdint.h>

#include <tessera/records.h>

#include "shim/order/order.h"
#include "shim/entry/rows.h"

struct tsr_function_record;
struct tsr_lane_client;
struct tsr_thread;
struct tsr_timing_pair;

enum tsr_turn { TSR_TURN_NONE, TSR_TURN_FIRST, TSR_TURN_DRAWN }; /* to be checked (check.h), and why */

struct tsr_launch {
    enum tsr_row row;
    bool cooperative;
    bool opaque; /* its parameters were set beforehand, function by function */
    CUfunction function;
    uint32_t grid[3], block[3];
    uint32_t shared_bytes;
    CUstream stream; /* never NULL */
    void **params, **extra;
    const CUlaunchAttribute *attributes;
    uint32_t attribute_count;
    struct tsr_function_record *known; /* NULL: a handle that the shim has not seen */

    struct tsr_order_hold hold; /* of the stream, while the launch is forwarded */
    bool taken;                 /* posted to another GPU: not to be forwarded */
    bool captured;              /* went into a graph */
    bool decided;               /* a rule was chosen for it */
    uint32_t gpu;               /* that it runs on, if there is a policy; TSR_PLACE_UNKNOWN */
    enum tsr_turn turn;         /* if not taken: what it touches is being checked */
    CUfunction twin;            /* that is launched in its function's place; NULL: none is */
    enum tsr_reason reason;     /* why it stayed home although a rule sent it elsewhere */

    uint64_t start;          /* ticks; 0: not recorded. All that follows is for the record */
    uint64_t left, returned; /* ticks around the driver's own part; 0: not measured */
    struct tsr_thread *thread;
    uint16_t context;             /* number of the stream's */
    uint16_t time;                /* among those of the lane that it goes to (timing_away.h); 0: not timed there */
    struct tsr_lane_client *lane; /* of `time` */
    struct tsr_timing_pair *pair; /* NULL: not timed */
};

/* Posts the launch if it is to run elsewhere; else makes sure that it may run at home, and holds its stream until tsr_order_leave. Errors: the driver's, or the executor's. */
CUresult tsr_redirect(struct tsr_launch *launch);

/* After the driver has answered: counts it, and finds out what kept it at home if nothing has yet. */
void tsr_redirect_finish(struct tsr_launch *launch, CUresult result);

/* For a launch that is recorded: looks up what is known of its thread and stream. */
void tsr_launch_note(struct tsr_launch *launch);
/* For one that is about to be posted to a lane: whether it is timed there. */
void tsr_launch_time_away(struct tsr_launch *launch, struct tsr_lane_client *lane);
/* The same just before the driver's own part, part of which may be measured. */
void tsr_launch_prepare(struct tsr_launch *launch);
/* After it, once the driver has answered. */
void tsr_launch_record(struct tsr_launch *launch, CUresult result);

#endif
