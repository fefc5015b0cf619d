/* Nodes of graphs from records of a lane (struct tsr_lane_graph), as the driver takes them: for executors, and for the shim at home. */
#ifndef TESSERA_CARRY_GRAPH_NODE_H
#define TESSERA_CARRY_GRAPH_NODE_H

#include "carry/carry.h"

/* Points into itself, and into the node's data. */
struct tsr_carry_kernel_node {
    CUDA_KERNEL_NODE_PARAMS params;
    struct tsr_carry_parameters parameters;
};

/* data: what stands behind the record. */
void tsr_carry_kernel_node(const struct tsr_carry_function *of, const struct tsr_lane_record *record, const void *data,
                           struct tsr_carry_kernel_node *out);
CUDA_MEMCPY3D tsr_carry_copy_node(const void *data);
CUDA_MEMSET_NODE_PARAMS tsr_carry_set_node(const void *data);

/* A kernel's attributes; their number. */
uint32_t tsr_carry_node_attributes(const struct tsr_lane_record *record, const void *data, const CUlaunchAttribute **out);

#endif
