/* See record.h. */
#include "carry/record.h"

#include <string.h>

bool tsr_record_attribute_goes(CUlaunchAttributeID id)
{
    switch (id) {
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        return true;
    default:
        return false;
    }
}

bool tsr_record_is_cluster_of_one(const CUlaunchAttribute *attribute)
{
    const CUlaunchAttributeValue *value = &attribute->value;
    return attribute->id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION && value->clusterDim.x == 1 && value->clusterDim.y == 1 &&
           value->clusterDim.z == 1;
}

static bool is_launch(const struct tsr_record_copy *copy)
{
    const struct tsr_lane_record *record = &copy->record;
    if (!record->value)
        return true;
    uint64_t block = (record->value >> 32) + 7, attributes = (uint32_t)record->value;
    uint64_t at = block / 8 * 8;
    if (at > record->param_bytes || attributes > (record->param_bytes - at) / sizeof(CUlaunchAttribute))
        return false;
    for (uint64_t i = 0; i < attributes; i++) {
        CUlaunchAttributeID id;
        memcpy(&id, copy->behind + at + i * sizeof(CUlaunchAttribute), sizeof id);
        if (!tsr_record_attribute_goes(id))
            return false;
    }
    return true;
}

static bool is_right(const struct tsr_record_copy *copy)
{
    const struct tsr_lane_record *record = &copy->record;
    if (record->stream >= TSR_LANE_STREAMS || record->param_bytes > (record->bytes / TSR_LANE_UNIT - 1) * TSR_LANE_UNIT_ROOM)
        return false;
    switch (record->kind) {
    case TSR_LANE_LAUNCH:
        return is_launch(copy);
    case TSR_LANE_COPY:
        return record->param_bytes >= sizeof(struct tsr_lane_copy);
    case TSR_LANE_SET:
        return record->param_bytes >= sizeof(struct tsr_lane_set);
    case TSR_LANE_WRITE:
        return record->param_bytes > 0;
    case TSR_LANE_GRAPH:
        return true;
    case TSR_LANE_WAIT:
        return record->shared_bytes <= TSR_LANE_STREAMS;
    default:
        return tsr_lane_is_fence(record->kind);
    }
}

bool tsr_record_take(struct tsr_lane_ring *ring, uint64_t position, struct tsr_record_copy *out)
{
    struct tsr_lane_record *there = tsr_lane_record_at(ring, position);
    uint64_t left = TSR_LANE_RING_BYTES - (position & (TSR_LANE_RING_BYTES - 1));
    memcpy(&out->record, there, sizeof out->record);
    uint32_t bytes = out->record.bytes;
    if (position % TSR_LANE_UNIT || bytes < sizeof out->record || bytes % TSR_LANE_UNIT || bytes > left)
        return false;
    if (out->record.kind == TSR_LANE_SKIP)
        return bytes == left;
    if (bytes > sizeof *out)
        return false;
    for (uint32_t unit = 0; unit + 1 < bytes / TSR_LANE_UNIT; unit++)
        memcpy(out->behind + unit * TSR_LANE_UNIT_ROOM, tsr_lane_behind(there, unit), TSR_LANE_UNIT_ROOM);
    return is_right(out);
}
