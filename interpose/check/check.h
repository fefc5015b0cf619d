/*
 * Checks of what is known of launches at home: the bytes that a launch really changes, or each access that it makes, against the prediction
 * (predict.h).
 *
 * While a launch is checked it has memory to itself: the gate is closed, all earlier work is waited for, and the launch runs and is waited for. To check its writes, memory
 * is copied before and compared afterwards, except for the predicted writes. To check its accesses, its function's clone runs in its place (clone.h). Anything
 * not predicted is a violation: it is reported (in the log and in tessera/checks.h), and from then on the function's access sets are unknown. A launch that
 * cannot be checked runs as usual, and is counted with the reason. Nothing is checked while a stream is captured.
 *
 * Checked is the memory that snapshots hold (snapshot.h): not page-locked memory, which the host may change at any time, nor variables of modules, nor
 * memory that the shim does not serve.
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

/* A session begins. Returns whether launches are checked in it. */
bool tsr_checks_start(void);

bool tsr_check_draw(struct tsr_function_record *function, struct tsr_launch *launch);

/* Whether a launch that is about to run at home is due for a check. function NULL: not known, never due. */
static inline bool tsr_check_is_due(struct tsr_function_record *function, struct tsr_launch *launch)
{
    return __builtin_expect(tsr_checks != NULL, 0) && tsr_check_draw(function, launch);
}

/* Before a launch that is due. If it can be checked, it stays due (launch->due), and nothing else runs until tsr_check_finish. */
void tsr_check_begin(struct tsr_launch *launch);

/* After the launch, whatever the driver returned. */
void tsr_check_finish(const struct tsr_launch *launch, CUresult result);

#endif
