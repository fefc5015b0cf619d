/* See at_home.h. */
#include "graph/at_home.h"

#include "carry/graph_node.h"
#include "driver/real.h"
#include "object/registry.h"

static CUresult add_kernel(const struct tsr_node *node, CUgraph graph, CUgraphNode *out)
{
    struct tsr_carry_kernel_node kernel;
    size_t offsets[TSR_CARRY_PARAMETERS];
    const CUlaunchAttribute *attributes;
    const struct tsr_parameters *parameters = &node->function->parameters;
    bool listed = parameters->all && parameters->count <= TSR_CARRY_PARAMETERS;
    for (uint32_t i = 0; listed && i < parameters->count; i++)
        offsets[i] = parameters->all[i].offset;
    struct tsr_carry_function of = {.function = node->by_kernel ? NULL : node->launched,
                                    .bytes = listed ? parameters->bytes : 0,
                                    .count = listed ? parameters->count : 0,
                                    .offsets = offsets};
    tsr_carry_kernel_node(&of, &node->record, node->data, &kernel);
    if (node->by_kernel)
        kernel.params.kern = (CUkernel)node->launched;
    CUresult result = tsr_real.cuGraphAddKernelNode_v2(out, graph, NULL, 0, &kernel.params);
    uint32_t count = tsr_carry_node_attributes(&node->record, node->data, &attributes);
    for (uint32_t i = 0; i < count && result == CUDA_SUCCESS; i++)
        result = tsr_real.cuGraphKernelNodeSetAttribute(*out, attributes[i].id, &attributes[i].value);
    return result;
}

static CUresult add_node(const struct tsr_node *node, CUgraph graph, CUcontext context, CUgraphNode *out)
{
    switch (node->record.kind) {
    case TSR_LANE_LAUNCH:
        return add_kernel(node, graph, out);
    case TSR_LANE_COPY: {
        CUDA_MEMCPY3D copy = tsr_carry_copy_node(node->data);
        return tsr_real.cuGraphAddMemcpyNode(out, graph, NULL, 0, &copy, context);
    }
    case TSR_LANE_SET: {
        CUDA_MEMSET_NODE_PARAMS set = tsr_carry_set_node(node->data);
        return tsr_real.cuGraphAddMemsetNode(out, graph, NULL, 0, &set, context);
    }
    default:
        return tsr_real.cuGraphAddEmptyNode(out, graph, NULL, 0);
    }
}

static CUresult add_all(const struct tsr_nodes *nodes, CUgraph graph, CUgraphNode *made)
{
    CUcontext context;
    CUresult result = tsr_real.cuCtxGetCurrent(&context);
    for (size_t i = 0; i < nodes->all.count && result == CUDA_SUCCESS; i++)
        result = add_node(&nodes->all.data[i], graph, context, &made[i]);
    for (size_t i = 0; i < nodes->edges.count && result == CUDA_SUCCESS; i++)
        result = tsr_real.cuGraphAddDependencies(graph, &made[nodes->edges.data[i].from], &made[nodes->edges.data[i].to], 1);
    return result;
}

static CUresult switch_off(const struct tsr_nodes *nodes, const CUgraphNode *made, CUgraphExec exec)
{
    CUresult result = CUDA_SUCCESS;
    for (size_t i = 0; i < nodes->all.count && result == CUDA_SUCCESS; i++)
        if (nodes->all.data[i].record.time)
            result = tsr_real.cuGraphNodeSetEnabled(exec, made[i], 0);
    return result;
}

CUresult tsr_nodes_instantiate(const struct tsr_nodes *nodes, CUgraphExec *out)
{
    CUgraph graph;
    CUgraphExec exec = NULL;
    CUgraphNode *made = calloc(nodes->all.count + 1, sizeof *made);
    CUresult result = made ? tsr_real.cuGraphCreate(&graph, 0) : CUDA_ERROR_OUT_OF_MEMORY;
    if (result != CUDA_SUCCESS) {
        free(made);
        return result;
    }
    result = add_all(nodes, graph, made);
    if (result == CUDA_SUCCESS)
        result = tsr_real.cuGraphInstantiateWithFlags(&exec, graph, 0);
    if (result == CUDA_SUCCESS)
        result = switch_off(nodes, made, exec);
    if (result == CUDA_SUCCESS)
        *out = exec;
    else if (exec)
        tsr_real.cuGraphExecDestroy(exec);
    tsr_real.cuGraphDestroy(graph);
    free(made);
    return result;
}
