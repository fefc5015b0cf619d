/*
 * Pulls between GPUs that cannot access each other's memory, through page-locked host memory that all processes share. The source's GPU copies
 * chunk k to the host while the pulling GPU copies chunk k-1 from it, both in the stream that pulls, which has a part on either GPU
 * (order/ties.h); the application's thread waits for nothing. Host memory is bounded: each stream has two chunks, and streams beyond
 * RELAY_AREAS share chunks with others, whose pulls they come after.
 */
#ifndef TSR_MEMORY_RELAY_H
#define TSR_MEMORY_RELAY_H

#include "api/driver.h"

#include <stdbool.h>
#include <stdint.h>

struct tsr_lane_client;
struct tsr_stream;

/* The pulls of one use, one after the other. */
struct tsr_relay {
    struct tsr_stream *stream; /* held; NULL: nothing has been pulled yet */
    CUstream handle;
    struct tsr_lane_client *puller, *source; /* NULL: home */
    bool open;                               /* the source is */
    uint64_t chunks;                         /* from this source */
    uint64_t released[2];                    /* by chunk's place: the signal that its bytes are with the puller */
};

struct tsr_relay_pull {
    CUdeviceptr to, from;         /* each seen by its GPU */
    uint64_t bytes, rows, stride; /* of a row; rows; from one to the next */
    CUstream stream;
    bool per_thread;
    struct tsr_lane_client *puller, *source;
    uint16_t time; /* for the puller's lane, from its first chunk to its last; 0: it is not timed */
};

/* Makes the host memory, once. Memory lock held, a current context. False: it cannot be had. */
bool tsr_relay_prepare(void);

/* The stream is held, and so is the copies' lock. Errors: the driver's, an executor's; LAUNCH_FAILED: the source is lost. */
CUresult tsr_relay_pull(struct tsr_relay *relay, const struct tsr_relay_pull *pull);
/* After the last one, whatever came out; also if there was none. */
CUresult tsr_relay_end(struct tsr_relay *relay);

/* The context has been destroyed. */
void tsr_relay_context_gone(CUcontext context);
void tsr_relay_forget(void);

#endif
