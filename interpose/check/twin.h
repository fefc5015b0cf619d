/*
 * Twins (tessera/twins.h), as the driver has them: loaded when first wanted, and launched in the place of their functions, with the same
 * parameters. The memory lock is held throughout, and from arming a twin to reading what came out nobody else arms it.
 */
#ifndef TSR_CHECK_TWIN_H
#define TSR_CHECK_TWIN_H

#include "api/driver.h"

#include <stdint.h>

struct tsr_function_record;
struct tsr_lack;
struct tsr_prediction;
struct tsr_twin;

struct tsr_twin_result {
    uint64_t tested, outside; /* accesses of threads: all, and those that touched what was not predicted; of one of these: */
    uint64_t address, bytes;  /* its first such byte; how many it touches */
    uint32_t line, kind;      /* in the PTX; enum tsr_access_kind */
};

/* The function's, which is described, for a launch on the stream. NULL: *lack says why there is none. */
struct tsr_twin *tsr_twin_find_locked(struct tsr_function_record *function, CUstream stream, struct tsr_lack *lack);

/* What it does not test; "": nothing. */
const char *tsr_twin_untested(const struct tsr_twin *twin);

/* It gets what the launch that it was found for is predicted to touch; nothing of it is running. Errors: the driver's. */
CUresult tsr_twin_arm_locked(struct tsr_twin *twin, const struct tsr_function_record *function, CUstream stream,
                             const struct tsr_prediction *prediction);

/* What to launch. */
CUfunction tsr_twin_function(const struct tsr_twin *twin);

/* The launch is complete. */
CUresult tsr_twin_read_locked(struct tsr_twin *twin, struct tsr_twin_result *out);

/* The driver did not launch it: it is not tried again, and *lack says so. */
void tsr_twin_give_up_locked(struct tsr_twin *twin, struct tsr_lack *lack);

#endif
