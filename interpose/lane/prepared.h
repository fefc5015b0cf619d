/*
 * Functions are sent to executors in the background, from their first launch on, so that no launch waits for it. Loading code can take a GPU tens of
 * milliseconds, longer where it has work, and an executor reads through a module for references to variables.
 */
#ifndef TSR_LANE_PREPARED_H
#define TSR_LANE_PREPARED_H

#include <stdbool.h>
#include <stdint.h>

struct tsr_function_record;
struct tsr_module_record;
struct tsr_session;

/* Once per session. Without threads for it no lane counts as unprepared. */
void tsr_prepared_start(const struct tsr_session *session);

/* Lanes (bit k: number k) on which a launch of the function might wait for its code, or for another's that is being loaded. Has it sent there. */
uint16_t tsr_unprepared_lanes(struct tsr_function_record *function);

/* Before executors unload the module: none of its functions is being sent afterwards. */
void tsr_prepared_forget(struct tsr_module_record *module);

#endif
