/*
 * Doing the work of an item, without the engine's lock and without knowing about order. Each function gives the virtual time at which
 * the work ends; it is placed on the engine's timeline. Failures make the item's context fail.
 */
#ifndef TSR_STREAM_RUN_H
#define TSR_STREAM_RUN_H

#include "item.h"

/* Starts or continues the kernel. FAULT also when it could not be started. */
enum tsr_grid_state tsr_run_kernel(struct tsr_item *item, uint64_t quantum_ns, uint64_t *end_ns);
/* Copies, memsets and internal calls. run = false: the work is dropped, internal calls are told so. */
void tsr_run_plain(struct tsr_item *item, bool run, uint64_t *end_ns);
/* Values and other processes' events: false when what it waits for has not happened. Never blocks. */
bool tsr_run_poll(struct tsr_item *item, uint64_t *end_ns);

#endif
