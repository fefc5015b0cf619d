/*
 * The nodes of a graph that is being instantiated, as records of a lane (tessera/lane.h): what an executor needs to make the graph once more. Child
 * graphs are flattened: an empty node, their own nodes, another empty node. A graph with a node that no record can describe has a reason instead,
 * and runs at home.
 *
 * Records describe kernels, memsets, empty nodes, and copies between device memory and page-locked memory that executors have. Events, host
 * functions and memory operations that wait for nothing are *actions*, which only home can do, between the parts of a graph that others run
 * (parts.h). Neither is possible for other memory operations (what they wait for may come from a branch that would have to come after them),
 * conditional nodes, memory that graphs allocate, semaphores, kernels that other kernels may change, and whatever a newer driver has. Nodes with a
 * programmatic dependency between them wait for each other's end instead.
 */
#ifndef TSR_GRAPH_NODES_H
#define TSR_GRAPH_NODES_H

#include "api/driver.h"

#include <stdbool.h>
#include <stdint.h>

#include <tessera/lane.h>
#include <tessera/records.h>

#include "base/vec.h"
#include "memory/copies.h"

struct tsr_captured_call;
struct tsr_function_record;

enum tsr_node_action_kind { TSR_NODE_ACTS_NOT, TSR_NODE_RECORDS, TSR_NODE_WAITS, TSR_NODE_CALLS, TSR_NODE_WRITES };

struct tsr_node_action {
    enum tsr_node_action_kind kind;
    CUevent event; /* that is recorded, or waited for */
    CUDA_HOST_NODE_PARAMS host;
    uint32_t count; /* of operations */
};

struct tsr_node {
    CUgraphNode handle;            /* in the graph that it was read from; NULL: the begin or end of a child graph */
    struct tsr_lane_record record; /* of the kinds that a struct tsr_lane_graph has */
    uint8_t *data; /* after it; NULL: nothing. Of an action that writes: its operations (CUstreamBatchMemOpParams) */
    struct tsr_node_action action;
    uint32_t end; /* of the begin of a child graph: the place of its end, after its nodes; 0: it is none */
    /* Of a kernel: */
    struct tsr_function_record *function;
    CUfunction launched;                  /* the handle: a CUfunction or a CUkernel */
    bool by_kernel;                       /* it is a CUkernel that the driver knows as such */
    const struct tsr_captured_call *call; /* the library call that it was captured in; NULL: none is known */
    uint64_t changed;                     /* the instance's version when it changed last */
};

struct tsr_nodes {
    TSR_VEC(struct tsr_node) all;
    TSR_VEC(struct tsr_lane_edge) edges;
    CUcontext context; /* of all kernels; NULL: there are none */
    uint32_t actions;  /* nodes that are one */
    enum tsr_reason reason;
};

/* The nodes of a graph that the driver has just instantiated, in the current context. */
void tsr_nodes_read(CUgraph graph, struct tsr_nodes *out);
void tsr_nodes_fini(struct tsr_nodes *nodes);

/* New parameters for a node, which the driver has taken. The result is why the graph stays home from now on, or NONE. */
enum tsr_reason tsr_node_set_kernel(struct tsr_nodes *nodes, struct tsr_node *node, const CUDA_KERNEL_NODE_PARAMS *params);
enum tsr_reason tsr_node_set_copy(struct tsr_node *node, const CUDA_MEMCPY3D *params);
/* The child graph whose begin is at the place does what `child` says, which the driver has taken. version: of the nodes that change. */
enum tsr_reason tsr_nodes_set_child(struct tsr_nodes *nodes, uint32_t place, CUgraph child, uint64_t version);
enum tsr_reason tsr_node_set_set(struct tsr_node *node, const CUDA_MEMSET_NODE_PARAMS *params);
/* Of a copy or memset: why executors cannot do it, as memory is mapped now. */
enum tsr_reason tsr_node_reason_to_move(const struct tsr_node *node);

enum tsr_reason tsr_node_set_batch(struct tsr_node *node, const CUDA_BATCH_MEM_OP_NODE_PARAMS *params);

/* A kernel node's parameters and attributes. */
static inline uint32_t tsr_node_block_bytes(const struct tsr_node *node)
{
    return node->record.value ? (uint32_t)(node->record.value >> 32) : node->record.param_bytes;
}
static inline const CUlaunchAttribute *tsr_node_attributes(const struct tsr_node *node, uint32_t *count)
{
    *count = (uint32_t)node->record.value;
    return *count ? (const CUlaunchAttribute *)(const void *)(node->data + (tsr_node_block_bytes(node) + 7) / 8 * 8) : NULL;
}

bool tsr_node_same_attributes(const struct tsr_node *one, const struct tsr_node *other);

/* What a copy or memset touches; 0: the node is neither. */
uint32_t tsr_node_touches(const struct tsr_node *node, struct tsr_touch out[2]);

#endif
