/*
 * Streams that are being captured into graphs. As long as none is, anywhere in the process, nobody asks the driver.
 */
#ifndef TSR_OBJECT_CAPTURE_H
#define TSR_OBJECT_CAPTURE_H

#include "api/driver.h"

#include <stdbool.h>
#include <stdint.h>

extern uint32_t tsr_captures __attribute__((visibility("hidden"))); /* atomic; captures that have begun and not ended */

static inline bool tsr_is_any_capture(void)
{
    return __builtin_expect(__atomic_load_n(&tsr_captures, __ATOMIC_RELAXED) != 0, 0);
}

bool tsr_ask_capturing(CUstream stream);

/* Whether what is enqueued in the stream (never NULL) goes into a graph; also true when the driver does not say. */
static inline bool tsr_is_capturing(CUstream stream)
{
    return tsr_is_any_capture() && tsr_ask_capturing(stream);
}

/*
 * In between no capture begins or ends, and no stream becomes part of one: who asks another thread's stream would end a capture that began
 * after it looked, and an event that it records there would be part of it. The memory lock and the gate are taken before, locks of streams after
 * it.
 */
void tsr_captures_hold(void);
void tsr_captures_release(void);

/* The same while one does: nobody else holds it meanwhile. */
void tsr_captures_change_begin(void);
void tsr_captures_change_end(void);

/* The stream's capture has begun. */
void tsr_capture_note(CUstream stream);
/* The stream has been destroyed, and its capture with it. */
void tsr_capture_forget(CUstream stream);

#endif
