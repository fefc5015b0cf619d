/* Nodes and edges as the application names them. All under the engine's lock. */
#ifndef TSR_ENTRY_GRAPH_LOOKUP_H
#define TSR_ENTRY_GRAPH_LOOKUP_H

#include "api/driver.h"

#include "../stream/graph.h"

struct tsr_graph *tsr_graph_find_locked(CUgraph handle);
struct tsr_graph_node *tsr_graph_node_find_locked(CUgraphNode handle);
/* Adds to *out. graph: where the nodes must be, NULL: any. edges may be NULL. Errors: INVALID_VALUE (unknown, twice), OUT_OF_MEMORY. */
CUresult tsr_tips_find_locked(const struct tsr_graph *graph, const CUgraphNode *nodes, const CUgraphEdgeData *edges,
                              size_t count, tsr_tips *out);
/* Says more than "after". */
bool tsr_edge_special(const CUgraphEdgeData *edge);

#endif
