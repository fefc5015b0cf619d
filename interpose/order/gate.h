/*
 * The gate: every call that gives work to a GPU, or begins a capture, passes it. Verifying a launch and moving memory close it, to have memory
 * for themselves. In sessions that do neither it stays open, and costs a load and a branch.
 */
#ifndef TSR_ORDER_GATE_H
#define TSR_ORDER_GATE_H

#include <stdbool.h>
#include <stdint.h>

extern bool tsr_gate_watched __attribute__((visibility("hidden"))); /* constant once the session has started */

/* A session begins, no thread is inside. */
void tsr_gate_start(bool watched);

bool tsr_gate_enter_watched(void);
void tsr_gate_leave_watched(void);

/* Waits while the gate is closed, unless it was this thread that closed it. The result is for tsr_gate_leave. */
static inline bool tsr_gate_enter(void)
{
    return __builtin_expect(tsr_gate_watched, 0) && tsr_gate_enter_watched();
}

static inline void tsr_gate_leave(bool entered)
{
    if (entered)
        tsr_gate_leave_watched();
}

/* Closes the gate when nobody is inside any more; false: somebody was for all that time, it is open. The memory lock, if it is needed,
   is taken before. */
bool tsr_gate_close(uint64_t timeout_ns);
void tsr_gate_open(void);

/* Waits until everybody who is inside now has left; others may come. The caller is not inside. False: not within the time. */
bool tsr_gate_drain(uint64_t timeout_ns);

#endif
