/* Timelines against a naive one that looks at every nanosecond, and the clock's arithmetic. */
#include <stdbool.h>
#include <stdlib.h>

#include "driver_fixture.h"
#include "emulator/machine/clock.h"

#include "check.h"

#define HORIZON 4000

static struct tsr_machine machine;
static uint32_t used[HORIZON];
static uint64_t seed = 7;

static unsigned draw(unsigned below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(seed >> 33) % below;
}

static uint64_t naive_place(uint32_t amount, uint64_t ns, uint64_t ready)
{
    for (uint64_t start = ready;; start++) {
        bool free_here = true;
        for (uint64_t at = start; at < start + ns; at++)
            free_here &= used[at] + amount <= 1000;
        if (!free_here)
            continue;
        for (uint64_t at = start; at < start + ns; at++)
            used[at] += amount;
        return start;
    }
}

TEST(kernels_take_the_earliest_place)
{
    fixture_describe(&machine);
    for (unsigned round = 0; round < 50; round++) {
        struct tsr_timeline *timeline = tsr_timeline_create(&machine);
        memset(used, 0, sizeof used);
        for (unsigned i = 0; i < 40; i++) {
            struct tsr_kernel_time time = {1 + draw(60), 1 + draw(1000), "launch"};
            uint64_t ready = draw(1000);
            uint64_t expected = naive_place(time.sm_permille, time.ns, ready);
            if (!CHECK_EQ(tsr_timeline_place_kernel(timeline, 0, time, ready), expected))
                return;
        }
        tsr_timeline_destroy(timeline);
    }
}

TEST(copies_share_links_and_engines)
{
    fixture_describe(&machine);
    struct tsr_timeline *timeline = tsr_timeline_create(&machine);
    CHECK_EQ(tsr_timeline_place_copy(timeline, TSR_LOCATION_HOST, 0, 100, 0), 0);   /* in */
    CHECK_EQ(tsr_timeline_place_copy(timeline, 0, TSR_LOCATION_HOST, 100, 0), 0);   /* out, beside it */
    CHECK_EQ(tsr_timeline_place_copy(timeline, TSR_LOCATION_HOST, 0, 100, 0), 100); /* in again, behind */
    CHECK_EQ(tsr_timeline_place_copy(timeline, 0, 1, 100, 0), 100); /* both engines of device 0 are taken until 100 */
    CHECK_EQ(tsr_timeline_place_copy(timeline, TSR_LOCATION_HOST, 1, 100, 0), 0); /* another device's */
    tsr_timeline_destroy(timeline);
}

TEST(many_bookings_stay_in_order)
{
    fixture_describe(&machine);
    struct tsr_timeline *timeline = tsr_timeline_create(&machine);
    struct tsr_kernel_time whole = {10, 1000, "launch"};
    for (uint64_t i = 0; i < 20000; i++)
        if (!CHECK_EQ(tsr_timeline_place_kernel(timeline, 0, whole, 0), i * 10))
            return;
    tsr_timeline_destroy(timeline);
}

TEST(a_device_becomes_slower)
{
    fixture_describe(&machine);
    machine.devices[1].slow_from_ns = 1000;
    machine.devices[1].slow_permille = 2500;
    CHECK_EQ(tsr_clock_slowed_ns(&machine, 1, 40, 999), 40);
    CHECK_EQ(tsr_clock_slowed_ns(&machine, 1, 40, 1000), 100);
    CHECK_EQ(tsr_clock_slowed_ns(&machine, 0, 40, 1000), 40);
}

TEST(kernel_times)
{
    fixture_describe(&machine);
    struct tsr_cost cost = {.blocks = 100, .warps = 800, .resident_blocks_per_sm = 4};
    struct tsr_kernel_time time = tsr_clock_kernel(&machine, 0, 100, &cost);
    CHECK_EQ(time.ns, 2000); /* the launch latency */
    CHECK_STR(time.bound, "launch");
    CHECK_EQ(time.sm_permille, 250);
    cost.dram_read_bytes[0] = 50000000;
    cost.dram_write_bytes[0] = 50000000;
    time = tsr_clock_kernel(&machine, 0, 100, &cost);
    CHECK_EQ(time.ns, 100000); /* 100 MB at 1 TB/s */
    CHECK_STR(time.bound, "memory");
    cost.dram_read_bytes[1] = 50000000; /* of the other device, over a link of 100 GB/s */
    CHECK_EQ(tsr_clock_kernel(&machine, 0, 100, &cost).ns, 501000);
    struct tsr_cost busy = {.blocks = 200, .warps = 1600, .resident_blocks_per_sm = 4, .issue_cycles = 160000000};
    CHECK_EQ(tsr_clock_kernel(&machine, 0, 100, &busy).ns, 400000); /* 4 schedulers on each of 100 SMs at 1 GHz */
    CHECK_EQ(tsr_clock_kernel(&machine, 0, 50, &busy).ns, 800000);  /* a green context of half the device */
    busy.blocks = 101;                                              /* one SM gets two blocks */
    busy.issue_cycles = 101u * 400000;
    CHECK_EQ(tsr_clock_kernel(&machine, 0, 100, &busy).ns, 200000);
}

TEST(copy_times)
{
    fixture_describe(&machine);
    CHECK_EQ(tsr_clock_copy_ns(&machine, TSR_LOCATION_HOST, 0, 10000000, 1), 1001000);
    CHECK_EQ(tsr_clock_copy_ns(&machine, 0, 1, 10000000, 1), 101000);
    CHECK_EQ(tsr_clock_copy_ns(&machine, 0, 0, 10000000, 1), 20000); /* read and written */
    machine.links[1].bytes_per_s = 0;
    CHECK_EQ(tsr_clock_copy_ns(&machine, 0, 1, 10000000, 1), 1002000); /* through the host */
    CHECK_EQ(tsr_clock_memset_ns(&machine, 0, 10000000), 10000);
}
