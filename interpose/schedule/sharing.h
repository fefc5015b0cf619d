/*
 * Whether the work of several streams runs side by side on one GPU: then what was given first is not done first, and a launch takes longer than alone. Pure. Ends
 * are those that the rule (tessera/place.h) expects.
 */
#ifndef TSR_SCHEDULE_SHARING_H
#define TSR_SCHEDULE_SHARING_H

#include "api/driver.h"

#include <stdbool.h>
#include <stdint.h>

/* Of one GPU. */
struct tsr_sharing {
    CUstream last;             /* stream that was given work last, */
    double last_ns, others_ns; /* when that will be done, and what others were given before */
    uint64_t turns;            /* that another stream was given work */
};

/* The GPU was given a launch of the stream, which will be done at finish_ns. */
void tsr_sharing_give(struct tsr_sharing *sharing, CUstream stream, double finish_ns);
/* Other streams than that one have work there that is not done now. free_ns: when all work there is. */
bool tsr_sharing_is_shared(const struct tsr_sharing *sharing, CUstream stream, double now_ns, double free_ns);
/* Turns with the next launch of the stream. */
uint64_t tsr_sharing_turns(const struct tsr_sharing *sharing, CUstream stream);

#endif
