/*
 * The engine: one thread per process that runs items, and the lock, clocks and condition that everything in stream/ shares.
 *
 * Order. Among ready items the one submitted first runs, to its end, so a program that submits in a fixed order is executed, and its
 * work placed in virtual time, in a fixed order however the threads of the process are scheduled. Exceptions, for the sake of
 * liveness: a kernel that made no progress in a quantum stands back for other ready items; so does one that has run for
 * LONG_RUN_NS while others wait; waits for values are looked at between items; a host function has GRACE_NS before others go on.
 * Items that take no time (event records, waits, empty nodes) complete as soon as they are ready, on whatever thread that is.
 *
 * The thread starts with the first item that needs it and is stopped, between two quanta, when the process exits; what has not
 * run by then never does. A forked child has no engine.
 */
#ifndef TSR_STREAM_ENGINE_H
#define TSR_STREAM_ENGINE_H

#include "item.h"

struct tsr_timeline;

void tsr_engine_lock(void);
void tsr_engine_unlock(void); /* then releases what was left to it */
/* Waits until some item completes or the process ends; may return early. */
void tsr_engine_pause_locked(void);

void tsr_engine_push_ready_locked(struct tsr_item *item);
/* Takes over the reference of a completed item and releases its work after the lock is given up. */
void tsr_engine_leave_locked(struct tsr_item *item);
void tsr_engine_completed_locked(void); /* wakes who waits */
void tsr_engine_kick_locked(void);      /* wakes the engine */
bool tsr_engine_ending_locked(void);

struct tsr_timeline *tsr_engine_timeline(void); /* engine thread only */

#endif
