/* launch/alike: what is remembered of a launch, and of which others it holds. */
#include "launch/alike.c"

#include "check.h"

/* Of the call that the thread is in: none, as where graphs are examined. */
struct tsr_library_operands tsr_library_operands_now(void)
{
    return (struct tsr_library_operands){.count = -1};
}

static struct tsr_gathered gathered = {.done = true, .bytes = 8};

static struct tsr_alike of_call(const struct tsr_library_operands *call)
{
    struct tsr_launch launch = {.grid = {1, 1, 1}, .block = {32, 1, 1}, .gathered = &gathered, .call = call};
    return tsr_alike_of(&launch);
}

static bool are_alike(const struct tsr_library_operands *one, const struct tsr_library_operands *other)
{
    struct tsr_alike a = of_call(one), b = of_call(other);
    uint8_t content[256];
    struct tsr_alike_key key;
    tsr_alike_keep(&a, &key, content);
    return tsr_alike_hash(&a, 1) == tsr_alike_hash(&b, 1) && tsr_alike_is(&b, &key, content);
}

TEST(one_launch_in_two_calls_is_two)
{
    struct tsr_access_range ranges[] = {{.base = 0x1000, .last = 63}, {.base = 0x2000, .last = 63}};
    struct tsr_library_operands first = {.call = 1, .count = 1, .ranges = &ranges[0]}, second = first, none = {.count = -1};
    CHECK(are_alike(&first, &second));
    second.ranges = &ranges[1];
    CHECK(!are_alike(&first, &second));
    CHECK(!are_alike(&first, &none));
    CHECK(!are_alike(&first, NULL)); /* as the thread is in none */
    CHECK(are_alike(&none, NULL));
}
