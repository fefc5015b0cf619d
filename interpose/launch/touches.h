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

/* For a launch whose function is known, and whose parameters have been gathered. False: it may touch anything. */
bool tsr_touches_of(const struct tsr_launch *launch, struct tsr_touches *out);

#endif
