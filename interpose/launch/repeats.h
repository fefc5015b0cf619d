/*
 * Repeated launches of a thread: the same function, parameters (and operands, in a library call) and stream. What they touch, and who holds it, need
 * not be determined again as long as the proof made the last time is valid (memory/copies.h). Each thread remembers its own.
 */
#ifndef TSR_LAUNCH_REPEATS_H
#define TSR_LAUNCH_REPEATS_H

#include <stdbool.h>
#include <stdint.h>

#include "memory/copies.h"

struct tsr_launch;
struct tsr_lane_client;
struct tsr_repeat_entry;

struct tsr_repeat {
    struct tsr_repeat_entry *entry; /* NULL: such a launch is not remembered */
    const struct tsr_copies_proof
        *last; /* of the same launch; NULL: it has not been made before, or something that it depends on has changed */
    uint64_t hash;
    uint64_t addresses, modules; /* how often what predictions depend on has changed, read before predicting */
};

/* The parameters have been gathered. */
struct tsr_repeat tsr_repeat_find(const struct tsr_launch *launch, const struct tsr_lane_client *lane);
void tsr_repeat_keep(const struct tsr_repeat *repeat, const struct tsr_launch *launch, const struct tsr_lane_client *lane,
                     const struct tsr_copies_proof *proof);

#endif
