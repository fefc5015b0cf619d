/*
 * Instantiated graphs (CUgraphExec), as the shim knows them: their nodes, what they touch as a whole, and their mirrors on executors. Known from
 * their instantiation on, in a process whose launches may run elsewhere under copies of memory; of others there is none, and they run at home.
 *
 * Whatever changes an instance in a way that is not reported here makes it *opaque*: it runs at home from then on, and brings all memory there first.
 * The application uses an instance in one thread at a time, as CUDA demands; what is kept here has a lock of its own nevertheless.
 */
#ifndef TSR_GRAPH_INSTANCE_H
#define TSR_GRAPH_INSTANCE_H

#include "api/driver.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <tessera/lane.h>

#include "graph/nodes.h"
#include "graph/union.h"
#include "memory/copies.h"
#include "object/registry.h"
#include "schedule/automatic.h"

#define TSR_INSTANCE_EXTENTS 1024u /* of a proof, besides its own */

struct tsr_stream;
struct tsr_stream_found;

/* What the result of examining an instance depends on, besides its nodes. */
struct tsr_instance_stamp {
    uint64_t version, addresses, modules, functions, home_only, templates;
};

struct tsr_instance {
    pthread_mutex_t lock;
    uint64_t id;      /* that executors know it by; never used again */
    uint64_t version; /* goes up with every change; from 1 on */
    struct tsr_nodes nodes;
    struct tsr_precedence precedence;
    uint64_t *by_handle; /* places of nodes, sorted by their handles */
    bool renamed;        /* it answers to other handles than these */
    bool call_changed;   /* a launch of a library call was changed alone: what was said of the call may not hold any more */
    bool switched;       /* a node may have been disabled: what an update makes of that is not known */
    bool stays_opaque;   /* whatever becomes of its nodes */
    bool taken;          /* atomic; the driver has launched it as it is now, and all that it does is seen in its stream alone */

    /* What it touches. */
    struct tsr_instance_stamp examined; /* when that was determined */
    enum tsr_reason reason;             /* why it cannot leave */
    bool known;                         /* what it touches is */
    uint32_t unknown;                   /* a node of which nothing was known; UINT32_MAX: none */
    tsr_union_touches touches;
    TSR_VEC(struct tsr_automatic_part) kernels; /* those that are not disabled; none where rules alone place launches */

    /* On executors, by lane. */
    struct {
        uint64_t version;                   /* that the executor has; 0: none */
        bool refused;                       /* it could not make it */
        struct tsr_instance_stamp examined; /* when `reason` was determined */
        enum tsr_reason reason;             /* why it cannot go there */
    } mirrors[TSR_LANES];

    /* The last launch. */
    CUstream handle;                 /* of its stream; NULL: there was none */
    const struct tsr_stream *stream; /* that stream's record; NULL: there is none */
    uint64_t generation;             /* of the record then */
    CUevent end;                     /* in that stream, behind the launch; NULL: not made yet */
    CUcontext context, end_context;  /* of the stream, NULL: not known; and in which the event was made */
    bool ended;                      /* it has been recorded */
    struct tsr_copies_proof proof;
    struct tsr_proof_extent *more; /* room for the proof's extents; NULL: it has none */
    struct tsr_instance_stamp proved;
    const struct tsr_lane_client *proved_on; /* NULL: home */

    /* The last launch that was deferred (shim/deferred.h). Atomic. */
    uint32_t ring;       /* 1 + the number of its ring; 0: there was none */
    uint64_t ring_entry; /* its number there */

    /* It is cut (parts.h). */
    struct {
        bool asked; /* whether it is to be cut; what that depends on: */
        struct tsr_instance_stamp examined;
        uint64_t owners;
        uint32_t count; /* 0: it is not cut */
        struct tsr_instance **all;
    } parts;
    struct tsr_node_action action; /* of a part: that home does there, in the place of nodes */
    CUgraphExec at_home;           /* of a part: that runs there; NULL: the application's own */

    struct tsr_function_record as_function; /* stands for it, where rules and times are by function */
};

/*
 * Atomic. The program has given a graph objects of its own, which the driver ends when the graph's last launch is done: its own last launch, so that graphs with any stay at
 * home. Which graphs have some nobody tells, so all that are made from then on do.
 */
extern bool tsr_graphs_have_objects __attribute__((visibility("hidden")));

/* One without nodes, which nobody knows. NULL: no memory. */
struct tsr_instance *tsr_instance_create(void);
void tsr_instance_destroy(struct tsr_instance *instance);

/* NULL: not known. */
struct tsr_instance *tsr_instance_find(CUgraphExec exec);

/* The driver has made it from the graph, or was asked to change it to what the graph is now. */
void tsr_instance_created(CUgraphExec exec, CUgraph graph, uint64_t flags);
void tsr_instance_update(CUgraphExec exec, CUgraph graph, CUresult result);
/* It is about to be destroyed. */
void tsr_instance_forget(CUgraphExec exec);

/* The driver has given a node new parameters, or switched it on or off; _opaque: otherwise changed the instance. */
void tsr_instance_set_kernel(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params);
void tsr_instance_set_copy(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D *params);
void tsr_instance_set_set(CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *params);
void tsr_instance_set_batch(CUgraphExec exec, CUgraphNode node, const CUDA_BATCH_MEM_OP_NODE_PARAMS *params);
void tsr_instance_set_child(CUgraphExec exec, CUgraphNode node, CUgraph child);
void tsr_instance_set_action(CUgraphExec exec, CUgraphNode node, const struct tsr_node_action *action);
void tsr_instance_switch(CUgraphExec exec, CUgraphNode node, bool enabled);
void tsr_instance_opaque(CUgraphExec exec);

/* Visits all that the application has. */
void tsr_instances_each(void (*visit)(struct tsr_instance *instance, void *argument), void *argument);

/* The driver has launched it. */
void tsr_instance_note_taken(CUgraphExec exec);

/* A module is being unloaded: graphs with its functions become opaque. */
void tsr_instances_unload(struct tsr_module_record *module);

/* The rest with the instance's lock held. */

struct tsr_instance_stamp tsr_instance_stamp_now(const struct tsr_instance *instance);
static inline bool tsr_instance_same_stamp(const struct tsr_instance_stamp *one, const struct tsr_instance_stamp *other)
{
    return __builtin_memcmp(one, other, sizeof *one) == 0;
}

/* Determines `known`, `touches` and `reason` anew if anything has changed. stream: that it is to be launched in. */
void tsr_instance_examine_locked(struct tsr_instance *instance, CUstream stream, const struct tsr_stream_found *place);

/*
 * What a node touches: the number of touches, which are in `few` or are valid until the thread asks again, after tsr_instance_examine_locked.
 * -1: it is not known.
 */
int32_t tsr_instance_node_touches(const struct tsr_instance *instance, uint32_t node, CUstream stream,
                                  const struct tsr_stream_found *place, struct tsr_touch few[2],
                                  const struct tsr_touch **touches);

/*
 * Makes the lane's executor have the instance as it is now. *reason: why it cannot go there; NONE: it can. Errors: those of an executor
 * that has failed.
 */
CUresult tsr_instance_mirror_locked(struct tsr_instance *instance, struct tsr_lane_client *lane, enum tsr_reason *reason);

#endif
