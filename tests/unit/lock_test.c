/* base/lock: one thread at a time, who finds it held sleeps until it is given back, and giving back is a full barrier. */
#include "check.h"

#include "base/lock.h"
#include "base/os.h"

#include <pthread.h>

#define THREADS 4
#define ROUNDS 50000

static struct tsr_lock lock;
static uint64_t count, last; /* lock */

static void *add(void *argument)
{
    for (uint64_t i = 0; i < ROUNDS; i++) {
        tsr_lock_take(&lock);
        last = (uintptr_t)argument + i;
        count++;
        if (i % 1000 == 0) /* long enough that others sleep */
            tsr_os_futex_wait(&(uint32_t){0}, 0, 20000, false);
        if (last != (uintptr_t)argument + i)
            count += 1ull << 32;
        tsr_lock_give(&lock);
    }
    return NULL;
}

TEST(one_thread_at_a_time_has_it)
{
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, add, (void *)(i << 32)) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK_EQ(count, (uint64_t)THREADS * ROUNDS);
    CHECK_EQ(lock.state, (uint32_t)TSR_LOCK_FREE);
}

TEST(it_cannot_be_tried_while_it_is_held)
{
    CHECK(tsr_lock_try(&lock));
    CHECK(!tsr_lock_try(&lock));
    tsr_lock_give(&lock);
    CHECK(tsr_lock_try(&lock));
    tsr_lock_give(&lock);
}

static uint32_t told, sleeping, rounds_both; /* atomic */

static void *sleep_now_and_then(void *argument)
{
    uint32_t *round = argument;
    for (uint32_t i = 1; i <= ROUNDS; i++) {
        while (__atomic_load_n(round, __ATOMIC_ACQUIRE) != i)
            __builtin_ia32_pause();
        __atomic_store_n(&sleeping, i, __ATOMIC_SEQ_CST);
        if (__atomic_load_n(&told, __ATOMIC_SEQ_CST) != i)
            __atomic_store_n(&rounds_both, i, __ATOMIC_RELAXED); /* has not seen it, and so must have been seen */
        __atomic_store_n(round, 0, __ATOMIC_RELEASE);
    }
    return NULL;
}

/* As a launch tells the executor and then looks whether that sleeps. */
TEST(what_comes_after_it_is_given_back_is_not_done_before)
{
    static uint32_t round;
    pthread_t sleeper;
    uint32_t missed = 0;
    REQUIRE(pthread_create(&sleeper, NULL, sleep_now_and_then, &round) == 0);
    for (uint32_t i = 1; i <= ROUNDS; i++) {
        __atomic_store_n(&round, i, __ATOMIC_RELEASE);
        tsr_lock_take(&lock);
        __atomic_store_n(&told, i, __ATOMIC_RELEASE);
        tsr_lock_give(&lock);
        bool seen = __atomic_load_n(&sleeping, __ATOMIC_SEQ_CST) == i;
        while (__atomic_load_n(&round, __ATOMIC_ACQUIRE))
            __builtin_ia32_pause();
        missed += !seen && __atomic_load_n(&rounds_both, __ATOMIC_RELAXED) == i;
    }
    pthread_join(sleeper, NULL);
    CHECK_EQ(missed, 0u);
}
