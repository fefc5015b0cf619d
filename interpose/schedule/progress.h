/*
 * How far GPUs really are: the fences of marks (order/strands.h), which lie in memory that the host can read, show which launches have ended. The rule's
 * clocks (tessera/place.h) are corrected by what is seen of them. Not for several threads at a time: who calls holds a lock.
 */
#ifndef TSR_SCHEDULE_PROGRESS_H
#define TSR_SCHEDULE_PROGRESS_H

#include <stdint.h>

#include <tessera/gpus.h>
#include <tessera/place.h>

#include "lane/lane_client.h"

#define TSR_PROGRESS_MARKS 64u /* of a GPU; a power of two */

/* After a launch; its fence is that of the stream's slot, and holds the value once the launch has ended. */
struct tsr_progress_mark {
    uint64_t ticket, value;
    double given_ns;
    uint32_t slot;
};

struct tsr_progress_gpu {
    struct tsr_progress_mark marks[TSR_PROGRESS_MARKS]; /* from `first` to before `end`: not known to be passed */
    uint32_t first, end;
    double looked_ns;
};

struct tsr_progress {
    struct tsr_progress_gpu gpus[TSR_GPUS]; /* by rank */
};

/* lane: NULL: home. Marks that are too many are left out. */
void tsr_progress_mark(struct tsr_progress *progress, const struct tsr_lane_client *lane, const struct tsr_progress_mark *mark);
/* Looks at marks and tells the rule. */
void tsr_progress_look(struct tsr_progress *progress, struct tsr_place *place, double now_ns);
/* Of a GPU on which several streams' work runs side by side nothing is known. */
void tsr_progress_forget(struct tsr_progress *progress, struct tsr_place *place, uint32_t gpu);

#endif
