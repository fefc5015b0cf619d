/*
 * Launches of graphs while a session exists: like launches (redirect.h), with what the graph touches as a whole (graph/instance.h). A graph runs on
 * one GPU.
 */
#ifndef TSR_SHIM_GRAPH_LAUNCH_H
#define TSR_SHIM_GRAPH_LAUNCH_H

#include "api/driver.h"

struct tsr_launch;

/* Posts it if it is to run elsewhere (launch->taken); else makes sure that it may run at home, and holds its stream until tsr_order_leave. Errors: the
   driver's, or an executor's; then nothing is held. */
CUresult tsr_graph_redirect(struct tsr_launch *launch, CUgraphExec exec);

/* The driver has taken it at home; its stream is still held. */
void tsr_graph_launched(struct tsr_launch *launch);

/* Before a capture begins, or a stream is destroyed: where graphs' last launches end is recorded while that is possible. */
void tsr_graph_capture_begins(void);
CUresult tsr_graph_destroy_stream(CUstream stream);
/* NULL: one of which nothing is known; it may have been any. */
void tsr_graph_context_ended(CUcontext context);

/* After the driver, or the lane, has answered: counts it. */
void tsr_graph_redirect_finish(const struct tsr_launch *launch, CUresult result);

#endif
