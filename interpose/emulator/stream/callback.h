/*
 * The callback thread: runs the application's host functions one after the other, in the order in which they became ready, holding
 * no lock. CUDA calls made from it that enqueue or wait are refused. It is not waited for when the process ends inside one.
 */
#ifndef TSR_STREAM_CALLBACK_H
#define TSR_STREAM_CALLBACK_H

#include "item.h"

/* The item is completed after its function has returned. */
void tsr_callback_queue_locked(struct tsr_item *item);
/* A function is running, or waits to. */
bool tsr_callback_busy_locked(void);
bool tsr_callback_here(void); /* on the callback thread */
void tsr_callback_stop(void);
void tsr_callback_forget(void); /* in a forked child, where the thread does not exist */

#endif
