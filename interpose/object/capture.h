/*
 * Streams that are being captured into graphs. While none is, anywhere in the process, the driver is not asked.
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

/* Whether work enqueued in the stream (never NULL) goes into a graph; also true if the driver's query fails. */
static inline bool tsr_is_capturing(CUstream stream)
{
    return tsr_is_any_capture() && tsr_ask_capturing(stream);
}

/*
 * Between hold and release, no capture begins or ends, and no stream becomes part of one. Otherwise querying another thread's stream could invalidate a capture that
 * began after the check, and an event recorded there would become part of it. The memory lock and the gate are taken before, locks of streams
 * after it.
 */
void tsr_captures_hold(void);
void tsr_captures_release(void);

/* Around the beginning, growth or end of a capture: excludes all holders. */
void tsr_captures_change_begin(void);
void tsr_captures_change_end(void);

/* The stream's capture has begun. */
void tsr_capture_note(CUstream stream);
/* The stream has been destroyed, and its capture with it. */
void tsr_capture_forget(CUstream stream);

#endif
