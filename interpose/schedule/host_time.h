/*
 * The host's time, as the rule (tessera/place.h) is given it: of the calling thread. On a real machine it is the monotonic clock. Emulated GPUs have a time of
 * their own, in which the host takes none: there it stands still but where a thread waits. Not for several threads at a time: who calls holds a lock.
 */
#ifndef TSR_SCHEDULE_HOST_TIME_H
#define TSR_SCHEDULE_HOST_TIME_H

#include <stdbool.h>

/* emulated: constant until the next call. */
void tsr_host_time_init(bool emulated);
bool tsr_host_time_is_virtual(void);

double tsr_host_time_ns(void);
/* The calling thread has waited until then; real time knows that itself. */
void tsr_host_time_waited(double until_ns);

#endif
