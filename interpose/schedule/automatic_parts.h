/* What the files that implement automatic.h share. */
#ifndef TSR_SCHEDULE_AUTOMATIC_PARTS_H
#define TSR_SCHEDULE_AUTOMATIC_PARTS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <tessera/place.h>

#include "schedule/points.h"
#include "schedule/progress.h"
#include "schedule/report.h"
#include "schedule/samples.h"
#include "schedule/sleep.h"

#define TSR_RANK_HOME 0u /* GPUs are named by rank (tsr_session_gpu) */
#define TSR_STAGE_ALL 1u /* of TESSERA_STAGE */

/* A piece of work that was reported to the rule: its place among all. */
struct tsr_automatic_recent {
    uint64_t ticket, number;
    struct tsr_class *shape; /* NULL: it is not known */
};

struct tsr_automatic_state {
    uint32_t all_gpus; /* set; constant for a session */
    struct tsr_place place;
    struct tsr_guard guard;
    uint64_t held; /* bytes of memory's copies, at the last launch */
    struct tsr_samples samples;
    struct tsr_points points;
    struct tsr_progress progress;
    struct tsr_schedule_figures figures;
    struct tsr_automatic_recent recent[TSR_PLACE_KNOWN];
    struct tsr_sleep sleep;
    bool stays;          /* atomic; all, as the guard wants it */
    double plan_told_ns; /* when tsr_plan_report was called last */
};

extern struct tsr_automatic_state *tsr_automatic; /* lock; NULL: it is off */
extern pthread_mutex_t tsr_automatic_lock;

void tsr_automatic_report_locked(void);

#endif
