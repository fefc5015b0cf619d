/* See call_ranges.h. */
#include "launch/call_ranges.h"

#include <tessera/library_calls.h>

#include "calls/calls.h"

static uint64_t distrusted[TSR_LIBRARY_CALLS_MOST / 64]; /* atomic words; bit n: entry point n */

void tsr_call_ranges_start(void)
{
    if (tessera_library_operands_wanted)
        tessera_library_operands_wanted();
}

static void unknown(struct tsr_access_result *result, const char *why)
{
    result->level = TSR_LEVEL_UNKNOWN;
    result->count = 0;
    result->whys = 1;
    result->why = (struct tsr_access_why){.reason = TSR_WHY_TEMPLATE, .text = why};
}

/* False: nothing is known of an allocation at its address. */
static bool bounded(struct tsr_access_range *range, const struct tsr_access_launch *launch)
{
    uint64_t begin, end;
    if (!range->whole)
        return true;
    if (!launch->allocation || !launch->allocation(launch->allocation_context, range->base, &begin, &end))
        return false;
    range->first = (int64_t)(begin - range->base);
    range->last = (int64_t)(end - range->base) - 1;
    return true;
}

static uint64_t *distrust_of(uint32_t call, uint64_t *bit)
{
    *bit = 1ull << call % 64;
    return &distrusted[call / 64 % (TSR_LIBRARY_CALLS_MOST / 64)];
}

static bool is_distrusted(void)
{
    uint64_t bit, *word = distrust_of(tessera_library_call ? tessera_library_call() : 0, &bit);
    return __atomic_load_n(word, __ATOMIC_RELAXED) & bit;
}

void tsr_call_ranges_distrust(void)
{
    uint64_t bit, *word = distrust_of(tessera_library_call ? tessera_library_call() : 0, &bit);
    __atomic_fetch_or(word, bit, __ATOMIC_RELAXED);
}

void tsr_call_ranges(const struct tsr_access_launch *launch, struct tsr_access_result *result, bool *other_gpus)
{
    const struct tsr_access_range *ranges = NULL;
    const char *why = "no marks of library calls are loaded";
    uint32_t others = 0;
    int32_t count = tessera_library_operands ? tessera_library_operands(&ranges, &others, &why) : -1;
    result->count = result->whys = result->remembered = result->steps = 0;
    result->level = TSR_LEVEL_FULL;
    *other_gpus = others;
    if (count < 0 || (uint32_t)count > result->capacity || is_distrusted()) {
        unknown(result, count < 0 ? why : is_distrusted() ? "it was found wrong" : "more operands than there is room for");
        return;
    }
    for (int32_t i = 0; i < count; i++) {
        struct tsr_access_range *range = &result->ranges[result->count++];
        *range = ranges[i];
        if (!bounded(range, launch)) {
            unknown(result, "an operand outside of every allocation");
            return;
        }
        if (range->whole)
            result->level = TSR_LEVEL_WHOLE;
    }
}
