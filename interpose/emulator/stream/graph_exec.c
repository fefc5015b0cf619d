#include "graph_exec.h"

#include "../context/handles.h"
#include "capture.h"
#include "engine.h"
#include "event_object.h"
#include "host_clock.h"
#include "stream.h"

#include <stdlib.h>

/* Contexts' parts are made here, because a launch, which holds the lock, cannot. */
static CUresult prepare(struct tsr_graph *graph)
{
    CUresult result = tsr_graph_sort(graph);
    for (size_t i = 0; !result && i < graph->nodes.count; i++) {
        struct tsr_work *work = &graph->nodes.data[i]->work;
        struct tsr_streams *streams;
        if (work->kind == TSR_WORK_CHILD)
            result = prepare(work->child.graph);
        else if (work->context)
            result = tsr_streams_of(work->context, &streams);
    }
    return result;
}

CUresult tsr_graph_exec_create(struct tsr_graph *graph, unsigned long long flags, struct tsr_graph_exec **out)
{
    struct tsr_graph_exec *exec = calloc(1, sizeof *exec);
    CUresult result = exec ? prepare(graph) : CUDA_ERROR_OUT_OF_MEMORY;
    if (exec)
        *exec = (struct tsr_graph_exec){.graph = graph, .flags = flags};
    if (!result && !(exec->handle = tsr_handle_create(tsr_handle_table(), TSR_KIND_GRAPH_EXEC, exec, NULL)))
        result = CUDA_ERROR_OUT_OF_MEMORY;
    if (result) {
        tsr_graph_free(graph);
        free(exec);
        return result;
    }
    *out = exec;
    return CUDA_SUCCESS;
}

void tsr_graph_exec_free(struct tsr_graph_exec *exec)
{
    tsr_graph_free(exec->graph);
    tsr_item_put(exec->last);
    free(exec);
}

static CUresult node_work(const struct tsr_graph_node *node, struct tsr_work *work)
{
    *work = (struct tsr_work){.kind = TSR_WORK_EMPTY};
    if (node->disabled || node->work.kind == TSR_WORK_CHILD)
        return CUDA_SUCCESS;
    return tsr_work_clone(&node->work, work);
}

static CUresult launch_nodes_locked(struct tsr_streams *home, struct tsr_graph *graph, struct tsr_item *begin,
                                    struct tsr_item *end, uint64_t host_ns);

/* The node's item; for a child graph the one that ends it. A node of a context that is gone runs nothing. */
static CUresult launch_node_locked(struct tsr_streams *home, struct tsr_graph_node *node, struct tsr_item *begin,
                                   uint64_t host_ns)
{
    struct tsr_streams *streams = node->work.context ? tsr_context_slot(node->work.context, TSR_SLOT_STREAMS) : home;
    struct tsr_work work;
    CUresult result = node_work(node, &work);
    if (result)
        return result;
    if (!streams) {
        tsr_work_release(&work);
        streams = home;
    }
    if (!work.context)
        work.context = streams->context;
    struct tsr_item *item = tsr_item_create_locked(streams, &work, host_ns);
    if (!item)
        return CUDA_ERROR_OUT_OF_MEMORY;
    bool done = tsr_item_after_locked(item, begin);
    for (size_t i = 0; done && i < node->dependencies.count; i++)
        done = tsr_item_after_locked(item, node->dependencies.data[i].node->item);
    if (done && item->work.kind == TSR_WORK_RECORD)
        tsr_event_name_locked(item->work.event.event, item);
    else if (done && item->work.kind == TSR_WORK_WAIT)
        done = tsr_event_before_locked(item->work.event.event, item);
    node->item = item;
    if (done && node->work.kind == TSR_WORK_CHILD && !node->disabled) {
        struct tsr_work nothing = {.kind = TSR_WORK_EMPTY, .context = streams->context};
        struct tsr_item *end = tsr_item_create_locked(streams, &nothing, host_ns);
        if (!end || launch_nodes_locked(streams, node->work.child.graph, item, end, host_ns))
            done = false;
        if (end) {
            done = tsr_item_after_locked(end, item) && done;
            tsr_item_submit_locked(item);
            tsr_item_put(item);
            node->item = item = end;
        }
    }
    if (done)
        tsr_item_submit_locked(item);
    else
        tsr_item_cancel_locked(item);
    return done ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult launch_nodes_locked(struct tsr_streams *home, struct tsr_graph *graph, struct tsr_item *begin,
                                    struct tsr_item *end, uint64_t host_ns)
{
    CUresult result = CUDA_SUCCESS;
    size_t launched = 0;
    for (; !result && launched < graph->nodes.count; launched++) {
        struct tsr_graph_node *node = graph->nodes.data[launched];
        node->item = NULL;
        result = launch_node_locked(home, node, begin, host_ns);
        if (!result && !node->dependents.count && !tsr_item_after_locked(end, node->item))
            result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    for (size_t i = 0; i < launched; i++) {
        tsr_item_put(graph->nodes.data[i]->item);
        graph->nodes.data[i]->item = NULL;
    }
    return result;
}

static CUresult launch_locked(struct tsr_graph_exec *exec, struct tsr_emulated_stream *stream)
{
    struct tsr_work nothing = {.kind = TSR_WORK_EMPTY};
    struct tsr_item *begin, *end = NULL;
    CUresult result = tsr_capture_check_legacy_locked(stream);
    if (result || (result = tsr_stream_item_locked(stream, &nothing, &begin)))
        return result;
    struct tsr_streams *streams = stream->streams;
    struct tsr_work nothing_either = {.kind = TSR_WORK_EMPTY, .context = streams->context};
    uint64_t host_ns = tsr_host_clock_now();
    if (!tsr_item_after_locked(begin, exec->last) || !(end = tsr_item_create_locked(streams, &nothing_either, host_ns)) ||
        !tsr_item_after_locked(end, begin))
        result = CUDA_ERROR_OUT_OF_MEMORY;
    else
        result = launch_nodes_locked(streams, exec->graph, begin, end, host_ns);
    /* Whatever was launched before a failure runs; the stream goes on after it. */
    if (end) {
        tsr_stream_append_locked(stream, end);
        tsr_item_put(exec->last);
        exec->last = tsr_item_get(end);
        tsr_item_submit_locked(begin);
        tsr_item_submit_locked(end);
        tsr_item_put(end);
    } else {
        tsr_item_cancel_locked(begin);
    }
    tsr_item_put(begin);
    return result;
}

static CUresult capture_locked(struct tsr_graph_exec *exec, struct tsr_emulated_stream *stream, struct tsr_work *work)
{
    *work = tsr_graph_work_of(tsr_graph_copy(exec->graph, true));
    return work->child.graph ? tsr_capture_add_locked(stream, work) : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult tsr_graph_exec_launch(CUgraphExec handle, struct tsr_emulated_stream *stream)
{
    struct tsr_work left = {.kind = TSR_WORK_EMPTY};
    CUresult result;
    tsr_host_clock_enter();
    tsr_engine_lock();
    struct tsr_graph_exec *exec = tsr_handle_find(tsr_handle_table(), TSR_KIND_GRAPH_EXEC, handle);
    if (!exec)
        result = CUDA_ERROR_INVALID_VALUE;
    else if (!stream->streams)
        result = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    else if ((result = tsr_context_sticky(stream->streams->context)))
        ;
    else if (stream->capture)
        result = capture_locked(exec, stream, &left);
    else
        result = launch_locked(exec, stream);
    tsr_engine_unlock();
    tsr_work_release(&left);
    tsr_host_clock_leave();
    return result;
}

struct tsr_graph_node *tsr_graph_exec_node(struct tsr_graph_exec *exec, CUgraphNode node)
{
    for (size_t i = 0; node && i < exec->graph->nodes.count; i++)
        if (exec->graph->nodes.data[i]->origin == node)
            return exec->graph->nodes.data[i];
    return NULL;
}

/* Position of a node by mark: sorting both graphs the same way makes equal shapes stand in equal order. */
static CUgraphExecUpdateResult compare(const struct tsr_graph *old, const struct tsr_graph *fresh, struct tsr_graph_node **node)
{
    *node = NULL;
    if (old->nodes.count != fresh->nodes.count)
        return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    for (size_t i = 0; i < old->nodes.count; i++) {
        struct tsr_graph_node *was = old->nodes.data[i], *is = fresh->nodes.data[i];
        *node = is;
        if (was->type != is->type)
            return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
        if (was->dependencies.count != is->dependencies.count)
            return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
        for (size_t k = 0; k < was->dependencies.count; k++) {
            size_t at = 0;
            while (old->nodes.data[at] != was->dependencies.data[k].node)
                at++;
            if (!tsr_graph_connected(fresh->nodes.data[at], is))
                return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
        }
        if (was->work.context != is->work.context && was->type != CU_GRAPH_NODE_TYPE_EMPTY)
            return CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
        if (was->type == CU_GRAPH_NODE_TYPE_GRAPH) {
            CUgraphExecUpdateResult child = compare(was->work.child.graph, is->work.child.graph, node);
            if (child != CU_GRAPH_EXEC_UPDATE_SUCCESS)
                return child;
            *node = is;
        }
    }
    *node = NULL;
    return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

static struct tsr_graph_node *by_origin(const struct tsr_graph *graph, CUgraphNode origin)
{
    for (size_t i = 0; i < graph->nodes.count; i++)
        if (graph->nodes.data[i]->handle == origin)
            return graph->nodes.data[i];
    return NULL;
}

CUgraphExecUpdateResult tsr_graph_exec_update_locked(struct tsr_graph_exec *exec, const struct tsr_graph *graph,
                                                     struct tsr_graph **garbage, struct tsr_graph_node **node)
{
    struct tsr_graph *fresh = tsr_graph_copy(graph, false);
    *garbage = fresh;
    *node = NULL;
    if (!fresh || tsr_graph_sort(fresh))
        return CU_GRAPH_EXEC_UPDATE_ERROR;
    CUgraphExecUpdateResult result = compare(exec->graph, fresh, node);
    if (result != CU_GRAPH_EXEC_UPDATE_SUCCESS) {
        *node = *node ? by_origin(graph, (*node)->origin) : NULL;
        return result;
    }
    /* The executable still answers to the nodes of the graph it was made from. */
    for (size_t i = 0; i < fresh->nodes.count; i++) {
        fresh->nodes.data[i]->origin = exec->graph->nodes.data[i]->origin;
        fresh->nodes.data[i]->disabled = exec->graph->nodes.data[i]->disabled;
    }
    *garbage = exec->graph;
    exec->graph = fresh;
    return result;
}

static bool forget_in_exec(void *handle, void *object, void *context)
{
    (void)handle;
    tsr_graph_forget_context(((struct tsr_graph_exec *)object)->graph, context);
    return true;
}

void tsr_graph_execs_forget_locked(struct tsr_context *context)
{
    tsr_handle_each(tsr_handle_table(), TSR_KIND_GRAPH_EXEC, forget_in_exec, context);
}
