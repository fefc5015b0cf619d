/* The access set of a launch as far as it concerns memory with copies (memory/copies.h), from its prediction (predict.h). */
#ifndef TSR_LAUNCH_TOUCHES_H
#define TSR_LAUNCH_TOUCHES_H

#include <stdbool.h>
#include <stdint.h>

#include "launch/predict.h"
#include "memory/copies.h"

struct tsr_launch;

struct tsr_touches {
    uint32_t count;
    struct tsr_touch all[TSR_PREDICTED_RANGES];
};

/*
 * For a launch whose function is known, and whose parameters have been gathered. NULL: it may touch anything. Determined once, even if it is asked
 * for twice. Valid until the thread asks for that of another launch.
 */
const struct tsr_touches *tsr_touches_of(struct tsr_launch *launch);

#endif
