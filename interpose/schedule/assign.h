/*
 * Rules that give each stream, or each thread, a GPU: the one with the least to do when it first launches something that such a rule
 * matches, for its life. The home GPU and those of all executors that are not lost take part.
 *
 * What a GPU has to do is counted by who has it, not by what is queued there at the moment or was launched lately: threads that begin together
 * would all find the same queues empty, and one that has made everything ready for them would seem to be the busiest of all. Who has launched
 * lately counts first, then everybody that is alive; home is first among equals. So threads that begin together are divided evenly, whoever
 * comes first. A process knows of its own streams and threads only.
 *
 * A launch finds the place in the record of its stream, or of its thread, without a lock.
 */
#ifndef TSR_SCHEDULE_ASSIGN_H
#define TSR_SCHEDULE_ASSIGN_H

#include "api/driver.h"

#include <stdbool.h>
#include <stdint.h>

struct tsr_assigned;
struct tsr_decide_launch;
struct tsr_lane_client;
struct tsr_session;

/* What streams and threads do on one GPU. */
struct tsr_assign_load {
    bool lost;      /* its executor is */
    uint32_t used;  /* streams and threads that have launched lately */
    uint32_t alive; /* streams and threads */
};

/* Deciding: which of them gets the next one. The first is home, which is never lost. */
uint32_t tsr_assign_choose(const struct tsr_assign_load *loads, uint32_t count);
/* Looks at one that has the GPU, and adds it. */
void tsr_assign_add(struct tsr_assign_load *load, struct tsr_assigned *one, uint64_t now_ns);

struct tsr_assignment {
    struct tsr_lane_client *lane; /* NULL: home */
    bool leaves;                  /* without a lane: it may have been to run elsewhere, but nothing can be given */
    bool is_new;
};
/* Where a launch goes, by TSR_POLICY_BY_STREAM or TSR_POLICY_BY_THREAD. One that is captured, and so does not run, gets nobody a place. */
struct tsr_assignment tsr_assign(const struct tsr_session *session, int32_t by, const struct tsr_decide_launch *launch);

/* The GPU that the stream was given, if it is not home: where other work of the stream belongs, too. NULL: home, or none was given. */
struct tsr_lane_client *tsr_assign_lane(const struct tsr_session *session, CUstream stream);

/* A process' session begins: nobody has a place. */
void tsr_assign_start(void);

#endif
