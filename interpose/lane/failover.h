/*
 * In the place of a lost executor. If all that it has taken is complete, nothing is lost: what still stands on its lane, and what comes there
 * until the streams that are away have joined, is carried out at home by a thread of the shim, in the order of each stream, with the same
 * fences. What the executor has taken and not completed cannot be done again, because nobody knows what of it was done.
 *
 * The thread enqueues nothing that waits: it looks at the home fences itself and begins a stream's work when it may run, in a stream of its
 * own. That one may share a queue of the GPU with a stream of the application that waits for this very work: work that does not begin
 * is an error, soon. The thread ends when no stream is away any more.
 */
#ifndef TSR_LANE_FAILOVER_H
#define TSR_LANE_FAILOVER_H

#include <stdbool.h>
#include <stdint.h>

struct tsr_lane_client;

/* Closes the lane to its executor. False: work is lost, or there is no memory or thread for it. */
bool tsr_failover_start(struct tsr_lane_client *client);

/* Waits for what a lost executor's lane holds, as the executor does before it changes what records refer to. */
void tsr_failover_await(const struct tsr_lane_client *client);

/* Hears of each launch that was sent to a GPU and runs at home instead. */
typedef void tsr_came_back_listener(uint32_t gpu);
void tsr_failover_listen(tsr_came_back_listener *listener);

#endif
