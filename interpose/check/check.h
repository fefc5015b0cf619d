/*
 * Checking what is known of launches at home: the bytes that one really changes, or each access that it makes, against what was predicted
 * (predict.h).
 *
 * A launch that is checked has memory to itself: the gate is closed, all work is waited for, the launch runs and is waited for. For its writes, memory
 * is copied before and compared afterwards, all but the predicted writes. For its accesses, its function's clone runs in its place (clone.h). What
 * was not predicted is a violation: it is told (the log, tessera/checks.h), and what the function touches is unknown from then on. A launch that
 * cannot be checked runs as ever, and is counted with the reason. Nothing is checked while a stream is captured.
 *
 * What is looked at is what snapshots hold (snapshot.h). Page-locked memory, which the host may change at any time, variables of modules, and
 * other memory that the shim does not serve are not.
 */
#ifndef TSR_CHECK_H
#define TSR_CHECK_H

#include "api/driver.h"

#include <stdbool.h>
#include <stdint.h>

struct tsr_checks;
struct tsr_function_record;
struct tsr_launch;

extern struct tsr_checks *tsr_checks
    __attribute__((visibility("hidden"))); /* constant once the session has started; NULL: none */

/* A session begins. Whether launches are to be checked in it. */
bool tsr_checks_start(void);

bool tsr_check_draw(struct tsr_function_record *function, struct tsr_launch *launch);

/* Whether it is the turn of a launch that is going to run at home. Function: NULL: not known; then it never is. */
static inline bool tsr_check_is_due(struct tsr_function_record *function, struct tsr_launch *launch)
{
    return __builtin_expect(tsr_checks != NULL, 0) && tsr_check_draw(function, launch);
}

/* Before a launch whose turn it is. If it can be checked, it keeps its turn (launch->due) and nothing else runs until tsr_check_finish. */
void tsr_check_begin(struct tsr_launch *launch);

/* After it, whatever the driver said. */
void tsr_check_finish(const struct tsr_launch *launch, CUresult result);

#endif
