/*
 * What a launch may read and write according to the library call that it happens in (calls/calls.h), in the form in which the evaluator of templates gives it.
 */
#ifndef TSR_LAUNCH_CALL_RANGES_H
#define TSR_LAUNCH_CALL_RANGES_H

#include <stdbool.h>

#include <tessera/access.h>

/* From now on library calls are looked at for their operands, if their marks are loaded. */
void tsr_call_ranges_start(void);

/*
 * Fills in the result's ranges, level and reasons, without the variables of the launch's own module, which a caller has to add. Ranges that
 * are an allocation as a whole get its ends, from the launch's `allocation`. A level of TSR_LEVEL_UNKNOWN: the thread is in no call whose
 * operands are known. `other_gpus`: the launch reaches memory of other GPUs, too, and must stay where it is.
 */
void tsr_call_ranges(const struct tsr_access_launch *launch, struct tsr_access_result *result, bool *other_gpus);

/*
 * The ranges of a launch by its code, in a call whose operands are known: those that are an allocation as a whole become the operands in it, and
 * what the call says of them is marked: scratch, what it overwrites, and so does not read.
 */
void tsr_call_ranges_refine(const struct tsr_access_launch *launch, struct tsr_access_result *result);

/* What was said of the call that the thread is in was wrong: from now on, calls of its entry point are unknown in this process. */
void tsr_call_ranges_distrust(void);

#endif
