/* See call_ranges.h. */
#include "launch/call_ranges.h"

#include <tessera/library_calls.h>

#include "calls/calls.h"

static uint64_t distrusted[TSR_LIBRARY_CALLS_MOST / 64]; /* atomic words; bit n: entry point n */
static uint32_t distrusted_count;                        /* atomic */

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

static bool is_distrusted(uint32_t call)
{
    uint64_t bit, *word = distrust_of(call, &bit);
    return __atomic_load_n(word, __ATOMIC_RELAXED) & bit;
}

void tsr_call_ranges_distrust(void)
{
    uint64_t bit, *word = distrust_of(tessera_library_call ? tessera_library_call() : 0, &bit);
    __atomic_fetch_or(word, bit, __ATOMIC_RELAXED);
    __atomic_add_fetch(&distrusted_count, 1, __ATOMIC_RELEASE);
}

uint32_t tsr_calls_distrusted(void)
{
    return __atomic_load_n(&distrusted_count, __ATOMIC_ACQUIRE);
}

struct tsr_library_operands tsr_library_operands_now(void)
{
    struct tsr_library_operands now = {.count = -1, .why = "no marks of library calls are loaded"};
    if (tessera_library_call)
        now.call = tessera_library_call();
    if (tessera_library_operands)
        now.count = tessera_library_operands(&now.ranges, &now.other_gpus, &now.why);
    return now;
}

/* ---- combined with the function's template ---- */

struct operands {
    const struct tsr_access_range *ranges;
    uint32_t count;
    const struct tsr_access_launch *launch;
};

static uint64_t begin_of(const struct tsr_access_range *range)
{
    return range->base + (uint64_t)range->first;
}

static uint64_t end_of(const struct tsr_access_range *range)
{
    return range->base + (uint64_t)range->last + 1;
}

static bool meet(const struct tsr_access_range *a, const struct tsr_access_range *b)
{
    return begin_of(a) < end_of(b) && begin_of(b) < end_of(a);
}

static bool holds(const struct tsr_access_range *a, const struct tsr_access_range *b)
{
    return begin_of(a) <= begin_of(b) && end_of(b) <= end_of(a);
}

/* False: it is in no allocation. */
static bool operand(const struct operands *operands, uint32_t number, struct tsr_access_range *out)
{
    *out = operands->ranges[number];
    return bounded(out, operands->launch);
}

/* Replaces the range at `index`, of which only the allocation is known, by the operands in that allocation. If there are none, or no room, it stays. */
static void narrow(const struct operands *operands, struct tsr_access_result *result, uint32_t index)
{
    struct tsr_access_range own = result->ranges[index], found;
    uint32_t kind = own.kind == TSR_ACCESS_READ ? TSR_ACCESS_READ : TSR_ACCESS_WRITE, before = result->count;
    for (uint32_t i = 0; i < operands->count; i++) {
        if (!operand(operands, i, &found) || found.kind != kind || !meet(&own, &found))
            continue;
        if (result->count == result->capacity) {
            result->count = before;
            return;
        }
        uint64_t moved = found.base - own.base;
        found.kind = own.kind;
        found.parameter = own.parameter;
        found.offset = own.offset;
        found.base = own.base;
        found.first += (int64_t)moved;
        found.last += (int64_t)moved;
        found.overwritten = 0;
        result->ranges[result->count++] = found;
    }
    if (result->count > before)
        result->ranges[index] = result->ranges[--result->count];
}

/* Marks the range if it is scratch, or reads what earlier work of the call left. False: the call does not read it. */
static bool mark(const struct operands *operands, struct tsr_access_range *own)
{
    struct tsr_access_range found;
    bool output = false, input = false;
    for (uint32_t i = 0; i < operands->count; i++) {
        if (!operand(operands, i, &found))
            continue;
        own->scratch |= found.scratch && holds(&found, own);
        own->intermediate |= found.intermediate && holds(&found, own);
        output |= found.overwritten && holds(&found, own);
        input |= found.kind == TSR_ACCESS_READ && meet(&found, own);
    }
    return own->kind != TSR_ACCESS_READ || own->whole || !output || input;
}

/* Adds what the call overwrites and the launch may write. */
static void add_outputs(const struct operands *operands, struct tsr_access_result *result)
{
    uint32_t count = result->count;
    struct tsr_access_range found;
    for (uint32_t i = 0; i < operands->count && result->count < result->capacity; i++) {
        bool written = false;
        if (!operand(operands, i, &found) || !found.overwritten)
            continue;
        for (uint32_t k = 0; k < count && !written; k++)
            written =
                result->ranges[k].kind == TSR_ACCESS_WRITE && result->ranges[k].symbol < 0 && meet(&result->ranges[k], &found);
        if (written)
            result->ranges[result->count++] = found;
    }
}

void tsr_call_ranges_refine(const struct tsr_library_operands *call, const struct tsr_access_launch *launch,
                            struct tsr_access_result *result)
{
    struct operands operands = {.launch = launch, .ranges = call->ranges, .count = (uint32_t)call->count};
    uint32_t kept = 0, whole = 0, before = result->count;
    if (!call->call || is_distrusted(call->call) || call->count <= 0 || result->level == TSR_LEVEL_UNKNOWN)
        return;
    for (uint32_t i = 0; i < before; i++)
        if (result->ranges[i].whole && result->ranges[i].symbol < 0 && result->ranges[i].last >= result->ranges[i].first)
            narrow(&operands, result, i);
    add_outputs(&operands, result);
    for (uint32_t i = 0; i < result->count; i++)
        if (result->ranges[i].symbol >= 0 || mark(&operands, &result->ranges[i])) {
            whole += result->ranges[i].whole;
            result->ranges[kept++] = result->ranges[i];
        }
    result->count = kept;
    if (result->level == TSR_LEVEL_WHOLE && !whole)
        result->level = TSR_LEVEL_INTERVALS;
}

void tsr_call_ranges(const struct tsr_library_operands *call, const struct tsr_access_launch *launch,
                     struct tsr_access_result *result)
{
    result->count = result->whys = result->remembered = result->steps = 0;
    result->level = TSR_LEVEL_FULL;
    if (call->count < 0 || (uint32_t)call->count > result->capacity || is_distrusted(call->call)) {
        unknown(result, call->count < 0             ? call->why
                        : is_distrusted(call->call) ? "it was found wrong"
                                                    : "more operands than there is room for");
        return;
    }
    for (int32_t i = 0; i < call->count; i++) {
        struct tsr_access_range *range = &result->ranges[result->count++];
        *range = call->ranges[i];
        if (!bounded(range, launch)) {
            unknown(result, "an operand outside of every allocation");
            return;
        }
        if (range->whole)
            result->level = TSR_LEVEL_WHOLE;
    }
}
