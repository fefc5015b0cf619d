/*
 * Few bytes that the host gives a stream: small copies from its memory, and memsets. Which GPU will read them is not known yet, and none is to wait for
 * another one's work to get them. So the stream's work on each GPU writes them to that GPU's own copy, where it comes after what
 * has used them there (memory/copies.h). Only under data order. Where launches are placed one by one, schedule/automatic.h chooses one GPU, except for what
 * a library call sets: that is written on all GPUs.
 *
 * What lies in the host's ordinary memory is taken when the call is made, as the driver does. Page-locked memory is read by each GPU when the stream
 * gets there: the program must not change it before it knows that the stream has, and then all GPUs have.
 */
#ifndef TSR_LAUNCH_BROADCAST_H
#define TSR_LAUNCH_BROADCAST_H

#include "api/driver.h"

#include <stdbool.h>
#include <stdint.h>

#include <tessera/lane.h>

#include "memory/copies.h"

#define TSR_BROADCAST_MOST_BYTES 65536u

struct tsr_broadcast_work {
    struct tsr_touch touches[2];
    uint32_t count;                /* of these; 0: it is not to be done in this way */
    bool home_only;                /* only home can read what it reads */
    struct tsr_lane_record record; /* WRITE: of all bytes */
    const void *data;              /* behind the record */
    uint32_t lanes;                /* set of those that do it, too */
    bool on_all;                   /* also those that the stream has not used lately: nobody knows yet who will read it */
};

/* A copy from the host's memory to memory that GPUs share. */
struct tsr_broadcast_work tsr_broadcast_of_copy(CUdeviceptr to, const void *from, size_t bytes, struct tsr_lane_copy *what);
/* A memset of memory that GPUs share, all of which it overwrites. */
struct tsr_broadcast_work tsr_broadcast_of_set(const struct tsr_lane_set *what);

/* On one lane, a WRITE in parts that records have room for. */
CUresult tsr_broadcast_post(struct tsr_lane_client *lane, const struct tsr_lane_record *record, const void *data);

/* Before it is enqueued at home. False: it is to be done in another way, and nothing is held; so it is if the stream uses no other GPU than that of its last work, unless all do it. */
bool tsr_broadcast_enter(CUstream handle, bool per_thread, struct tsr_broadcast_work *work, struct tsr_order_hold *hold);
/* After that; result: what enqueuing it gave. */
CUresult tsr_broadcast_leave(struct tsr_broadcast_work *work, struct tsr_order_hold *hold, CUresult result);

#endif
