#include "graph_lookup.h"

#include "../context/handles.h"

struct tsr_graph *tsr_graph_find_locked(CUgraph handle)
{
    return tsr_handle_find(tsr_handle_table(), TSR_KIND_GRAPH, handle);
}

struct tsr_graph_node *tsr_graph_node_find_locked(CUgraphNode handle)
{
    return tsr_handle_find(tsr_handle_table(), TSR_KIND_GRAPH_NODE, handle);
}

bool tsr_edge_special(const CUgraphEdgeData *edge)
{
    return edge->from_port || edge->to_port || edge->type;
}

/* Programmatic edges come from kernels and lead to kernels; here they order as ordinary ones do, which is always allowed. */
static bool edge_valid(const CUgraphEdgeData *edge, const struct tsr_graph_node *from)
{
    for (size_t i = 0; i < sizeof edge->reserved; i++)
        if (edge->reserved[i])
            return false;
    if (edge->type != CU_GRAPH_DEPENDENCY_TYPE_DEFAULT && edge->type != CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC)
        return false;
    return !tsr_edge_special(edge) || from->type == CU_GRAPH_NODE_TYPE_KERNEL;
}

CUresult tsr_tips_find_locked(const struct tsr_graph *graph, const CUgraphNode *nodes, const CUgraphEdgeData *edges,
                              size_t count, tsr_tips *out)
{
    if (count && !nodes)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        struct tsr_tip tip = {.node = tsr_graph_node_find_locked(nodes[i])};
        if (!tip.node || (graph && tip.node->graph != graph))
            return CUDA_ERROR_INVALID_VALUE;
        if (edges)
            tip.edge = edges[i];
        if (!edge_valid(&tip.edge, tip.node))
            return CUDA_ERROR_INVALID_VALUE;
        for (size_t k = 0; k < out->count; k++)
            if (out->data[k].node == tip.node)
                return CUDA_ERROR_INVALID_VALUE;
        if (!tsr_vec_push(out, tip))
            return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return CUDA_SUCCESS;
}
