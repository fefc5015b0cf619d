/*
 * Graphs of the application, instantiated here once more from what the shim sends of their nodes (struct tsr_lane_graph), and changed node by node.
 * What the shim sends is checked: sizes, places, kinds. Its functions are the mirror's.
 */
#ifndef TSR_EXECUTOR_GRAPHS_H
#define TSR_EXECUTOR_GRAPHS_H

#include <cuda.h>
#include <tessera/lane.h>

struct tsr_mirror;
struct tsr_mirrored_graph;

/* From a message GRAPH. Errors: the driver's; INVALID_VALUE: what the descriptor holds is no graph. */
CUresult tsr_mirrored_graph_create(const struct tsr_mirror *mirror, const struct tsr_message *message, int descriptor,
                                   struct tsr_mirrored_graph **out);
/* From a message GRAPH_SET. After an error it must not be launched any more. */
CUresult tsr_mirrored_graph_set(struct tsr_mirrored_graph *graph, const struct tsr_mirror *mirror,
                                const struct tsr_message *message, int descriptor);
CUresult tsr_mirrored_graph_launch(const struct tsr_mirrored_graph *graph, CUstream stream);
/* The driver lets launches that are under way run to their end. */
void tsr_mirrored_graph_destroy(struct tsr_mirrored_graph *graph);

#endif
