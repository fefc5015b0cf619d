/* Graphs as a whole: making, cloning, their nodes and edges, user objects. */
#include "guard.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "../stream/engine.h"
#include "base/format.h"
#include "base/os.h"
#include "graph_lookup.h"

CUresult CUDAAPI cuGraphCreate(CUgraph *phGraph, unsigned int flags)
{
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(phGraph && !flags, CUDA_ERROR_INVALID_VALUE);
    struct tsr_graph *graph = tsr_graph_create(true);
    TSR_REQUIRE(graph, CUDA_ERROR_OUT_OF_MEMORY);
    *phGraph = graph->handle;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphDestroy(CUgraph hGraph)
{
    TSR_TRY(tsr_driver_ready());
    tsr_engine_lock();
    struct tsr_graph *graph = tsr_graph_find_locked(hGraph);
    bool own = graph && !graph->parent; /* a child graph belongs to its node */
    if (own)
        tsr_graph_hide(graph);
    tsr_engine_unlock();
    TSR_REQUIRE(own, CUDA_ERROR_INVALID_VALUE);
    tsr_graph_free(graph);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphClone(CUgraph *phGraphClone, CUgraph originalGraph)
{
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(phGraphClone, CUDA_ERROR_INVALID_VALUE);
    tsr_engine_lock();
    struct tsr_graph *graph = tsr_graph_find_locked(originalGraph);
    struct tsr_graph *copy = graph ? tsr_graph_copy(graph, true) : NULL;
    tsr_engine_unlock();
    TSR_REQUIRE(graph, CUDA_ERROR_INVALID_VALUE);
    TSR_REQUIRE(copy, CUDA_ERROR_OUT_OF_MEMORY);
    *phGraphClone = copy->handle;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphNodeFindInClone(CUgraphNode *phNode, CUgraphNode hOriginalNode, CUgraph hClonedGraph)
{
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(phNode && hOriginalNode, CUDA_ERROR_INVALID_VALUE);
    tsr_engine_lock();
    struct tsr_graph *graph = tsr_graph_find_locked(hClonedGraph);
    for (size_t i = 0; graph && i < graph->nodes.count; i++)
        if (graph->nodes.data[i]->origin == hOriginalNode) {
            *phNode = graph->nodes.data[i]->handle;
            result = CUDA_SUCCESS;
        }
    tsr_engine_unlock();
    return result;
}

/* Fills arrays the way all of these queries do: without an array it only counts; unused places become empty. */
struct listing {
    size_t room, count;
};

static bool list_has_room(struct listing *list)
{
    return list->count++ < list->room;
}

static void list_end(const struct listing *list, bool counting, size_t *out)
{
    *out = counting || list->count < list->room ? list->count : list->room;
}

static CUresult list_nodes(CUgraph handle, CUgraphNode *nodes, size_t *count, bool roots_only)
{
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(count, CUDA_ERROR_INVALID_VALUE);
    struct listing list = {nodes ? *count : 0, 0};
    tsr_engine_lock();
    struct tsr_graph *graph = tsr_graph_find_locked(handle);
    for (size_t i = 0; graph && i < graph->nodes.count; i++) {
        const struct tsr_graph_node *node = graph->nodes.data[i];
        if ((!roots_only || !node->dependencies.count) && list_has_room(&list))
            nodes[list.count - 1] = node->handle;
    }
    tsr_engine_unlock();
    TSR_REQUIRE(graph, CUDA_ERROR_INVALID_VALUE);
    for (size_t i = list.count; i < list.room; i++)
        nodes[i] = NULL;
    list_end(&list, !nodes, count);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphGetNodes(CUgraph hGraph, CUgraphNode *nodes, size_t *numNodes)
{
    return list_nodes(hGraph, nodes, numNodes, false);
}

CUresult CUDAAPI cuGraphGetRootNodes(CUgraph hGraph, CUgraphNode *rootNodes, size_t *numRootNodes)
{
    return list_nodes(hGraph, rootNodes, numRootNodes, true);
}

CUresult CUDAAPI cuGraphGetEdges_v2(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *edgeData,
                                    size_t *numEdges)
{
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(numEdges && !from == !to, CUDA_ERROR_INVALID_VALUE);
    struct listing list = {from ? *numEdges : 0, 0};
    bool lossy = false;
    tsr_engine_lock();
    struct tsr_graph *graph = tsr_graph_find_locked(hGraph);
    for (size_t i = 0; graph && i < graph->nodes.count; i++) {
        const struct tsr_graph_node *node = graph->nodes.data[i];
        for (size_t k = 0; k < node->dependencies.count; k++) {
            const struct tsr_tip *tip = &node->dependencies.data[k];
            lossy |= from && !edgeData && tsr_edge_special(&tip->edge);
            if (!list_has_room(&list))
                continue;
            from[list.count - 1] = tip->node->handle;
            to[list.count - 1] = node->handle;
            if (edgeData)
                edgeData[list.count - 1] = tip->edge;
        }
    }
    tsr_engine_unlock();
    TSR_REQUIRE(graph, CUDA_ERROR_INVALID_VALUE);
    TSR_REQUIRE(!lossy, CUDA_ERROR_LOSSY_QUERY);
    for (size_t i = list.count; i < list.room; i++)
        from[i] = to[i] = NULL;
    list_end(&list, !from, numEdges);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphGetEdges(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to, size_t *numEdges)
{
    return cuGraphGetEdges_v2(hGraph, from, to, NULL, numEdges);
}

CUresult CUDAAPI cuGraphNodeGetDependencies_v2(CUgraphNode hNode, CUgraphNode *dependencies, CUgraphEdgeData *edgeData,
                                               size_t *numDependencies)
{
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(numDependencies, CUDA_ERROR_INVALID_VALUE);
    struct listing list = {dependencies ? *numDependencies : 0, 0};
    bool lossy = false;
    tsr_engine_lock();
    struct tsr_graph_node *node = tsr_graph_node_find_locked(hNode);
    for (size_t i = 0; node && i < node->dependencies.count; i++) {
        const struct tsr_tip *tip = &node->dependencies.data[i];
        lossy |= dependencies && !edgeData && tsr_edge_special(&tip->edge);
        if (!list_has_room(&list))
            continue;
        dependencies[i] = tip->node->handle;
        if (edgeData)
            edgeData[i] = tip->edge;
    }
    tsr_engine_unlock();
    TSR_REQUIRE(node, CUDA_ERROR_INVALID_VALUE);
    TSR_REQUIRE(!lossy, CUDA_ERROR_LOSSY_QUERY);
    for (size_t i = list.count; i < list.room; i++)
        dependencies[i] = NULL;
    list_end(&list, !dependencies, numDependencies);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphNodeGetDependencies(CUgraphNode hNode, CUgraphNode *dependencies, size_t *numDependencies)
{
    return cuGraphNodeGetDependencies_v2(hNode, dependencies, NULL, numDependencies);
}

static const CUgraphEdgeData *edge_between(const struct tsr_graph_node *from, const struct tsr_graph_node *to)
{
    for (size_t i = 0; i < to->dependencies.count; i++)
        if (to->dependencies.data[i].node == from)
            return &to->dependencies.data[i].edge;
    return NULL;
}

CUresult CUDAAPI cuGraphNodeGetDependentNodes_v2(CUgraphNode hNode, CUgraphNode *dependentNodes, CUgraphEdgeData *edgeData,
                                                 size_t *numDependentNodes)
{
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(numDependentNodes, CUDA_ERROR_INVALID_VALUE);
    struct listing list = {dependentNodes ? *numDependentNodes : 0, 0};
    bool lossy = false;
    tsr_engine_lock();
    struct tsr_graph_node *node = tsr_graph_node_find_locked(hNode);
    for (size_t i = 0; node && i < node->dependents.count; i++) {
        const CUgraphEdgeData *edge = edge_between(node, node->dependents.data[i]);
        lossy |= dependentNodes && !edgeData && tsr_edge_special(edge);
        if (!list_has_room(&list))
            continue;
        dependentNodes[i] = node->dependents.data[i]->handle;
        if (edgeData)
            edgeData[i] = *edge;
    }
    tsr_engine_unlock();
    TSR_REQUIRE(node, CUDA_ERROR_INVALID_VALUE);
    TSR_REQUIRE(!lossy, CUDA_ERROR_LOSSY_QUERY);
    for (size_t i = list.count; i < list.room; i++)
        dependentNodes[i] = NULL;
    list_end(&list, !dependentNodes, numDependentNodes);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphNodeGetDependentNodes(CUgraphNode hNode, CUgraphNode *dependentNodes, size_t *numDependentNodes)
{
    return cuGraphNodeGetDependentNodes_v2(hNode, dependentNodes, NULL, numDependentNodes);
}

/* Both ends of an edge, in the graph. */
static CUresult ends_locked(const struct tsr_graph *graph, CUgraphNode from, CUgraphNode to, struct tsr_graph_node **begin,
                            struct tsr_graph_node **end)
{
    *begin = tsr_graph_node_find_locked(from);
    *end = tsr_graph_node_find_locked(to);
    TSR_REQUIRE(graph && *begin && *end && (*begin)->graph == graph && (*end)->graph == graph && *begin != *end,
                CUDA_ERROR_INVALID_VALUE);
    return CUDA_SUCCESS;
}

/* edge: NULL: none is given. */
typedef CUresult change_edge_locked(struct tsr_graph_node *begin, struct tsr_graph_node *end, const CUgraphEdgeData *edge);

static CUresult connect_locked(struct tsr_graph_node *begin, struct tsr_graph_node *end, const CUgraphEdgeData *edge)
{
    TSR_REQUIRE(!tsr_graph_connected(begin, end), CUDA_ERROR_INVALID_VALUE);
    return tsr_graph_connect(begin, end, edge);
}

static CUresult disconnect_locked(struct tsr_graph_node *begin, struct tsr_graph_node *end, const CUgraphEdgeData *edge)
{
    const CUgraphEdgeData *found = edge_between(begin, end);
    TSR_REQUIRE(found && (!edge || memcmp(found, edge, sizeof *found) == 0), CUDA_ERROR_INVALID_VALUE);
    tsr_graph_disconnect(begin, end);
    return CUDA_SUCCESS;
}

static CUresult change_edges(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to, const CUgraphEdgeData *edges,
                             size_t count, change_edge_locked *change)
{
    struct tsr_graph_node *begin, *end;
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(!count || (from && to), CUDA_ERROR_INVALID_VALUE);
    tsr_engine_lock();
    const struct tsr_graph *graph = tsr_graph_find_locked(hGraph);
    CUresult result = graph ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; !result && i < count; i++) {
        result = ends_locked(graph, from[i], to[i], &begin, &end);
        if (!result)
            result = change(begin, end, edges ? &edges[i] : NULL);
    }
    tsr_engine_unlock();
    return result;
}

CUresult CUDAAPI cuGraphAddDependencies_v2(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to,
                                           const CUgraphEdgeData *edgeData, size_t numDependencies)
{
    return change_edges(hGraph, from, to, edgeData, numDependencies, connect_locked);
}

CUresult CUDAAPI cuGraphAddDependencies(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to, size_t numDependencies)
{
    return cuGraphAddDependencies_v2(hGraph, from, to, NULL, numDependencies);
}

CUresult CUDAAPI cuGraphRemoveDependencies_v2(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to,
                                              const CUgraphEdgeData *edgeData, size_t numDependencies)
{
    return change_edges(hGraph, from, to, edgeData, numDependencies, disconnect_locked);
}

CUresult CUDAAPI cuGraphRemoveDependencies(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to,
                                           size_t numDependencies)
{
    return cuGraphRemoveDependencies_v2(hGraph, from, to, NULL, numDependencies);
}

/* user objects */

CUresult CUDAAPI cuUserObjectCreate(CUuserObject *object_out, void *ptr, CUhostFn destroy, unsigned int initialRefcount,
                                    unsigned int flags)
{
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(object_out && destroy && initialRefcount && flags == CU_USER_OBJECT_NO_DESTRUCTOR_SYNC,
                CUDA_ERROR_INVALID_VALUE);
    return tsr_user_object_create(ptr, destroy, initialRefcount, object_out);
}

CUresult CUDAAPI cuUserObjectRetain(CUuserObject object, unsigned int count)
{
    TSR_TRY(tsr_driver_ready());
    return tsr_user_object_retain(object, count);
}

CUresult CUDAAPI cuUserObjectRelease(CUuserObject object, unsigned int count)
{
    TSR_TRY(tsr_driver_ready());
    return tsr_user_object_release(object, count);
}

CUresult CUDAAPI cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned int count, unsigned int flags)
{
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(!(flags & ~(unsigned)CU_GRAPH_USER_OBJECT_MOVE), CUDA_ERROR_INVALID_VALUE);
    tsr_engine_lock();
    struct tsr_graph *found = tsr_graph_find_locked(graph);
    CUresult result =
        found ? tsr_graph_retain_object(found, object, count, flags & CU_GRAPH_USER_OBJECT_MOVE) : CUDA_ERROR_INVALID_VALUE;
    tsr_engine_unlock();
    return result;
}

CUresult CUDAAPI cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned int count)
{
    TSR_TRY(tsr_driver_ready());
    tsr_engine_lock();
    struct tsr_graph *found = tsr_graph_find_locked(graph);
    tsr_engine_unlock();
    TSR_REQUIRE(found, CUDA_ERROR_INVALID_VALUE);
    return tsr_graph_release_object(found, object, count);
}

/* dot */

static const char *const type_names[] = {"kernel",     "memcpy",       "memset",           "host",           "graph", "empty",
                                         "event wait", "event record", "semaphore signal", "semaphore wait", "alloc", "free",
                                         "batch",      "conditional"};

static bool print_graph(int descriptor, const struct tsr_graph *graph)
{
    char line[512];
    bool done = true;
    for (size_t i = 0; done && i < graph->nodes.count; i++) {
        const struct tsr_graph_node *node = graph->nodes.data[i];
        const char *name = node->work.kind == TSR_WORK_KERNEL ? node->work.kernel.desc.function->name : "";
        size_t length =
            tsr_format(line, sizeof line, "\"%p\" [label=\"%s %s\"];\n", (void *)node->handle, type_names[node->type], name);
        done = tsr_os_write_all(descriptor, line, length);
        for (size_t k = 0; done && k < node->dependencies.count; k++) {
            length = tsr_format(line, sizeof line, "\"%p\" -> \"%p\";\n", (void *)node->dependencies.data[k].node->handle,
                                (void *)node->handle);
            done = tsr_os_write_all(descriptor, line, length);
        }
        if (done && node->work.kind == TSR_WORK_CHILD)
            done = print_graph(descriptor, node->work.child.graph);
    }
    return done;
}

CUresult CUDAAPI cuGraphDebugDotPrint(CUgraph hGraph, const char *path, unsigned int flags)
{
    static const char begin[] = "digraph dot {\n", end[] = "}\n";
    (void)flags;
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(path, CUDA_ERROR_INVALID_VALUE);
    int descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    TSR_REQUIRE(descriptor >= 0, CUDA_ERROR_OPERATING_SYSTEM);
    tsr_engine_lock();
    struct tsr_graph *graph = tsr_graph_find_locked(hGraph);
    bool done = graph && tsr_os_write_all(descriptor, begin, sizeof begin - 1) && print_graph(descriptor, graph) &&
                tsr_os_write_all(descriptor, end, sizeof end - 1);
    tsr_engine_unlock();
    close(descriptor);
    TSR_REQUIRE(graph, CUDA_ERROR_INVALID_VALUE);
    return done ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}
