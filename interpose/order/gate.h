/*
 * The gate: every call that gives work to a GPU, or begins a capture, passes it. Verifying a launch and moving memory close it, to have memory
 * for themselves. In sessions that do neither it stays open, and costs a load and a branch.
 */
#ifndef TSR_ORDER_GATE_H
#define TSR_ORDER_GATE_H

#include <stdbool.h>
#include <stdint.h>

extern bool tsr_gate_watched __attribute__((visibility("hidden"))); /* constant once the session has started */

/* A session begins; no thread has passed the gate. */
void tsr_gate_start(bool watched);

bool tsr_gate_enter_watched(void);
void tsr_gate_leave_watched(void);

/* Passes the gate: waits while it is closed, unless this thread has closed it. The result is for tsr_gate_leave. */
static inline bool tsr_gate_enter(void)
{
    return __builtin_expect(tsr_gate_watched, 0) && tsr_gate_enter_watched();
}

static inline void tsr_gate_leave(bool entered)
{
    if (entered)
        tsr_gate_leave_watched();
}

/* Closes the gate once no thread is inside; false: that did not happen within the time, and the gate is open. If the memory lock is needed, it
   is taken before. */
bool tsr_gate_close(uint64_t timeout_ns);
void tsr_gate_open(void);

/* Waits until all threads that are inside now have left; others may enter. The caller is not inside. False: not within the time. */
bool tsr_gate_drain(uint64_t timeout_ns);

#endif
