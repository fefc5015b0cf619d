/* A lane as the files that make it up see it: lane_client.c, lane_post.c and watch.c. */
#ifndef TSR_LANE_LANE_OBJECT_H
#define TSR_LANE_LANE_OBJECT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <tessera/lane.h>

struct tsr_lane_client {
    uint32_t number;
    pthread_mutex_t ask_lock;
    int socket;            /* ask_lock */
    struct tsr_lane *lane; /* shared with the executor */
    int registered;        /* atomic */
    uint32_t asking;       /* atomic; 1 while an answer is awaited */
    uint32_t departing;    /* atomic; streams that are on their way to the lane */
    uint32_t lost;         /* atomic; the executor is given up: nothing new goes to it */
    uint32_t broken;       /* atomic; it did not answer: to be given up */
    uint32_t decided;      /* atomic; 1: what that means for its work has been decided */
    uint32_t standing;     /* atomic; 1 while a thread carries its records out at home */
    uint32_t pardoned;     /* atomic; its failure concerns nobody any more: it is lost without harm */
    uint32_t pending;      /* atomic; records that this thread has and that are not complete */
    uint64_t pulse;        /* atomic; the last one that watch.c's thread saw */
    uint64_t started_ns;   /* when watching began */
    uint64_t pulse_ns;     /* atomic; when that was seen */
    uint32_t process;      /* atomic; the executor's; 0: not known yet */
};

#endif
