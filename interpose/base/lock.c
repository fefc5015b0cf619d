/* See lock.h. */
#include "base/lock.h"

#include "base/os.h"

#define SPINS 100 /* most locks are held for less */

void tsr_lock_await(struct tsr_lock *lock)
{
    for (int i = 0; i < SPINS; i++) {
        if (__atomic_load_n(&lock->state, __ATOMIC_RELAXED) == TSR_LOCK_FREE && tsr_lock_try(lock))
            return;
        __builtin_ia32_pause();
    }
    while (__atomic_exchange_n(&lock->state, TSR_LOCK_AWAITED, __ATOMIC_ACQUIRE) != TSR_LOCK_FREE)
        tsr_os_futex_wait(&lock->state, TSR_LOCK_AWAITED, UINT64_MAX, false);
}

void tsr_lock_wake(struct tsr_lock *lock)
{
    tsr_os_futex_wake(&lock->state, 1, false);
}
