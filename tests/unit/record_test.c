/* carry/record: what another process writes into a lane is a record, or is not taken. */
#include "check.h"

#include "carry/record.h"

#include <stdlib.h>

static struct tsr_lane_ring ring;
static struct tsr_record_copy copy;

static struct tsr_lane_record *at(uint64_t position)
{
    return tsr_lane_record_at(&ring, position);
}

static struct tsr_lane_record *write_launch(uint64_t position, uint32_t param_bytes, uint32_t bytes)
{
    *at(position) = (struct tsr_lane_record){
        .stamp = position + 1, .kind = TSR_LANE_LAUNCH, .bytes = bytes, .stream = 3, .function = 7, .param_bytes = param_bytes};
    return at(position);
}

TEST(a_launch_is_copied_with_its_parameters)
{
    struct tsr_lane_record *record = write_launch(TSR_LANE_RING_BYTES - 192, 60, 192);
    memset(record + 1, 9, 128);
    memset(tsr_lane_behind(record, 0), 5, TSR_LANE_UNIT_ROOM);
    memset(tsr_lane_behind(record, 1), 6, 4);
    REQUIRE(tsr_record_take(&ring, TSR_LANE_RING_BYTES - 192, &copy));
    CHECK_EQ(copy.record.function, 7);
    CHECK_EQ(copy.behind[0], 5);
    CHECK_EQ(copy.behind[55], 5);
    CHECK_EQ(copy.behind[56], 6);
    CHECK_EQ(copy.behind[59], 6);
    record->stream = TSR_LANE_STREAMS; /* the other end writes on: the copy stays */
    CHECK_EQ(copy.record.stream, 3);
}

TEST(sizes_and_numbers_that_do_not_fit_are_refused)
{
    static const uint32_t sizes[] = {
        0, 1, 63, 65, 96, TSR_RECORD_MOST_BYTES + 64, TSR_LANE_RING_BYTES + 64, UINT32_MAX, UINT32_MAX - 63};
    for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        write_launch(0, 0, sizes[i]);
        CHECK(!tsr_record_take(&ring, 0, &copy));
    }
    write_launch(TSR_LANE_RING_BYTES - 64, 0, 128); /* over the ring's end */
    CHECK(!tsr_record_take(&ring, TSR_LANE_RING_BYTES - 64, &copy));
    write_launch(0, 57, 128);
    CHECK(!tsr_record_take(&ring, 0, &copy));
    write_launch(0, UINT32_MAX, 128);
    CHECK(!tsr_record_take(&ring, 0, &copy));
    write_launch(0, 8, 128)->stream = TSR_LANE_STREAMS;
    CHECK(!tsr_record_take(&ring, 0, &copy));
    for (uint32_t kind = TSR_LANE_GRAPH + 1; kind < 64; kind++) {
        write_launch(0, 8, 128)->kind = kind;
        CHECK(!tsr_record_take(&ring, 0, &copy));
    }
    write_launch(0, sizeof(struct tsr_lane_copy) - 1, 192)->kind = TSR_LANE_COPY;
    CHECK(!tsr_record_take(&ring, 0, &copy));
    write_launch(0, sizeof(struct tsr_lane_set) - 1, 192)->kind = TSR_LANE_SET;
    CHECK(!tsr_record_take(&ring, 0, &copy));
    write_launch(0, 0, 64)->kind = TSR_LANE_WRITE;
    CHECK(!tsr_record_take(&ring, 0, &copy));
    write_launch(0, 0, 64)->kind = TSR_LANE_SKIP; /* not up to the end */
    CHECK(!tsr_record_take(&ring, 0, &copy));
    write_launch(64, 0, TSR_LANE_RING_BYTES - 64)->kind = TSR_LANE_SKIP;
    CHECK(tsr_record_take(&ring, 64, &copy));
}

static bool take_attributes(uint64_t shape, CUlaunchAttributeID id)
{
    uint8_t behind[16 + 2 * sizeof(CUlaunchAttribute)] = {0};
    struct tsr_lane_record *record = write_launch(0, sizeof behind, 256);
    CUlaunchAttribute attributes[2] = {{.id = CU_LAUNCH_ATTRIBUTE_PRIORITY}, {.id = id}};
    memcpy(behind + 16, attributes, sizeof attributes);
    for (uint32_t at = 0; at < sizeof behind; at++)
        ((uint8_t *)tsr_lane_behind(record, at / TSR_LANE_UNIT_ROOM))[at % TSR_LANE_UNIT_ROOM] = behind[at];
    record->value = shape;
    return tsr_record_take(&ring, 0, &copy);
}

TEST(attributes_lie_inside_and_refer_to_nothing)
{
    CHECK(take_attributes(tsr_lane_shape(12, 2), CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION));
    CHECK(!take_attributes(tsr_lane_shape(12, 2), CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT));
    CHECK(!take_attributes(tsr_lane_shape(12, 3), CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION));
    CHECK(!take_attributes(tsr_lane_shape(24, 2), CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION));
    CHECK(!take_attributes(tsr_lane_shape(UINT32_MAX, 1), CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION));
    CHECK(!take_attributes(tsr_lane_shape(12, UINT32_MAX), CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION));
}

TEST(no_bytes_lead_out_of_the_lane)
{
    uint32_t taken = 0;
    srand(7);
    for (unsigned i = 0; i < 200000; i++) {
        uint64_t position =
            (uint64_t)(rand() % 3 ? TSR_LANE_RING_BYTES - 64u * (1u + (unsigned)rand() % 8) : 64u * ((unsigned)rand() % 32));
        uint32_t *words = (uint32_t *)at(position);
        for (unsigned word = 0; word < 16; word++)
            words[word] = rand() % 4 ? (uint32_t)rand() % 300 : (uint32_t)rand() << 1;
        at(position)->bytes = rand() % 4 ? 64u * (uint32_t)(rand() % 10) : (uint32_t)rand();
        at(position)->kind = (uint32_t)rand() % 7;
        if (!tsr_record_take(&ring, position, &copy))
            continue;
        taken++;
        if (copy.record.bytes > TSR_LANE_RING_BYTES - position % TSR_LANE_RING_BYTES || copy.record.bytes < sizeof copy.record)
            CHECK(false);
        if (copy.record.kind != TSR_LANE_SKIP && copy.record.param_bytes > copy.record.bytes - sizeof copy.record)
            CHECK(false);
    }
    CHECK(taken > 1000);
}
