/* The engine's state, for engine.c and loop.c. */
#ifndef TSR_STREAM_ENGINE_OBJECT_H
#define TSR_STREAM_ENGINE_OBJECT_H

#include "item.h"

#include <pthread.h>

#define TSR_ENGINE_POLL_LEAST_NS 5000u

typedef TSR_VEC(struct tsr_item *) tsr_items;

struct tsr_engine {
    pthread_mutex_t mutex;
    pthread_cond_t work;      /* the engine sleeps here */
    pthread_cond_t completed; /* threads that wait for items sleep here */
    tsr_items ready;          /* binary heap by sequence */
    tsr_items polls;          /* waits for values and for other processes' events that were not fulfilled when last looked at */
    tsr_items stalled;        /* started kernels that stand back, the one to run next first */
    struct tsr_item *current; /* a kernel that used up its quantum and goes on */
    struct tsr_item *left;    /* completed items whose work is to be released */
    uint64_t poll_pause_ns;
    unsigned streak; /* ready items taken since the last stalled kernel */
    unsigned waiters;
    bool started, ending;
    pthread_t thread;
    struct tsr_timeline *timeline;
};

extern struct tsr_engine tsr_engine_state;

#endif
