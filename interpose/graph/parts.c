/* See parts.h. */
#include "graph/parts.h"

#include <stdlib.h>
#include <string.h>

#include "base/options.h"
#include "driver/current.h"
#include "driver/real.h"
#include "graph/at_home.h"
#include "graph/cut.h"
#include "lane/streams.h"
#include "launch/captured_calls.h"
#include "memory/owners.h"
#include "object/capture.h"
#include "object/session.h"
#include "schedule/automatic.h"

#define MOST_PARTS 16u
#define LEAST_BYTES 4096.0 /* to go on elsewhere, where that is made dearer, */
#define MOST_DEARER 40u    /* twice each time */
#define BYTES_PER_LEAD_NS 8.0 /* that have to come less to the GPU that goes on, by the lead (docs/schedule.md) */

void tsr_parts_drop(struct tsr_instance *instance)
{
    for (uint32_t i = 0; i < instance->parts.count; i++) {
        struct tsr_instance *part = instance->parts.all[i];
        if (part->at_home)
            tsr_real.cuGraphExecDestroy(part->at_home);
        tsr_instance_destroy(part);
    }
    free(instance->parts.all);
    memset(&instance->parts, 0, sizeof instance->parts);
}

/* ---- where to cut ---- */

/* costs: of each node in their order (cut.h); NULL: they do not matter. False: it is not known what they touch. */
static bool find_costs(struct tsr_instance *instance, CUstream stream, const struct tsr_stream_found *place, double *costs)
{
    uint32_t gpus = tsr_session()->lane_count + 1;
    bool known = true;
    for (uint32_t i = 0; i < instance->precedence.count && known; i++) {
        struct tsr_touch few[2];
        const struct tsr_touch *touches;
        int32_t count = tsr_instance_node_touches(instance, instance->precedence.order[i], stream, place, few, &touches);
        known = count >= 0;
        if (known && costs)
            tsr_automatic_distances(touches, (uint32_t)count, &costs[(size_t)i * gpus]);
    }
    return known;
}

static const struct tsr_node_action *action_at(const struct tsr_instance *instance, uint32_t rank)
{
    return &instance->nodes.all.data[instance->precedence.order[rank]].action;
}

/* An action is a part of its own. */
static bool begins_part(const struct tsr_instance *instance, const uint8_t *gpus, uint32_t rank)
{
    return !rank || gpus[rank] != gpus[rank - 1] || action_at(instance, rank)->kind || action_at(instance, rank - 1)->kind;
}

static uint32_t count_parts(const struct tsr_instance *instance, const uint8_t *gpus)
{
    uint32_t parts = 0;
    for (uint32_t i = 0; i < instance->precedence.count; i++)
        parts += begins_part(instance, gpus, i);
    return parts;
}

/* Where there would be too many parts, going on elsewhere is made dearer until there are not: some of them would save little. */
static bool cut_in_few(const struct tsr_instance *instance, struct tsr_cut_sequence *sequence, uint8_t *gpus)
{
    bool found = tsr_cut(sequence, gpus);
    for (uint32_t i = 0; i < MOST_DEARER && found && count_parts(instance, gpus) > MOST_PARTS; i++) {
        sequence->elsewhere = 2 * (sequence->elsewhere < LEAST_BYTES ? LEAST_BYTES : sequence->elsewhere);
        found = tsr_cut(sequence, gpus);
    }
    return found;
}

/* The GPU of each node, in their order; without `spread` the same for all. False: it is not known what they touch. */
static bool find_gpus(struct tsr_instance *instance, CUstream stream, const struct tsr_stream_found *place, bool spread,
                      uint8_t *gpus)
{
    uint32_t count = instance->precedence.count, most = tsr_session()->lane_count + 1;
    double *costs = spread ? calloc((size_t)count * most + 1, sizeof *costs) : NULL;
    struct tsr_cut_sequence sequence = {
        .count = count, .gpus = most, .costs = costs, .elsewhere = BYTES_PER_LEAD_NS * (double)tsr_options()->lead};
    bool found =
        (costs || !spread) && find_costs(instance, stream, place, costs) && (!spread || cut_in_few(instance, &sequence, gpus));
    free(costs);
    return found;
}

/* ---- a part ---- */

static bool copy_node(const struct tsr_node *node, struct tsr_nodes *to)
{
    struct tsr_node made = *node;
    made.record.stream = (uint32_t)to->all.count;
    made.data = node->record.param_bytes ? malloc(node->record.param_bytes) : NULL;
    made.changed = 1;
    if (node->record.param_bytes && !made.data)
        return false;
    if (made.data)
        memcpy(made.data, node->data, node->record.param_bytes);
    if (!tsr_vec_push(&to->all, made)) {
        free(made.data);
        return false;
    }
    if (made.call)
        tsr_captured_call_share(made.call);
    return true;
}

/* The nodes at these places of the order, which only wait for each other and for earlier ones. */
static bool fill(struct tsr_instance *part, const struct tsr_instance *whole, uint32_t first, uint32_t end)
{
    const struct tsr_nodes *from = &whole->nodes;
    struct tsr_nodes *to = &part->nodes;
    bool valid = true;
    to->context = from->context;
    for (uint32_t i = first; i < end && valid; i++)
        valid = copy_node(&from->all.data[whole->precedence.order[i]], to);
    for (size_t i = 0; i < from->edges.count && valid; i++) {
        uint32_t earlier = whole->precedence.rank[from->edges.data[i].from],
                 later = whole->precedence.rank[from->edges.data[i].to];
        if (earlier >= first && later < end)
            valid = tsr_vec_push(&to->edges, (struct tsr_lane_edge){.from = earlier - first, .to = later - first});
    }
    part->call_changed = whole->call_changed;
    return valid && tsr_precedence_init(&part->precedence, end - first, to->edges.data, (uint32_t)to->edges.count) &&
           tsr_nodes_instantiate(to, &part->at_home) == CUDA_SUCCESS;
}

static bool add_part(struct tsr_instance *whole, uint32_t first, uint32_t end)
{
    struct tsr_instance *part = tsr_instance_create();
    if (!part)
        return false;
    whole->parts.all[whole->parts.count++] = part;
    part->action = *action_at(whole, first);
    if (part->action.kind)
        return copy_node(&whole->nodes.all.data[whole->precedence.order[first]], &part->nodes);
    return fill(part, whole, first, end);
}

static bool make_parts(struct tsr_instance *instance, const uint8_t *gpus)
{
    uint32_t count = instance->precedence.count, parts = count_parts(instance, gpus), first = 0;
    if ((parts < 2 && !instance->nodes.actions) || parts > MOST_PARTS)
        return true;
    instance->parts.all = calloc(parts, sizeof(struct tsr_instance *));
    bool made = instance->parts.all;
    for (uint32_t i = 1; i <= count && made; i++)
        if (i == count || begins_part(instance, gpus, i)) {
            made = add_part(instance, first, i);
            first = i;
        }
    return made;
}

/* Kernels of libraries, copies and memsets are of the context that is current when their nodes are made: the graph's, not the thread's. */
static bool make_parts_in_context(struct tsr_instance *instance, const struct tsr_stream *stream, const uint8_t *gpus)
{
    bool pushed = false;
    CUcontext context = instance->nodes.context ? instance->nodes.context : stream ? stream->context : NULL;
    if (context && tsr_current_push(context, &pushed) != CUDA_SUCCESS)
        return false;
    bool made = make_parts(instance, gpus);
    tsr_current_pop(pushed);
    return made;
}

static bool may_be_cut(const struct tsr_instance *instance, bool spread)
{
    if (instance->nodes.reason || instance->stays_opaque)
        return false;
    return instance->nodes.actions || (spread && instance->known && instance->nodes.all.count > 1);
}

bool tsr_parts_find_locked(struct tsr_instance *instance, CUstream stream, const struct tsr_stream_found *place, bool placed)
{
    struct tsr_instance_stamp now = tsr_instance_stamp_now(instance);
    bool spread = placed && tsr_owners_are_spread();
    uint64_t owners = spread ? tsr_owners_changed() : 0;
    if (!may_be_cut(instance, spread))
        return false;
    if (instance->parts.asked && tsr_instance_same_stamp(&instance->parts.examined, &now) && instance->parts.owners == owners)
        return instance->parts.count;
    if (tsr_is_any_capture()) /* it may be one during which graphs must not be instantiated */
        return false;
    tsr_parts_drop(instance);
    uint8_t *gpus = calloc(instance->precedence.count + 1, 1);
    if (gpus && find_gpus(instance, stream, place, spread, gpus) && !make_parts_in_context(instance, place->stream, gpus))
        tsr_parts_drop(instance);
    free(gpus);
    instance->parts.asked = true;
    instance->parts.examined = now;
    instance->parts.owners = owners;
    return instance->parts.count;
}
