/* The address space: ranges, snapshots, and that a range stays until nobody shows it. */
#include <cuda.h>

#include "emulator/space/space.h"

#include <pthread.h>
#include <string.h>

#include "check.h"

static struct tsr_range range_at(uint64_t base, uint64_t bytes)
{
    return (struct tsr_range){
        .base = base, .bytes = bytes, .requested_bytes = bytes, .location = 1, .readable = 2, .writable = 2};
}

static CUresult add(uint64_t base, uint64_t bytes)
{
    struct tsr_range range = range_at(base, bytes);
    return tsr_space_add(tsr_space_instance(), &range);
}

TEST(ranges_are_found_by_any_address_inside)
{
    struct tsr_space *space = tsr_space_instance();
    REQUIRE(add(0x30000, 0x1000) == CUDA_SUCCESS);
    REQUIRE(add(0x10000, 0x1000) == CUDA_SUCCESS);
    REQUIRE(add(0x20000, 0x1000) == CUDA_SUCCESS);
    const struct tsr_snapshot *snapshot = tsr_space_get(space);
    CHECK_EQ(snapshot->count, 3);
    CHECK_EQ(tsr_snapshot_find(snapshot, 0x20000)->base, 0x20000);
    CHECK_EQ(tsr_snapshot_find(snapshot, 0x30fff)->base, 0x30000);
    CHECK(tsr_snapshot_find(snapshot, 0x21000) == NULL);
    CHECK(tsr_snapshot_find(snapshot, 0xffff) == NULL);
    CHECK(tsr_snapshot_find(snapshot, 0) == NULL);
    CHECK(tsr_snapshot_find(snapshot, UINT64_MAX) == NULL);
    CHECK(snapshot->ranges[0]->id != snapshot->ranges[1]->id);
    tsr_space_put(space, snapshot);
    for (uint64_t base = 0x10000; base <= 0x30000; base += 0x10000)
        CHECK(tsr_space_remove(space, base));
    CHECK(!tsr_space_remove(space, 0x10000));
}

TEST(overlaps_are_refused)
{
    struct tsr_space *space = tsr_space_instance();
    REQUIRE(add(0x10000, 0x1000) == CUDA_SUCCESS);
    CHECK_EQ(add(0x10000, 0x10), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(add(0x10fff, 0x10), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(add(0xf000, 0x1001), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(add(0xf000, 0x10000), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(add(0xf000, 0), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(add(0xf000, 0x1000), CUDA_SUCCESS);
    CHECK_EQ(add(0x11000, 0x1000), CUDA_SUCCESS);
    CHECK(tsr_space_overlaps(space, 0x11fff, 2));
    CHECK(!tsr_space_overlaps(space, 0x12000, 0x100000));
    for (uint64_t base = 0xf000; base <= 0x11000; base += 0x1000)
        CHECK(tsr_space_remove(space, base));
}

TEST(an_old_snapshot_keeps_its_ranges)
{
    struct tsr_space *space = tsr_space_instance();
    REQUIRE(add(0x10000, 0x1000) == CUDA_SUCCESS);
    const struct tsr_snapshot *before = tsr_space_get(space);
    REQUIRE(add(0x20000, 0x1000) == CUDA_SUCCESS);
    const struct tsr_snapshot *after = tsr_space_get(space);
    CHECK_EQ(before->count, 1);
    CHECK_EQ(after->count, 2);
    CHECK(after != before);
    tsr_space_put(space, before);
    tsr_space_put(space, after);
    CHECK(tsr_space_remove(space, 0x10000));
    CHECK(tsr_space_remove(space, 0x20000));
}

TEST(access_changes_in_place)
{
    struct tsr_space *space = tsr_space_instance();
    struct tsr_range seen;
    REQUIRE(add(0x10000, 0x1000) == CUDA_SUCCESS);
    const struct tsr_snapshot *snapshot = tsr_space_get(space);
    CHECK(tsr_space_access_set(space, 0x10000, 7, 1));
    CHECK_EQ(snapshot->ranges[0]->readable, 7);
    CHECK(tsr_space_lookup(space, 0x10010, &seen));
    CHECK_EQ(seen.writable, 1);
    CHECK(!tsr_space_access_set(space, 0x10010, 7, 7));
    tsr_space_put(space, snapshot);
    CHECK(tsr_space_remove(space, 0x10000));
}

static void *remove_it(void *done)
{
    tsr_space_remove(tsr_space_instance(), 0x10000);
    __atomic_store_n((int *)done, 1, __ATOMIC_RELEASE);
    return NULL;
}

TEST(removal_waits_for_the_snapshots_that_show_it)
{
    struct tsr_space *space = tsr_space_instance();
    struct tsr_range gone;
    pthread_t thread;
    int done = 0;
    REQUIRE(add(0x10000, 0x1000) == CUDA_SUCCESS);
    const struct tsr_snapshot *snapshot = tsr_space_get(space);
    REQUIRE(pthread_create(&thread, NULL, remove_it, &done) == 0);
    while (tsr_space_lookup(space, 0x10000, &gone))
        sched_yield();
    CHECK_EQ(__atomic_load_n(&done, __ATOMIC_ACQUIRE), 0);
    snapshot->ranges[0]->read_lines[0] = 1;                  /* still there */
    const struct tsr_snapshot *newer = tsr_space_get(space); /* does not hold it up */
    tsr_space_put(space, snapshot);
    pthread_join(thread, NULL);
    CHECK_EQ(done, 1);
    CHECK_EQ(newer->count, 0);
    tsr_space_put(space, newer);
}

TEST(large_ranges_have_lines_for_every_128_bytes)
{
    struct tsr_space *space = tsr_space_instance();
    struct tsr_range seen;
    uint64_t bytes = 1ull << 33;
    REQUIRE(add(0x100000000000, bytes) == CUDA_SUCCESS);
    REQUIRE(tsr_space_lookup(space, 0x100000000000, &seen));
    CHECK_EQ(seen.write_lines[(bytes - 1) / 128], 0);
    seen.write_lines[(bytes - 1) / 128] = 1;
    CHECK(tsr_space_remove(space, 0x100000000000));
}

enum { PLACES = 3000, STEP = 0x1000 };

static uint64_t place_of(unsigned number)
{
    return 0x100000 + (uint64_t)number * STEP;
}

/* Looks at everything through the space's own functions. */
static void compare(const bool present[PLACES])
{
    struct tsr_space *space = tsr_space_instance();
    struct tsr_range found, before, after;
    const struct tsr_snapshot *snapshot = tsr_space_get(space);
    uint64_t from = 0, last = 0;
    unsigned count = 0;
    for (unsigned i = 0; i < PLACES; i++) {
        CHECK_EQ(tsr_space_lookup(space, place_of(i) + 7, &found), present[i]);
        tsr_space_neighbours(space, place_of(i) + STEP - 1, &before, &after);
        last = present[i] ? place_of(i) : last;
        CHECK_EQ(before.base, last);
        if (!present[i])
            continue;
        CHECK_EQ(snapshot->ranges[count++]->base, place_of(i));
        CHECK(tsr_space_next(space, from, &found));
        CHECK_EQ(found.base, place_of(i));
        from = found.base + 1;
    }
    CHECK(!tsr_space_next(space, from, &found));
    CHECK_EQ(snapshot->count, count);
    tsr_space_put(space, snapshot);
}

TEST(many_ranges_are_what_a_list_of_them_is)
{
    static bool present[PLACES];
    uint64_t random = 88172645463325252u;
    for (unsigned round = 1; round <= 40000; round++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        unsigned place = (unsigned)(random % PLACES);
        if (round / 10000 % 2 == 0) { /* by turns they become more and fewer */
            CHECK_EQ(add(place_of(place), STEP / 2), present[place] ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS);
            present[place] = true;
        } else {
            CHECK_EQ(tsr_space_remove(tsr_space_instance(), place_of(place)), present[place]);
            present[place] = false;
        }
        if (round % 4000 == 0)
            compare(present);
    }
    for (unsigned i = 0; i < PLACES; i++)
        tsr_space_remove(tsr_space_instance(), place_of(i));
    memset(present, 0, sizeof present);
    compare(present);
}
