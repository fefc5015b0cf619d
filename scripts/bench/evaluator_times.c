/*
 * Times tsr_access_evaluate over launches in their order; for scripts/bench/evaluator.
 *
 *     evaluator_times FILE memo|none > TIMES
 *
 * FILE, all numbers uint32_t: templates; for each its bytes and themselves; launches; for each template, grid[3], block[3], bytes of the
 * parameter block and themselves, allocations, and for each where it begins and ends, uint64_t. TIMES: for each launch a line "nanoseconds level remembered steps ranges". The clock's own cost is
 * subtracted.
 */
#include <tessera/access.h>

#include "timed_file.h"

struct allocations {
    const char *ends;
    uint32_t count;
};

static int allocation(void *context, uint64_t address, uint64_t *begin, uint64_t *end)
{
    const struct allocations *of = context;
    uint64_t ends[2];
    for (uint32_t i = 0; i < of->count; i++) {
        memcpy(ends, of->ends + i * sizeof ends, sizeof ends);
        if (address - ends[0] < ends[1] - ends[0]) {
            *begin = ends[0], *end = ends[1];
            return 1;
        }
    }
    return 0;
}

static void time_launch(struct tsr_access *const *templates, const char **at, uint32_t options, uint64_t clock, void *scratch)
{
    static struct tsr_access_range ranges[512];
    struct tsr_access_result result = {.ranges = ranges, .capacity = 512};
    struct tsr_access_launch launch = {.options = options};
    struct tsr_access *access = templates[next(at)];
    for (int i = 0; i < 3; i++)
        launch.grid[i] = next(at);
    for (int i = 0; i < 3; i++)
        launch.block[i] = next(at);
    launch.parameter_bytes = next(at);
    launch.parameters = *at;
    *at += launch.parameter_bytes;
    struct allocations allocations = {.count = next(at)};
    allocations.ends = *at;
    *at += allocations.count * 2 * sizeof(uint64_t);
    if (allocations.count) {
        launch.allocation = allocation;
        launch.allocation_context = &allocations;
    }
    uint64_t begin = now_ns();
    tsr_access_evaluate(access, &launch, scratch, TSR_ACCESS_SCRATCH_BYTES, &result);
    uint64_t passed = now_ns() - begin;
    printf("%lu %u %u %u %u\n", passed > clock ? passed - clock : 0, result.level, result.remembered, result.steps,
           result.count);
}

int main(int argc, char **argv)
{
    const char *at = argc == 3 ? read_file(argv[1]) : NULL;
    if (!at)
        return 2;
    uint32_t count = next(&at), options = strcmp(argv[2], "memo") ? TSR_ACCESS_NO_MEMO : 0;
    struct tsr_access **templates = calloc(count, sizeof *templates);
    void *scratch = aligned_alloc(64, TSR_ACCESS_SCRATCH_BYTES);
    memset(scratch, 1, TSR_ACCESS_SCRATCH_BYTES); /* its pages are there */
    for (uint32_t i = 0; i < count; i++) {
        uint32_t size = next(&at);
        templates[i] = tsr_access_create(at, size, TSR_ACCESS_MEMO_ENTRIES);
        if (!templates[i])
            return 3;
        at += size;
    }
    uint64_t clock = clock_ns();
    for (uint32_t left = next(&at); left > 0; left--)
        time_launch(templates, &at, options, clock, scratch);
    return 0;
}
