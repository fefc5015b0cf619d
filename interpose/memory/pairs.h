/*
 * Which GPUs can use each other's memory through the link. GPUs are numbered as copies: 0 is home, n+1 that of lane n (replicas.h).
 */
#ifndef TSR_MEMORY_PAIRS_H
#define TSR_MEMORY_PAIRS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Whether `user` sees memory of `owner`. True if that is not known: then the driver says so when it is tried. False, too, if copies between the
 * two were seen to arrive wrong when the run began (executor/prove.h), for which the first to ask waits, with a bound.
 */
bool tsr_pair_is_direct(uint32_t user, uint32_t owner);

/* Whether all pairs of the session do, both ways. */
bool tsr_pairs_are_all_direct(void);

/* Whether all executors may use memory of home through the link, where memory has copies; elsewhere the driver decides. */
bool tsr_pairs_may_share(void);

void tsr_pairs_forget(void);

#endif
