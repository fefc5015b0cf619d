/* See nodes.h. */
#include "graph/nodes.h"

#include <string.h>

#include "base/demangle.h"
#include "base/log.h"
#include "driver/gpus.h"
#include "driver/real.h"
#include "lane/functions.h"
#include "launch/attributes.h"
#include "launch/captured_calls.h"
#include "memory/arena.h"
#include "memory/bounds.h"
#include "memory/home_only.h"
#include "memory/memory.h"
#include "object/parameters.h"
#include "object/session.h"

#define MOST_DEPTH 8u
#define MOST_PITCH INT32_MAX
#define MOST_ATTRIBUTES 8u
#define MOST_OPERATIONS 256u /* as the driver's */

/* Attributes of kernel nodes that executors are sent. Others are hints; those that make a node something else are asked for separately. */
static const CUkernelNodeAttrID sent_attributes[] = {CU_LAUNCH_ATTRIBUTE_COOPERATIVE, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                                                     CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE,
                                                     CU_LAUNCH_ATTRIBUTE_PRIORITY, CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN};

void tsr_nodes_fini(struct tsr_nodes *nodes)
{
    for (size_t i = 0; i < nodes->all.count; i++) {
        free(nodes->all.data[i].data);
        tsr_captured_call_put(nodes->all.data[i].call);
    }
    tsr_vec_fini(&nodes->all);
    tsr_vec_fini(&nodes->edges);
}

/* Replaces what follows the node's record. False: no memory. */
static bool put(struct tsr_node *node, const void *data, size_t bytes)
{
    uint8_t *kept = bytes ? malloc(bytes) : NULL;
    if (bytes && !kept)
        return false;
    free(node->data);
    node->data = bytes ? memcpy(kept, data, bytes) : NULL;
    node->record.param_bytes = (uint32_t)bytes;
    return true;
}

static bool is_zero(const CUlaunchAttributeValue *value)
{
    static const CUlaunchAttributeValue zero;
    return memcmp(value, &zero, sizeof zero) == 0;
}

/* UINT32_MAX: other kernels may change it. */
static uint32_t read_attributes(CUgraphNode node, CUlaunchAttribute *out)
{
    CUlaunchAttributeValue value = {0};
    uint32_t count = 0;
    if (tsr_real.cuGraphKernelNodeGetAttribute(node, CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE, &value) ==
            CUDA_SUCCESS &&
        value.deviceUpdatableKernelNode.deviceUpdatable)
        return UINT32_MAX;
    for (uint32_t i = 0; i < sizeof sent_attributes / sizeof sent_attributes[0]; i++) {
        CUlaunchAttribute read = {.id = sent_attributes[i]};
        if (tsr_real.cuGraphKernelNodeGetAttribute(node, read.id, &read.value) == CUDA_SUCCESS && !is_zero(&read.value) &&
            !tsr_attribute_is_left_out(&read, tsr_session()->home))
            out[count++] = read;
    }
    return count;
}

static bool is_home(CUcontext context)
{
    CUdevice device = -1;
    CUcontext popped;
    if (tsr_real.cuCtxPushCurrent_v2(context) != CUDA_SUCCESS)
        return false;
    CUresult result = tsr_real.cuCtxGetDevice(&device);
    tsr_real.cuCtxPopCurrent_v2(&popped);
    return result == CUDA_SUCCESS && device == tsr_session()->home;
}

/* All kernels are in one context of the home GPU: variables of modules are looked up there. */
static bool take_context(struct tsr_nodes *nodes, const CUDA_KERNEL_NODE_PARAMS *params, const struct tsr_function_record *of)
{
    CUcontext context = params->func && of->context ? of->context : params->ctx;
    if (!context && tsr_real.cuCtxGetCurrent(&context) != CUDA_SUCCESS)
        return false;
    if (nodes->context == context)
        return context != NULL;
    if (nodes->context || !context || !is_home(context))
        return false;
    nodes->context = context;
    return true;
}

/* captured: the node, of a graph that is being read; NULL: what it launches has been set since. */
static void find_call(struct tsr_node *node, CUgraphNode captured)
{
    const struct tsr_lane_record *record = &node->record;
    struct tsr_captured_shape shape = {.function = node->function,
                                       .grid = {record->grid[0], record->grid[1], record->grid[2]},
                                       .block = {record->block[0], record->block[1], record->block[2]},
                                       .shared_bytes = record->shared_bytes,
                                       .bytes = tsr_node_block_bytes(node),
                                       .parameters = node->data,
                                       .node = captured};
    tsr_captured_call_put(node->call);
    node->call = tsr_captured_call_get(&shape);
}

static enum tsr_reason set_kernel(struct tsr_nodes *nodes, struct tsr_node *node, const CUDA_KERNEL_NODE_PARAMS *params,
                                  const CUlaunchAttribute *attributes, uint32_t count, CUgraphNode captured)
{
    struct {
        uint8_t values[TSR_PARAMETER_BYTES + MOST_ATTRIBUTES * sizeof(CUlaunchAttribute)] __attribute__((aligned(16)));
    } block;
    const void *handle = params->func ? (const void *)params->func : (const void *)params->kern;
    struct tsr_function_record *of = tsr_function_find(handle);
    uint32_t bytes;
    if (!of && params->func && params->kern)
        of = tsr_function_find(handle = params->kern);
    if (!of || !of->module)
        return TSR_REASON_MODULE;
    tsr_function_describe(of);
    if (!take_context(nodes, params, of))
        return TSR_REASON_OTHER_GPUS;
    if (!tsr_parameters_gather(&of->parameters, params->kernelParams, params->extra, block.values, &bytes))
        return TSR_REASON_PARAMETERS;
    size_t whole = bytes;
    if (count) {
        memset(block.values + bytes, 0, 8);
        whole = (bytes + 7) / 8 * 8;
        memcpy(block.values + whole, attributes, count * sizeof attributes[0]);
        whole += count * sizeof attributes[0];
    }
    if (!put(node, block.values, whole))
        return TSR_REASON_GRAPH_NODE;
    uint32_t kept = node->record.param_bytes;
    node->record = (struct tsr_lane_record){.kind = TSR_LANE_LAUNCH,
                                            .time = node->record.time,
                                            .stream = node->record.stream,
                                            .function = of->id,
                                            .value = count ? tsr_lane_shape(bytes, count) : 0,
                                            .grid = {params->gridDimX, params->gridDimY, params->gridDimZ},
                                            .block = {params->blockDimX, params->blockDimY, params->blockDimZ},
                                            .shared_bytes = params->sharedMemBytes,
                                            .param_bytes = kept};
    node->function = of;
    node->launched = (CUfunction)handle;
    node->by_kernel = handle != (const void *)params->func;
    find_call(node, captured);
    return TSR_REASON_NONE;
}

enum tsr_reason tsr_node_set_kernel(struct tsr_nodes *nodes, struct tsr_node *node, const CUDA_KERNEL_NODE_PARAMS *params)
{
    CUlaunchAttribute attributes[MOST_ATTRIBUTES];
    uint32_t count;
    const CUlaunchAttribute *kept = tsr_node_attributes(node, &count);
    if (count)
        memcpy(attributes, kept, count * sizeof attributes[0]);
    return set_kernel(nodes, node, params, attributes, count, NULL);
}

static bool is_shared(uint64_t address, uint64_t pitch, uint64_t width, uint64_t height)
{
    uint64_t bytes = (height - 1) * pitch + width;
    return tsr_arena_holds(address, bytes) && tsr_bounds_allow(address, bytes);
}

/* Whether executors have it at that address; the host's page-locked memory too. */
static bool is_there(uint64_t address, uint64_t pitch, uint64_t width, uint64_t height)
{
    return is_shared(address, pitch, width, height) || tsr_host_is_shared(address, (height - 1) * pitch + width);
}

static bool find_side(CUmemorytype type, CUdeviceptr device, const void *host, uint64_t *base)
{
    *base = type == CU_MEMORYTYPE_HOST ? (uint64_t)(uintptr_t)host : device;
    return type == CU_MEMORYTYPE_HOST || type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_UNIFIED;
}

static bool are_rows(uint64_t x, uint64_t width, uint64_t height, uint64_t pitch)
{
    return height == 1 || (x + width <= pitch && pitch <= MOST_PITCH);
}

enum tsr_reason tsr_node_set_copy(struct tsr_node *node, const CUDA_MEMCPY3D *from)
{
    uint64_t to, source;
    bool known = find_side(from->dstMemoryType, from->dstDevice, from->dstHost, &to) &&
                 find_side(from->srcMemoryType, from->srcDevice, from->srcHost, &source);
    if (!known)
        return TSR_REASON_GRAPH_NODE;
    struct tsr_lane_copy what = {
        .to = to + from->dstY * from->dstPitch + from->dstXInBytes,
        .from = source + from->srcY * from->srcPitch + from->srcXInBytes,
        .to_pitch = from->dstPitch,
        .from_pitch = from->srcPitch,
        .width = from->WidthInBytes,
        .height = from->Height ? from->Height : 1,
    };
    bool flat = from->Depth <= 1 && !from->srcZ && !from->dstZ && !from->srcLOD && !from->dstLOD;
    if (!flat || !what.width || !are_rows(from->srcXInBytes, what.width, what.height, what.from_pitch) ||
        !are_rows(from->dstXInBytes, what.width, what.height, what.to_pitch) ||
        !is_there(what.to, what.to_pitch, what.width, what.height) ||
        !is_there(what.from, what.from_pitch, what.width, what.height))
        return TSR_REASON_GRAPH_NODE;
    node->record.kind = TSR_LANE_COPY;
    return put(node, &what, sizeof what) ? TSR_REASON_NONE : TSR_REASON_GRAPH_NODE;
}

enum tsr_reason tsr_node_set_set(struct tsr_node *node, const CUDA_MEMSET_NODE_PARAMS *from)
{
    struct tsr_lane_set what = {.to = from->dst,
                                .pitch = from->pitch,
                                .width = from->width,
                                .height = from->height ? from->height : 1,
                                .value = from->value,
                                .element = from->elementSize};
    uint64_t bytes = what.width * what.element;
    bool known = what.element == 1 || what.element == 2 || what.element == 4;
    if (!known || !bytes || what.width > TSR_ARENA_BYTES || !are_rows(0, bytes, what.height, what.pitch) ||
        !is_shared(what.to, what.pitch, bytes, what.height))
        return TSR_REASON_GRAPH_NODE;
    node->record.kind = TSR_LANE_SET;
    return put(node, &what, sizeof what) ? TSR_REASON_NONE : TSR_REASON_GRAPH_NODE;
}

enum tsr_reason tsr_node_reason_to_move(const struct tsr_node *node)
{
    const struct tsr_lane_copy *copy = (const void *)node->data;
    const struct tsr_lane_set *set = (const void *)node->data;
    bool copies = node->record.kind == TSR_LANE_COPY, there = true;
    if (!copies && node->record.kind != TSR_LANE_SET)
        return TSR_REASON_NONE;
    if (copies)
        there = is_there(copy->to, copy->to_pitch, copy->width, copy->height) &&
                is_there(copy->from, copy->from_pitch, copy->width, copy->height);
    else
        there = is_shared(set->to, set->pitch, set->width * set->element, set->height);
    return there ? tsr_home_only_scan(node->data, (copies ? 2 : 1) * sizeof(uint64_t)) : TSR_REASON_GRAPH_NODE;
}

bool tsr_node_same_attributes(const struct tsr_node *one, const struct tsr_node *other)
{
    uint32_t count, others;
    const CUlaunchAttribute *attributes = tsr_node_attributes(one, &count);
    const CUlaunchAttribute *other_attributes = tsr_node_attributes(other, &others);
    return count == others && (!count || memcmp(attributes, other_attributes, count * sizeof attributes[0]) == 0);
}

static struct tsr_touch rows_touch(uint64_t address, uint64_t pitch, uint64_t width, uint64_t height, bool writes)
{
    return (struct tsr_touch){
        .first = address, .end = address + (height - 1) * pitch + width, .pulls = !writes || height > 1, .writes = writes};
}

uint32_t tsr_node_touches(const struct tsr_node *node, struct tsr_touch out[2])
{
    const struct tsr_lane_copy *copy = (const void *)node->data;
    const struct tsr_lane_set *set = (const void *)node->data;
    switch (node->record.kind) {
    case TSR_LANE_COPY:
        out[0] = rows_touch(copy->from, copy->from_pitch, copy->width, copy->height, false);
        out[1] = rows_touch(copy->to, copy->to_pitch, copy->width, copy->height, true);
        return 2;
    case TSR_LANE_SET:
        out[0] = rows_touch(set->to, set->pitch, set->width * set->element, set->height, true);
        return 1;
    default:
        return 0;
    }
}

/* ---- reading ---- */

static enum tsr_reason read_graph(CUgraph graph, struct tsr_nodes *out, uint32_t depth);

/* The place of a new node; UINT32_MAX: no memory, or too many. */
static uint32_t add_node(struct tsr_nodes *out, CUgraphNode handle)
{
    uint32_t place = (uint32_t)out->all.count;
    struct tsr_node node = {.handle = handle, .record = {.kind = TSR_LANE_SKIP, .stream = place}};
    return place < TSR_LANE_GRAPH_NODES && tsr_vec_push(&out->all, node) ? place : UINT32_MAX;
}

static bool add_edge(struct tsr_nodes *out, uint32_t from, uint32_t to)
{
    return tsr_vec_push(&out->edges, (struct tsr_lane_edge){.from = from, .to = to});
}

static enum tsr_reason read_kernel(struct tsr_nodes *out, struct tsr_node *node)
{
    CUDA_KERNEL_NODE_PARAMS params = {0};
    CUlaunchAttribute attributes[MOST_ATTRIBUTES];
    uint32_t count = read_attributes(node->handle, attributes);
    if (count == UINT32_MAX || tsr_real.cuGraphKernelNodeGetParams_v2(node->handle, &params) != CUDA_SUCCESS)
        return TSR_REASON_GRAPH_NODE;
    return set_kernel(out, node, &params, attributes, count, node->handle);
}

static enum tsr_reason read_copy(struct tsr_node *node)
{
    CUDA_MEMCPY3D params = {0};
    CUresult result = tsr_real.cuGraphMemcpyNodeGetParams(node->handle, &params);
    return result == CUDA_SUCCESS ? tsr_node_set_copy(node, &params) : TSR_REASON_GRAPH_NODE;
}

static enum tsr_reason read_set(struct tsr_node *node)
{
    CUDA_MEMSET_NODE_PARAMS params = {0};
    CUresult result = tsr_real.cuGraphMemsetNodeGetParams(node->handle, &params);
    return result == CUDA_SUCCESS ? tsr_node_set_set(node, &params) : TSR_REASON_GRAPH_NODE;
}

static bool writes_alone(const CUstreamBatchMemOpParams *operation)
{
    return operation->operation == CU_STREAM_MEM_OP_WRITE_VALUE_32 || operation->operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;
}

enum tsr_reason tsr_node_set_batch(struct tsr_node *node, const CUDA_BATCH_MEM_OP_NODE_PARAMS *params)
{
    bool fit = params->count && params->count <= MOST_OPERATIONS && !params->flags;
    for (unsigned i = 0; i < params->count && fit; i++)
        fit = writes_alone(&params->paramArray[i]);
    node->action.kind = TSR_NODE_WRITES;
    node->action.count = params->count;
    return fit && put(node, params->paramArray, params->count * sizeof params->paramArray[0]) ? TSR_REASON_NONE
                                                                                              : TSR_REASON_GRAPH_NODE;
}

static enum tsr_reason read_batch(struct tsr_nodes *out, struct tsr_node *node)
{
    CUDA_BATCH_MEM_OP_NODE_PARAMS params = {0};
    out->actions++;
    return tsr_real.cuGraphBatchMemOpNodeGetParams(node->handle, &params) == CUDA_SUCCESS ? tsr_node_set_batch(node, &params)
                                                                                          : TSR_REASON_GRAPH_NODE;
}

static enum tsr_reason read_action(struct tsr_nodes *out, struct tsr_node *node, CUgraphNodeType type)
{
    CUresult result;
    switch (type) {
    case CU_GRAPH_NODE_TYPE_HOST:
        node->action.kind = TSR_NODE_CALLS;
        result = tsr_real.cuGraphHostNodeGetParams(node->handle, &node->action.host);
        break;
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        node->action.kind = TSR_NODE_RECORDS;
        result = tsr_real.cuGraphEventRecordNodeGetEvent(node->handle, &node->action.event);
        break;
    default:
        node->action.kind = TSR_NODE_WAITS;
        result = tsr_real.cuGraphEventWaitNodeGetEvent(node->handle, &node->action.event);
    }
    out->actions++;
    return result == CUDA_SUCCESS ? TSR_REASON_NONE : TSR_REASON_GRAPH_NODE;
}

/* Between an empty node, which is there already, and another one: the child's last place is where its followers begin. */
static enum tsr_reason read_child(struct tsr_nodes *out, uint32_t begin, uint32_t depth)
{
    CUgraph child;
    size_t first = out->all.count, edges = out->edges.count;
    if (depth == MOST_DEPTH || tsr_real.cuGraphChildGraphNodeGetGraph(out->all.data[begin].handle, &child) != CUDA_SUCCESS)
        return TSR_REASON_GRAPH_NODE;
    enum tsr_reason reason = read_graph(child, out, depth + 1);
    uint32_t end = reason ? UINT32_MAX : add_node(out, NULL);
    if (end == UINT32_MAX)
        return reason ? reason : TSR_REASON_GRAPH_NODE;
    bool *follows = calloc(2 * (end - first) + 1, sizeof *follows), *leads = follows ? follows + (end - first) : NULL;
    bool added = follows && add_edge(out, begin, end);
    for (size_t i = edges; added && i + 1 < out->edges.count; i++) {
        if (out->edges.data[i].to >= first && out->edges.data[i].to < end)
            follows[out->edges.data[i].to - first] = true;
        if (out->edges.data[i].from >= first && out->edges.data[i].from < end)
            leads[out->edges.data[i].from - first] = true;
    }
    for (uint32_t i = (uint32_t)first; added && i < end; i++)
        added = (follows[i - first] || add_edge(out, begin, i)) && (leads[i - first] || add_edge(out, i, end));
    free(follows);
    out->all.data[begin].end = end;
    return added ? TSR_REASON_NONE : TSR_REASON_GRAPH_NODE;
}

static enum tsr_reason read_node(struct tsr_nodes *out, uint32_t place, uint32_t depth)
{
    CUgraphNodeType type;
    struct tsr_node *node = &out->all.data[place];
    if (tsr_real.cuGraphNodeGetType(node->handle, &type) != CUDA_SUCCESS)
        return TSR_REASON_GRAPH_NODE;
    switch (type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return read_kernel(out, node);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return read_copy(node);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return read_set(node);
    case CU_GRAPH_NODE_TYPE_EMPTY:
        return TSR_REASON_NONE;
    case CU_GRAPH_NODE_TYPE_HOST:
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        return read_action(out, node, type);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        return read_batch(out, node);
    case CU_GRAPH_NODE_TYPE_GRAPH:
        return read_child(out, place, depth);
    default:
        return TSR_REASON_GRAPH_NODE;
    }
}

/* A node of the graph that is being read, by its handle: where it begins and where it ends. */
struct span {
    CUgraphNode handle;
    uint32_t begin, end;
};

static int compare_spans(const void *one, const void *other)
{
    uintptr_t a = (uintptr_t)((const struct span *)one)->handle, b = (uintptr_t)((const struct span *)other)->handle;
    return (a > b) - (a < b);
}

static const struct span *find_span(const struct span *spans, size_t count, CUgraphNode handle)
{
    struct span asked = {.handle = handle};
    return bsearch(&asked, spans, count, sizeof asked, compare_spans);
}

struct edges {
    CUgraphNode *from, *to;
    CUgraphEdgeData *data; /* NULL: all edges are plain */
    size_t count;
};

/* The driver of a graph with edges that are more than plain has the newer function. */
static CUresult ask_edges(CUgraph graph, struct edges *edges)
{
    size_t count = edges->count;
    CUresult result = tsr_real.cuGraphGetEdges(graph, edges->from, edges->to, &edges->count);
    if (result != CUDA_ERROR_LOSSY_QUERY)
        return result;
    edges->count = count;
    edges->data = calloc(count + 1, sizeof *edges->data);
    return edges->data ? tsr_real.cuGraphGetEdges_v2(graph, edges->from, edges->to, edges->data, &edges->count)
                       : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Edges that say more, as programmatic ones, count as plain ones: what they let a node do earlier, it need not do. */
static enum tsr_reason read_edges(CUgraph graph, struct tsr_nodes *out, const struct span *spans, size_t span_count)
{
    struct edges edges = {0};
    if (tsr_real.cuGraphGetEdges(graph, NULL, NULL, &edges.count) != CUDA_SUCCESS)
        return TSR_REASON_GRAPH_NODE;
    edges.from = calloc(edges.count + 1, sizeof *edges.from);
    edges.to = calloc(edges.count + 1, sizeof *edges.to);
    bool valid = edges.from && edges.to && (!edges.count || ask_edges(graph, &edges) == CUDA_SUCCESS);
    for (size_t i = 0; valid && i < edges.count; i++) {
        const struct span *from = find_span(spans, span_count, edges.from[i]);
        const struct span *to = find_span(spans, span_count, edges.to[i]);
        valid = from && to && add_edge(out, from->end, to->begin);
    }
    free(edges.from);
    free(edges.to);
    free(edges.data);
    return valid ? TSR_REASON_NONE : TSR_REASON_GRAPH_NODE;
}

static void say_why(const struct tsr_node *node, enum tsr_reason reason)
{
    CUgraphNodeType type = (CUgraphNodeType)-1;
    tsr_real.cuGraphNodeGetType(node->handle, &type);
    tsr_info("a graph stays home: its node %p is of type %d (CUgraphNodeType), reason %d (enum tsr_reason)%s%s",
             (void *)node->handle, (int)type, (int)reason, node->function ? ", function " : "",
             node->function && node->function->name ? TSR_KERNEL_NAME(node->function->name) : "");
}

static enum tsr_reason read_all(CUgraph graph, struct tsr_nodes *out, const CUgraphNode *handles, size_t count, uint32_t depth)
{
    struct span *spans = calloc(count + 1, sizeof *spans);
    enum tsr_reason reason = spans ? TSR_REASON_NONE : TSR_REASON_GRAPH_NODE;
    for (size_t i = 0; i < count && !reason; i++) {
        uint32_t place = add_node(out, handles[i]);
        reason = place == UINT32_MAX ? TSR_REASON_GRAPH_NODE : read_node(out, place, depth);
        if (reason && place != UINT32_MAX)
            say_why(&out->all.data[place], reason);
        uint32_t last = (uint32_t)out->all.count - 1; /* of a child graph, its end */
        spans[i] = (struct span){.handle = handles[i], .begin = place, .end = last};
    }
    if (!reason) {
        qsort(spans, count, sizeof *spans, compare_spans);
        reason = read_edges(graph, out, spans, count);
    }
    free(spans);
    return reason;
}

static enum tsr_reason read_graph(CUgraph graph, struct tsr_nodes *out, uint32_t depth)
{
    size_t count = 0;
    if (tsr_real.cuGraphGetNodes(graph, NULL, &count) != CUDA_SUCCESS)
        return TSR_REASON_GRAPH_NODE;
    if (!count)
        return TSR_REASON_NONE;
    CUgraphNode *handles = calloc(count, sizeof *handles);
    enum tsr_reason reason = handles && tsr_real.cuGraphGetNodes(graph, handles, &count) == CUDA_SUCCESS
                                 ? read_all(graph, out, handles, count, depth)
                                 : TSR_REASON_GRAPH_NODE;
    free(handles);
    return reason;
}

void tsr_nodes_read(CUgraph graph, struct tsr_nodes *out)
{
    *out = (struct tsr_nodes){0};
    out->reason = read_graph(graph, out, 0);
}

/* ---- a child graph that changes ---- */

/* Its edges without those of its begin and end, from the `at`th on; NULL: there are no more. */
static const struct tsr_lane_edge *next_inside(const struct tsr_nodes *nodes, uint32_t begin, size_t *at)
{
    uint32_t end = nodes->all.data[begin].end;
    for (; *at < nodes->edges.count; ++*at) {
        const struct tsr_lane_edge *edge = &nodes->edges.data[*at];
        if (edge->from > begin && edge->from < end && edge->to > begin && edge->to < end)
            return &nodes->edges.data[(*at)++];
    }
    return NULL;
}

/* Nodes and edges in the same order: which of them is which is clear. */
static bool is_like_child(const struct tsr_nodes *nodes, uint32_t begin, const struct tsr_nodes *child)
{
    const struct tsr_lane_edge *edge;
    size_t at = 0, number = 0;
    bool same = child->all.count + begin + 1 == nodes->all.data[begin].end;
    for (size_t i = 0; i < child->all.count && same; i++) {
        const struct tsr_node *old = &nodes->all.data[begin + 1 + i], *node = &child->all.data[i];
        same = old->record.kind == node->record.kind && old->action.kind == node->action.kind &&
               tsr_node_same_attributes(old, node);
    }
    while (same && (edge = next_inside(nodes, begin, &at))) {
        same = number < child->edges.count && edge->from == begin + 1 + child->edges.data[number].from &&
               edge->to == begin + 1 + child->edges.data[number].to;
        number++;
    }
    return same && number == child->edges.count;
}

/* All but what it is called by, and where it is; `from` gets what was there. */
static void exchange(struct tsr_node *node, struct tsr_node *from, uint64_t version)
{
    struct tsr_node was = *node;
    *node = *from;
    *from = was;
    node->handle = was.handle;
    node->record.stream = was.record.stream;
    node->record.time = was.record.time;
    node->end = was.end;
    node->changed = version;
}

enum tsr_reason tsr_nodes_set_child(struct tsr_nodes *nodes, uint32_t place, CUgraph graph, uint64_t version)
{
    struct tsr_nodes child;
    tsr_nodes_read(graph, &child);
    bool same = !child.reason && (!child.context || child.context == nodes->context) && is_like_child(nodes, place, &child);
    for (size_t i = 0; i < child.all.count && same; i++)
        exchange(&nodes->all.data[place + 1 + i], &child.all.data[i], version);
    enum tsr_reason reason = child.reason ? child.reason : same ? TSR_REASON_NONE : TSR_REASON_GRAPH_NODE;
    tsr_nodes_fini(&child);
    return reason;
}
