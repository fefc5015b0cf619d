/*
 * Executable graphs: a sorted copy of a graph that can be launched and whose parameters can be changed. One launch at a time: the next one
 * waits for the last. A launch turns nodes into items; what it runs is its own, so an executable may be changed or destroyed
 * while it runs.
 */
#ifndef TSR_STREAM_GRAPH_EXEC_H
#define TSR_STREAM_GRAPH_EXEC_H

#include "graph.h"
#include "stream_object.h"

struct tsr_graph_exec {
    CUgraphExec handle;
    struct tsr_graph *graph;
    unsigned long long flags;
    struct tsr_item *last; /* reference; end of the latest launch */
};

/* Takes over an invisible copy of a graph, also on error. Errors: INVALID_VALUE (a cycle), OUT_OF_MEMORY. Call without lock. */
CUresult tsr_graph_exec_create(struct tsr_graph *graph, unsigned long long flags, struct tsr_graph_exec **out);
void tsr_graph_exec_free(struct tsr_graph_exec *exec); /* without lock; its handle has been removed */
/* In a capturing stream the graph becomes a child node. */
CUresult tsr_graph_exec_launch(CUgraphExec handle, struct tsr_emulated_stream *stream);
/* The copy of a node of the graph it was made from, NULL if there is none. */
struct tsr_graph_node *tsr_graph_exec_node(struct tsr_graph_exec *exec, CUgraphNode node);
/*
 * Takes over the parameters of a graph of the same shape. *garbage: a graph to free without lock. *node: the offending one.
 * Result: CU_GRAPH_EXEC_UPDATE_SUCCESS or what does not fit, then nothing is changed.
 */
CUgraphExecUpdateResult tsr_graph_exec_update_locked(struct tsr_graph_exec *exec, const struct tsr_graph *graph,
                                                     struct tsr_graph **garbage, struct tsr_graph_node **node);
void tsr_graph_execs_forget_locked(struct tsr_context *context);

#endif
