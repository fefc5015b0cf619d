/* The struct of a lane, for the files that implement it. */
#ifndef TSR_LANE_LANE_OBJECT_H
#define TSR_LANE_LANE_OBJECT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <tessera/lane.h>

#include "base/os.h"

/* Records of a stream. */
struct tsr_lane_flow {
    TSR_APART uint32_t posted; /* atomic; written while the stream is held */
    uint32_t given;            /* atomic; the lane's count of those given to the driver, when last read */
};

struct tsr_lane_client {
    /* Read at every launch, and hardly ever written. */
    uint32_t number;
    uint32_t lost;         /* atomic; the executor is lost: nothing new goes to it */
    uint32_t broken;       /* atomic; it did not answer, and is about to be declared lost */
    uint32_t pardoned;     /* atomic; no context has work there that failed: its loss is not an error any more */
    struct tsr_lane *lane; /* shared with the executor */

    TSR_APART pthread_mutex_t ask_lock;
    struct tsr_os_file socket; /* ask_lock; the program may close it */
    int memory;                /* until it has been sent to the other executors; -1: none */
    uint32_t asking;           /* atomic; 1 while an answer is awaited */
    uint32_t decided;          /* atomic; 1: whether work was lost with the executor has been decided */
    uint32_t standing;         /* atomic; 1 while a thread carries out its records at home */
    uint32_t pending;          /* atomic; records that this thread has taken and that are not complete */
    uint64_t pulse;            /* atomic; the last one that watch.c's thread saw */
    uint64_t started_ns;       /* when watching began */
    uint64_t pulse_ns;         /* atomic; when that was seen */
    uint32_t process;          /* atomic; the executor's; 0: not known yet */
    /* Of the thread that carries out its records at home, if there is one, or else of watch.c's: */
    bool closed;                        /* the lane is closed to the executor, */
    uint64_t positions[TSR_LANE_RINGS]; /* and these are the next records */

    TSR_APART uint32_t departing; /* atomic; streams that are departing to the lane */
    TSR_APART pthread_mutex_t fence_lock;
    uint64_t fences; /* fence_lock; posted so far */
    struct tsr_lane_flow flows[TSR_LANE_STREAMS];
};

#endif
