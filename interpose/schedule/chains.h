/*
 * How the launches of a program depend on each other by their data: chains that branch and join. Pure, a part of the rule (tessera/place.h).
 *
 * A launch goes on with the chain of what it is the first to read. One that is the first to read nothing opens a chain: nothing that it
 * reads is fresh, or others have read it before (it branches off). Where chains join, younger ones are joined into the oldest.
 *
 * Programs repeat themselves: what a chain was like when it was joined (its work, the bytes that others read of it, whether it was joined
 * into the chain of the launch before its first one) is the *history* of launches that open a chain in the same place, which is
 * what they and the launches before them in their streams have in common. Of what was never joined only the work is known.
 */
#ifndef TSR_SCHEDULE_CHAINS_H
#define TSR_SCHEDULE_CHAINS_H

#include <tessera/place.h>

/* Writers of the launch's parts, and after them its stream's last launch; NULL: not remembered. */
struct tsr_chain_readers {
    struct tsr_place_known *known[TSR_PLACE_PARTS + 1];
};

/* The chain with which it goes on, if that is remembered. history: of a launch that opens one; NULL: nothing is known, or it opens none. */
const struct tsr_place_chain *tsr_chain_find(const struct tsr_place *place, const struct tsr_place_launch *launch,
                                             const struct tsr_chain_readers *of, const struct tsr_place_history **history);

/* The launch takes place; late_until_ns: of a chain that it opens; own is what will be remembered of it. */
void tsr_chain_take(struct tsr_place *place, const struct tsr_place_launch *launch, const struct tsr_chain_readers *of,
                    const double late_until_ns[3], struct tsr_place_known *own);

#endif
