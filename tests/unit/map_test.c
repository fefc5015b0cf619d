/* base/map: against a plain array, growth, removal, and look-ups beside changes. */
#include "check.h"

#include "base/map.h"
#include "base/os.h"

#include <malloc.h>
#include <stdlib.h>

#define KEYS 500

static uint64_t key_of(unsigned n)
{
    return 0x100000ull + 64ull * n;
}

TEST(it_answers_like_an_array_over_random_changes)
{
    static void *plain[KEYS];
    static char values[64];
    struct tsr_map map = {0};
    uint64_t random = 88172645463325252ull;
    for (int step = 0; step < 200000; step++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        unsigned n = (unsigned)(random % KEYS);
        void *value = &values[random >> 20 & 63];
        if (random >> 60 < 10) {
            REQUIRE(tsr_map_set(&map, key_of(n), value));
            plain[n] = value;
        } else if (random >> 60 < 14) {
            REQUIRE(tsr_map_remove(&map, key_of(n)) == plain[n]);
            plain[n] = NULL;
        } else {
            REQUIRE(tsr_map_find(&map, key_of(n)) == plain[n]);
        }
    }
    for (unsigned n = 0; n < KEYS; n++)
        CHECK(tsr_map_find(&map, key_of(n)) == plain[n]);
    tsr_map_fini(&map);
}

static void count(uint64_t key, void *value, void *argument)
{
    (void)key, (void)value;
    ++*(unsigned *)argument;
}

TEST(each_visits_what_is_in_it)
{
    struct tsr_map map = {0};
    unsigned visited = 0;
    for (unsigned n = 0; n < KEYS; n++)
        tsr_map_set(&map, key_of(n), &map);
    for (unsigned n = 0; n < KEYS; n += 2)
        tsr_map_remove(&map, key_of(n));
    tsr_map_each(&map, count, &visited);
    CHECK_EQ(visited, KEYS / 2);
    CHECK(!tsr_map_find(&map, key_of(KEYS + 1)));
    tsr_map_fini(&map);
    CHECK(!tsr_map_find(&map, key_of(1)));
}

static bool is_multiple(uint64_t key, const void *value, const void *argument)
{
    return value && (key - key_of(0)) / 64 % *(const unsigned *)argument == 0;
}

TEST(what_a_condition_holds_for_is_removed_and_told)
{
    struct tsr_map map = {0};
    const unsigned three = 3;
    unsigned left = 0;
    for (unsigned n = 0; n < KEYS; n++)
        tsr_map_set(&map, key_of(n), (void *)(uintptr_t)key_of(n));
    tsr_map_remove(&map, key_of(3));
    struct tsr_map_entries removed = tsr_map_remove_if(&map, is_multiple, &three);
    CHECK_EQ(removed.count, (KEYS + 2) / 3 - 1);
    for (size_t i = 0; i < removed.count; i++) {
        CHECK(is_multiple(removed.data[i].key, removed.data[i].value, &three));
        CHECK_EQ((uintptr_t)removed.data[i].value, removed.data[i].key);
        CHECK(!tsr_map_find(&map, removed.data[i].key));
    }
    tsr_vec_fini(&removed);
    tsr_map_each(&map, count, &left);
    CHECK_EQ(left, KEYS - (KEYS + 2) / 3);
    CHECK_EQ(tsr_map_remove_if(&(struct tsr_map){0}, is_multiple, &three).count, 0);
    tsr_map_fini(&map);
}

static struct tsr_map shared;
static uint32_t wrong;

static void *look_up(void *argument)
{
    const uint32_t *stop = argument;
    while (!__atomic_load_n(stop, __ATOMIC_RELAXED))
        for (unsigned n = 0; n < KEYS; n++) {
            void *value = tsr_map_find(&shared, key_of(n));
            if (value && value != (void *)(uintptr_t)key_of(n))
                __atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED);
        }
    return NULL;
}

TEST(look_ups_beside_changes_see_a_value_that_was_set)
{
    pthread_t reader;
    uint32_t stop = 0;
    REQUIRE(tsr_os_thread_start(&reader, "reader", look_up, &stop));
    for (int round = 0; round < 200; round++)
        for (unsigned n = 0; n < KEYS; n++) {
            if ((n + (unsigned)round) % 3)
                tsr_map_set(&shared, key_of(n), (void *)(uintptr_t)key_of(n));
            else
                tsr_map_remove(&shared, key_of(n));
        }
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    pthread_join(reader, NULL);
    CHECK_EQ(wrong, 0);
    tsr_map_fini(&shared);
}

/* Keys that never come again, as handles with generations. */
static uint64_t passing_key(unsigned generation, unsigned n)
{
    return key_of(generation * 64 + n);
}

static void pass(struct tsr_map *map, unsigned first, unsigned last, uint32_t *now)
{
    for (unsigned generation = first; generation <= last; generation++) {
        for (unsigned n = 0; n < 64; n++) {
            uint64_t key = passing_key(generation, n);
            tsr_map_set(map, key, (void *)(uintptr_t)key);
            tsr_map_remove(map, passing_key(generation - 1, n));
        }
        __atomic_store_n(now, generation, __ATOMIC_RELEASE);
    }
}

TEST(keys_that_come_and_go_leave_nothing)
{
    struct tsr_map map = {0};
    uint32_t now = 0;
    pass(&map, 1, 20, &now);
    size_t before = mallinfo2().uordblks;
    pass(&map, 21, 5000, &now);
    CHECK(mallinfo2().uordblks <= before + 4096);
    for (unsigned n = 0; n < 64; n++)
        CHECK(tsr_map_find(&map, passing_key(5000, n)) == (void *)(uintptr_t)passing_key(5000, n));
    tsr_map_fini(&map);
}

TEST(what_was_cleared_is_gone_and_its_memory_serves_what_comes)
{
    struct tsr_map map = {0};
    size_t before = 0;
    for (uint32_t turn = 0; turn < 20; turn++) {
        for (unsigned n = 0; n < KEYS; n++)
            REQUIRE(tsr_map_set(&map, key_of(turn * KEYS + n), &map));
        before = turn == 1 ? mallinfo2().uordblks : before; /* two tables of a size */
        tsr_map_clear(&map);
        for (unsigned n = 0; n < KEYS; n++)
            CHECK(!tsr_map_find(&map, key_of(turn * KEYS + n)));
    }
    CHECK_EQ(mallinfo2().uordblks, before);
    tsr_map_fini(&map);
    tsr_map_clear(&map);
}

static uint32_t generation_now;

static void *look_up_passing(void *argument)
{
    const uint32_t *stop = argument;
    while (!__atomic_load_n(stop, __ATOMIC_RELAXED)) {
        uint32_t generation = __atomic_load_n(&generation_now, __ATOMIC_ACQUIRE);
        for (unsigned n = 0; n < 64; n++) {
            uint64_t key = passing_key(generation, n);
            void *value = tsr_map_find(&shared, key);
            bool right = (!value || value == (void *)(uintptr_t)key) && tsr_map_find(&shared, 64) == &shared;
            __atomic_fetch_add(&wrong, !right, __ATOMIC_RELAXED);
        }
    }
    return NULL;
}

TEST(look_ups_beside_tables_that_are_used_again_find_what_is_there)
{
    pthread_t readers[2];
    uint32_t stop = 0;
    wrong = 0;
    tsr_map_set(&shared, 64, &shared);
    for (int i = 0; i < 2; i++)
        REQUIRE(tsr_os_thread_start(&readers[i], "reader", look_up_passing, &stop));
    pass(&shared, 1, 2000, &generation_now);
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < 2; i++)
        pthread_join(readers[i], NULL);
    CHECK_EQ(wrong, 0);
    tsr_map_fini(&shared);
}
