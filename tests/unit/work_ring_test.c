/* shim/work_ring: entries of all sizes, from one thread after the other, against the order in which they were given. */
#include "shim/work_ring.c"

#include "check.h"

#include <string.h>
#include <sys/wait.h>
#include <time.h>

#define FIRST UINT64_C(0x9e3779b97f4a7c15)

struct numbered {
    struct tsr_work_entry entry;
    uint64_t number, sum; /* of the bytes behind it */
};

static struct tsr_work_ring ring;
static uint64_t carried, wrong; /* atomic */
static uint32_t pause_every;    /* atomic; of so many entries one takes long; 0: none does */

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13, *state ^= *state >> 7, *state ^= *state << 17;
    return *state;
}

static uint64_t sum_of(const struct numbered *entry)
{
    const uint8_t *bytes = (const uint8_t *)(entry + 1);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < entry->entry.bytes - sizeof *entry; i++)
        sum = sum * 31 + bytes[i];
    return sum;
}

static void pause_ns(long ns)
{
    nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
}

static void check_entry(const struct tsr_work_entry *in_ring)
{
    const struct numbered *entry = (const struct numbered *)in_ring;
    uint64_t number = __atomic_load_n(&carried, __ATOMIC_RELAXED);
    uint32_t every = __atomic_load_n(&pause_every, __ATOMIC_RELAXED);
    if (every && number % every == 0)
        pause_ns(200000);
    if (entry->number != number || entry->sum != sum_of(entry) || !tsr_work_is_mine)
        __atomic_add_fetch(&wrong, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&carried, number + 1, __ATOMIC_RELEASE);
}

static void put(uint64_t number, uint64_t *state)
{
    uint32_t bytes = tsr_work_rounded(sizeof(struct numbered) + next_random(state) % (number % 100 ? 600 : 60000));
    struct numbered *entry = tsr_work_room(&ring, bytes);
    *entry = (struct numbered){.entry.bytes = bytes, .number = number};
    memset(entry + 1, (int)next_random(state), bytes - sizeof *entry);
    entry->sum = sum_of(entry);
    tsr_work_give(&ring, &entry->entry);
}

/* Waits now and then, and lets the other thread fall asleep. */
static void put_many(uint64_t count, uint64_t waits_every)
{
    uint64_t state = FIRST, before = __atomic_load_n(&carried, __ATOMIC_ACQUIRE);
    for (uint64_t i = 0; i < count; i++) {
        put(before + i, &state);
        if (next_random(&state) % waits_every)
            continue;
        tsr_work_wait(&ring);
        CHECK_EQ(__atomic_load_n(&carried, __ATOMIC_ACQUIRE), before + i + 1);
        if (next_random(&state) % 4 == 0)
            pause_ns(100000);
    }
    tsr_work_wait(&ring);
    CHECK_EQ(__atomic_load_n(&carried, __ATOMIC_ACQUIRE), before + count);
    CHECK_EQ(wrong, 0);
}

static void *put_some(void *nothing)
{
    put_many(2000, 50);
    return nothing;
}

TEST(entries_are_carried_out_in_order)
{
    REQUIRE(tsr_work_start(&ring, check_entry));
    put_many(40000, 50);
}

TEST(who_gives_more_than_there_is_room_for_waits)
{
    __atomic_store_n(&pause_every, 512, __ATOMIC_RELAXED);
    put_many(40000, 1000000);
    __atomic_store_n(&pause_every, 0, __ATOMIC_RELAXED);
}

TEST(each_entry_alone_is_seen)
{
    put_many(5000, 1);
}

TEST(another_thread_goes_on)
{
    pthread_t thread;
    for (int i = 0; i < 4; i++) {
        REQUIRE(pthread_create(&thread, NULL, put_some, NULL) == 0);
        pthread_join(thread, NULL);
        put_many(1000, 50);
    }
}

#ifndef __SANITIZE_THREAD__ /* which does not support threads in a forked child */
TEST(a_child_has_a_thread_of_its_own)
{
    uint64_t state = FIRST;
    put(carried, &state);
    pid_t child = fork();
    REQUIRE(child >= 0);
    if (!child) {
        carried = wrong = 0;
        tsr_work_is_mine = false;
        if (!tsr_work_start(&ring, check_entry))
            _exit(2);
        put_many(2000, 50);
        _exit(check_failures || carried != 2000);
    }
    int status = 0;
    waitpid(child, &status, 0);
    CHECK_EQ(status, 0);
    put_many(1000, 50);
}
#endif
