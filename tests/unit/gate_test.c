/* order/gate.c: whoever has closed the gate is alone, and who was inside when it was drained has left; with barriers that the one who closes puts
   into the others, and without. */
#include "order/gate.c"

#include "check.h"

#include <sched.h>

#define PASSERS 3u
#define MANY (SHARDS + 4u) /* some share a shard */
#define RUN_NS 400000000ull

static struct {
    TSR_APART uint32_t uses; /* atomic; is inside, and has seen that it may use what the gate guards */
} guests[MANY];
static TSR_APART uint32_t forbidden; /* atomic; by who drains */
static uint32_t stop;                /* atomic */

static void *pass_often(void *argument)
{
    uint32_t *uses = argument;
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        bool entered = tsr_gate_enter();
        if (!__atomic_load_n(&forbidden, __ATOMIC_RELAXED)) {
            __atomic_store_n(uses, 1, __ATOMIC_RELAXED);
            __atomic_store_n(uses, 0, __ATOMIC_RELEASE);
        }
        tsr_gate_leave(entered);
        sched_yield();
    }
    return NULL;
}

static uint32_t in_use(unsigned passers)
{
    uint32_t sum = 0;
    for (unsigned i = 0; i < passers; i++)
        sum += __atomic_load_n(&guests[i].uses, __ATOMIC_ACQUIRE);
    return sum;
}

/* Looks often enough that a store which was still on its way would arrive. */
static uint32_t ever_in_use(unsigned passers)
{
    uint32_t seen = 0;
    for (unsigned i = 0; i < 50; i++)
        seen += in_use(passers);
    return seen;
}

static bool close_and_look(unsigned passers, uint32_t *wrong)
{
    if (!tsr_gate_close(5000000))
        return false;
    *wrong += ever_in_use(passers);
    tsr_gate_open();
    return true;
}

static bool drain_and_look(unsigned passers, uint32_t *wrong)
{
    __atomic_store_n(&forbidden, 1, __ATOMIC_RELAXED);
    bool drained = tsr_gate_drain(5000000);
    if (drained)
        *wrong += ever_in_use(passers);
    __atomic_store_n(&forbidden, 0, __ATOMIC_RELAXED);
    return drained;
}

/* Returns how often it was possible. */
static unsigned look(bool with_barriers, unsigned passers, bool (*once)(unsigned, uint32_t *))
{
    pthread_t all[MANY];
    uint32_t wrong = 0;
    unsigned done = 0;
    tsr_gate_start(true);
    barriers &= with_barriers;
    stop = forbidden = 0;
    for (unsigned i = 0; i < passers; i++)
        pthread_create(&all[i], NULL, pass_often, &guests[i].uses);
    for (uint64_t end = tsr_os_monotonic_ns() + RUN_NS; tsr_os_monotonic_ns() < end;)
        done += once(passers, &wrong);
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (unsigned i = 0; i < passers; i++)
        pthread_join(all[i], NULL);
    CHECK_EQ(wrong, 0);
    CHECK(is_empty());
    return done;
}

static uint32_t turn, over; /* atomic; turns that have begun, for both at once, and that are over */
static struct {
    TSR_APART uint32_t done;
    bool passed;
} guest; /* done: atomic; turns */

static void *pass_in_turns(void *unused)
{
    if (!mine)
        take_shard();
    for (uint32_t next = 1; !__atomic_load_n(&stop, __ATOMIC_ACQUIRE); next++) {
        while (__atomic_load_n(&turn, __ATOMIC_ACQUIRE) != next)
            if (__atomic_load_n(&stop, __ATOMIC_ACQUIRE))
                return unused;
        guest.passed = pass();
        __atomic_store_n(&guest.done, next, __ATOMIC_RELEASE);
        while (__atomic_load_n(&over, __ATOMIC_ACQUIRE) != next)
            ;
        tsr_gate_leave_watched();
    }
    return unused;
}

/* Turns in which one passed and the other found nobody. */
static unsigned both_go(bool with_barriers)
{
    pthread_t thread;
    unsigned both = 0;
    tsr_gate_start(true);
    barriers &= with_barriers;
    stop = turn = over = guest.done = 0;
    pthread_create(&thread, NULL, pass_in_turns, NULL);
    uint64_t end = tsr_os_monotonic_ns() + RUN_NS;
    for (uint32_t next = 1; tsr_os_monotonic_ns() < end; next++) {
        while (!is_empty())
            ;
        __atomic_store_n(&turn, next, __ATOMIC_RELEASE);
        for (volatile uint32_t wait = next * 7 % 256; wait > 0; wait--)
            ;
        __atomic_store_n(&is_closed, 1, __ATOMIC_SEQ_CST);
        bool alone = put_barriers() && is_empty();
        while (__atomic_load_n(&guest.done, __ATOMIC_ACQUIRE) != next)
            ;
        both += alone && guest.passed;
        __atomic_store_n(&is_closed, 0, __ATOMIC_SEQ_CST);
        __atomic_store_n(&over, next, __ATOMIC_RELEASE);
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    return both;
}

TEST(one_of_the_two_sees_the_other)
{
    CHECK_EQ(both_go(true), 0);
    CHECK_EQ(both_go(false), 0);
}

TEST(the_system_puts_barriers_into_other_threads)
{
#ifndef __SANITIZE_THREAD__
    CHECK(tsr_os_barrier_register());
    CHECK(tsr_os_barrier());
#endif
}

TEST(who_closes_is_alone)
{
    CHECK(look(true, PASSERS, close_and_look) > 10);
}

TEST(who_closes_is_alone_without_barriers)
{
    CHECK(look(false, PASSERS, close_and_look) > 10);
}

TEST(who_was_inside_has_left)
{
    CHECK(look(true, PASSERS, drain_and_look) > 10);
}

TEST(who_was_inside_has_left_without_barriers)
{
    CHECK(look(false, PASSERS, drain_and_look) > 10);
}

/* The last test: from here on, new threads share a shard. */
TEST(more_threads_than_shards)
{
    CHECK(look(true, MANY, close_and_look) > 0);
    CHECK(threads >= MANY);
}
