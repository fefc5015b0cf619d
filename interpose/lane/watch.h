/*
 * Watching the executors. A thread of the shim notices within a second when an executor has ended (its socket hangs up) or no longer runs
 * (its pulse stops while somebody waits for it), whatever the application's threads do meanwhile.
 *
 * The executor is then lost for good. If it has no incomplete work, the application continues at home and need not know. Otherwise the lane's
 * error is set, all fences are opened so that nobody waits for work that will not happen, and every later call that waits or
 * enqueues returns the error. So it is, whether or not it has incomplete work, when the program has closed the socket.
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
