/* lane/lane_post.c: many writers, one reader that is now ahead of what a writer has seen, now behind. */
#include "check.h"

#include "lane/lane_post.c"

#include <pthread.h>
#include <stdlib.h>

#define WRITERS 4u
#define RECORDS 12000u

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

TEST(a_writer_that_was_overtaken_does_not_wait)
{
    lane.head = 5 * TSR_LANE_BYTES + 640;
    lane.tail = lane.head;
    CHECK(has_room(&lane, 2 * TSR_LANE_BYTES)); /* reckoned from a tail that is long gone: moving the tail will fail */
    CHECK(has_room(&lane, lane.head + TSR_LANE_BYTES));
    CHECK(!has_room(&lane, lane.head + TSR_LANE_BYTES + 64));
    lane.head = lane.tail = 0;
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
static bool is_right(const struct tsr_lane_record *record, uint64_t expected)
{
    const uint8_t *parameters = (const uint8_t *)(record + 1);
    for (uint32_t i = 0; i < record->param_bytes; i++)
        if (parameters[i] != record->stream)
            return false;
    return record->value == expected && record->param_bytes == expected % 200;
}

TEST(all_records_arrive_in_each_writers_order)
{
    pthread_t writers[WRITERS];
    uint64_t head = 0, expected[WRITERS + 1] = {0};
    uint32_t wrong = 0;
    for (uintptr_t i = 1; i <= WRITERS; i++)
        REQUIRE(pthread_create(&writers[i - 1], NULL, write_records, (void *)i) == 0);
    for (uint32_t left = WRITERS * RECORDS; left > 0;) {
        const struct tsr_lane_record *record = tsr_lane_record_at(&lane, head);
        if (!tsr_lane_is_ready(&lane, head))
            continue;
        if (record->kind == TSR_LANE_LAUNCH) {
            wrong += !is_right(record, expected[record->stream]++);
            left--;
        }
        uint64_t end = head + record->bytes;
        tsr_lane_give_back(&lane, head, end);
        head = end;
    }
    for (unsigned i = 0; i < WRITERS; i++)
        pthread_join(writers[i], NULL);
    CHECK_EQ(wrong, 0);
    CHECK_EQ(failed, 0);
    CHECK_EQ(lane.head, lane.tail);
}
