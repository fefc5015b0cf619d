/*
 * Ties for a held stream (order.h): pieces of its work on one GPU wait for pieces on another, in addition to stream order.
 * NULL stands for home, through which every tie between two executors passes. Work that a stream was given with ties is complete when the stream's own
 * work is: the last tie leads to where the stream goes on.
 */
#ifndef TSR_ORDER_TIES_H
#define TSR_ORDER_TIES_H

#include "api/driver.h"

#include <stdint.h>

struct tsr_lane_client;
struct tsr_stream;

/* The stream can be given work on the lane, until tsr_ties_close. Errors: LAUNCH_FAILED: the executor is lost; others of the executor's. */
CUresult tsr_ties_open(struct tsr_stream *stream, struct tsr_lane_client *lane);
void tsr_ties_close(struct tsr_lane_client *lane);

/* Signals the work that the stream has been given at `from` so far, for `to`. One of the two is a lane, and both are open. */
CUresult tsr_tie_signal(struct tsr_stream *stream, struct tsr_lane_client *from, struct tsr_lane_client *to, uint64_t *value);
/* Work that the stream is given at `to` from now on comes after that signal. */
CUresult tsr_tie_await(struct tsr_stream *stream, struct tsr_lane_client *from, struct tsr_lane_client *to, uint64_t value);
CUresult tsr_tie(struct tsr_stream *stream, struct tsr_lane_client *from, struct tsr_lane_client *to);

/* How to see a signal: the address holds at least the value. */
CUdeviceptr tsr_tie_fence(const struct tsr_stream *stream, const struct tsr_lane_client *from,
                          const struct tsr_lane_client *to);
/* The stream at home waits until the fence, of whatever stream, holds the value. */
CUresult tsr_tie_await_fence(const struct tsr_stream *stream, CUdeviceptr fence, uint64_t value);

#endif
