/* Records pulls (memory/pull_seen.h): each of them, and for a sample also when it ran on its GPU. */
#ifndef TSR_RECORD_PULL_RECORD_H
#define TSR_RECORD_PULL_RECORD_H

/* Once recording has begun, if it has. */
void tsr_pull_records_start(void);

#endif
