/*
 * Parameters of graph nodes as the application gives and reads them, to and from work. Making work validates as the corresponding call on
 * a stream would; on success the caller owns it.
 */
#ifndef TSR_ENTRY_GRAPH_PARAMS_H
#define TSR_ENTRY_GRAPH_PARAMS_H

#include "api/driver.h"

#include "../stream/graph.h"

CUresult tsr_kernel_work(const CUDA_KERNEL_NODE_PARAMS_v3 *params, struct tsr_work *out);
CUresult tsr_memcpy_work(const CUDA_MEMCPY3D *params, CUcontext context, struct tsr_work *out);
CUresult tsr_memset_work(const CUDA_MEMSET_NODE_PARAMS_v1 *params, CUcontext context, struct tsr_work *out);
CUresult tsr_host_work(CUhostFn fn, void *data, struct tsr_work *out);
CUresult tsr_event_work(CUevent event, enum tsr_work_kind kind, struct tsr_work *out);
CUresult tsr_values_work(const CUDA_BATCH_MEM_OP_NODE_PARAMS_v1 *params, struct tsr_work *out);
/* A visible copy of the graph. */
CUresult tsr_child_work(CUgraph graph, struct tsr_work *out);
/* By params->type. NOT_SUPPORTED for kinds that graphs here do not have. */
CUresult tsr_node_work(const CUgraphNodeParams *params, struct tsr_work *out);

/* Under the engine's lock. What it points to belongs to the node. */
CUresult tsr_kernel_params_locked(struct tsr_graph_node *node, CUDA_KERNEL_NODE_PARAMS_v3 *out);

#endif
