/*
 * Virtual time of host threads. Frozen: a driver call that enqueues or waits costs host_call_ns, computing costs nothing. Real: the
 * time that passes between two such calls counts as it is. Waiting for work moves the clock to that work's end. A thread's
 * clock starts where the clock of the thread that first used the driver stands.
 */
#ifndef TSR_STREAM_HOST_CLOCK_H
#define TSR_STREAM_HOST_CLOCK_H

#include <stdint.h>

/* Begins a call: returns the thread's time after it. */
uint64_t tsr_host_clock_enter(void);
void tsr_host_clock_leave(void);
void tsr_host_clock_advance(uint64_t ns); /* to at least ns */
void tsr_host_clock_seen(uint64_t ns);    /* the same, for who has asked and not waited; see TESSERA_QUERY_TIME */
uint64_t tsr_host_clock_now(void);

#endif
