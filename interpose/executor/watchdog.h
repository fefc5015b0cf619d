/*
 * Ends the executor when the process that it works for is gone. Kernels need not end, and the driver waits for them as long as they run, so
 * a separate thread has to watch: if the application has gone and its work does not end within a moment, the thread ends the process.
 */
#ifndef TSR_EXECUTOR_WATCHDOG_H
#define TSR_EXECUTOR_WATCHDOG_H

#include <stdbool.h>
#include <sys/types.h>

#define TSR_WATCHDOG_MS 400 /* for ending tidily */

struct tsr_watchdog;

/* The process is killed when its parent ends; for good, of the calling thread's process. False: it has ended already. */
bool tsr_watchdog_over_parent(pid_t parent);

/* From now on the process ends TSR_WATCHDOG_MS after the socket's other end has closed. NULL: no thread. */
struct tsr_watchdog *tsr_watchdog_start(int guest);
/* Ends the watch in time. NULL is no watchdog. */
void tsr_watchdog_end(struct tsr_watchdog *watchdog);

#endif
