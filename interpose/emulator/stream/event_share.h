/*
 * What processes share of an interprocess event: one page of a memory file of the process that created it, opened by others through
 * that process' descriptor. Records are counted; a wait is for the count that stood when the wait was called. Who waits
 * for a process that has died is told so.
 */
#ifndef TSR_STREAM_EVENT_SHARE_H
#define TSR_STREAM_EVENT_SHARE_H

#include <stdbool.h>
#include <stdint.h>

#include <cuda.h>

struct tsr_event_share;

struct tsr_event_share *tsr_event_share_create(void);
void tsr_event_share_put(struct tsr_event_share *share);
void tsr_event_share_export(const struct tsr_event_share *share, CUipcEventHandle *out);
/* Errors: INVALID_VALUE (no such handle), OPERATING_SYSTEM (its process may not be read), OUT_OF_MEMORY. */
CUresult tsr_event_share_import(const CUipcEventHandle *handle, struct tsr_event_share **out);

/* A record has been submitted: returns its count. */
uint64_t tsr_event_share_submitted(struct tsr_event_share *share);
void tsr_event_share_completed(struct tsr_event_share *share, uint64_t count, uint64_t ns);
uint64_t tsr_event_share_latest(const struct tsr_event_share *share); /* count of submitted records */
/* True: the record has come to pass, or the recording process is gone. *ns: its virtual time, 0 if gone. */
bool tsr_event_share_done(const struct tsr_event_share *share, uint64_t count, uint64_t *ns);
void tsr_event_share_wait(const struct tsr_event_share *share, uint64_t count);

#endif
