/*
 * Times on the GPU of launches that executors run. A launch that is to be timed gets an entry among its lane's times (tessera/lane.h), which its record
 * names; the executor puts the events around the launch and writes the answer into the entry. Which record an entry belongs to is kept here. The harvest of
 * timing.c reads the answers.
 */
#ifndef TSR_RECORD_TIMING_AWAY_H
#define TSR_RECORD_TIMING_AWAY_H

#include <stdint.h>

struct tsr_lane_client;
struct tsr_thread;

/* For the lane's record, and to be given to one of the next two; 0: this launch is not timed. */
uint16_t tsr_timing_away_begin(struct tsr_lane_client *lane);
/* It was posted. number: of the launch's record in the thread's ring, UINT64_MAX: it has none. */
void tsr_timing_away_end(const struct tsr_lane_client *lane, uint16_t time, const struct tsr_thread *thread, uint64_t number);
/* It was not. */
void tsr_timing_away_drop(const struct tsr_lane_client *lane, uint16_t time);

/* Harvest: reads what is known. Returns how many are not. */
uint32_t tsr_timing_away_harvest(void);
/* Harvest: the process ends. Waits at most so long; the rest is lost. */
void tsr_timing_away_finish(uint64_t patience_ns);

/* In a forked child. */
void tsr_timing_away_forget(void);

#endif
