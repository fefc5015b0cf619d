/*
 * What library calls say of launches that are captured, kept for the graphs that these become part of: a launch in a graph is in no call any more.
 * Found by the node that the launch became, or else by what it is (function, shape, parameters), which a kernel node still says when its graph was
 * cloned or put into another one. A kernel may follow pointers in memory, so one and the same launch in different calls touches what any of them says:
 * the layers of a model hand their products' parts to the same reduction at the same addresses, and only nodes tell whose weights belong to which.
 *
 * Drivers reuse nodes' handles, so those of all graphs are forgotten whenever a graph is destroyed or changed: graphs are instantiated before.
 *
 * What a call overwrites, or uses as scratch, is that for all its launches together: it holds in a graph that has them as they were captured.
 */
#ifndef TSR_LAUNCH_CAPTURED_CALLS_H
#define TSR_LAUNCH_CAPTURED_CALLS_H

#include "api/driver.h"

#include <stdint.h>

#include "launch/call_ranges.h"

struct tsr_launch;
struct tsr_function_record;

struct tsr_captured_call {
    struct tsr_library_operands operands; /* not changed any more */
    uint32_t references;                  /* atomic */
};

/* The launch, whose function is known, is about to be captured. */
void tsr_captured_call_keep(const struct tsr_launch *launch);
/* It has been; its call has not been told of it yet. */
void tsr_captured_call_keep_node(const struct tsr_launch *launch);
/* Nodes' handles may be given to others. */
void tsr_captured_nodes_forget(void);
/* The program takes a node from a graph, or makes it another launch. */
void tsr_captured_nodes_change(void);

/* What was said of such a launch; NULL: nothing is known. Valid until it is put back. */
struct tsr_captured_shape {
    const struct tsr_function_record *function;
    uint32_t grid[3], block[3], shared_bytes, bytes;
    const void *parameters; /* `bytes` of them */
    CUgraphNode node;       /* of a graph that is being read; NULL: any that launches this */
};
const struct tsr_captured_call *tsr_captured_call_get(const struct tsr_captured_shape *shape);
void tsr_captured_call_share(const struct tsr_captured_call *call); /* one more will put it back */
void tsr_captured_call_put(const struct tsr_captured_call *call);

#endif
