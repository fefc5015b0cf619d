/*
 * How much of this process' use of the driver came through the shim, logged when the process ends: at level info the number of look-ups that the shim
 * answered; at level warn that a driver is loaded whose start the shim did not see. interpose/README.md lists the ways past the shim.
 * A process that ends without running destructors logs nothing.
 */
#ifndef TSR_SHIM_SEEN_H
#define TSR_SHIM_SEEN_H

#include <stdbool.h>
#include <stddef.h>

/* The process called our cuInit. */
void tsr_seen_start(void);

/* cuGetProcAddress was asked through us; ours: the answer is a function of the shim. */
void tsr_seen_look_up(bool ours);

/* Whether a driver library is mapped that came past us: not us, not opened by us, and our cuInit was never called. Gives its path. */
bool tsr_seen_nothing(char *path, size_t bytes);

#endif
