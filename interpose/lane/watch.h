/*
 * Watching the executors. A thread of the shim sees within a second when one has ended (its socket hangs up) or does not run any more
 * (its pulse stops while somebody waits for it), whatever the application's threads do meanwhile.
 *
 * Then the executor is lost for good. If no work is with it, the application goes on at home and need not know. Otherwise the lane's
 * error is set, all fences are opened so that nobody waits for what will not come, and every later call that waits or
 * enqueues has the error for an answer.
 */
#ifndef TSR_LANE_WATCH_H
#define TSR_LANE_WATCH_H

#include <stdbool.h>

struct tsr_lane_client;

void tsr_watch_start(struct tsr_lane_client *lane);
void tsr_watch_stop(struct tsr_lane_client *lane);

/* Whether the executor's pulse is recent, or it has no CPU to beat on. */
bool tsr_watch_is_alive(const struct tsr_lane_client *lane);

/* A forked child begins with nothing to watch. */
void tsr_watch_reset(void);

#endif
