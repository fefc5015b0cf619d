/* The nodes of a graph being captured on which the next captured operation depends, each with the data of the edge. */
#ifndef TSR_STREAM_TIPS_H
#define TSR_STREAM_TIPS_H

#include "base/vec.h"

#include <cuda.h>

struct tsr_graph_node;

struct tsr_tip {
    struct tsr_graph_node *node;
    CUgraphEdgeData edge;
};
typedef TSR_VEC(struct tsr_tip) tsr_tips;

/* Adds those of more that are not in tips. False: out of memory. */
bool tsr_tips_merge(tsr_tips *tips, const tsr_tips *more);

#endif
