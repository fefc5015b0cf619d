/*
 * Copies of all memory that home and executors share, in memory of the home GPU. For verified launches only: nothing else runs while one
 * is made or compared.
 */
#ifndef TSR_SHIM_SNAPSHOT_H
#define TSR_SHIM_SNAPSHOT_H

#include "api/driver.h"

#include <stdint.h>

struct tsr_snapshots;

struct tsr_difference {
    uint64_t bytes;      /* how many differ */
    CUdeviceptr address; /* of the first */
    uint8_t here, there; /* its values, in memory and in the snapshot */
};

/*
 * Room for two snapshots of the arena as it is, the memory lock held. Until tsr_snapshots_destroy nothing is mapped or unmapped. Errors:
 * OUT_OF_MEMORY beyond limit_bytes (0: none) and when the GPU has no room; the driver's.
 */
CUresult tsr_snapshots_create(uint64_t limit_bytes, struct tsr_snapshots **out);
void tsr_snapshots_destroy(struct tsr_snapshots *snapshots);

/* Number: 0 or 1. Complete on return. */
CUresult tsr_snapshot_take(struct tsr_snapshots *snapshots, unsigned number);
CUresult tsr_snapshot_restore(struct tsr_snapshots *snapshots, unsigned number);
CUresult tsr_snapshot_compare(struct tsr_snapshots *snapshots, unsigned number, struct tsr_difference *out);

#endif
