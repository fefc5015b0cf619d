/*
 * A hook for recording pulls; this layer does not know who records. It is called with the copies' lock and the stream held, so the listener must take
 * no lock that other threads hold while they use copies.
 */
#ifndef TSR_MEMORY_PULL_SEEN_H
#define TSR_MEMORY_PULL_SEEN_H

#include "api/driver.h"

#include <stdbool.h>
#include <stdint.h>

struct tsr_lane_client;

struct tsr_pull_seen {
    CUdeviceptr address;
    uint64_t bytes;
    uint32_t from, to; /* GPUs, by the machine's numbers */
    uint32_t cause;    /* enum tsr_pull_cause */
    bool through_host;
    CUstream stream;              /* that it is in, named */
    struct tsr_lane_client *lane; /* of the GPU that pulls; NULL: home */
    uint64_t writer;              /* stream of the work that wrote the first of the bytes last, as a handle; 0: not known */
    uint16_t ticket;              /* and the last digits of that work's number in its stream (tsr_ticket_taken) */
    uint16_t time;                /* for the lane's record: its place among the lane's times; 0: it is not timed */
    /* The listener's own. */
    uint64_t start;
    void *pair;
};

struct tsr_pull_listener {
    void (*begin)(struct tsr_pull_seen *pull); /* before anything of it is enqueued */
    void (*end)(struct tsr_pull_seen *pull, bool done);
};

/* NULL: nobody listens. Set before any memory has copies. */
extern const struct tsr_pull_listener *tsr_pull_listener __attribute__((visibility("hidden")));

static inline void tsr_pull_begins(struct tsr_pull_seen *pull)
{
    if (tsr_pull_listener)
        tsr_pull_listener->begin(pull);
}

static inline void tsr_pull_ended(struct tsr_pull_seen *pull, CUresult result)
{
    if (tsr_pull_listener)
        tsr_pull_listener->end(pull, result == CUDA_SUCCESS);
}

#endif
