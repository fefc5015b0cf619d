/*
 * Taking a record out of a lane. The lane is memory that the other end can write at any time, so a record is copied first, and every size
 * and number in the copy is checked before it is used.
 */
#ifndef TESSERA_CARRY_RECORD_H
#define TESSERA_CARRY_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include <cuda.h>
#include <tessera/lane.h>

#define TSR_RECORD_MOST_BYTES 65536u /* parameters and attributes of a launch are fewer */

struct tsr_record_copy {
    struct tsr_lane_record record;
    uint8_t behind[TSR_RECORD_MOST_BYTES - sizeof(struct tsr_lane_record)]; /* parameters, or other data by kind */
} __attribute__((aligned(64)));

/* False: it is not a valid record. The caller has seen its stamp. */
bool tsr_record_take(struct tsr_lane_ring *ring, uint64_t position, struct tsr_record_copy *out);

/* Whether a launch attribute is sent to executors: those are that refer to no object of the application's process. */
bool tsr_record_attribute_goes(CUlaunchAttributeID id);

/* A cluster of one block, which drivers name for any kernel node of a graph: to a GPU without clusters it says nothing. */
bool tsr_record_is_cluster_of_one(const CUlaunchAttribute *attribute);

#endif
