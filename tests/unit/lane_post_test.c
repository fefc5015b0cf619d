/* lane/lane_post.c: many writers, one reader that is now ahead of what a writer has seen, now behind. */
#include "check.h"

#include "lane/lane_post.c"

#include <pthread.h>
#include <stdlib.h>

#define WRITERS 4u
#define RECORDS 12000u
#define MOST_STREAM (3 * TSR_LANE_RINGS)

CUresult tsr_lane_state(const struct tsr_lane_client *client)
{
    return (CUresult)__atomic_load_n(&client->lane->dead, __ATOMIC_ACQUIRE);
}

bool tsr_lane_is_lost(const struct tsr_lane_client *client)
{
    return tsr_lane_state(client) != CUDA_SUCCESS;
}

static struct tsr_lane lane;
static struct tsr_lane_client client = {.lane = &lane};
static uint32_t failed; /* atomic */

/* Three in one ring, one in another. */
static const uint32_t streams[WRITERS] = {TSR_LANE_RINGS, 1, 2 * TSR_LANE_RINGS, MOST_STREAM};

TEST(a_writer_that_was_overtaken_does_not_wait)
{
    static struct tsr_lane_ring ring = {.head = 5 * TSR_LANE_RING_BYTES + 640};
    CHECK(has_room(&ring, 2 * TSR_LANE_RING_BYTES)); /* reckoned from a tail that is long gone: moving the tail will fail */
    CHECK(has_room(&ring, ring.head + TSR_LANE_RING_BYTES));
    CHECK(!has_room(&ring, ring.head + TSR_LANE_RING_BYTES + 64));
}

TEST(the_head_is_looked_at_when_there_seems_to_be_no_room)
{
    static struct tsr_lane_ring ring = {.head = 640};
    CHECK(has_room(&ring, 64));
    CHECK_EQ(ring.seen_head, 0);
    CHECK(has_room(&ring, TSR_LANE_RING_BYTES + 64));
    CHECK_EQ(ring.seen_head, 640);
}

/* Pairs of lines of memory in which bytes differ from a copy made before. */
static void note_changed(const void *now, const void *before, size_t bytes, bool *changed)
{
    for (size_t at = 0; at < bytes; at += 128)
        changed[at / 128] |=
            memcmp((const uint8_t *)now + at, (const uint8_t *)before + at, bytes - at < 128 ? bytes - at : 128);
}

struct changes {
    bool of_lane[sizeof(struct tsr_lane) / 128], of_client[sizeof(struct tsr_lane_client) / 128];
};

static void note_launch(struct changes *changes, uint32_t stream)
{
    static struct tsr_lane lane_before;
    static struct tsr_lane_client client_before;
    static const uint8_t parameters[24] = {1, 2, 3};
    struct tsr_lane_record record = {.kind = TSR_LANE_LAUNCH, .stream = stream, .param_bytes = sizeof parameters};
    memcpy(&lane_before, &lane, sizeof lane);
    memcpy(&client_before, &client, sizeof client);
    CHECK_EQ(tsr_lane_post(&client, &record, parameters), CUDA_SUCCESS);
    note_changed(&lane, &lane_before, sizeof lane, changes->of_lane);
    note_changed(&client, &client_before, sizeof client, changes->of_client);
    memcpy(&lane, &lane_before, sizeof lane);
    memcpy(&client, &client_before, sizeof client);
}

TEST(launches_of_neighbouring_streams_write_no_line_of_memory_together)
{
    static struct changes one, other;
    unsigned written = 0, together = 0;
    note_launch(&one, 6);
    note_launch(&other, 7);
    for (unsigned i = 0; i < sizeof one.of_lane; i++) {
        written += one.of_lane[i];
        together += one.of_lane[i] && other.of_lane[i];
    }
    for (unsigned i = 0; i < sizeof one.of_client; i++) {
        written += one.of_client[i];
        together += one.of_client[i] && other.of_client[i];
    }
    CHECK_EQ(written, 3); /* the tail, the record, the count of the stream's records */
    CHECK_EQ(together, 0);
}

TEST(nothing_stands_where_a_stamp_may_but_stamps)
{
    struct tsr_lane_ring *ring = tsr_lane_ring_of(&lane, 5);
    uint64_t at = ring->tail;
    uint8_t parameters[3 * TSR_LANE_UNIT_ROOM + 1];
    struct tsr_lane_record record = {.kind = TSR_LANE_LAUNCH, .stream = 5, .param_bytes = sizeof parameters};
    memset(parameters, 0xff, sizeof parameters);
    CHECK_EQ(tsr_lane_post(&client, &record, parameters), CUDA_SUCCESS);
    CHECK_EQ(ring->tail - at, 5 * TSR_LANE_UNIT);
    CHECK_EQ(tsr_lane_record_at(ring, at)->stamp, at + 1);
    for (uint32_t unit = 1; unit < 5; unit++)
        CHECK_EQ(tsr_lane_record_at(ring, at + unit * TSR_LANE_UNIT)->stamp, 0);
    ring->tail = at;
    memset(tsr_lane_record_at(ring, at), 0, 5 * TSR_LANE_UNIT);
    client.flows[5] = (struct tsr_lane_flow){0};
}

static void *write_records(void *number)
{
    uint8_t parameters[200];
    memset(parameters, (int)(uintptr_t)number, sizeof parameters);
    for (uint32_t i = 0; i < RECORDS; i++) {
        struct tsr_lane_record record = {
            .kind = TSR_LANE_LAUNCH, .stream = (uint32_t)(uintptr_t)number, .value = i, .param_bytes = i % sizeof parameters};
        if (tsr_lane_post(&client, &record, parameters) != CUDA_SUCCESS)
            __atomic_fetch_add(&failed, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

/* False: not what the writer has written. */
static bool is_right(struct tsr_lane_record *record, uint64_t expected)
{
    for (uint32_t i = 0; i < record->param_bytes; i++)
        if (((const uint8_t *)tsr_lane_behind(record, i / TSR_LANE_UNIT_ROOM))[i % TSR_LANE_UNIT_ROOM] != record->stream)
            return false;
    return record->value == expected && record->param_bytes == expected % 200;
}

static uint64_t heads[TSR_LANE_RINGS];

/* The record of the first ring that has one, NULL: none has. */
static struct tsr_lane_record *next_record(uint32_t *number)
{
    for (*number = 0; *number < TSR_LANE_RINGS; ++*number)
        if (tsr_lane_is_ready(&lane.rings[*number], heads[*number]))
            return tsr_lane_record_at(&lane.rings[*number], heads[*number]);
    return NULL;
}

TEST(all_records_arrive_in_each_streams_order)
{
    pthread_t writers[WRITERS];
    uint64_t expected[MOST_STREAM + 1] = {0};
    uint32_t wrong = 0;
    for (uintptr_t i = 0; i < WRITERS; i++)
        REQUIRE(pthread_create(&writers[i], NULL, write_records, (void *)(uintptr_t)streams[i]) == 0);
    for (uint32_t left = WRITERS * RECORDS, number; left > 0;) {
        struct tsr_lane_record *record = next_record(&number);
        if (!record)
            continue;
        if (record->kind == TSR_LANE_LAUNCH) {
            wrong += record->stream % TSR_LANE_RINGS != number || !is_right(record, expected[record->stream]++);
            left--;
        }
        uint64_t end = heads[number] + record->bytes;
        tsr_lane_give_back(&lane.rings[number], heads[number], end);
        heads[number] = end;
    }
    for (unsigned i = 0; i < WRITERS; i++)
        pthread_join(writers[i], NULL);
    CHECK_EQ(wrong, 0);
    CHECK_EQ(failed, 0);
    for (unsigned i = 0; i < TSR_LANE_RINGS; i++)
        CHECK_EQ(lane.rings[i].head, lane.rings[i].tail);
}
