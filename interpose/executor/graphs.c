/* See graphs.h. */
#include "executor/graphs.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/os.h"
#include "carry/graph_node.h"
#include "carry/record.h"
#include "executor/mirror.h"

struct tsr_mirrored_graph {
    CUgraph graph;
    CUgraphExec exec;
    uint32_t count;
    CUgraphNode nodes[];
};

/* What a message's descriptor holds, mapped: it is sealed, so that what was checked stays as it is. */
struct description {
    const struct tsr_lane_graph *head;
    uint64_t bytes;
    const struct tsr_lane_edge *edges;
    uint64_t first; /* where the nodes begin */
};

/* A node of it. */
struct node {
    const struct tsr_lane_record *record;
    const uint8_t *data;
};

static CUresult open_description(const struct tsr_message *message, int descriptor, struct description *out)
{
    bool stays = tsr_os_is_sealed(descriptor, F_SEAL_SHRINK | F_SEAL_WRITE, message->bytes);
    if (!stays || message->bytes < sizeof *out->head)
        return CUDA_ERROR_INVALID_VALUE;
    void *mapped = mmap(NULL, message->bytes, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (mapped == MAP_FAILED)
        return CUDA_ERROR_MAP_FAILED;
    *out = (struct description){.head = mapped, .bytes = message->bytes};
    out->edges = (const void *)(out->head + 1);
    out->first = sizeof *out->head + (uint64_t)out->head->edges * sizeof *out->edges;
    if (out->head->nodes <= TSR_LANE_GRAPH_NODES && out->first <= out->bytes)
        return CUDA_SUCCESS;
    munmap(mapped, message->bytes);
    return CUDA_ERROR_INVALID_VALUE;
}

static void close_description(const struct description *description)
{
    munmap((void *)description->head, description->bytes);
}

static bool attributes_are_right(const struct tsr_lane_record *record, const uint8_t *data)
{
    uint64_t at = ((record->value >> 32) + 7) / 8 * 8, count = (uint32_t)record->value;
    if (at > record->param_bytes || count > (record->param_bytes - at) / sizeof(CUlaunchAttribute))
        return false;
    for (uint64_t i = 0; i < count; i++)
        if (!tsr_record_attribute_goes(((const CUlaunchAttribute *)(const void *)(data + at))[i].id))
            return false;
    return true;
}

static bool is_right(const struct node *node)
{
    const struct tsr_lane_record *record = node->record;
    switch (record->kind) {
    case TSR_LANE_LAUNCH:
        return !record->value || attributes_are_right(record, node->data);
    case TSR_LANE_COPY:
        return record->param_bytes >= sizeof(struct tsr_lane_copy);
    case TSR_LANE_SET:
        return record->param_bytes >= sizeof(struct tsr_lane_set);
    default:
        return record->kind == TSR_LANE_SKIP;
    }
}

/* The node at *at, which goes to the next one. */
static bool take(const struct description *description, uint64_t *at, struct node *out)
{
    uint64_t left = description->bytes - *at;
    *out = (struct node){.record = (const void *)((const uint8_t *)description->head + *at)};
    if (left < sizeof *out->record || out->record->bytes % 8 || out->record->bytes > left ||
        out->record->bytes < sizeof *out->record || out->record->param_bytes > out->record->bytes - sizeof *out->record)
        return false;
    out->data = (const uint8_t *)(out->record + 1);
    *at += out->record->bytes;
    return is_right(out);
}

static bool describe_kernel(const struct tsr_mirror *mirror, const struct node *node, struct tsr_carry_kernel_node *out)
{
    const struct tsr_carry_function *of = tsr_mirror_function(mirror, node->record->function);
    if (of)
        tsr_carry_kernel_node(of, node->record, node->data, out);
    return of;
}

static CUresult set_attributes(CUgraphNode made, const struct node *node)
{
    const CUlaunchAttribute *attributes;
    uint32_t count = tsr_carry_node_attributes(node->record, node->data, &attributes);
    CUresult result = CUDA_SUCCESS;
    for (uint32_t i = 0; i < count && result == CUDA_SUCCESS; i++) {
        result = cuGraphKernelNodeSetAttribute(made, attributes[i].id, &attributes[i].value);
        if (result != CUDA_SUCCESS && tsr_record_is_cluster_of_one(&attributes[i])) /* the GPU has no clusters */
            result = CUDA_SUCCESS;
    }
    return result;
}

static CUresult add_node(const struct tsr_mirror *mirror, CUgraph graph, const struct node *node, CUcontext context,
                         CUgraphNode *out)
{
    struct tsr_carry_kernel_node kernel;
    CUDA_MEMCPY3D copy;
    CUDA_MEMSET_NODE_PARAMS set;
    switch (node->record->kind) {
    case TSR_LANE_LAUNCH: {
        if (!describe_kernel(mirror, node, &kernel))
            return CUDA_ERROR_INVALID_HANDLE;
        CUresult result = cuGraphAddKernelNode(out, graph, NULL, 0, &kernel.params);
        return result == CUDA_SUCCESS ? set_attributes(*out, node) : result;
    }
    case TSR_LANE_COPY:
        copy = tsr_carry_copy_node(node->data);
        return cuGraphAddMemcpyNode(out, graph, NULL, 0, &copy, context);
    case TSR_LANE_SET:
        set = tsr_carry_set_node(node->data);
        return cuGraphAddMemsetNode(out, graph, NULL, 0, &set, context);
    default:
        return cuGraphAddEmptyNode(out, graph, NULL, 0);
    }
}

static CUresult set_node(const struct tsr_mirrored_graph *graph, const struct tsr_mirror *mirror, const struct node *node,
                         CUcontext context)
{
    CUgraphNode at = graph->nodes[node->record->stream];
    struct tsr_carry_kernel_node kernel;
    CUDA_MEMCPY3D copy;
    CUDA_MEMSET_NODE_PARAMS set;
    switch (node->record->kind) {
    case TSR_LANE_LAUNCH:
        return describe_kernel(mirror, node, &kernel) ? cuGraphExecKernelNodeSetParams(graph->exec, at, &kernel.params)
                                                      : CUDA_ERROR_INVALID_HANDLE;
    case TSR_LANE_COPY:
        copy = tsr_carry_copy_node(node->data);
        return cuGraphExecMemcpyNodeSetParams(graph->exec, at, &copy, context);
    case TSR_LANE_SET:
        set = tsr_carry_set_node(node->data);
        return cuGraphExecMemsetNodeSetParams(graph->exec, at, &set, context);
    default:
        return CUDA_SUCCESS;
    }
}

static CUresult add_nodes(struct tsr_mirrored_graph *graph, const struct tsr_mirror *mirror,
                          const struct description *description)
{
    CUcontext context;
    struct node node;
    uint64_t at = description->first;
    CUresult result = cuCtxGetCurrent(&context);
    for (uint32_t i = 0; i < graph->count && result == CUDA_SUCCESS; i++)
        result = take(description, &at, &node) && node.record->stream == i
                     ? add_node(mirror, graph->graph, &node, context, &graph->nodes[i])
                     : CUDA_ERROR_INVALID_VALUE;
    return result;
}

static CUresult add_edges(const struct tsr_mirrored_graph *graph, const struct description *description)
{
    CUresult result = CUDA_SUCCESS;
    for (uint32_t i = 0; i < description->head->edges && result == CUDA_SUCCESS; i++) {
        const struct tsr_lane_edge *edge = &description->edges[i];
        if (edge->from >= graph->count || edge->to >= graph->count)
            return CUDA_ERROR_INVALID_VALUE;
#if CUDA_VERSION >= 13000
        result = cuGraphAddDependencies(graph->graph, &graph->nodes[edge->from], &graph->nodes[edge->to], NULL, 1);
#else
        result = cuGraphAddDependencies(graph->graph, &graph->nodes[edge->from], &graph->nodes[edge->to], 1);
#endif
    }
    return result;
}

static CUresult switch_nodes(const struct tsr_mirrored_graph *graph, const struct description *description, bool all)
{
    CUresult result = CUDA_SUCCESS;
    struct node node;
    uint64_t at = description->first;
    for (uint32_t i = 0; i < description->head->nodes && result == CUDA_SUCCESS && take(description, &at, &node); i++)
        if (node.record->kind != TSR_LANE_SKIP && (all || node.record->time))
            result = cuGraphNodeSetEnabled(graph->exec, graph->nodes[node.record->stream], !node.record->time);
    return result;
}

CUresult tsr_mirrored_graph_create(const struct tsr_mirror *mirror, const struct tsr_message *message, int descriptor,
                                   struct tsr_mirrored_graph **out)
{
    struct description description;
    CUresult result = open_description(message, descriptor, &description);
    if (result != CUDA_SUCCESS)
        return result;
    struct tsr_mirrored_graph *graph = calloc(1, sizeof *graph + description.head->nodes * sizeof graph->nodes[0]);
    result = graph ? cuGraphCreate(&graph->graph, 0) : CUDA_ERROR_OUT_OF_MEMORY;
    if (result == CUDA_SUCCESS) {
        graph->count = description.head->nodes;
        result = add_nodes(graph, mirror, &description);
    }
    if (result == CUDA_SUCCESS)
        result = add_edges(graph, &description);
    if (result == CUDA_SUCCESS)
        result = cuGraphInstantiateWithFlags(&graph->exec, graph->graph, 0);
    if (result == CUDA_SUCCESS)
        result = switch_nodes(graph, &description, false);
    close_description(&description);
    if (result == CUDA_SUCCESS)
        *out = graph;
    else if (graph)
        tsr_mirrored_graph_destroy(graph);
    return result;
}

CUresult tsr_mirrored_graph_set(struct tsr_mirrored_graph *graph, const struct tsr_mirror *mirror,
                                const struct tsr_message *message, int descriptor)
{
    struct description description;
    struct node node;
    CUcontext context;
    CUresult result = open_description(message, descriptor, &description);
    if (result != CUDA_SUCCESS)
        return result;
    uint64_t at = description.first;
    result = cuCtxGetCurrent(&context);
    for (uint32_t i = 0; i < description.head->nodes && result == CUDA_SUCCESS; i++)
        result = take(&description, &at, &node) && node.record->stream < graph->count ? set_node(graph, mirror, &node, context)
                                                                                      : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        result = switch_nodes(graph, &description, true);
    close_description(&description);
    return result;
}

CUresult tsr_mirrored_graph_launch(const struct tsr_mirrored_graph *graph, CUstream stream)
{
    return cuGraphLaunch(graph->exec, stream);
}

void tsr_mirrored_graph_destroy(struct tsr_mirrored_graph *graph)
{
    if (graph->exec)
        cuGraphExecDestroy(graph->exec);
    if (graph->graph)
        cuGraphDestroy(graph->graph);
    free(graph);
}
