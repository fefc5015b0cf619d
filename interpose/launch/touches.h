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

/*
 * Of a launch whose function is known, and whose parameters have been gathered. NULL: it may touch anything. Asked twice of a launch it is looked
 * up once. Valid until the thread asks for another launch's.
 */
const struct tsr_touches *tsr_touches_of(struct tsr_launch *launch);

#endif
