/* A graph made once more on the home GPU, from what the shim keeps of its nodes: of a part of a graph that is cut, which the program has not instantiated. */
#ifndef TSR_GRAPH_AT_HOME_H
#define TSR_GRAPH_AT_HOME_H

#include "graph/nodes.h"

/* In the calling thread's context; to be destroyed by the driver's function. Errors: the driver's. */
CUresult tsr_nodes_instantiate(const struct tsr_nodes *nodes, CUgraphExec *out);

#endif
