/*
 * Values in memory that streams wait for and write. A write leaves its virtual time in the machine's table (stream/value_time.h), where a wait, in
 * whatever process, finds it. A value written by a kernel or copy of this process instead counts as written when the last
 * of them ended before it was seen; one written by a host thread takes no time.
 */
#ifndef TSR_STREAM_VALUE_H
#define TSR_STREAM_VALUE_H

#include "work.h"

/* Addresses, flags and kinds of operations. Errors: INVALID_VALUE, NOT_SUPPORTED. */
CUresult tsr_values_check(const CUstreamBatchMemOpParams *ops, unsigned count);
/* Does operations from values.next on until one has to wait. True: all are done. *ready_ns moves on with them. */
bool tsr_values_advance(struct tsr_work *work, uint64_t *ready_ns, uint64_t *end_ns);
/* For the engine: something that may have written values ended at ns. */
void tsr_value_progress(uint64_t ns);

#endif
