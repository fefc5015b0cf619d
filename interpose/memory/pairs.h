/* Which GPUs can access each other's memory through the link. GPUs are identified by rank (tsr_session_gpu). */
#ifndef TSR_MEMORY_PAIRS_H
#define TSR_MEMORY_PAIRS_H

#include <stdbool.h>
#include <stdint.h>

struct tsr_policy_pair;
struct tsr_session;

/* What was found out of copies to one GPU from another. */
const struct tsr_policy_pair *tsr_pair_of(const struct tsr_session *session, uint32_t to, uint32_t from);

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
