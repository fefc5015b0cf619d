/*
 * One launch on its way through the shim: the request, the decision, the outcome. Whatever has to be looked up is looked up once and kept here:
 * the function's record, where the stream is, whether it is captured, the block of parameters.
 */
#ifndef TSR_LAUNCH_H
#define TSR_LAUNCH_H

#include "api/driver.h"

#include <stdbool.h>
#include <stdint.h>

#include <tessera/records.h>

#include "order/order.h"
#include "driver/rows.h"
#include "lane/streams.h"
#include "launch/attributes.h"
#include "object/parameters.h"

struct tsr_library_operands;
struct tsr_function_record;
struct tsr_instance;
struct tsr_lane_client;
struct tsr_session;
struct tsr_thread;
struct tsr_timing_pair;

enum tsr_check_due { TSR_CHECK_DUE_NONE, TSR_CHECK_DUE_FIRST, TSR_CHECK_DUE_DRAWN }; /* to be checked (check.h), and why */

/* The parameters as the GPU sees them; for a lane's record, attributes follow them. */
struct tsr_gathered {
    bool done;
    uint32_t bytes; /* of them alone */
    uint8_t values[TSR_PARAMETER_BYTES + TSR_MOST_ATTRIBUTES * sizeof(CUlaunchAttribute)] __attribute__((aligned(16)));
};

struct tsr_launch {
    /* The request. */
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
    struct tsr_function_record *known;       /* NULL: a handle that the shim has not seen */
    struct tsr_gathered *gathered;           /* ask tsr_launch_gather; NULL: nobody will */
    struct tsr_session *session;             /* NULL: there is no policy. If there is one: */
    struct tsr_stream_found place;           /* while launches may leave: the record of the stream */
    bool captured;                           /* goes into a graph */
    const struct tsr_library_operands *call; /* what its library call says of it; NULL: ask the thread's */
    enum { TSR_TOUCHES_UNASKED, TSR_TOUCHES_KNOWN, TSR_TOUCHES_ANYTHING } touches; /* touches.h */

    /* The decision. */
    bool decided;               /* a rule was chosen for it */
    bool automatic;             /* none did: schedule/automatic.h places it, and must be informed where it went */
    bool unseen;                /* none did, and it is not looked at: schedule/automatic.h sleeps */
    struct tsr_instance *marks; /* of a graph at home: whose end is to be recorded behind the launch; NULL: none */
    uint64_t ticket;            /* then: of its use of memory (memory/copies.h); 0: it has none */
    uint32_t gpu;               /* that it runs on, if there is a policy; TSR_PLACE_UNKNOWN */

    /* The outcome. */
    struct tsr_order_hold hold; /* of the stream, while the launch is forwarded */
    bool taken;                 /* posted to another GPU: not to be forwarded */
    enum tsr_check_due due;     /* if not taken: what it touches is being checked */
    CUfunction clone;           /* that is launched in its function's place; NULL: none is */
    enum tsr_reason reason;     /* why it stayed home although a rule sent it elsewhere */

    uint64_t start;          /* ticks; 0: not recorded. All that follows is for the record */
    uint64_t left, returned; /* ticks around the driver's own part; 0: not measured */
    struct tsr_thread *thread;
    uint16_t context;             /* number of the stream's */
    uint16_t time;                /* among those of the lane that it goes to (timing_away.h); 0: not timed there */
    struct tsr_lane_client *lane; /* of `time` */
    struct tsr_timing_pair *pair; /* NULL: not timed */
};

/* The block of parameters, gathered by who asks first. False: the layout is not known, or they were set beforehand. */
bool tsr_launch_gather_now(const struct tsr_launch *launch);
static inline bool tsr_launch_gather(const struct tsr_launch *launch)
{
    return launch->gathered && (launch->gathered->done || tsr_launch_gather_now(launch));
}

#endif
