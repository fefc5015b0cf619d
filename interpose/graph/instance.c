/* See instance.h. Making, changing and forgetting instances. */
#include "graph/instance.h"

#include <string.h>

#include "base/fork.h"
#include "base/map.h"
#include "driver/engaged.h"
#include "driver/real.h"
#include "graph/mirror.h"
#include "graph/parts.h"
#include "object/session.h"

bool tsr_graphs_have_objects;
static struct tsr_map instances; /* CUgraphExec to struct tsr_instance */
static uint64_t instance_count;  /* atomic; so far */

static uint64_t key_of(CUgraphExec exec)
{
    return (uint64_t)(uintptr_t)exec;
}

struct tsr_instance *tsr_instance_find(CUgraphExec exec)
{
    return exec ? tsr_map_find(&instances, key_of(exec)) : NULL;
}

static void forget_parent(void)
{
    instances = (struct tsr_map){0}; /* the parent's; no lock of it can be taken */
}

static const struct tsr_fork_listener forks = {.in_child = forget_parent};

static int compare_handles(const void *one, const void *other, void *argument)
{
    const struct tsr_nodes *nodes = argument;
    uintptr_t a = (uintptr_t)nodes->all.data[*(const uint64_t *)one].handle;
    uintptr_t b = (uintptr_t)nodes->all.data[*(const uint64_t *)other].handle;
    return (a > b) - (a < b);
}

static struct tsr_node *node_of(const struct tsr_instance *instance, CUgraphNode handle)
{
    size_t low = 0, high = instance->nodes.all.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        struct tsr_node *node = &instance->nodes.all.data[instance->by_handle[middle]];
        if (node->handle == handle)
            return node;
        if ((uintptr_t)node->handle < (uintptr_t)handle)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

static void empty(struct tsr_instance *instance)
{
    tsr_nodes_fini(&instance->nodes);
    tsr_precedence_fini(&instance->precedence);
    free(instance->by_handle);
    instance->by_handle = NULL;
    instance->nodes = (struct tsr_nodes){0};
}

/* Its nodes, from a graph. */
static void fill(struct tsr_instance *instance, CUgraph graph)
{
    struct tsr_nodes *nodes = &instance->nodes;
    tsr_nodes_read(graph, nodes);
    size_t count = nodes->all.count;
    if (!nodes->reason &&
        !tsr_precedence_init(&instance->precedence, (uint32_t)count, nodes->edges.data, (uint32_t)nodes->edges.count))
        nodes->reason = TSR_REASON_GRAPH_NODE;
    instance->by_handle = nodes->reason ? NULL : calloc(count + 1, sizeof *instance->by_handle);
    if (!nodes->reason && !instance->by_handle)
        nodes->reason = TSR_REASON_GRAPH_NODE;
    for (size_t i = 0; i < count && !nodes->reason; i++)
        instance->by_handle[i] = i;
    if (!nodes->reason)
        qsort_r(instance->by_handle, count, sizeof *instance->by_handle, compare_handles, nodes);
    for (size_t i = 0; i < count; i++)
        nodes->all.data[i].changed = instance->version;
}

static bool are_wanted(void)
{
    const struct tsr_session *session = tsr_session();
    return tsr_has_role(TSR_REDIRECTING) && session->lane_count && tsr_copies_are_on();
}

void tsr_instance_destroy(struct tsr_instance *instance)
{
    tsr_parts_drop(instance);
    if (instance->end)
        tsr_real.cuEventDestroy_v2(instance->end);
    tsr_mirrors_drop(instance);
    empty(instance);
    tsr_vec_fini(&instance->touches);
    tsr_vec_fini(&instance->kernels);
    free(instance->more);
    pthread_mutex_destroy(&instance->lock);
    free(instance);
}

struct tsr_instance *tsr_instance_create(void)
{
    struct tsr_instance *made = calloc(1, sizeof *made);
    if (!made)
        return NULL;
    pthread_mutex_init(&made->lock, NULL);
    made->version = 1;
    made->unknown = UINT32_MAX;
    made->id = __atomic_add_fetch(&instance_count, 1, __ATOMIC_RELAXED);
    made->as_function.decide.noted = true;  /* it has no name to be found by */
    made->as_function.name_hash = made->id; /* of which a rule draws its share */
    return made;
}

void tsr_instance_created(CUgraphExec exec, CUgraph graph, uint64_t flags)
{
    if (!are_wanted())
        return;
    tsr_fork_listen(&forks);
    tsr_instance_forget(exec);
    struct tsr_instance *made = tsr_instance_create();
    if (!made)
        return;
    fill(made, graph);
    made->stays_opaque = flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH || /* kernels may launch it */
                         __atomic_load_n(&tsr_graphs_have_objects, __ATOMIC_ACQUIRE);
    if (!tsr_map_set(&instances, key_of(exec), made))
        tsr_instance_destroy(made);
}

void tsr_instance_forget(CUgraphExec exec)
{
    struct tsr_instance *known = tsr_instance_find(exec) ? tsr_map_remove(&instances, key_of(exec)) : NULL;
    if (known)
        tsr_instance_destroy(known);
}

static void change_locked(struct tsr_instance *instance)
{
    instance->version++;
    __atomic_store_n(&instance->taken, false, __ATOMIC_RELEASE);
}

static void become_opaque_locked(struct tsr_instance *instance, enum tsr_reason reason)
{
    change_locked(instance);
    instance->nodes.reason = reason;
}

void tsr_instance_opaque(CUgraphExec exec)
{
    struct tsr_instance *instance = tsr_instance_find(exec);
    if (!instance)
        return;
    pthread_mutex_lock(&instance->lock);
    become_opaque_locked(instance, TSR_REASON_GRAPH_NODE);
    pthread_mutex_unlock(&instance->lock);
}

static bool is_like(const struct tsr_node *one, const struct tsr_node *other)
{
    const struct tsr_lane_record *a = &one->record, *b = &other->record;
    return a->kind == b->kind && a->function == b->function && a->value == b->value && a->param_bytes == b->param_bytes &&
           a->shared_bytes == b->shared_bytes && a->time == b->time && memcmp(a->grid, b->grid, sizeof a->grid) == 0 &&
           memcmp(a->block, b->block, sizeof a->block) == 0 &&
           (!a->param_bytes || memcmp(one->data, other->data, a->param_bytes) == 0);
}

/* Whether executors can change what they have into this, node by node. */
static bool has_shape_of(const struct tsr_nodes *one, const struct tsr_nodes *other)
{
    bool same =
        one->all.count == other->all.count && one->edges.count == other->edges.count && one->context == other->context &&
        (!one->edges.count || memcmp(one->edges.data, other->edges.data, one->edges.count * sizeof one->edges.data[0]) == 0);
    for (size_t i = 0; i < one->all.count && same; i++)
        same = one->all.data[i].record.kind == other->all.data[i].record.kind &&
               tsr_node_same_attributes(&one->all.data[i], &other->all.data[i]);
    return same;
}

static bool has_handles_of(const struct tsr_nodes *one, const struct tsr_nodes *other)
{
    for (size_t i = 0; i < one->all.count; i++)
        if (one->all.data[i].handle != other->all.data[i].handle)
            return false;
    return true;
}

/*
 * The driver matches nodes by the shape of the graphs. The instance keeps answering to the nodes of its first graph: if this one
 * lists its nodes in another order, it cannot be said which node is which when the application changes one.
 */
static void take_over_locked(struct tsr_instance *instance, struct tsr_instance *from)
{
    bool same = !instance->nodes.reason && !from->nodes.reason && has_shape_of(&instance->nodes, &from->nodes);
    bool named = same && has_handles_of(&instance->nodes, &from->nodes);
    for (size_t i = 0; i < from->nodes.all.count && same; i++) {
        const struct tsr_node *before = &instance->nodes.all.data[i];
        struct tsr_node *node = &from->nodes.all.data[i];
        node->changed = is_like(before, node) ? before->changed : instance->version;
    }
    if (!same)
        tsr_mirrors_drop(instance);
    struct tsr_nodes nodes = instance->nodes;
    struct tsr_precedence precedence = instance->precedence;
    uint64_t *by_handle = instance->by_handle;
    instance->nodes = from->nodes;
    instance->precedence = from->precedence;
    instance->by_handle = from->by_handle;
    instance->renamed |= !named;
    from->nodes = nodes;
    from->precedence = precedence;
    from->by_handle = by_handle;
}

void tsr_instance_update(CUgraphExec exec, CUgraph graph, CUresult result)
{
    struct tsr_instance *instance = tsr_instance_find(exec);
    if (!instance)
        return;
    if (result != CUDA_SUCCESS) { /* some nodes may have been changed */
        tsr_instance_opaque(exec);
        return;
    }
    pthread_mutex_lock(&instance->lock);
    instance->stays_opaque |= instance->switched || __atomic_load_n(&tsr_graphs_have_objects, __ATOMIC_ACQUIRE);
    instance->call_changed = false;
    change_locked(instance);
    struct tsr_instance from = {.version = instance->version};
    fill(&from, graph);
    take_over_locked(instance, &from);
    empty(&from);
    pthread_mutex_unlock(&instance->lock);
}

/* The instance, locked, and its node; NULL: there is none that could be changed. */
static struct tsr_instance *begin(CUgraphExec exec, CUgraphNode handle, struct tsr_node **node)
{
    struct tsr_instance *instance = tsr_instance_find(exec);
    if (!instance)
        return NULL;
    pthread_mutex_lock(&instance->lock);
    change_locked(instance);
    *node = instance->nodes.reason || instance->renamed ? NULL : node_of(instance, handle);
    if (*node) {
        (*node)->changed = instance->version;
        return instance;
    }
    if (!instance->nodes.reason)
        become_opaque_locked(instance, TSR_REASON_GRAPH_NODE);
    pthread_mutex_unlock(&instance->lock);
    return NULL;
}

static void end(struct tsr_instance *instance, enum tsr_reason reason)
{
    if (reason)
        become_opaque_locked(instance, reason);
    pthread_mutex_unlock(&instance->lock);
}

void tsr_instance_set_kernel(CUgraphExec exec, CUgraphNode handle, const CUDA_KERNEL_NODE_PARAMS *params)
{
    struct tsr_node *node;
    struct tsr_instance *instance = begin(exec, handle, &node);
    if (!instance)
        return;
    instance->call_changed |= node->call != NULL;
    enum tsr_reason reason = node->function ? tsr_node_set_kernel(&instance->nodes, node, params) : TSR_REASON_GRAPH_NODE;
    instance->call_changed |= node->call != NULL; /* it has become one of another call, which is not here as a whole */
    end(instance, reason);
}

void tsr_instance_set_copy(CUgraphExec exec, CUgraphNode handle, const CUDA_MEMCPY3D *params)
{
    struct tsr_node *node;
    struct tsr_instance *instance = begin(exec, handle, &node);
    if (instance)
        end(instance, node->record.kind == TSR_LANE_COPY ? tsr_node_set_copy(node, params) : TSR_REASON_GRAPH_NODE);
}

void tsr_instance_set_set(CUgraphExec exec, CUgraphNode handle, const CUDA_MEMSET_NODE_PARAMS *params)
{
    struct tsr_node *node;
    struct tsr_instance *instance = begin(exec, handle, &node);
    if (instance)
        end(instance, node->record.kind == TSR_LANE_SET ? tsr_node_set_set(node, params) : TSR_REASON_GRAPH_NODE);
}

void tsr_instance_set_batch(CUgraphExec exec, CUgraphNode handle, const CUDA_BATCH_MEM_OP_NODE_PARAMS *params)
{
    struct tsr_node *node;
    struct tsr_instance *instance = begin(exec, handle, &node);
    if (instance)
        end(instance, node->action.kind == TSR_NODE_WRITES ? tsr_node_set_batch(node, params) : TSR_REASON_GRAPH_NODE);
}

/* Its library calls are as they were captured: all launches of each have been changed. */
void tsr_instance_set_child(CUgraphExec exec, CUgraphNode handle, CUgraph child)
{
    struct tsr_node *node;
    struct tsr_instance *instance = begin(exec, handle, &node);
    if (instance)
        end(instance, node->end ? tsr_nodes_set_child(&instance->nodes, node->record.stream, child, instance->version)
                                : TSR_REASON_GRAPH_NODE);
}

void tsr_instance_set_action(CUgraphExec exec, CUgraphNode handle, const struct tsr_node_action *action)
{
    struct tsr_node *node;
    struct tsr_instance *instance = begin(exec, handle, &node);
    if (!instance)
        return;
    bool same = node->action.kind == action->kind;
    if (same)
        node->action = *action;
    end(instance, same ? TSR_REASON_NONE : TSR_REASON_GRAPH_NODE);
}

void tsr_instance_switch(CUgraphExec exec, CUgraphNode handle, bool enabled)
{
    struct tsr_node *node;
    struct tsr_instance *instance = tsr_instance_find(exec);
    if (instance)
        instance->switched = true; /* the application's thread alone changes it */
    if (!(instance = begin(exec, handle, &node)))
        return;
    instance->call_changed |= node->call != NULL;
    node->record.time = !enabled;
    end(instance, node->record.kind == TSR_LANE_SKIP ? TSR_REASON_GRAPH_NODE : TSR_REASON_NONE);
}

static void leave_module(struct tsr_instance *instance, void *module)
{
    pthread_mutex_lock(&instance->lock);
    bool uses = false;
    for (size_t i = 0; i < instance->nodes.all.count && !uses; i++)
        uses = instance->nodes.all.data[i].function && instance->nodes.all.data[i].function->module == module;
    if (uses) {
        tsr_parts_drop(instance);
        tsr_mirrors_drop(instance);
        empty(instance);
        instance->stays_opaque = true;
        become_opaque_locked(instance, TSR_REASON_MODULE);
    }
    pthread_mutex_unlock(&instance->lock);
}

void tsr_instance_note_taken(CUgraphExec exec)
{
    struct tsr_instance *instance = tsr_instance_find(exec);
    if (!instance || __atomic_load_n(&instance->taken, __ATOMIC_ACQUIRE))
        return;
    pthread_mutex_lock(&instance->lock);
    if (!instance->nodes.reason && !instance->nodes.actions && !instance->stays_opaque)
        __atomic_store_n(&instance->taken, true, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&instance->lock);
}

struct visit {
    void (*function)(struct tsr_instance *instance, void *argument);
    void *argument;
};

static void visit(uint64_t exec, void *instance, void *argument)
{
    const struct visit *visit = argument;
    (void)exec;
    visit->function(instance, visit->argument);
}

void tsr_instances_each(void (*function)(struct tsr_instance *instance, void *argument), void *argument)
{
    struct visit each = {function, argument};
    tsr_map_each(&instances, visit, &each);
}

void tsr_instances_unload(struct tsr_module_record *module)
{
    if (are_wanted())
        tsr_instances_each(leave_module, module);
}
