/* Launches while a session exists: each is posted to an executor, or forwarded at home. */
#ifndef TSR_SHIM_REDIRECT_H
#define TSR_SHIM_REDIRECT_H

#include "api/driver.h"

#include <stdbool.h>

struct tsr_copies_proof;
struct tsr_copies_use;
struct tsr_function_record;
struct tsr_lane_client;
struct tsr_lane_record;
struct tsr_launch;
struct tsr_touch;

/* Whether the function can be launched in this shape, as far as is known of it: it has been launched before. */
bool tsr_redirect_shape_is_valid(const struct tsr_function_record *function, const struct tsr_launch *launch);

/* Posts the launch if it is to run elsewhere; else makes sure that it may run at home, and holds its stream until tsr_order_leave. Errors: the driver's, or the executor's. */
CUresult tsr_redirect(struct tsr_launch *launch);

/* The driver has taken a launch that the session placed at home; its stream is still held. */
void tsr_redirect_launched(struct tsr_launch *launch);

/* After the driver has answered: counts it, and finds out what kept it at home if nothing has yet. */
void tsr_redirect_finish(struct tsr_launch *launch, CUresult result);

/*
 * For launches of graphs (graph_launch.h). Of the launch only the stream, its place, the gathered parameters and `automatic` are used. post: with what
 * has to be pulled. again: like one before with that proof, false: the proof does not hold any more. fork_early: before a launch at home that
 * might have left. fetch: constants are copied to the lane's GPU.
 */
CUresult tsr_redirect_post(const struct tsr_launch *launch, struct tsr_lane_record *record, const struct tsr_copies_use *use);
bool tsr_redirect_again(const struct tsr_launch *launch, struct tsr_lane_client *lane, struct tsr_lane_record *record,
                        const struct tsr_copies_proof *last, CUresult *result);
CUresult tsr_redirect_fork_early(const struct tsr_launch *launch);
void tsr_redirect_fetch(const struct tsr_launch *launch, const struct tsr_touch *constants, uint32_t count,
                        struct tsr_lane_client *lane);

/* Launches that a lost executor had not taken are counted at home. */
void tsr_redirect_start(void);

#endif
