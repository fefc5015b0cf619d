/*
 * What placing has done, for the report at the end of a run: figures of this process, added to those that all processes of the session share. Adds what is new
 * since the last time. Not for several threads at a time: who calls holds a lock.
 */
#ifndef TSR_SCHEDULE_REPORT_H
#define TSR_SCHEDULE_REPORT_H

#include <stdint.h>

#include <tessera/place.h>
#include <tessera/policy.h>

/* Of the process, since it began. */
struct tsr_schedule_figures {
    uint64_t launches, unknown, read_back;
    double start_ns; /* of the first launch; 0: there was none */
};

/* Nothing has been reported of a new process. */
void tsr_schedule_report_init(void);
void tsr_schedule_report(struct tsr_policy_schedule *to, const struct tsr_schedule_figures *figures,
                         const struct tsr_place *place, const struct tsr_guard *guard);

#endif
