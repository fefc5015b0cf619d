/* executor/backlog.c: whose launches wait. */
#include "check.h"

#include "executor/backlog.h"

static struct tsr_lane_record launch(uint16_t kind, uint32_t id)
{
    return (struct tsr_lane_record){.kind = kind, .bytes = sizeof(struct tsr_lane_record), .stream = 3, .function = id};
}

TEST(only_what_is_launched_waits)
{
    struct tsr_backlog *backlog = tsr_backlog_create();
    struct tsr_lane_record function = launch(TSR_LANE_LAUNCH, 7), graph = launch(TSR_LANE_GRAPH, 7 + 256);
    struct tsr_lane_record signal = launch(TSR_LANE_SIGNAL, 9);
    REQUIRE(backlog != NULL);
    CHECK(tsr_backlog_add(backlog, &function));
    CHECK(tsr_backlog_add(backlog, &function));
    CHECK(tsr_backlog_add(backlog, &graph));
    CHECK(tsr_backlog_add(backlog, &signal));
    CHECK(tsr_backlog_launches(backlog, TSR_LANE_LAUNCH, 7));
    CHECK(tsr_backlog_launches(backlog, TSR_LANE_GRAPH, 7 + 256));
    CHECK(!tsr_backlog_launches(backlog, TSR_LANE_GRAPH, 7));
    CHECK(!tsr_backlog_launches(backlog, TSR_LANE_LAUNCH, 7 + 256));
    CHECK(!tsr_backlog_launches(backlog, TSR_LANE_SIGNAL, 9));
    tsr_backlog_remove(backlog, 3);
    CHECK(tsr_backlog_launches(backlog, TSR_LANE_LAUNCH, 7));
    tsr_backlog_remove(backlog, 3);
    CHECK(!tsr_backlog_launches(backlog, TSR_LANE_LAUNCH, 7));
    CHECK(tsr_backlog_launches(backlog, TSR_LANE_GRAPH, 7 + 256));
    tsr_backlog_remove(backlog, 3);
    CHECK(!tsr_backlog_launches(backlog, TSR_LANE_GRAPH, 7 + 256));
    CHECK(!tsr_backlog_is_empty(backlog));
    tsr_backlog_remove(backlog, 3);
    CHECK(tsr_backlog_is_empty(backlog));
    tsr_backlog_destroy(backlog);
}
