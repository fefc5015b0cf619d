/*
 * See gate.h. Who passes counts itself in its thread's shard and then looks whether the gate is closed; who closes it says so and then looks
 * at all shards: one of the two sees the other. Passing is frequent and closing is rare, so where the system can put a barrier into all threads,
 * who closes or drains does so between its two steps, and a thread with a shard of its own passes without one. An attempt to close stops those who come for ATTEMPT_NS at most; after that the gate opens again
 * for a while, since somebody inside may wait for a GPU.
 */
#include "order/gate.h"

#include <pthread.h>
#include <time.h>

#include <tessera/apart.h>

#include "base/os.h"

#define SHARDS 64u
#define ATTEMPT_NS 20000ull
#define DRAIN_LOOK_NS 2000ull
#define BETWEEN_ATTEMPTS_NS 200000ull

struct shard {
    TSR_APART uint32_t inside; /* atomic */
    uint32_t empty;            /* atomic; how often nobody was left */
};

bool tsr_gate_watched;
static bool barriers; /* constant for a session; who closes puts barriers into the others */
static struct shard shards[SHARDS];
static TSR_APART uint32_t is_closed;                                  /* atomic */
static TSR_APART pthread_mutex_t closing = PTHREAD_MUTEX_INITIALIZER; /* held as long as the gate is closed */
static uint32_t threads;                                              /* atomic; that were given a shard */
static __thread struct shard *mine;
static __thread bool mine_alone; /* no other thread ever counts there */
static __thread bool closed_by_me;

void tsr_gate_start(bool watched)
{
    pthread_mutex_init(&closing, NULL);
    for (unsigned i = 0; i < SHARDS; i++)
        shards[i].inside = 0;
    is_closed = 0;
    closed_by_me = false;
    barriers = watched && tsr_os_barrier_register();
    tsr_gate_watched = watched;
}

static void await_open(void)
{
    pthread_mutex_lock(&closing);
    pthread_mutex_unlock(&closing);
}

/* The last one is for all threads that come when the others are taken. */
static void take_shard(void)
{
    uint32_t number = __atomic_fetch_add(&threads, 1, __ATOMIC_RELAXED);
    mine_alone = number < SHARDS - 1;
    mine = &shards[mine_alone ? number : SHARDS - 1];
}

/* False: it is closed. */
static inline bool pass(void)
{
    if (__builtin_expect(barriers && mine_alone, 1)) {
        __atomic_store_n(&mine->inside, mine->inside + 1, __ATOMIC_RELAXED);
        __atomic_signal_fence(__ATOMIC_SEQ_CST); /* the processor's barrier is the other side's */
    } else {
        __atomic_fetch_add(&mine->inside, 1, __ATOMIC_SEQ_CST);
    }
    return !__atomic_load_n(&is_closed, __ATOMIC_SEQ_CST);
}

bool tsr_gate_enter_watched(void)
{
    if (!mine)
        take_shard();
    for (;;) {
        if (__builtin_expect(pass(), 1))
            return true;
        __atomic_fetch_sub(&mine->inside, 1, __ATOMIC_SEQ_CST);
        if (closed_by_me)
            return false;
        await_open();
    }
}

void tsr_gate_leave_watched(void)
{
    uint32_t left;
    if (mine_alone) {
        left = mine->inside - 1;
        __atomic_store_n(&mine->inside, left, __ATOMIC_RELEASE);
    } else {
        left = __atomic_sub_fetch(&mine->inside, 1, __ATOMIC_RELEASE);
    }
    if (left == 0)
        __atomic_store_n(&mine->empty, __atomic_load_n(&mine->empty, __ATOMIC_RELAXED) + 1, __ATOMIC_RELEASE);
}

/* Between what was said and looking at the shards. False: it cannot be known what the others have seen. */
static bool put_barriers(void)
{
    return !barriers || tsr_os_barrier();
}

static bool is_empty(void)
{
    for (unsigned i = 0; i < SHARDS; i++)
        if (__atomic_load_n(&shards[i].inside, __ATOMIC_SEQ_CST))
            return false;
    return true;
}

/* `closing` is held. */
static bool attempt(void)
{
    uint64_t end = tsr_os_monotonic_ns() + ATTEMPT_NS;
    __atomic_store_n(&is_closed, 1, __ATOMIC_SEQ_CST);
    bool known = put_barriers();
    while (!known || !is_empty())
        if (tsr_os_monotonic_ns() >= end) {
            __atomic_store_n(&is_closed, 0, __ATOMIC_SEQ_CST);
            return false;
        }
    return true;
}

static void pause_ns(uint64_t ns)
{
    struct timespec time = {.tv_nsec = (long)ns};
    nanosleep(&time, NULL);
}

bool tsr_gate_close(uint64_t timeout_ns)
{
    uint64_t end = tsr_os_monotonic_ns() + timeout_ns;
    do {
        /* Not pthread_mutex_clocklock(): GCC 12's ThreadSanitizer does not see it, and took the unlocking for a mistake. */
        if (pthread_mutex_trylock(&closing) == 0) {
            closed_by_me = attempt();
            if (closed_by_me)
                return true;
            pthread_mutex_unlock(&closing);
        }
        pause_ns(BETWEEN_ATTEMPTS_NS);
    } while (tsr_os_monotonic_ns() < end);
    return false;
}

void tsr_gate_open(void)
{
    closed_by_me = false;
    __atomic_store_n(&is_closed, 0, __ATOMIC_SEQ_CST);
    pthread_mutex_unlock(&closing);
}

bool tsr_gate_drain(uint64_t timeout_ns)
{
    uint64_t end = tsr_os_monotonic_ns() + timeout_ns;
    uint32_t empty[SHARDS];
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (!put_barriers())
        return false;
    for (unsigned i = 0; i < SHARDS; i++)
        empty[i] = __atomic_load_n(&shards[i].empty, __ATOMIC_SEQ_CST);
    for (unsigned i = 0; i < SHARDS; i++)
        while (__atomic_load_n(&shards[i].inside, __ATOMIC_SEQ_CST) &&
               __atomic_load_n(&shards[i].empty, __ATOMIC_SEQ_CST) == empty[i]) {
            if (tsr_os_monotonic_ns() >= end)
                return false;
            pause_ns(DRAIN_LOOK_NS);
        }
    return true;
}
