/* Streams: making and ending them, and adding items to them (stream_object.h says what they are). */
#ifndef TSR_STREAM_STREAM_H
#define TSR_STREAM_STREAM_H

#include "stream_object.h"

/* Priorities, as on all current devices: greatest -5, least 0. */
#define TSR_STREAM_PRIORITY_GREATEST (-5)

CUresult tsr_streams_of(struct tsr_context *context, struct tsr_streams **out);

/* flags and priority are validated here. green: see struct tsr_emulated_stream. */
CUresult tsr_stream_create(struct tsr_context *context, unsigned flags, int priority, void *green, CUstream *out);
CUresult tsr_stream_destroy(CUstream handle);
/* NOT_READY, or as tsr_stream_wait. */
CUresult tsr_stream_query(struct tsr_emulated_stream *stream);
bool tsr_stream_idle_locked(const struct tsr_emulated_stream *stream);

/* An item that is ordered after everything in the stream, not yet submitted; then: it becomes the stream's last. */
CUresult tsr_stream_item_locked(struct tsr_emulated_stream *stream, struct tsr_work *work, struct tsr_item **out);
void tsr_stream_append_locked(struct tsr_emulated_stream *stream, struct tsr_item *item);

#endif
