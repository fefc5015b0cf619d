/* Copies between device addresses that we enqueue ourselves: by a stream of the home GPU, or by a strand on a lane. */
#ifndef TSR_MEMORY_TRANSFER_H
#define TSR_MEMORY_TRANSFER_H

#include "api/driver.h"

#include <stdint.h>

#include <tessera/lane.h>

#include "memory/directory.h"

struct tsr_lane_client;

/* Who copies. */
struct tsr_transfer {
    struct tsr_lane_client *lane; /* NULL: home */
    uint32_t slot;                /* on the lane */
    uint16_t time;                /* for the lane's record */
    CUstream stream;              /* at home, in whose context the caller is */
};

/* The bytes of a pull, at the addresses where the puller sees the first of them. */
struct tsr_lane_copy tsr_transfer_of(const struct tsr_pull *pull, CUdeviceptr to, CUdeviceptr from);

/* Enqueues the copy. Errors: the driver's; the executor's. */
CUresult tsr_transfer(const struct tsr_transfer *by, const struct tsr_lane_copy *what);

#endif
