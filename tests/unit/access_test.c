/* The evaluator's promises to C: bounded by scratch and steps, right from any thread, refusing what is damaged. Ranges: tests/analysis. */
#include "check.h"

#include <pthread.h>

#include "access_damage.h"

#define TEMPLATE(name) TSR_TEST_DATA "/corpus/access/" name ".template"
#define POINTERS 3

static const char *const names[] = {TEMPLATE("vector_add"), TEMPLATE("append_kv"),     TEMPLATE("permute"),
                                    TEMPLATE("sum_rows"),   TEMPLATE("causal_scores"), TEMPLATE("embed")};

/* vector_add(const float *a, const float *b, float *c, int n) */
struct arguments {
    uint64_t pointers[POINTERS];
    int32_t n;
};

static struct tsr_access *vector_add(uint32_t memo_entries)
{
    struct template_bytes bytes = read_template(names[0]);
    struct tsr_access *access = tsr_access_create(bytes.data, bytes.size, memo_entries);
    free(bytes.data);
    return access;
}

static struct tsr_access_launch launch_of(const struct arguments *arguments)
{
    return (struct tsr_access_launch){.grid = {8, 1, 1}, .block = {128, 1, 1}, .parameters = arguments, .parameter_bytes = 28};
}

static void evaluate(struct tsr_access *access, const struct tsr_access_launch *launch, struct tsr_access_result *result)
{
    void *scratch = malloc(TSR_ACCESS_SCRATCH_BYTES);
    tsr_access_evaluate(access, launch, scratch, TSR_ACCESS_SCRATCH_BYTES, result);
    free(scratch);
}

TEST(ranges_are_relative_to_the_pointers)
{
    struct tsr_access *access = vector_add(4);
    REQUIRE(access);
    for (int i = 0; i < 3; i++) {
        struct arguments arguments = {{0x1000u << i, 0x20000u << i, 0x300000u << i}, 100};
        struct tsr_access_launch launch = launch_of(&arguments);
        struct tsr_access_range ranges[4];
        struct tsr_access_result result = {.ranges = ranges, .capacity = 4};
        evaluate(access, &launch, &result);
        CHECK_EQ(result.level, TSR_LEVEL_FULL);
        CHECK_EQ(result.remembered, i > 0);
        REQUIRE(CHECK_EQ(result.count, POINTERS));
        for (int32_t n = 0; n < POINTERS; n++) {
            CHECK_EQ(ranges[n].kind, n == 2 ? TSR_ACCESS_WRITE : TSR_ACCESS_READ);
            CHECK_EQ(ranges[n].parameter, n);
            CHECK_EQ(ranges[n].offset, 8 * n);
            CHECK_EQ(ranges[n].base, arguments.pointers[n]);
            CHECK_EQ(ranges[n].first, 0);
            CHECK_EQ(ranges[n].last, 399);
        }
    }
    tsr_access_destroy(access);
}

TEST(what_is_overwritten_is_remembered_and_never_more_than_the_allocation)
{
    struct tsr_access *access = vector_add(4);
    REQUIRE(access);
    for (int i = 0; i < 4; i++) {
        struct arguments arguments = {{0x1000, 0x2000, 0x3000}, i < 2 ? 100 : 1024};
        struct tsr_access_launch launch = launch_of(&arguments);
        struct tsr_access_range ranges[4];
        struct tsr_access_result result = {.ranges = ranges, .capacity = 4};
        evaluate(access, &launch, &result);
        REQUIRE(CHECK_EQ(result.count, POINTERS));
        CHECK_EQ(result.remembered, i % 2);
        for (int32_t n = 0; n < POINTERS; n++)
            CHECK_EQ(ranges[n].overwritten, n == 2);
        CHECK_EQ(ranges[2].last, i < 2 ? 399 : 4095);
    }
    tsr_access_destroy(access);
}

TEST(the_write_mask_has_the_pointers_that_are_written_through)
{
    struct tsr_access *access = vector_add(0);
    REQUIRE(access);
    uint64_t mask[TSR_ACCESS_MASK_WORDS];
    bool variables = true;
    CHECK(tsr_access_write_mask(access, mask, &variables));
    CHECK(!variables);
    CHECK_EQ(mask[0], 4);
    for (uint32_t word = 1; word < TSR_ACCESS_MASK_WORDS; word++)
        CHECK_EQ(mask[word], 0);
    tsr_access_destroy(access);
}

TEST(a_scalar_that_matters_is_part_of_what_is_remembered)
{
    struct tsr_access *access = vector_add(4);
    REQUIRE(access);
    for (int32_t n = 1; n < 12; n++) {
        struct arguments arguments = {{0x1000, 0x2000, 0x3000}, n % 6 + 1};
        struct tsr_access_launch launch = launch_of(&arguments);
        struct tsr_access_range ranges[4];
        struct tsr_access_result result = {.ranges = ranges, .capacity = 4};
        evaluate(access, &launch, &result);
        REQUIRE(CHECK_EQ(result.count, POINTERS));
        CHECK_EQ(ranges[0].last, 4 * (n % 6 + 1) - 1);
    }
    tsr_access_destroy(access);
}

static int one_page(void *context, uint64_t address, uint64_t *begin, uint64_t *end)
{
    *begin = address & ~4095ull;
    *end = *begin + *(const uint64_t *)context;
    return address < *end;
}

TEST(ranges_end_with_the_allocation)
{
    struct tsr_access *access = vector_add(4);
    REQUIRE(access);
    uint64_t bytes = 256;
    struct arguments arguments = {{0x1000, 0x2000, 0x3080}, 100};
    struct tsr_access_launch launch = launch_of(&arguments);
    struct tsr_access_range ranges[4];
    struct tsr_access_result result = {.ranges = ranges, .capacity = 4};
    launch.allocation = one_page;
    launch.allocation_context = &bytes;
    evaluate(access, &launch, &result);
    REQUIRE(CHECK_EQ(result.count, POINTERS));
    CHECK_EQ(ranges[0].last, 255);
    CHECK_EQ(ranges[2].last, 127);
    tsr_access_destroy(access);
}

TEST(without_steps_the_allocations_are_the_ranges)
{
    struct tsr_access *access = vector_add(0);
    REQUIRE(access);
    uint64_t bytes = 4096;
    struct arguments arguments = {{0x1000, 0x2000, 0x3080}, 100};
    struct tsr_access_launch launch = launch_of(&arguments);
    struct tsr_access_range ranges[4];
    struct tsr_access_result result = {.ranges = ranges, .capacity = 4};
    launch.steps = 1;
    launch.allocation = one_page;
    launch.allocation_context = &bytes;
    evaluate(access, &launch, &result);
    CHECK_EQ(result.level, TSR_LEVEL_WHOLE);
    REQUIRE(CHECK_EQ(result.count, POINTERS));
    CHECK_EQ(ranges[2].first, -0x80);
    CHECK_EQ(ranges[2].last, 4095 - 0x80);
    CHECK_EQ(ranges[2].whole, 1);
    tsr_access_destroy(access);
}

TEST(without_scratch_everything_is_unknown)
{
    struct tsr_access *access = vector_add(0);
    REQUIRE(access);
    struct arguments arguments = {{0x1000, 0x2000, 0x3000}, 100};
    struct tsr_access_launch launch = launch_of(&arguments);
    struct tsr_access_result result = {.capacity = 0};
    uint64_t scratch[2];
    tsr_access_evaluate(access, &launch, scratch, sizeof scratch, &result);
    CHECK_EQ(result.level, TSR_LEVEL_UNKNOWN);
    CHECK_EQ(result.why.reason, TSR_WHY_BUDGET);
    tsr_access_destroy(access);
}

TEST(too_many_ranges_for_the_caller_are_unknown)
{
    struct tsr_access *access = vector_add(4);
    REQUIRE(access);
    struct arguments arguments = {{0x1000, 0x2000, 0x3000}, 100};
    struct tsr_access_launch launch = launch_of(&arguments);
    struct tsr_access_range ranges[2];
    struct tsr_access_result result = {.ranges = ranges, .capacity = 2};
    evaluate(access, &launch, &result);
    CHECK_EQ(result.level, TSR_LEVEL_UNKNOWN);
    tsr_access_destroy(access);
}

static void *evaluate_many(void *argument)
{
    struct tsr_access *access = argument;
    struct tsr_access_range ranges[4];
    uintptr_t wrong = 0;
    for (int32_t i = 0; i < 600; i++) {
        struct arguments arguments = {{0x1000u * (unsigned)i, 0x2000, 0x3000}, i % 7 + 1};
        struct tsr_access_launch launch = launch_of(&arguments);
        struct tsr_access_result result = {.ranges = ranges, .capacity = 4};
        evaluate(access, &launch, &result);
        for (uint32_t n = 0; n < result.count; n++)
            wrong += ranges[n].last != 4 * arguments.n - 1 || ranges[n].base != arguments.pointers[n];
        wrong += result.count != POINTERS;
    }
    return (void *)wrong;
}

TEST(threads_share_what_is_remembered)
{
    struct tsr_access *access = vector_add(3); /* fewer than there are launches: they are replaced all the time */
    pthread_t threads[4];
    REQUIRE(access);
    for (int i = 0; i < 4; i++)
        REQUIRE(pthread_create(&threads[i], NULL, evaluate_many, access) == 0);
    for (int i = 0; i < 4; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        CHECK_EQ(wrong, 0);
    }
    tsr_access_destroy(access);
}

TEST(damaged_templates_are_refused_or_evaluated)
{
    uint64_t state = 0x9e3779b97f4a7c15ull;
    int verdicts[3] = {0};
    for (size_t n = 0; n < sizeof names / sizeof names[0]; n++) {
        struct template_bytes bytes = read_template(names[n]);
        REQUIRE(CHECK(bytes.size > sizeof(struct tsr_access_template)));
        for (int i = 0; i < 250; i++)
            verdicts[1 + damage_and_evaluate(&bytes, &state)]++;
        free(bytes.data);
    }
    CHECK_EQ(verdicts[0], 0);
    CHECK(verdicts[1] > 100);
    CHECK(verdicts[2] > 100);
}
