/* record/ring: records against a plain array, with a reader that is slow, absent or wrong. */
#include "record/ring.c"

#include "check.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13, *state ^= *state >> 7, *state ^= *state << 17;
    return *state;
}

static void put(struct tsr_ring_writer *writer, uint64_t first, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        *tsr_ring_at(writer, i) = (struct tsr_record){.start = first + i, .kind = TSR_RECORD_CALL, .u.attribute[31] = 0x5a};
    tsr_ring_commit(writer, count);
}

/* The reader takes what is there, up to `most`; every record must be the next one that was not lost. */
static uint64_t take(struct tsr_ring *ring, uint64_t most, const uint64_t *expected)
{
    const struct tsr_record *records = (const struct tsr_record *)((const char *)ring + TSR_RING_RECORDS_OFFSET);
    uint64_t tail = __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE), taken = 0;
    for (; ring->head < tail && taken < most; taken++) {
        const struct tsr_record *record = &records[ring->head % TSR_RING_RECORDS];
        CHECK_EQ(record->start, expected[ring->head]);
        CHECK_EQ(record->u.attribute[31], 0x5a);
        __atomic_store_n(&ring->head, ring->head + 1, __ATOMIC_RELEASE);
    }
    return taken;
}

TEST(what_is_written_is_read_or_counted_as_lost)
{
    enum { STEPS = 40000, MOST = 8 };
    static uint64_t expected[STEPS * MOST]; /* what the n-th record written holds */
    struct tsr_ring *ring;
    int descriptor = tsr_ring_create(7, &ring);
    REQUIRE(descriptor >= 0);
    CHECK_EQ(ring->number, 7);
    struct tsr_ring_writer writer = tsr_ring_writer(ring);
    uint64_t random = 88172645463325252ull, made = 0, written = 0, lost = 0, read = 0;
    for (int step = 0; step < STEPS; step++) {
        uint64_t count = 1 + next_random(&random) % MOST;
        bool fits = written - read + count <= TSR_RING_RECORDS;
        bool room = tsr_ring_has_room(&writer, count);
        CHECK_EQ(room, fits);
        for (uint64_t i = 0; room && i < count; i++)
            expected[written + i] = made + i;
        if (room)
            put(&writer, made, count);
        written += room ? count : 0;
        lost += room ? 0 : count;
        made += count;
        if (next_random(&random) % 64 == 0)
            read += take(ring, next_random(&random) % 400, expected);
        if (step % 1000 == 500)
            writer = tsr_ring_writer(ring); /* another thread goes on */
    }
    read += take(ring, UINT64_MAX, expected);
    CHECK(lost > 0);
    CHECK_EQ(ring->lost, lost);
    CHECK_EQ(ring->tail, written);
    CHECK_EQ(read, written);
    tsr_ring_destroy(ring);
    close(descriptor);
}

TEST(a_wrong_head_gives_no_room)
{
    struct tsr_ring *ring;
    int descriptor = tsr_ring_create(0, &ring);
    REQUIRE(descriptor >= 0);
    struct tsr_ring_writer writer = tsr_ring_writer(ring);
    CHECK(tsr_ring_has_room(&writer, TSR_RING_RECORDS));
    put(&writer, 0, TSR_RING_RECORDS);
    uint64_t wrong[] = {TSR_RING_RECORDS + 1, UINT64_MAX, 1ull << 63};
    for (unsigned i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        ring->head = wrong[i];
        CHECK(!tsr_ring_has_room(&writer, 1));
        CHECK_EQ(ring->lost, i + 1);
    }
    ring->head = 1;
    CHECK(tsr_ring_has_room(&writer, 1));
    CHECK(!tsr_ring_has_room(&writer, 2));
    tsr_ring_destroy(ring);
    close(descriptor);
}

static void *read_a_little_later(void *ring)
{
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    __atomic_store_n(&((struct tsr_ring *)ring)->head, 5, __ATOMIC_RELEASE);
    return NULL;
}

TEST(a_slow_reader_is_waited_for_and_an_absent_one_once)
{
    struct tsr_ring *ring;
    int descriptor = tsr_ring_create(0, &ring);
    REQUIRE(descriptor >= 0);
    struct tsr_ring_writer writer = tsr_ring_writer(ring);
    CHECK(tsr_ring_has_room(&writer, TSR_RING_RECORDS));
    put(&writer, 0, TSR_RING_RECORDS);
    pthread_t reader;
    REQUIRE(pthread_create(&reader, NULL, read_a_little_later, ring) == 0);
    tsr_ring_wait_for_room(&writer, 5);
    CHECK(tsr_ring_has_room(&writer, 5));
    pthread_join(reader, NULL);
    tsr_ring_wait_for_room(&writer, 6);
    CHECK_EQ(writer.stuck, 6);
    for (int i = 0; i < 100000; i++) /* hours, if each waited */
        tsr_ring_wait_for_room(&writer, 6);
    CHECK_EQ(ring->lost, 0);
    CHECK(!tsr_ring_has_room(&writer, 6));
    CHECK_EQ(ring->lost, 6);
    tsr_ring_destroy(ring);
    close(descriptor);
}

TEST(shared_writers_only_count)
{
    static struct tsr_ring ring;
    struct tsr_ring_writer writer = tsr_ring_writer_shared(&ring);
    CHECK(!tsr_ring_has_room(&writer, 3));
    tsr_ring_count(&writer, &ring.launches[2], 5);
    CHECK_EQ(ring.lost, 3);
    CHECK_EQ(ring.launches[2], 5);
    CHECK_EQ(ring.tail, 0);
}

TEST(a_limit_on_file_sizes_means_no_ring_and_no_signal)
{
    struct rlimit before, small = {4096, 4096};
    struct tsr_ring *ring;
    getrlimit(RLIMIT_FSIZE, &before);
    small.rlim_max = before.rlim_max;
    setrlimit(RLIMIT_FSIZE, &small);
    CHECK_EQ(tsr_ring_create(0, &ring), -1);
    setrlimit(RLIMIT_FSIZE, &before);
}
