/*
 * Copies of all memory that home and executors share, in memory of the home GPU: the arena, and the application's own mappings (except memory that it has mapped
 * twice, and memory that another process may write). Only for launches that are verified or checked:
 * nothing else runs while a snapshot is made or compared.
 */
#ifndef TSR_CHECK_SNAPSHOT_H
#define TSR_CHECK_SNAPSHOT_H

#include "api/driver.h"

#include <stdbool.h>
#include <stdint.h>

#include <tessera/access.h>

#define TSR_SNAPSHOTS 2u

struct tsr_snapshots;

struct tsr_difference {
    uint64_t bytes;      /* how many differ */
    CUdeviceptr address; /* of the first */
    uint8_t here, there; /* its values, in memory and in the snapshot */
};

/* Bytes from low on and below high; with a stride, of these only `width` at low and at each stride after it. */
struct tsr_strided_range {
    CUdeviceptr low, high;
    uint64_t stride, width; /* stride 0: all */
};
/* Where the bytes of a range are. */
struct tsr_strided_range tsr_predicted_span(const struct tsr_access_range *range);

/*
 * Room for `count` snapshots of memory as it is, the memory lock held and a context of the home GPU current. Until tsr_snapshots_destroy
 * nothing is mapped or unmapped. Errors: OUT_OF_MEMORY beyond limit_bytes (0: none) and when the GPU has no room; the driver's.
 */
CUresult tsr_snapshots_create(unsigned count, uint64_t limit_bytes, struct tsr_snapshots **out);
void tsr_snapshots_destroy(struct tsr_snapshots *snapshots);
/* Of one of them. */
uint64_t tsr_snapshots_bytes(const struct tsr_snapshots *snapshots);

/* Where a snapshot has the bytes of an extent; 0: it has none of them. */
CUdeviceptr tsr_snapshot_at(const struct tsr_snapshots *snapshots, unsigned number, CUdeviceptr extent);

/* Number: below count. Complete on return. */
CUresult tsr_snapshot_take(struct tsr_snapshots *snapshots, unsigned number);
CUresult tsr_snapshot_restore(struct tsr_snapshots *snapshots, unsigned number);
CUresult tsr_snapshot_compare(struct tsr_snapshots *snapshots, unsigned number, struct tsr_difference *out);
/* The snapshot gets what memory has there now. *bytes: how many those are; what of the span the snapshot does not have is left out. */
CUresult tsr_snapshot_adopt(struct tsr_snapshots *snapshots, unsigned number, const struct tsr_strided_range *span,
                            uint64_t *bytes);
/* Memory gets what the snapshot has there. */
CUresult tsr_snapshot_put_back(struct tsr_snapshots *snapshots, unsigned number, const struct tsr_strided_range *span);
/* The same of bytes that have `value` in memory, and in the snapshot what they have in `other`: neither has been written. */
CUresult tsr_snapshot_put_back_untouched(struct tsr_snapshots *snapshots, unsigned number, unsigned other,
                                         const struct tsr_strided_range *span, uint8_t value);
/* Memory gets the value there, as far as snapshots hold it; *bytes grows by how many those are. */
CUresult tsr_snapshot_fill(struct tsr_snapshots *snapshots, const struct tsr_strided_range *span, uint8_t value,
                           uint64_t *bytes);
/* Whether they hold all of it. */
bool tsr_snapshot_holds(const struct tsr_snapshots *snapshots, const struct tsr_strided_range *span);

#endif
