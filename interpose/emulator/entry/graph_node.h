/* Adding nodes to graphs and giving them other parameters; *work is taken over, also on error. */
#ifndef TSR_ENTRY_GRAPH_NODE_H
#define TSR_ENTRY_GRAPH_NODE_H

#include "api/driver.h"

#include "../stream/graph.h"

struct tsr_node_place {
    CUgraph graph;
    const CUgraphNode *dependencies;
    const CUgraphEdgeData *edges; /* or NULL */
    size_t count;
};

CUresult tsr_node_add(const struct tsr_node_place *place, struct tsr_work *work, CUgraphNode *out);
CUresult tsr_node_set(CUgraphNode handle, struct tsr_work *work);
/* The copy of the node in the executable. */
CUresult tsr_exec_node_set(CUgraphExec exec, CUgraphNode handle, struct tsr_work *work);

#endif
