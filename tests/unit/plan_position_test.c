/* Where in a plan's iteration a thread is, by the classes of its launches. */
#include "schedule/plan_position.c"

#include "check.h"

static struct tsr_plan_index plan; /* large */
static struct tsr_plan_position position;

/* A letter for each operation, of which it is the class: capitals are copies, after a dash a launch reads what the one before wrote. */
static void make(const char *iteration, const char *groups)
{
    struct tsr_plan_table *table = &plan.table;
    memset(&plan, 0, sizeof plan);
    memset(&position, 0, sizeof position);
    table->class_count = 64;
    table->group_count = 2;
    table->groups[0].count = table->groups[1].count = 1;
    table->placement_count = 1;
    for (; *iteration; iteration++) {
        bool continues = *iteration == '-';
        iteration += continues;
        uint32_t class = (uint32_t)(*iteration - 'A'), number = table->operation_count++;
        table->classes[class].what = *iteration <= 'Z' ? TSR_PLAN_COPY : TSR_PLAN_LAUNCH;
        table->class_of[number] = (uint16_t)class;
        table->continues[number] = continues;
        table->compares_reads |= continues;
        table->placements[0].group[number] = (uint8_t)(groups[number] - '0');
    }
}

/* What is met with each operation (a question mark: what it reads is not known): a digit for where (next), the same after `<` (first), or . (unplaced), ! (unexpected), - (none). */
static const char *meets(const char *operations)
{
    static char text[256];
    char *at = text;
    for (; *operations; operations++) {
        enum tsr_plan_reads reads = *operations == '-'   ? TSR_PLAN_READS_SOME
                                    : *operations == '?' ? TSR_PLAN_READS_UNKNOWN
                                                         : TSR_PLAN_READS_NOTHING;
        operations += reads != TSR_PLAN_READS_NOTHING;
        enum tsr_plan_met met = tsr_plan_meet(&plan, &position, (uint32_t)(*operations - 'A'), reads);
        if (met == TSR_PLAN_MET_FIRST)
            *at++ = '<';
        *at++ = met <= TSR_PLAN_MET_FIRST        ? (char)('0' + position.at)
                : met == TSR_PLAN_MET_UNPLACED   ? '.'
                : met == TSR_PLAN_MET_UNEXPECTED ? '!'
                                                 : '-';
    }
    *at = 0;
    return text;
}

TEST(what_is_there_once_tells_the_place)
{
    make("abcbd", "00011");
    CHECK(tsr_plan_index_make(&plan));
    CHECK_STR(meets("abcbdabcbd"), "<01234<01234");
}

TEST(equal_layers_are_told_apart_by_what_comes_before)
{
    make("xabababy", "00001111");
    CHECK(tsr_plan_index_make(&plan));
    CHECK_STR(meets("ababyxabab"), "....<7<01234");
}

TEST(other_work_ends_the_knowledge_until_it_is_clear_again)
{
    make("xababy", "000111");
    CHECK(tsr_plan_index_make(&plan));
    CHECK_STR(meets("xaba"), "<0123");
    CHECK_STR(meets("a"), "!"); /* one too many: it may be either of two */
    CHECK_STR(meets("by"), ".<5");
    CHECK_STR(meets("xabx"), "<012!"); /* an iteration that ends early: its beginning is there once */
    CHECK_STR(meets("abab"), "1234");
}

TEST(where_classes_are_alike_what_they_read_tells)
{
    make("a-a-a-a", "0011");
    CHECK(tsr_plan_index_make(&plan));
    CHECK_STR(meets("-a-aa-a-a-aa-a"), "..<0123<01");
    CHECK_STR(meets("?a?a?a"), "23<0"); /* as long as classes are as expected */
    make("a-a-a-a", "0011");
    CHECK(tsr_plan_index_make(&plan));
    CHECK_STR(meets("?a?a-a-aa-a"), "....<01");
}

TEST(what_has_one_place_only_needs_no_position)
{
    make("aabb", "0011");
    CHECK(tsr_plan_index_make(&plan));
    CHECK(tsr_plan_settled(&plan, 'a' - 'A', TSR_PLAN_READS_NOTHING) == 0);
    CHECK(tsr_plan_settled(&plan, 'b' - 'A', TSR_PLAN_READS_NOTHING) == 1);
    make("aaba", "0011");
    CHECK(tsr_plan_index_make(&plan));
    CHECK(tsr_plan_settled(&plan, 'a' - 'A', TSR_PLAN_READS_NOTHING) == TSR_PLAN_NOWHERE);
}

TEST(copies_move_the_position_where_they_are_expected)
{
    make("CabDa", "00011");
    CHECK(tsr_plan_index_make(&plan));
    CHECK_STR(meets("Cab"), "-.<2"); /* where they alone are known, nothing is */
    CHECK_STR(meets("DaCab"), "34<012");
    CHECK_STR(meets("Ca"), "-4"); /* one that is left out, and one too many */
    CHECK_STR(meets("ab"), "<12");
}

TEST(tables_that_are_wrong_are_refused)
{
    make("ab", "00");
    plan.table.class_of[1] = 64;
    CHECK(!tsr_plan_index_make(&plan));
    make("ab", "04");
    CHECK(!tsr_plan_index_make(&plan));
    make("AB", "00");
    CHECK(!tsr_plan_index_make(&plan)); /* nothing tells where it is */
    make("ab", "00");
    plan.table.operation_count = TSR_PLAN_OPERATIONS + 1;
    CHECK(!tsr_plan_index_make(&plan));
    make("ab", "00");
    plan.table.placement_count = 0;
    CHECK(!tsr_plan_index_make(&plan));
}
