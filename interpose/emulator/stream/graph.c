#include "graph.h"

#include "../context/handles.h"
#include "engine.h"

#include <stdlib.h>
#include <string.h>

static uint64_t next_id; /* atomic */

struct tsr_graph *tsr_graph_create(bool visible)
{
    struct tsr_graph *graph = calloc(1, sizeof *graph);
    if (!graph)
        return NULL;
    graph->id = __atomic_add_fetch(&next_id, 1, __ATOMIC_RELAXED);
    if (visible && !(graph->handle = tsr_handle_create(tsr_handle_table(), TSR_KIND_GRAPH, graph, NULL))) {
        free(graph);
        return NULL;
    }
    return graph;
}

static void node_hide(struct tsr_graph_node *node)
{
    if (node->handle)
        tsr_handle_remove(tsr_handle_table(), TSR_KIND_GRAPH_NODE, node->handle);
    node->handle = NULL;
    if (node->work.kind == TSR_WORK_CHILD)
        tsr_graph_hide(node->work.child.graph);
}

void tsr_graph_hide(struct tsr_graph *graph)
{
    for (size_t i = 0; i < graph->nodes.count; i++)
        node_hide(graph->nodes.data[i]);
    if (graph->handle)
        tsr_handle_remove(tsr_handle_table(), TSR_KIND_GRAPH, graph->handle);
    graph->handle = NULL;
}

void tsr_graph_node_free(struct tsr_graph_node *node)
{
    node_hide(node);
    tsr_work_release(&node->work);
    tsr_vec_fini(&node->dependencies);
    tsr_vec_fini(&node->dependents);
    free(node->param_list);
    free(node);
}

void tsr_graph_node_swap(struct tsr_graph_node *node, struct tsr_work *work)
{
    struct tsr_work before = node->work;
    node->work = *work;
    *work = before;
    free(node->param_list);
    node->param_list = NULL;
    if (node->work.kind == TSR_WORK_CHILD)
        node->work.child.graph->parent = node;
}

void tsr_graph_free(struct tsr_graph *graph)
{
    if (!graph)
        return;
    tsr_graph_hide(graph);
    for (size_t i = 0; i < graph->nodes.count; i++)
        tsr_graph_node_free(graph->nodes.data[i]);
    for (size_t i = 0; i < graph->objects.count; i++)
        tsr_user_object_unref(graph->objects.data[i]);
    tsr_vec_fini(&graph->nodes);
    tsr_vec_fini(&graph->objects);
    free(graph);
}

bool tsr_graph_connected(const struct tsr_graph_node *from, const struct tsr_graph_node *to)
{
    for (size_t i = 0; i < to->dependencies.count; i++)
        if (to->dependencies.data[i].node == from)
            return true;
    return false;
}

CUresult tsr_graph_connect(struct tsr_graph_node *from, struct tsr_graph_node *to, const CUgraphEdgeData *edge)
{
    struct tsr_tip tip = {.node = from};
    if (edge)
        tip.edge = *edge;
    if (!tsr_vec_reserve(&from->dependents, from->dependents.count + 1) || !tsr_vec_push(&to->dependencies, tip))
        return CUDA_ERROR_OUT_OF_MEMORY;
    (void)tsr_vec_push(&from->dependents, to);
    return CUDA_SUCCESS;
}

bool tsr_graph_disconnect(struct tsr_graph_node *from, struct tsr_graph_node *to)
{
    bool found = false;
    size_t kept = 0;
    for (size_t i = 0; i < to->dependencies.count; i++) {
        if (!found && to->dependencies.data[i].node == from)
            found = true;
        else
            to->dependencies.data[kept++] = to->dependencies.data[i];
    }
    to->dependencies.count = kept;
    kept = 0;
    for (size_t i = 0; i < from->dependents.count; i++)
        if (from->dependents.data[i] != to)
            from->dependents.data[kept++] = from->dependents.data[i];
    from->dependents.count = kept;
    return found;
}

static void unlink_node(struct tsr_graph_node *node)
{
    while (node->dependencies.count)
        tsr_graph_disconnect(node->dependencies.data[0].node, node);
    while (node->dependents.count)
        tsr_graph_disconnect(node, node->dependents.data[0]);
}

void tsr_graph_take(struct tsr_graph_node *node)
{
    struct tsr_graph *graph = node->graph;
    size_t kept = 0;
    unlink_node(node);
    for (size_t i = 0; i < graph->nodes.count; i++)
        if (graph->nodes.data[i] != node)
            graph->nodes.data[kept++] = graph->nodes.data[i];
    graph->nodes.count = kept;
    node_hide(node);
}

CUresult tsr_graph_add(struct tsr_graph *graph, CUgraphNodeType type, struct tsr_work *work, const tsr_tips *dependencies,
                       struct tsr_graph_node **out)
{
    struct tsr_graph_node *node = calloc(1, sizeof *node);
    if (!node)
        return CUDA_ERROR_OUT_OF_MEMORY;
    node->graph = graph;
    node->type = type;
    CUresult result = CUDA_SUCCESS;
    for (size_t i = 0; !result && dependencies && i < dependencies->count; i++)
        result = tsr_graph_connect(dependencies->data[i].node, node, &dependencies->data[i].edge);
    if (!result && graph->handle && !(node->handle = tsr_handle_create(tsr_handle_table(), TSR_KIND_GRAPH_NODE, node, NULL)))
        result = CUDA_ERROR_OUT_OF_MEMORY;
    if (!result && !tsr_vec_push(&graph->nodes, node))
        result = CUDA_ERROR_OUT_OF_MEMORY;
    if (result) {
        unlink_node(node);
        tsr_graph_node_free(node);
        return result;
    }
    node->work = *work;
    *work = (struct tsr_work){.kind = TSR_WORK_EMPTY};
    if (node->work.kind == TSR_WORK_CHILD)
        node->work.child.graph->parent = node;
    if (out)
        *out = node;
    return CUDA_SUCCESS;
}

static CUresult work_copy(const struct tsr_work *work, bool visible, struct tsr_work *out)
{
    if (work->kind != TSR_WORK_CHILD)
        return tsr_work_clone(work, out);
    *out = *work;
    out->child.graph = tsr_graph_copy(work->child.graph, visible);
    return out->child.graph ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static size_t position_of(const struct tsr_graph *graph, const struct tsr_graph_node *node)
{
    size_t i = 0;
    while (graph->nodes.data[i] != node)
        i++;
    return i;
}

static bool copy_nodes(const struct tsr_graph *graph, struct tsr_graph *copy, bool visible)
{
    for (size_t i = 0; i < graph->nodes.count; i++) {
        const struct tsr_graph_node *node = graph->nodes.data[i];
        struct tsr_graph_node *made;
        struct tsr_work work;
        if (work_copy(&node->work, visible, &work))
            return false;
        if (tsr_graph_add(copy, node->type, &work, NULL, &made)) {
            tsr_work_release(&work);
            return false;
        }
        made->origin = node->handle;
        made->disabled = node->disabled;
    }
    for (size_t i = 0; i < graph->nodes.count; i++) {
        const tsr_tips *before = &graph->nodes.data[i]->dependencies;
        for (size_t k = 0; k < before->count; k++)
            if (tsr_graph_connect(copy->nodes.data[position_of(graph, before->data[k].node)], copy->nodes.data[i],
                                  &before->data[k].edge))
                return false;
    }
    return true;
}

struct tsr_graph *tsr_graph_copy(const struct tsr_graph *graph, bool visible)
{
    struct tsr_graph *copy = tsr_graph_create(visible);
    if (!copy || !tsr_vec_reserve(&copy->objects, graph->objects.count) || !copy_nodes(graph, copy, visible)) {
        tsr_graph_free(copy);
        return NULL;
    }
    for (size_t i = 0; i < graph->objects.count; i++) {
        tsr_user_object_ref(graph->objects.data[i]);
        (void)tsr_vec_push(&copy->objects, graph->objects.data[i]);
    }
    return copy;
}

static void clear_marks(struct tsr_graph *graph)
{
    for (size_t i = 0; i < graph->nodes.count; i++)
        graph->nodes.data[i]->marked = false;
}

void tsr_graph_mark_ancestors(struct tsr_graph *graph, const tsr_tips *tips)
{
    clear_marks(graph);
    for (size_t i = 0; i < tips->count; i++)
        tips->data[i].node->marked = true;
    /* Usually edges lead forward in the order of creation, then one pass is enough. */
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t i = graph->nodes.count; i-- > 0;) {
            const struct tsr_graph_node *node = graph->nodes.data[i];
            for (size_t k = 0; node->marked && k < node->dependencies.count; k++)
                if (!node->dependencies.data[k].node->marked)
                    changed = node->dependencies.data[k].node->marked = true;
        }
    }
}

CUresult tsr_graph_sort(struct tsr_graph *graph)
{
    size_t count = graph->nodes.count, placed = 0;
    struct tsr_graph_node **order = malloc((count ? count : 1) * sizeof *order);
    if (!order)
        return CUDA_ERROR_OUT_OF_MEMORY;
    clear_marks(graph);
    for (size_t before = SIZE_MAX; placed < count && before != placed;) {
        before = placed;
        for (size_t i = 0; i < count; i++) {
            struct tsr_graph_node *node = graph->nodes.data[i];
            bool ready = !node->marked;
            for (size_t k = 0; ready && k < node->dependencies.count; k++)
                ready = node->dependencies.data[k].node->marked;
            if (ready) {
                node->marked = true;
                order[placed++] = node;
            }
        }
    }
    if (placed == count && count)
        memcpy(graph->nodes.data, order, count * sizeof *order);
    free(order);
    return placed == count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUgraphNodeType tsr_graph_type_of(const struct tsr_work *work)
{
    switch (work->kind) {
    case TSR_WORK_KERNEL:
        return CU_GRAPH_NODE_TYPE_KERNEL;
    case TSR_WORK_COPY:
        return CU_GRAPH_NODE_TYPE_MEMCPY;
    case TSR_WORK_MEMSET:
        return CU_GRAPH_NODE_TYPE_MEMSET;
    case TSR_WORK_HOST:
        return CU_GRAPH_NODE_TYPE_HOST;
    case TSR_WORK_RECORD:
        return CU_GRAPH_NODE_TYPE_EVENT_RECORD;
    case TSR_WORK_WAIT:
        return CU_GRAPH_NODE_TYPE_WAIT_EVENT;
    case TSR_WORK_VALUES:
        return CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
    case TSR_WORK_CHILD:
        return CU_GRAPH_NODE_TYPE_GRAPH;
    default:
        return CU_GRAPH_NODE_TYPE_EMPTY;
    }
}

void tsr_graph_forget_context(struct tsr_graph *graph, struct tsr_context *context)
{
    for (size_t i = 0; i < graph->nodes.count; i++) {
        struct tsr_work *work = &graph->nodes.data[i]->work;
        if (work->context == context) {
            work->context = NULL;
            graph->nodes.data[i]->disabled = true;
        }
        if (work->kind == TSR_WORK_CHILD)
            tsr_graph_forget_context(work->child.graph, context);
    }
}

static bool forget_in_graph(void *handle, void *object, void *context)
{
    (void)handle;
    tsr_graph_forget_context(object, context);
    return true;
}

void tsr_graphs_forget_locked(struct tsr_context *context)
{
    tsr_handle_each(tsr_handle_table(), TSR_KIND_GRAPH, forget_in_graph, context);
}

static void *copy(void *graph)
{
    return tsr_graph_copy(graph, true);
}

static void release(void *graph)
{
    tsr_graph_free(graph);
}

struct tsr_work tsr_graph_work_of(struct tsr_graph *graph)
{
    static const struct tsr_work_owned owned = {.copy = copy, .release = release};
    return (struct tsr_work){.kind = TSR_WORK_CHILD, .child = {graph, &owned}};
}

void tsr_graph_leave_locked(struct tsr_graph *graph)
{
    struct tsr_item *carrier = calloc(1, sizeof *carrier);
    tsr_graph_hide(graph);
    if (!carrier)
        return; /* lost, and so is everything else soon */
    carrier->references = 1;
    carrier->work = tsr_graph_work_of(graph);
    tsr_engine_leave_locked(carrier);
}
