/* See mirror.h. */
#include "graph/mirror.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/os.h"
#include "lane/functions.h"
#include "lane/lane_client.h"
#include "launch/attributes.h"
#include "launch/captured_calls.h"
#include "launch/launch.h"
#include "memory/home_only.h"
#include "object/session.h"

void tsr_mirrors_drop(struct tsr_instance *instance)
{
    const struct tsr_session *session = tsr_session();
    for (uint32_t i = 0; session && i < session->lane_count; i++) {
        struct tsr_message drop = {.kind = TSR_MESSAGE_GRAPH_DROP, .id = (uint32_t)instance->id};
        if (instance->mirrors[i].version)
            tsr_lane_ask(session->lanes[i], &drop, -1);
        instance->mirrors[i].version = 0;
        instance->mirrors[i].refused = false;
    }
}

/* ---- the memory file of a message ---- */

static uint32_t record_bytes(const struct tsr_node *node)
{
    return (uint32_t)(sizeof node->record + (node->record.param_bytes + 7) / 8 * 8);
}

/* All nodes, or those that have changed since the executor was sent the instance last. */
static bool is_sent(const struct tsr_node *node, uint64_t since)
{
    return node->changed > since;
}

static uint8_t *write_node(uint8_t *at, const struct tsr_node *node)
{
    struct tsr_lane_record record = node->record;
    record.bytes = record_bytes(node);
    memcpy(at, &record, sizeof record);
    if (record.param_bytes)
        memcpy(at + sizeof record, node->data, record.param_bytes);
    return at + record.bytes;
}

/* Into memory of its own; NULL: there is none. */
static uint8_t *write_all(const struct tsr_instance *instance, uint64_t since, uint64_t *bytes)
{
    const struct tsr_nodes *nodes = &instance->nodes;
    struct tsr_lane_graph head = {.edges = since ? 0 : (uint32_t)nodes->edges.count};
    size_t edges = head.edges * sizeof nodes->edges.data[0];
    *bytes = sizeof head + edges;
    for (size_t i = 0; i < nodes->all.count; i++) {
        bool sent = is_sent(&nodes->all.data[i], since);
        head.nodes += sent;
        *bytes += sent ? record_bytes(&nodes->all.data[i]) : 0;
    }
    uint8_t *made = calloc(1, *bytes), *at = made;
    if (!made)
        return NULL;
    memcpy(at, &head, sizeof head);
    at += sizeof head;
    if (edges)
        memcpy(at, nodes->edges.data, edges);
    at += edges;
    for (size_t i = 0; i < nodes->all.count; i++)
        if (is_sent(&nodes->all.data[i], since))
            at = write_node(at, &nodes->all.data[i]);
    return made;
}

static CUresult send(const struct tsr_instance *instance, struct tsr_lane_client *lane, uint64_t since)
{
    struct tsr_message message = {.kind = since ? TSR_MESSAGE_GRAPH_SET : TSR_MESSAGE_GRAPH, .id = (uint32_t)instance->id};
    uint8_t *made = write_all(instance, since, &message.bytes);
    int file = made ? tsr_os_memfd("tessera-graph", message.bytes) : -1;
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    if (file >= 0 && tsr_os_write_all(file, made, message.bytes) &&
        tsr_os_seal(file, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE))
        result = tsr_lane_ask(lane, &message, file);
    if (file >= 0)
        close(file);
    free(made);
    return result;
}

/* An executor that cannot change the mirror it has gets a new one. */
static CUresult update(struct tsr_instance *instance, struct tsr_lane_client *lane)
{
    uint32_t number = tsr_lane_number(lane);
    uint64_t had = instance->mirrors[number].version;
    CUresult result = had ? send(instance, lane, had) : CUDA_ERROR_NOT_FOUND;
    if (result != CUDA_SUCCESS && tsr_lane_state(lane) == CUDA_SUCCESS) {
        struct tsr_message drop = {.kind = TSR_MESSAGE_GRAPH_DROP, .id = (uint32_t)instance->id};
        if (had)
            tsr_lane_ask(lane, &drop, -1);
        result = send(instance, lane, 0);
    }
    instance->mirrors[number].version = result == CUDA_SUCCESS ? instance->version : 0;
    return result;
}

/* ---- whether it can go there ---- */

/* The node as a launch, for what is asked of one. */
static struct tsr_launch launch_of(const struct tsr_node *node)
{
    const struct tsr_lane_record *record = &node->record;
    struct tsr_launch launch = {.function = node->launched,
                                .grid = {record->grid[0], record->grid[1], record->grid[2]},
                                .block = {record->block[0], record->block[1], record->block[2]},
                                .shared_bytes = record->shared_bytes,
                                .known = node->function};
    launch.attributes = tsr_node_attributes(node, &launch.attribute_count);
    return launch;
}

static CUresult examine_kernel(const struct tsr_node *node, struct tsr_lane_client *lane, enum tsr_reason *reason)
{
    struct tsr_function_record *function = node->function;
    uint32_t number = tsr_lane_number(lane), bytes = tsr_node_block_bytes(node);
    CUresult result = CUDA_SUCCESS;
    *reason = node->call && node->call->operands.other_gpus ? TSR_REASON_OTHER_GPUS : tsr_function_reason_unsent(function);
    if (!*reason)
        *reason = tsr_home_only_scan(node->data, bytes);
    if (!*reason && !tsr_function_is_fit(function, number))
        result = tsr_function_prepare(function, lane, reason);
    if (!*reason && result == CUDA_SUCCESS)
        *reason = tsr_function_reason_with(function, node->data, bytes);
    if (!*reason && result == CUDA_SUCCESS && node->record.value) {
        CUlaunchAttribute attributes[TSR_MOST_ATTRIBUTES];
        uint32_t count;
        struct tsr_launch launch = launch_of(node);
        *reason = tsr_attributes_translate(&launch, tsr_session()->lane_device[number], attributes, &count);
    }
    return result;
}

static CUresult examine(const struct tsr_instance *instance, struct tsr_lane_client *lane, enum tsr_reason *reason)
{
    CUresult result = CUDA_SUCCESS;
    *reason = TSR_REASON_NONE;
    for (size_t i = 0; i < instance->nodes.all.count && !*reason && result == CUDA_SUCCESS; i++)
        if (instance->nodes.all.data[i].record.kind == TSR_LANE_LAUNCH)
            result = examine_kernel(&instance->nodes.all.data[i], lane, reason);
        else
            *reason = tsr_node_reason_to_move(&instance->nodes.all.data[i]);
    return result;
}

CUresult tsr_instance_mirror_locked(struct tsr_instance *instance, struct tsr_lane_client *lane, enum tsr_reason *reason)
{
    uint32_t number = tsr_lane_number(lane);
    struct tsr_instance_stamp now = tsr_instance_stamp_now(instance);
    *reason = instance->reason; /* which depends on the stream, too */
    if (*reason)
        return CUDA_SUCCESS;
    if (!tsr_instance_same_stamp(&instance->mirrors[number].examined, &now)) {
        CUresult result = examine(instance, lane, &instance->mirrors[number].reason);
        if (result != CUDA_SUCCESS)
            return result;
        instance->mirrors[number].examined =
            now; /* from before the look: if that sent functions, the next launch looks again */
    }
    *reason = instance->mirrors[number].reason;
    if (*reason || instance->mirrors[number].version == instance->version)
        return CUDA_SUCCESS;
    if (!instance->mirrors[number].refused) {
        CUresult result = update(instance, lane);
        if (result != CUDA_SUCCESS && tsr_lane_state(lane) != CUDA_SUCCESS)
            return tsr_lane_state(lane);
        instance->mirrors[number].refused = result != CUDA_SUCCESS;
        if (result != CUDA_SUCCESS)
            tsr_debug("executor %u cannot make a graph of %zu nodes (%d)", number, instance->nodes.all.count, (int)result);
    }
    if (instance->mirrors[number].refused)
        *reason = TSR_REASON_EXECUTOR;
    return CUDA_SUCCESS;
}
