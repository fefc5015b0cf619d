/* What a launch touches of memory that GPUs have copies of (memory/copies.h), from what is known of it (predict.h). */
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

/* Of a launch whose function is known, and whose parameters have been gathered. False: it may touch anything. */
bool tsr_touches_of(const struct tsr_launch *launch, struct tsr_touches *out);

#endif
