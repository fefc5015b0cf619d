/*
 * Events of a stream whose strands run beside each other. An event is done when all strands have come so far, but none of them has to wait for
 * that: it is recorded in a stream of ours, beside the program's, which waits for all of them. Whatever joins the strands waits for that stream, too, so that
 * who has waited for the program's stream finds its events done. The caller holds the stream (order.h).
 */
#ifndef TSR_ORDER_ASIDE_H
#define TSR_ORDER_ASIDE_H

#include "api/driver.h"

struct tsr_stream;

/* Errors: NOT_SUPPORTED: it is to be recorded in the stream itself, joined; the driver's; an executor's. */
CUresult tsr_aside_record(struct tsr_stream *stream, CUevent event, unsigned flags);
/* Work that the stream at home is given from now on comes after events that were recorded aside. */
CUresult tsr_aside_join(struct tsr_stream *stream);
/* The stream is about to be destroyed, and has been joined. */
void tsr_aside_end(struct tsr_stream *stream);

#endif
