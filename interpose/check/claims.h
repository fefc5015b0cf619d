/*
 * Tests of claims: that a launch overwrites some bytes, or uses them as scratch. In either case it must not depend on what they held before.
 *
 * The launch runs on memory as it is, and again with those bytes filled with other values; afterwards memory must be the same, except for scratch. Each
 * claim is tested by itself. A launch whose results differ from run to run proves nothing. The first launch of a library call carries
 * the claims of the whole call; bytes that it leaves alone in either run are for later launches to overwrite, and are not compared.
 */
#ifndef TSR_CHECK_CLAIMS_H
#define TSR_CHECK_CLAIMS_H

#include "api/driver.h"

#include <stdbool.h>
#include <stdint.h>

#include <tessera/checks.h>

#include "check/snapshot.h"

struct tsr_launch;
struct tsr_prediction;

#define TSR_CLAIMS_SNAPSHOTS 2u /* that a test takes */

struct tsr_claims_result {
    enum tsr_check_claims outcome;
    enum tsr_check_claim broken; /* NONE: none is; else: */
    const struct tsr_access_range
        *range; /* that was filled: the one with the first byte that came out otherwise, or the first of all */
    struct tsr_difference difference; /* here: with other bytes before; there: without */
    uint64_t bytes;                   /* that were filled, in all runs */
};

/* Whether it makes any. */
bool tsr_claims_made(const struct tsr_prediction *prediction);

/*
 * Snapshot 0 is memory as it is, and as it is again on return; number 1 is used. The gate is closed, the memory lock held, and nothing
 * is running. Errors: the driver's; NOT_READY: a run did not end in time, and memory is not what it was.
 */
CUresult tsr_claims_test_locked(struct tsr_snapshots *snapshots, const struct tsr_launch *launch,
                                const struct tsr_prediction *prediction, struct tsr_claims_result *out);

#endif
