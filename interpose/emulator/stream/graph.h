/*
 * Graphs: nodes of work and the edges between them. Made by capture or node by node; a launch does not use the graph itself but an
 * executable copy (graph_exec.h). Nodes stand in the order of their creation.
 *
 * What the application can see has handles; the copies inside executables have none, only the handle of the node they come from. Changes
 * are made under the engine's lock; what they take out is freed by the caller after it has given the lock up, since that runs
 * foreign code. Node and graph addresses stay the same until they are freed.
 */
#ifndef TSR_STREAM_GRAPH_H
#define TSR_STREAM_GRAPH_H

#include "tips.h"
#include "work.h"

struct tsr_user_object;

struct tsr_graph_node {
    CUgraphNode handle; /* NULL inside executables */
    CUgraphNode origin; /* handle of the node this one is a copy of */
    struct tsr_graph *graph;
    CUgraphNodeType type;
    struct tsr_work work;
    tsr_tips dependencies; /* the nodes before it */
    TSR_VEC(struct tsr_graph_node *) dependents;
    void **param_list;     /* what cuGraphKernelNodeGetParams gave out: into the work's parameters */
    bool disabled;         /* runs as an empty node */
    bool marked;           /* scratch of walks */
    struct tsr_item *item; /* scratch of a launch */
};

struct tsr_graph {
    CUgraph handle; /* NULL inside executables */
    TSR_VEC(struct tsr_graph_node *) nodes;
    struct tsr_graph_node *parent;             /* the child node that owns it, or NULL */
    TSR_VEC(struct tsr_user_object *) objects; /* a reference each; an object may occur several times */
    uint64_t id;
};

struct tsr_graph *tsr_graph_create(bool visible);
/* A copy of everything; visible: with handles. NULL: out of memory. */
struct tsr_graph *tsr_graph_copy(const struct tsr_graph *graph, bool visible);
/* Removes the handles of the graph, its nodes and its children: from now on nobody finds them. */
void tsr_graph_hide(struct tsr_graph *graph);
void tsr_graph_free(struct tsr_graph *graph); /* hides it first; NULL is allowed */

/* Takes *work over on success. Dependencies must be nodes of the graph without duplicates. Errors: OUT_OF_MEMORY. */
CUresult tsr_graph_add(struct tsr_graph *graph, CUgraphNodeType type, struct tsr_work *work, const tsr_tips *dependencies,
                       struct tsr_graph_node **out);
CUresult tsr_graph_connect(struct tsr_graph_node *from, struct tsr_graph_node *to, const CUgraphEdgeData *edge);
bool tsr_graph_disconnect(struct tsr_graph_node *from, struct tsr_graph_node *to);
bool tsr_graph_connected(const struct tsr_graph_node *from, const struct tsr_graph_node *to);
/* Takes the node out of its graph; to be freed with tsr_graph_node_free without the lock. */
void tsr_graph_take(struct tsr_graph_node *node);
void tsr_graph_node_free(struct tsr_graph_node *node);
/* Exchanges the node's work for *work. */
void tsr_graph_node_swap(struct tsr_graph_node *node, struct tsr_work *work);

/* Marks exactly the nodes from which one of the tips can be reached, these included. */
void tsr_graph_mark_ancestors(struct tsr_graph *graph, const tsr_tips *tips);
/* The nodes in topological order, otherwise in the order of creation. Errors: INVALID_VALUE (a cycle), OUT_OF_MEMORY. */
CUresult tsr_graph_sort(struct tsr_graph *graph);
CUgraphNodeType tsr_graph_type_of(const struct tsr_work *work);
/* The context is gone: its nodes are disabled and no longer lead to it. Under the engine's lock. */
void tsr_graphs_forget_locked(struct tsr_context *context);
void tsr_graph_leave_locked(struct tsr_graph *graph); /* hides it now, frees it after the lock is given up */
/* The work of running the graph as another one's node; takes it over. */
struct tsr_work tsr_graph_work_of(struct tsr_graph *graph);
void tsr_graph_forget_context(struct tsr_graph *graph, struct tsr_context *context);

/* User objects: the application's resources, destroyed when the last reference, a graph's or its own, is gone. */
CUresult tsr_user_object_create(void *pointer, CUhostFn destroy, unsigned references, CUuserObject *out);
/* False: not that many references, or no such object. The destructor may run: call without lock. */
CUresult tsr_user_object_release(CUuserObject handle, unsigned count);
CUresult tsr_user_object_retain(CUuserObject handle, unsigned count);
/* move: the graph takes over the caller's references. */
CUresult tsr_graph_retain_object(struct tsr_graph *graph, CUuserObject handle, unsigned count, bool move);
CUresult tsr_graph_release_object(struct tsr_graph *graph, CUuserObject handle, unsigned count);
void tsr_user_object_ref(struct tsr_user_object *object);
void tsr_user_object_unref(struct tsr_user_object *object);

#endif
