/*
 * The exact access trace of a launch: one bit per byte and kind, in chunks found by address. Slow, and only there when asked for.
 */
#ifndef TSR_EXEC_TRACE_H
#define TSR_EXEC_TRACE_H

#include "exec.h"

struct tsr_trace;

bool tsr_trace_enabled(void);
struct tsr_trace *tsr_trace_create(void);
void tsr_trace_destroy(struct tsr_trace *trace);
void tsr_trace_each(const struct tsr_trace *trace, tsr_trace_visit *visit, void *ctx);

#endif
