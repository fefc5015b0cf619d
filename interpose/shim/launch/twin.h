/*
 * Twins (tessera/twins.h), as the driver has them: loaded when first wanted, and launched in the place of their functions, with the same
 * parameters. The memory lock is held throughout, and from arming a twin to reading what came out nobody else arms it.
 */
#ifndef TSR_SHIM_TWIN_H
#define TSR_SHIM_TWIN_H

#include "api/driver.h"

#include <stdint.h>

#include <tessera/checks.h>

struct tsr_function_record;
struct tsr_prediction;
struct tsr_twin;

struct tsr_twin_result {
    uint64_t tested, outside; /* accesses of threads: all, and those that touched what was not predicted; of one of these: */
    uint64_t address, bytes;  /* its first such byte; how many it touches */
    uint32_t line, kind;      /* in the PTX; enum tsr_access_kind */
};

/* The function's, which is described. NULL: *lack says why there is none. */
struct tsr_twin *tsr_twin_find_locked(struct tsr_function_record *function, enum tsr_check_lack *lack);

/* It gets what a launch on the stream is predicted to touch; nothing of it is running. Errors: the driver's. */
CUresult tsr_twin_arm_locked(struct tsr_twin *twin, const struct tsr_function_record *function, CUstream stream,
                             const struct tsr_prediction *prediction);

/* What to launch. */
CUfunction tsr_twin_function(const struct tsr_twin *twin);

/* The launch is complete. */
CUresult tsr_twin_read_locked(struct tsr_twin *twin, struct tsr_twin_result *out);

/* The driver did not launch it: it is not tried again. */
void tsr_twin_give_up_locked(struct tsr_twin *twin);

#endif
