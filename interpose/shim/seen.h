/*
 * What this process let us see of its use of the driver, and the word about it when it ends: at level info how many look-ups came through
 * us; at level warn that a driver is in the process whose start never came through us. Ways past us are listed in interpose/README.md.
 * A process that ends without running destructors says nothing.
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
