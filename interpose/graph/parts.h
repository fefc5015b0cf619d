/*
 * An instance that is cut. Where a pool's memory lies on several GPUs, its nodes are divided, in their order, where the GPU changes that owns most of
 * what they use; and around actions, which home does. Each part is an instance of its own, which the application does not see; they are launched one
 * after the other in its stream, and what lies between two of them is pulled as between launches. A part that runs at home has a graph of its own there.
 *
 * Parts are made anew when the instance, or what its cut depends on, has changed.
 */
#ifndef TSR_GRAPH_PARTS_H
#define TSR_GRAPH_PARTS_H

#include "graph/instance.h"

/*
 * The instance's lock is held, and it has been examined. Whether it has parts, as it is now; all that they touch is known then. stream: that it is to be launched in;
 * placed: no rule says where.
 */
bool tsr_parts_find_locked(struct tsr_instance *instance, CUstream stream, const struct tsr_stream_found *place, bool placed);

/* The instance has none any more. Its lock is held, or nobody else knows it. */
void tsr_parts_drop(struct tsr_instance *instance);

#endif
