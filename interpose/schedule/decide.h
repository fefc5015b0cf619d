/*
 * Where a launch runs: the policy's first rule that holds for it. On the path of every launch, so: no lock, no allocation and no call
 * of the operating system, except once per function when the rules are new.
 */
#ifndef TSR_SCHEDULE_DECIDE_H
#define TSR_SCHEDULE_DECIDE_H

#include "api/driver.h"

#include <stdbool.h>
#include <stdint.h>

#include <tessera/records.h>

#include "schedule/rules.h"

struct tsr_session;
struct tsr_stream;

/* The launch that is to be decided: the application's words. */
struct tsr_decide_launch {
    const uint32_t *grid, *block; /* three each */
    CUstream stream;
    struct tsr_stream *record; /* of the stream; NULL: look it up */
    bool captured;             /* goes into a graph */
    bool graph;                /* it is the launch of a graph: no condition on functions and shapes holds */
};

struct tsr_decision {
    struct tsr_lane_client *lane; /* NULL: home */
    uint32_t lane_number;
    bool leaves;     /* it is to run elsewhere; without a lane it cannot */
    bool automatic;  /* no rule holds, and the session places such launches itself (automatic.h) */
    uint32_t device; /* of the lane */
    bool verify;     /* it is this launch's turn to be verified */
    uint64_t verify_limit_bytes;
};

/* The launch must be on the home GPU. Counts it as one of the function's. */
struct tsr_decision tsr_decide(struct tsr_session *session, struct tsr_function_record *function,
                               const struct tsr_decide_launch *launch);

/* A number that looks drawn at random and is always the same for the n-th launch of the function under this seed. */
uint64_t tsr_decide_draw(uint64_t seed, uint64_t name_hash, uint64_t number);

/* Counts a launch that has stayed home although a rule sent it elsewhere. */
void tsr_decide_kept(enum tsr_reason reason);

#endif
