/* What is learnt of an order that repeats itself. */
#include "memory/recurrence.c"

#include "check.h"

static struct tsr_recurrence learnt;

static void note(const char *items)
{
    for (; *items; items++)
        tsr_recurrence_note(&learnt, (uint32_t)*items);
}

static void check_next(const char *expected)
{
    for (uint64_t after = 0; expected[after]; after++)
        CHECK_EQ(tsr_recurrence_next(&learnt, after), (uint32_t)expected[after]);
}

TEST(an_order_that_repeats_is_expected_to_go_on)
{
    tsr_recurrence_start(&learnt);
    note("abcd");
    CHECK_EQ(tsr_recurrence_period(&learnt), 0);
    CHECK(!tsr_recurrence_is_sure(&learnt));
    note("ab");
    CHECK_EQ(tsr_recurrence_period(&learnt), 4);
    check_next("cdab");
    CHECK(!tsr_recurrence_is_sure(&learnt));
    note("cdab");
    CHECK(tsr_recurrence_is_sure(&learnt));
    check_next("cdab");
    CHECK_EQ(tsr_recurrence_last(&learnt, 0), 'b');
    CHECK_EQ(tsr_recurrence_last(&learnt, 3), 'c');
}

TEST(what_came_before_tells_two_uses_of_one_thing_apart)
{
    tsr_recurrence_start(&learnt);
    note("axbxcxaxbxcx");
    CHECK_EQ(tsr_recurrence_period(&learnt), 6);
    check_next("axbx");
    note("ax");
    check_next("bxcx");
}

TEST(the_same_again_counts_once)
{
    tsr_recurrence_start(&learnt);
    CHECK(tsr_recurrence_note(&learnt, 1));
    CHECK(!tsr_recurrence_note(&learnt, 1));
    CHECK_EQ(learnt.count, 1);
}

TEST(surprises_take_away_what_was_sure)
{
    tsr_recurrence_start(&learnt);
    for (unsigned i = 0; i < 4; i++)
        note("abcd");
    CHECK(tsr_recurrence_is_sure(&learnt));
    note("acbd");
    CHECK(!tsr_recurrence_is_sure(&learnt));
}

TEST(more_is_noted_than_is_remembered)
{
    tsr_recurrence_start(&learnt);
    for (uint32_t i = 0; i < 3 * TSR_RECURRENCE_ITEMS; i++)
        tsr_recurrence_note(&learnt, i % 100);
    CHECK_EQ(tsr_recurrence_period(&learnt), 100);
    CHECK(tsr_recurrence_is_sure(&learnt));
    tsr_recurrence_start(&learnt);
    for (uint32_t i = 0; i < 3 * TSR_RECURRENCE_ITEMS; i++)
        tsr_recurrence_note(&learnt, i % (2 * TSR_RECURRENCE_ITEMS));
    CHECK_EQ(tsr_recurrence_period(&learnt), 0);
}
