/*
 * Instrumented clones (tessera/clones.h) in the driver: loaded when first needed, and launched in place of their functions, with the same
 * parameters. The memory lock is held throughout, and between arming a clone and reading its results no other thread arms it.
 */
#ifndef TSR_CHECK_CLONE_H
#define TSR_CHECK_CLONE_H

#include "api/driver.h"

#include <stdint.h>

struct tsr_function_record;
struct tsr_lack;
struct tsr_prediction;
struct tsr_clone;

struct tsr_clone_result {
    uint64_t tested, outside; /* accesses of threads: all, and those that touched what was not predicted; of one of these: */
    uint64_t address, bytes;  /* its first such byte; how many it touches */
    uint32_t line, kind;      /* in the PTX; enum tsr_access_kind */
};

/* The function's, which is described, for a launch on the stream. NULL: *lack says why there is none. */
struct tsr_clone *tsr_clone_find_locked(struct tsr_function_record *function, CUstream stream, struct tsr_lack *lack);

/* What it does not test; "": nothing. */
const char *tsr_clone_untested(const struct tsr_clone *clone);

/* It gets what the launch that it was found for is predicted to touch; nothing of it is running. Errors: the driver's. */
CUresult tsr_clone_arm_locked(struct tsr_clone *clone, const struct tsr_function_record *function, CUstream stream,
                              const struct tsr_prediction *prediction);

/* What to launch. */
CUfunction tsr_clone_function(const struct tsr_clone *clone);

/* The launch is complete. */
CUresult tsr_clone_read_locked(struct tsr_clone *clone, struct tsr_clone_result *out);

/* The driver did not launch it: it is not tried again, and *lack says so. */
void tsr_clone_give_up_locked(struct tsr_clone *clone, struct tsr_lack *lack);

#endif
