/* The rules of where memory lies, and the counts that they go by. */
#include "memory/residency.c"
#include "memory/heat.c"

#include "check.h"

#define PAGE (2ull << 20)

static struct tsr_residency_plan following(void)
{
    return (struct tsr_residency_plan){.follows = true, .gpu = 0, .move_uses = 16};
}

static struct tsr_heat used(uint32_t on_0, uint32_t on_1)
{
    return (struct tsr_heat){.by_gpu = {on_0, on_1}};
}

static uint32_t wanted(struct tsr_residency_plan *plan, const struct tsr_residency *of, uint32_t on_0, uint32_t on_1)
{
    struct tsr_heat uses = used(on_0, on_1);
    return tsr_residency_wanted(plan, of, PAGE, &uses);
}

TEST(memory_moves_once_it_would_have_paid)
{
    struct tsr_residency_plan plan = following();
    struct tsr_residency at_home = {.gpu = 0};
    CHECK_EQ(wanted(&plan, &at_home, 0, 0), 0);
    CHECK_EQ(wanted(&plan, &at_home, 0, 15), 0);
    CHECK_EQ(wanted(&plan, &at_home, 0, 16), 1);
    CHECK_EQ(wanted(&plan, &at_home, 16, 32), 1);
    CHECK_EQ(wanted(&plan, &at_home, 17, 33), 0); /* not twice as much */
    CHECK_EQ(wanted(&plan, &at_home, 1000, 1500), 0);
    CHECK_EQ(wanted(&plan, &at_home, 100, 0), 0);
}

TEST(each_move_is_harder_than_the_one_before)
{
    struct tsr_residency_plan plan = following();
    struct tsr_residency of = {.gpu = 0};
    for (; of.moves < TSR_RESIDENCY_MOST_MOVES; of.moves++) {
        uint32_t enough = 16u << 2 * of.moves;
        CHECK_EQ(wanted(&plan, &of, 0, enough - 1), 0);
        CHECK_EQ(wanted(&plan, &of, 0, enough), 1);
    }
    CHECK_EQ(wanted(&plan, &of, 0, UINT32_MAX), 0);
}

TEST(what_others_have_stays)
{
    struct tsr_residency_plan plan = following();
    struct tsr_residency fixed = {.gpu = 0, .fixed = true};
    CHECK_EQ(wanted(&plan, &fixed, 0, 1000), 0);
}

TEST(a_fixed_place_is_the_first_one_and_the_last)
{
    struct tsr_residency_plan plan = {.gpu = 1};
    struct tsr_residency there = {.gpu = 1};
    CHECK_EQ(tsr_residency_first(&plan, PAGE), 1);
    CHECK_EQ(wanted(&plan, &there, 1000, 0), 1);
    CHECK_EQ(tsr_residency_first(&plan, PAGE), 1);
}

TEST(new_memory_goes_where_memory_of_its_size_was_used)
{
    struct tsr_residency_plan plan = following();
    struct tsr_residency at_home = {.gpu = 0}, away = {.gpu = 1};
    CHECK_EQ(tsr_residency_first(&plan, PAGE), 0);
    wanted(&plan, &at_home, 0, 16);
    CHECK_EQ(tsr_residency_first(&plan, PAGE), 1);
    CHECK_EQ(tsr_residency_first(&plan, 2 * PAGE - 1), 1);
    CHECK_EQ(tsr_residency_first(&plan, 2 * PAGE), 0);
    wanted(&plan, &away, 20, 1); /* used at home again */
    CHECK_EQ(tsr_residency_first(&plan, PAGE), 0);
    wanted(&plan, &at_home, 17, 20); /* by both: nothing is learnt */
    CHECK_EQ(tsr_residency_first(&plan, PAGE), 0);
}

TEST(old_counts_do_not_hide_a_change)
{
    struct tsr_residency_plan plan = following();
    struct tsr_residency of = {.gpu = 1};
    struct tsr_heat few = used(64, 64), many = used(0, 129);
    CHECK(!tsr_residency_is_stale(&plan, &of, &few));
    CHECK(tsr_residency_is_stale(&plan, &of, &many));
}

/* Any program: so many moves at most, and never more often from afar than a few times what staying at the best place costs. */
TEST(moving_is_bounded_whatever_the_program_does)
{
    for (uint32_t seed = 1; seed <= 50; seed++) {
        struct tsr_residency_plan plan = following();
        struct tsr_residency of = {.gpu = 0};
        struct tsr_heat uses = {{0}};
        uint32_t drawn = seed * 2654435761u, moves = 0, phase = 1 + seed * 7, used_on = 0;
        for (uint32_t launch = 0; launch < 100000; launch++) {
            drawn = drawn * 1664525u + 1013904223u;
            if (launch % phase == 0)
                used_on = seed % 2 ? drawn >> 31 : 1 - used_on;
            uses.by_gpu[used_on]++;
            uint32_t to = tsr_residency_wanted(&plan, &of, PAGE, &uses);
            if (to != of.gpu) {
                of.gpu = (uint8_t)to;
                of.moves++;
                moves++;
                uses = (struct tsr_heat){{0}};
            }
        }
        CHECK(moves <= TSR_RESIDENCY_MOST_MOVES);
    }
}

TEST(words_that_are_addresses_count_for_their_page)
{
    uint64_t block[4] = {TSR_ARENA_ADDRESS + 5 * PAGE + 100, 77, TSR_ARENA_ADDRESS - 1, TSR_ARENA_ADDRESS + TSR_ARENA_BYTES};
    CHECK_EQ(tsr_heat_weight(), 0); /* before counting begins */
    REQUIRE(tsr_heat_start(1));
    tsr_heat_count(block, sizeof block, 1, 1);
    tsr_heat_count(block, sizeof block - 1, 1, 1);
    tsr_heat_count(block, 7, 1, 1); /* no whole word */
    CHECK_EQ(tsr_heat_counter.launches, 3);
    CHECK_EQ(tsr_heat_of(TSR_ARENA_ADDRESS + 5 * PAGE, PAGE).by_gpu[1], 2);
    CHECK_EQ(tsr_heat_of(TSR_ARENA_ADDRESS + 5 * PAGE, PAGE).by_gpu[0], 0);
    CHECK_EQ(tsr_heat_of(TSR_ARENA_ADDRESS, 5 * PAGE).by_gpu[1], 0);
    CHECK_EQ(tsr_heat_of(TSR_ARENA_ADDRESS, 10 * PAGE).by_gpu[1], 2);
    tsr_heat_halve(TSR_ARENA_ADDRESS, 10 * PAGE);
    CHECK_EQ(tsr_heat_of(TSR_ARENA_ADDRESS, 10 * PAGE).by_gpu[1], 1);
    tsr_heat_clear(TSR_ARENA_ADDRESS, 10 * PAGE);
    CHECK_EQ(tsr_heat_of(TSR_ARENA_ADDRESS, 10 * PAGE).by_gpu[1], 0);
    tsr_heat_stop();
}

TEST(counts_that_are_certain_are_left_alone)
{
    uint64_t block[] = {TSR_ARENA_ADDRESS};
    REQUIRE(tsr_heat_start(1));
    for (uint32_t i = 0; i < 2 * TSR_HEAT_CERTAIN; i++)
        tsr_heat_count(block, sizeof block, 1, 1);
    CHECK_EQ(tsr_heat_of(TSR_ARENA_ADDRESS, PAGE).by_gpu[1], TSR_HEAT_CERTAIN);
    for (uint32_t i = 0; i < TSR_HEAT_CERTAIN / 2; i++)
        tsr_heat_count(block, sizeof block, 1, 2);
    tsr_heat_count(block, sizeof block, 1, 1); /* it is contested now */
    CHECK_EQ(tsr_heat_of(TSR_ARENA_ADDRESS, PAGE).by_gpu[1], TSR_HEAT_CERTAIN + 1);
    CHECK_EQ(tsr_heat_of(TSR_ARENA_ADDRESS, PAGE).by_gpu[2], TSR_HEAT_CERTAIN / 2);
    tsr_heat_stop();
}

/* Eight launches over and over, each with memory of its own: a fixed step would see one of them only. */
TEST(launches_that_are_looked_at_count_for_those_between_them)
{
    enum { LAUNCHES = 28000, KERNELS = 8 }; /* pages are not certain yet */
    uint32_t sampled = 0, counted = 0;
    REQUIRE(tsr_heat_start(4));
    for (uint64_t i = 0; i < LAUNCHES; i++) {
        uint64_t block[] = {TSR_ARENA_ADDRESS + i % KERNELS * PAGE};
        uint32_t launches = tsr_heat_weight();
        sampled += launches != 0;
        counted += launches;
        if (launches)
            tsr_heat_count(block, sizeof block, launches, 1);
    }
    CHECK(sampled > LAUNCHES / 5 && sampled < LAUNCHES / 3);
    CHECK(counted <= LAUNCHES && counted > LAUNCHES - 8);
    CHECK(tsr_heat_counter.launches <= counted && tsr_heat_counter.launches > counted - 2 * TSR_HEAT_AT_ONCE);
    for (uint64_t page = 0; page < KERNELS; page++) {
        uint32_t uses = tsr_heat_of(TSR_ARENA_ADDRESS + page * PAGE, PAGE).by_gpu[1];
        CHECK(uses > LAUNCHES / KERNELS * 9 / 10 && uses < LAUNCHES / KERNELS * 11 / 10);
    }
    tsr_heat_stop();
}
