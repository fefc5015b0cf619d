/*
 * Taking the place of a lost executor. If everything that it has taken from its lane is complete, nothing is lost: a thread of the shim carries out at home
 * the records that are still on the lane, and those that are posted until the streams that are away have joined, each stream's in their order and with the same
 * fences. What the executor has taken and not completed cannot be repeated, because nobody knows how much of it was done.
 *
 * The thread never enqueues a wait: it polls the home fences, and enqueues a stream's work when that may run, in a stream of its
 * own. That stream may share a queue of the GPU with a stream of the application that waits for this very work; so if the work does not begin
 * soon, that is an error. The thread ends when no stream is away any more.
 *
 * A stream that had nothing there may have found the executor alive just before it was declared lost, and post its next record after the decision, or
 * after the thread has ended. Then another thread begins.
 */
#ifndef TSR_LANE_FAILOVER_H
#define TSR_LANE_FAILOVER_H

#include <stdbool.h>
#include <stdint.h>

struct tsr_lane_client;

/* All three are called by watch.c's thread. Closes the lane to its executor. False: the executor's account of it is inconsistent. */
bool tsr_failover_close(struct tsr_lane_client *client);
/* The lane has been closed, and holds records that nobody is about to carry out. */
bool tsr_failover_is_due(const struct tsr_lane_client *client);
/* Closes the lane, if it has not been, and takes the executor's place. False: work is lost, or there is no memory or thread for it. */
bool tsr_failover_start(struct tsr_lane_client *client);

/* Waits for what a lost executor's lane holds, as the executor does before it changes what records refer to. */
void tsr_failover_await(const struct tsr_lane_client *client);

/* Hears of each launch that was sent to a GPU and runs at home instead. */
typedef void tsr_came_back_listener(uint32_t gpu);
void tsr_failover_listen(tsr_came_back_listener *listener);

#endif
