/*
 * What a launch may read and write according to the library call that it happens in (calls/calls.h), in the form in which the evaluator of templates gives it.
 */
#ifndef TSR_LAUNCH_CALL_RANGES_H
#define TSR_LAUNCH_CALL_RANGES_H

#include <stdbool.h>
#include <stdint.h>

#include <tessera/access.h>

/* What a library call says of its launches (tessera_library_operands). */
struct tsr_library_operands {
    uint32_t call; /* number of its entry point; 0: there is no call */
    int32_t count; /* of ranges; -1: they are not known */
    uint32_t other_gpus;
    const struct tsr_access_range *ranges;
    const char *why; /* they are not known */
};

/* Of the call that the thread is in. */
struct tsr_library_operands tsr_library_operands_now(void);

/* From now on library calls are looked at for their operands, if their marks are loaded. */
void tsr_call_ranges_start(void);

/*
 * Fills in the result's ranges, level and reasons, without the variables of the launch's own module, which a caller has to add. Ranges that
 * are an allocation as a whole get its ends, from the launch's `allocation`. A level of TSR_LEVEL_UNKNOWN: the launch is in no call whose
 * operands are known.
 */
void tsr_call_ranges(const struct tsr_library_operands *call, const struct tsr_access_launch *launch,
                     struct tsr_access_result *result);

/*
 * The ranges of a launch by its code, in a call whose operands are known: those that are an allocation as a whole become the operands in it, and
 * what the call says of them is marked: scratch, what it overwrites, and so does not read.
 */
void tsr_call_ranges_refine(const struct tsr_library_operands *call, const struct tsr_access_launch *launch,
                            struct tsr_access_result *result);

/* What was said of the call that the thread is in was wrong: from now on, calls of its entry point are unknown in this process. */
void tsr_call_ranges_distrust(void);
uint32_t tsr_calls_distrusted(void); /* how often that has been said */

#endif
