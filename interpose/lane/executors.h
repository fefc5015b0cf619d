/* Control messages that go to all executors, which hold the same objects. */
#ifndef TSR_LANE_EXECUTORS_H
#define TSR_LANE_EXECUTORS_H

#include "api/driver.h"

#include <tessera/lane.h>

/*
 * Asks one after the other and stops at the first that refuses, whose error it gives; those asked before then get `undo` (NULL:
 * nothing). descriptor -1: none.
 */
CUresult tsr_executors_ask(const struct tsr_message *message, int descriptor, const struct tsr_message *undo);
/* Tells all of them; what they answer does not matter. */
void tsr_executors_tell(const struct tsr_message *message);

/* The application has set a limit of its context: of the stack, the heap and printf's buffer the executors get the same. */
void tsr_executors_limit(CUlimit limit, size_t value);

#endif
