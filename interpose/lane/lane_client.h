/*
 * The shim's end of a lane: control messages, which are answered, and records, which are not. See tessera/lane.h.
 * Posting a launch costs a copy and no lock; it waits only when the ring is full. watch.h says what happens when an executor fails.
 */
#ifndef TSR_LANE_LANE_CLIENT_H
#define TSR_LANE_LANE_CLIENT_H

#include "api/driver.h"

#include <stdbool.h>
#include <stdint.h>

#include <tessera/lane.h>

struct tsr_lane_client;

/* socket_path: base/socket.h. Waits for the executor to start and to serve earlier clients, at most five seconds. NULL: it does not
   answer, or another user does. */
struct tsr_lane_client *tsr_lane_client_create(const char *socket_path, uint32_t number);

/* Shares the fences of new lanes: afterwards each executor sees those of all others. Errors: an executor's. */
CUresult tsr_lane_introduce(struct tsr_lane_client *const *lanes, uint32_t count, bool tell);

/* Sends a message and waits for the answer. descriptor -1: none. Errors: the executor's CUresult. Success if the executor is lost and its loss is
   no error: then nothing goes to it any more (tsr_lane_enter). */
CUresult tsr_lane_ask(struct tsr_lane_client *lane, struct tsr_message *message, int descriptor);
/* The same with the whole answer; zero bytes if the executor is lost. */
CUresult tsr_lane_inquire(struct tsr_lane_client *lane, struct tsr_message *message, struct tsr_reply *reply);

/* Appends a record and its parameter block. Errors: as tsr_lane_ask. */
CUresult tsr_lane_post(struct tsr_lane_client *lane, struct tsr_lane_record *record, const void *params);
/* The same in two steps, for who has an atomic operation of full order to do between them anyway, as giving back a lock is: the executor may sleep until the second one. */
CUresult tsr_lane_append(struct tsr_lane_client *lane, struct tsr_lane_record *record, const void *params);
void tsr_lane_wake(const struct tsr_lane_client *lane);
/* Atomic. Whose finding about all lanes stands until one is given something to do: then it is NULL. */
extern const void *tsr_lanes_quiet_for __attribute__((visibility("hidden")));

/* Before the caller holds anything: waits while the stream in that slot of the lane has more records than it may. */
void tsr_lane_await_stream(struct tsr_lane_client *lane, const uint32_t *slot);

/* Addresses of a stream's two fences: device addresses in the executor; at home fences.h makes them so. */
CUdeviceptr tsr_lane_home_fence(uint32_t stream, const struct tsr_lane_client *lane);
CUdeviceptr tsr_lane_away_fence(uint32_t stream, const struct tsr_lane_client *lane);

/* What the home fence holds now. */
uint64_t tsr_lane_home_value(uint32_t stream, const struct tsr_lane_client *lane);
/* What the away fence holds now, and waiting for it on the host until it holds the value. Errors: the executor's. */
uint64_t tsr_lane_away_value(uint32_t stream, const struct tsr_lane_client *lane);
CUresult tsr_lane_await(const struct tsr_lane_client *lane, uint32_t stream, uint64_t value);

/* Where the executor writes how long launches took. */
struct tsr_lane_time *tsr_lane_times(const struct tsr_lane_client *lane);

/* Place among the session's lanes. */
uint32_t tsr_lane_number(const struct tsr_lane_client *lane);
/* The rank (tsr_session_gpu) of its GPU; NULL: home. */
static inline uint32_t tsr_lane_rank(const struct tsr_lane_client *lane)
{
    return lane ? 1 + tsr_lane_number(lane) : 0;
}

/* The error of an executor that has failed with work of the application; sticky. */
CUresult tsr_lane_state(const struct tsr_lane_client *lane);
/* Sets it, unless there is one already, and opens all fences; how: what the executor did, for the log. */
void tsr_lane_fail(struct tsr_lane_client *lane, CUresult error, const char *how);

/* The contexts whose work failed there are gone: from now on its loss is no error. */
void tsr_lane_pardon(struct tsr_lane_client *lane);

/* The executor is lost, whether or not that is an error. */
bool tsr_lane_is_lost(const struct tsr_lane_client *lane);
/* Around the departure of a stream that is home to the lane. enter, false: the executor is lost. */
bool tsr_lane_enter(struct tsr_lane_client *lane);
void tsr_lane_leave(struct tsr_lane_client *lane);

#endif
