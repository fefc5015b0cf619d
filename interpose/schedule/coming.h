/*
 * Work that streams will still bring: one that has opened a chain is expected to launch the rest of it, too, on the GPU where it is. Pure, a part of the rule
 * (tessera/place.h).
 *
 * Clocks know only what GPUs were given. Threads that ask in step open their chains before any of them has launched much, when all GPUs look free: without
 * what is coming all would go where the first one went. And while they launch by turns, now this GPU looks late, now that one: chains would be torn.
 */
#ifndef TSR_SCHEDULE_COMING_H
#define TSR_SCHEDULE_COMING_H

#include "schedule/question.h"

/* What other streams are expected to bring counts in the question; of a launch that opens no chain only on GPUs to which it would have to go. */
void tsr_coming_count(struct tsr_question *question, uint32_t timeline);

/* The launch takes place; opened_ns: home's time of the chain that it opens and that nobody joins, as far as is known; own: where it is. */
void tsr_coming_take(struct tsr_place *place, const struct tsr_place_launch *launch, double opened_ns,
                     const struct tsr_place_known *own);

#endif
