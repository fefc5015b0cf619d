/*
 * Verifying: a launch runs elsewhere and, from the same bytes, at home, and all memory that both share is compared.
 *
 * Both runs need memory to themselves: the gate is closed, all work is waited for, and memory is put back between the runs. At the end
 * it holds what the run at home wrote; on a difference, which is reported, the function stays home from then on. Where GPUs have copies of
 * memory, both begin with all bytes that the launch touches, home gets all others that it lacks, and what is compared with home's is the
 * executor's own copy: all that it holds, whether or not the launch touches it. A launch that
 * cannot be verified (no room for two copies of the arena, no quiet moment within a second, parameters that point to shared memory
 * outside the arena, or that another process has, too) runs elsewhere only, and is counted.
 */
#ifndef TSR_CHECK_VERIFY_H
#define TSR_CHECK_VERIFY_H

#include "api/driver.h"

#include <stdbool.h>
#include <stdint.h>

#include <tessera/lane.h>

struct tsr_copies_use;
struct tsr_function_record;
struct tsr_snapshots;

struct tsr_verify_launch {
    struct tsr_function_record *function;
    CUfunction handle;
    const struct tsr_lane_record *record;
    const uint8_t *block; /* as posted: parameters, then attributes */
    uint32_t parameter_bytes;
    const CUlaunchAttribute *attributes; /* in the block */
    uint32_t attribute_count;
    CUstream stream;
    uint32_t device; /* of the lane */
    uint64_t limit_bytes;
    const struct tsr_copies_use *use; /* elsewhere, of memory that GPUs have copies of; NULL: they have none */

    struct tsr_snapshots *snapshots; /* between begin and end */
    CUstreamCaptureMode mode;
};

/* Before the launch is posted. True: memory is its own until tsr_verify_end. False: it cannot be verified, which is counted. */
bool tsr_verify_begin(struct tsr_verify_launch *launch);
/* After it: runs it at home, too, and compares. posted: what came of posting it. Errors: that, the driver's, or the executor's. */
CUresult tsr_verify_end(struct tsr_verify_launch *launch, CUresult posted);

#endif
