/*
 * A lock for the path of a launch: in place, one atomic operation to take it and one to give it back, where a pthread mutex takes two calls
 * besides. Not recursive, and fair to nobody. Zero bytes are a lock that is free. Who finds it held sleeps.
 */
#ifndef TESSERA_BASE_LOCK_H
#define TESSERA_BASE_LOCK_H

#include <stdbool.h>
#include <stdint.h>

enum tsr_lock_state { TSR_LOCK_FREE, TSR_LOCK_HELD, TSR_LOCK_AWAITED }; /* AWAITED: held, and somebody may sleep */

struct tsr_lock {
    uint32_t state; /* atomic; enum tsr_lock_state; futex */
};

void tsr_lock_await(struct tsr_lock *lock); /* takes a lock that was found held */
void tsr_lock_wake(struct tsr_lock *lock);

static inline bool tsr_lock_try(struct tsr_lock *lock)
{
    uint32_t free = TSR_LOCK_FREE;
    return __atomic_compare_exchange_n(&lock->state, &free, TSR_LOCK_HELD, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static inline void tsr_lock_take(struct tsr_lock *lock)
{
    if (__builtin_expect(!tsr_lock_try(lock), 0))
        tsr_lock_await(lock);
}

/* What comes after it in the program is not done before: some need that (lane/lane_client.h). */
static inline void tsr_lock_give(struct tsr_lock *lock)
{
    if (__builtin_expect(__atomic_exchange_n(&lock->state, TSR_LOCK_FREE, __ATOMIC_SEQ_CST) == TSR_LOCK_AWAITED, 0))
        tsr_lock_wake(lock);
}

#endif
