/*
 * The shim's state in one process: the decision table and a lane to each executor. Starts after the process' first successful
 * cuInit, and belongs to that process only: a forked child has none until it initialises CUDA itself. Without a
 * policy there is no session and every call is forwarded. A policy without executors makes one if writes are checked. Where the home GPU is
 * hidden from the process, or an executor cannot be reached, launches are counted, and all of them are forwarded.
 */
#ifndef TSR_OBJECT_SESSION_H
#define TSR_OBJECT_SESSION_H

#include "api/driver.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <tessera/lane.h>
#include <tessera/policy.h>

struct tsr_lane_client;
struct tsr_rules;

struct tsr_session {
    pid_t owner;                /* the process it belongs to */
    struct tsr_policy *policy;  /* mapped shared; all its GPUs have the machine's numbers */
    CUdevice home;              /* the home GPU, as the driver numbers it in this process; -1: it is hidden */
    struct tsr_rules *rules;    /* atomic; of the policy's present generation or the one before; belongs to decide.c */
    pthread_mutex_t rules_lock; /* held while new rules are made */
    bool checks;                /* launches at home are checked (check.h) */
    uint64_t redirected;        /* atomic; launches that rules sent elsewhere while launches are verified */
    uint32_t lane_count;
    struct tsr_lane_client *lanes[TSR_LANES]; /* by executor */
    uint32_t lane_device[TSR_LANES];          /* the machine's number of its GPU */
};

/* From now on the process has this session: shim/start.c made it. */
void tsr_session_set(struct tsr_session *session);
/* NULL: forward everything. Constant for the life of the process once cuInit has returned. */
struct tsr_session *tsr_session(void);
/* The same, or a session that no launch can leave: for deciding and counting. NULL: there is no policy. */
struct tsr_session *tsr_session_counting(void);

/* A thread's part of the counters in the policy. A forked child's session is another one, and so its threads get parts of their own. */
struct tsr_session_counting {
    const struct tsr_session *session; /* NULL: it has none yet */
    struct tsr_policy_counts *counts;
    bool alone; /* no other thread of any process adds to this part */
};

extern __thread struct tsr_session_counting tsr_session_counts_here __attribute__((visibility("hidden")));
void tsr_session_count_in(const struct tsr_session *session);

/* The calling thread's part. */
static inline struct tsr_policy_counts *tsr_session_counts(const struct tsr_session *session)
{
    if (__builtin_expect(tsr_session_counts_here.session != session, 0))
        tsr_session_count_in(session);
    return tsr_session_counts_here.counts;
}

/* Adds to a counter of the calling thread's part. */
static inline void tsr_session_count(uint64_t *counter, uint64_t by)
{
    if (__builtin_expect(tsr_session_counts_here.alone, 1))
        __atomic_store_n(counter, __atomic_load_n(counter, __ATOMIC_RELAXED) + by, __ATOMIC_RELAXED);
    else
        __atomic_fetch_add(counter, by, __ATOMIC_RELAXED);
}

#define TSR_GPU_HOST 255u /* in the place of a GPU's number: host memory */

/* The rank of host memory, which a pool may have (memory/owners.h): that after the last GPU's. */
static inline uint32_t tsr_session_host(const struct tsr_session *session)
{
    return session->lane_count + 1;
}

/* How many ranks have copies of memory: all GPUs, and the host where it may own some. */
static inline uint64_t tsr_session_copies(const struct tsr_session *session)
{
    return session->lane_count + (session->policy->memory_host_bytes ? 2u : 1u);
}

/* The machine's number of the GPU with a rank. Rank 0 is the home GPU, 1 + k that of lane k; copies of memory and strands are numbered by rank. */
static inline uint32_t tsr_session_gpu(const struct tsr_session *session, uint32_t rank)
{
    if (rank > session->lane_count)
        return TSR_GPU_HOST;
    return rank ? session->lane_device[rank - 1] : session->policy->home;
}

/* The lane to a GPU; NULL: the home GPU, or none that this session reaches. */
struct tsr_lane_client *tsr_session_lane(int32_t device);

#endif
