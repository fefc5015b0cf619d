/* See instance.h. What an instance touches: of each kernel what is known of such a launch (launch/touches.h), of copies and memsets what they say. */
#include "graph/instance.h"

#include <string.h>

#include "base/demangle.h"
#include "base/log.h"
#include "launch/captured_calls.h"
#include "launch/launch.h"
#include "launch/touches.h"
#include "lane/functions.h"
#include "lane/streams.h"
#include "memory/address_map.h"
#include "memory/home_only.h"
#include "object/templates.h"

struct tsr_instance_stamp tsr_instance_stamp_now(const struct tsr_instance *instance)
{
    uint64_t published = __atomic_load_n(tsr_templates_published, __ATOMIC_ACQUIRE);
    uint64_t distrusted = __atomic_load_n(&tsr_templates_distrusted, __ATOMIC_ACQUIRE);
    return (struct tsr_instance_stamp){.version = instance->version,
                                       .addresses = __atomic_load_n(&tsr_address_changes, __ATOMIC_ACQUIRE),
                                       .modules = tsr_registry_epoch(),
                                       .functions = __atomic_load_n(&tsr_function_changes, __ATOMIC_ACQUIRE),
                                       .home_only = tsr_home_only_changes(),
                                       .templates = published << 32 | (uint32_t)(distrusted + tsr_calls_distrusted())};
}

static const struct tsr_touches *kernel_touches(const struct tsr_instance *instance, const struct tsr_node *node,
                                                CUstream stream, const struct tsr_stream_found *found)
{
    static const struct tsr_library_operands no_call = {.count = -1};
    const struct tsr_lane_record *record = &node->record;
    struct tsr_gathered gathered;
    gathered.done = true;
    gathered.bytes = tsr_node_block_bytes(node);
    if (gathered.bytes)
        memcpy(gathered.values, node->data, gathered.bytes);
    struct tsr_launch launch = {.function = node->launched,
                                .grid = {record->grid[0], record->grid[1], record->grid[2]},
                                .block = {record->block[0], record->block[1], record->block[2]},
                                .shared_bytes = record->shared_bytes,
                                .stream = stream,
                                .known = node->function,
                                .gathered = &gathered,
                                .call = node->call && !instance->call_changed ? &node->call->operands : &no_call,
                                .place = *found};
    return tsr_touches_of(&launch);
}

int32_t tsr_instance_node_touches(const struct tsr_instance *instance, uint32_t place, CUstream stream,
                                  const struct tsr_stream_found *found, struct tsr_touch few[2],
                                  const struct tsr_touch **touches)
{
    const struct tsr_node *node = &instance->nodes.all.data[place];
    *touches = few;
    if (node->record.time) /* disabled */
        return 0;
    if (node->record.kind != TSR_LANE_LAUNCH)
        return (int32_t)tsr_node_touches(node, few);
    const struct tsr_touches *all = kernel_touches(instance, node, stream, found);
    *touches = all ? all->all : NULL;
    return all ? (int32_t)all->count : -1;
}

/* For who places launches, which has to expect some time of it. Without memory it expects none. */
static void add_kernel(struct tsr_instance *instance, const struct tsr_node *node, const struct tsr_touch *touches,
                       uint32_t count)
{
    const struct tsr_lane_record *record = &node->record;
    if (!tsr_automatic_is_on || record->kind != TSR_LANE_LAUNCH || record->time ||
        !tsr_vec_reserve(&instance->kernels, instance->kernels.count + 1))
        return;
    struct tsr_automatic_part part = {.function = node->function,
                                      .grid = {record->grid[0], record->grid[1], record->grid[2]},
                                      .block = {record->block[0], record->block[1], record->block[2]},
                                      .shared_bytes = record->shared_bytes};
    for (uint32_t i = 0; i < count; i++)
        part.bytes += touches[i].end - touches[i].first;
    instance->kernels.data[instance->kernels.count++] = part;
}

/* False: what it touches is not known. */
static bool add_node(struct tsr_union *all, struct tsr_instance *instance, uint32_t place, CUstream stream,
                     const struct tsr_stream_found *found)
{
    struct tsr_touch few[2];
    const struct tsr_touch *touches;
    int32_t count = tsr_instance_node_touches(instance, place, stream, found, few, &touches);
    if (count < 0)
        return false;
    add_kernel(instance, &instance->nodes.all.data[place], touches, (uint32_t)count);
    return tsr_union_add(all, place, touches, (uint32_t)count);
}

static void say_unknown(const struct tsr_instance *instance)
{
    uint32_t count = instance->nodes.all.count;
    const struct tsr_function_record *function =
        instance->unknown < count ? instance->nodes.all.data[instance->unknown].function : NULL;
    if (function)
        tsr_info("a graph of %u nodes has a kernel of which it is not known what it touches: %s", count,
                 function->name ? TSR_KERNEL_NAME(function->name) : "(unknown)");
    else
        tsr_info("a graph of %u nodes touches more ranges than are told apart", count);
}

static bool find_touches(struct tsr_instance *instance, CUstream stream, const struct tsr_stream_found *found)
{
    struct tsr_union all = {.precedence = &instance->precedence};
    bool known = true;
    tsr_vec_clear(&instance->touches);
    tsr_vec_clear(&instance->kernels);
    instance->unknown = UINT32_MAX;
    for (uint32_t i = 0; i < instance->precedence.count && known; i++) {
        known = add_node(&all, instance, instance->precedence.order[i], stream, found);
        if (!known)
            instance->unknown = instance->precedence.order[i];
    }
    known = known && tsr_union_touches_of(&all, &instance->touches);
    tsr_union_fini(&all);
    if (!known)
        say_unknown(instance);
    return known;
}

/* The node of which nothing was known the last time comes first. */
static bool is_still_unknown(struct tsr_instance *instance, CUstream stream, const struct tsr_stream_found *found)
{
    struct tsr_union all = {.precedence = &instance->precedence};
    if (instance->unknown >= instance->nodes.all.count)
        return false;
    bool known = add_node(&all, instance, instance->unknown, stream, found);
    tsr_union_fini(&all);
    return !known;
}

/* Kernels' variables are those of their context. */
static bool is_in_its_context(const struct tsr_instance *instance, const struct tsr_stream_found *found)
{
    return !instance->nodes.context ||
           (found->stream && __atomic_load_n(&found->stream->context, __ATOMIC_RELAXED) == instance->nodes.context);
}

void tsr_instance_examine_locked(struct tsr_instance *instance, CUstream stream, const struct tsr_stream_found *found)
{
    struct tsr_instance_stamp now = tsr_instance_stamp_now(instance);
    if (instance->known && tsr_instance_same_stamp(&instance->examined, &now))
        return;
    instance->known = false;
    instance->reason = instance->nodes.reason;
    if ((instance->stays_opaque || instance->nodes.actions) && !instance->reason)
        instance->reason = TSR_REASON_GRAPH_NODE; /* as a whole */
    if (instance->reason)
        return;
    instance->reason = TSR_REASON_RANGES;
    if (!is_in_its_context(instance, found) || is_still_unknown(instance, stream, found))
        return;
    instance->known = find_touches(instance, stream, found);
    instance->reason = instance->known ? TSR_REASON_NONE : TSR_REASON_RANGES;
    instance->examined = now;
}
