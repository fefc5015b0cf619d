/* Ranges of one kind and base that touch each other, as one. */
#include "access/evaluation.h"

#define MOST_ROUNDS 6

static int order(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int compare_group(const struct tsr_access_range *a, const struct tsr_access_range *b)
{
    int found = order(a->kind, b->kind);
    found = found ? found : order(a->overwritten, b->overwritten);
    found = found ? found : order(a->whole, b->whole);
    found = found ? found : order(a->parameter, b->parameter);
    found = found ? found : order(a->symbol, b->symbol);
    found = found ? found : order(a->offset, b->offset);
    return found ? found : order(a->tensor, b->tensor);
}

static int compare(const struct tsr_access_range *a, const struct tsr_access_range *b)
{
    int found = compare_group(a, b);
    found = found ? found : order(a->stride, b->stride);
    found = found ? found : order(a->first, b->first);
    found = found ? found : order(b->width, a->width);
    return found ? found : order(a->last, b->last);
}

static void sink(struct tsr_access_range *ranges, uint32_t at, uint32_t count)
{
    struct tsr_access_range moved = ranges[at];
    for (uint32_t child; (child = 2 * at + 1) < count; at = child) {
        child += child + 1 < count && compare(&ranges[child], &ranges[child + 1]) < 0;
        if (compare(&moved, &ranges[child]) >= 0)
            break;
        ranges[at] = ranges[child];
    }
    ranges[at] = moved;
}

/* In place and without a worst case. */
static void sort(struct tsr_access_range *ranges, uint32_t count)
{
    uint32_t sorted = 1;
    while (sorted < count && compare(&ranges[sorted - 1], &ranges[sorted]) <= 0)
        sorted++;
    if (sorted >= count)
        return;
    for (uint32_t at = count / 2; at-- > 0;)
        sink(ranges, at, count);
    while (count > 1) {
        struct tsr_access_range largest = ranges[0];
        ranges[0] = ranges[--count];
        ranges[count] = largest;
        sink(ranges, 0, count);
    }
}

/* Neighbours within a step become one, and dense when they fill it. */
static bool join_steps(struct tsr_access_range *last, const struct tsr_access_range *each)
{
    uint64_t distance = (uint64_t)each->first - (uint64_t)last->first;
    if (!last->stride || last->stride != each->stride || distance > (uint64_t)last->width)
        return false;
    int64_t width = (int64_t)distance + each->width;
    last->width = width > last->width ? width : last->width;
    last->last = each->last > last->last ? each->last : last->last;
    if (last->width >= last->stride)
        last->stride = last->width = 0;
    return true;
}

static bool join_intervals(struct tsr_access_range *last, const struct tsr_access_range *each)
{
    if (last->stride || each->stride || (each->first > last->last && each->first - 1 > last->last))
        return false;
    last->last = each->last > last->last ? each->last : last->last;
    return true;
}

static uint32_t drop_equal(struct tsr_access_range *sorted, uint32_t count)
{
    uint32_t kept = count != 0;
    for (uint32_t i = 1; i < count; i++)
        if (compare(&sorted[kept - 1], &sorted[i]))
            sorted[kept++] = sorted[i];
    return kept;
}

static uint32_t join_neighbours(struct tsr_access_range *ranges, uint32_t count,
                                bool (*join)(struct tsr_access_range *, const struct tsr_access_range *))
{
    uint32_t kept = 0;
    sort(ranges, count);
    count = drop_equal(ranges, count);
    for (uint32_t i = 0; i < count; i++)
        if (!kept || compare_group(&ranges[kept - 1], &ranges[i]) || !join(&ranges[kept - 1], &ranges[i]))
            ranges[kept++] = ranges[i];
    return kept;
}

static bool is_covered(const struct tsr_access_range *ranges, uint32_t count, const struct tsr_access_range *each)
{
    for (uint32_t i = 0; i < count; i++)
        if (!ranges[i].stride && ranges[i].first <= each->first && each->last <= ranges[i].last &&
            compare_group(&ranges[i], each) == 0)
            return true;
    return false;
}

/* Steps that both have in common as one range, the rest of the longer one in the place of the other, which is empty without a rest. */
static bool join_common_steps(struct tsr_access_range *a, struct tsr_access_range *b)
{
    int64_t distance = b->first - a->first, stride = a->stride;
    if (!stride || stride != b->stride || distance < 0 || distance > a->width || compare_group(a, b))
        return false;
    int64_t a_steps = (a->last - a->first) / stride, b_steps = (b->last - b->first) / stride;
    int64_t steps = a_steps < b_steps ? a_steps : b_steps,
            width = distance + b->width > a->width ? distance + b->width : a->width;
    struct tsr_access_range rest = a_steps > b_steps ? *a : *b;
    rest.first += (steps + 1) * stride;
    a->last = a->first + steps * stride + width - 1;
    a->width = width;
    if (width >= stride || steps == 0)
        a->stride = a->width = 0;
    if (a_steps > b_steps ? a_steps - b_steps == 1 : b_steps - a_steps == 1)
        rest.stride = rest.width = 0;
    *b = rest;
    return true;
}

static bool is_empty(const struct tsr_access_range *range)
{
    return range->last < range->first;
}

/* Exactly the same bytes in fewer ranges. Strided ones go over all steps: their last byte is the last of a step. */
uint32_t tsr_ranges_merge_exact(struct tsr_access_range *ranges, uint32_t count)
{
    bool goes_on = count > 1;
    for (int round = 0; goes_on && round < MOST_ROUNDS; round++) {
        uint32_t kept = 0;
        goes_on = false;
        count = join_neighbours(ranges, count, join_intervals);
        for (uint32_t i = 0; i < count; i++)
            for (uint32_t j = i + 1; j < count && ranges[i].stride; j++)
                if (!is_empty(&ranges[j]) && !is_empty(&ranges[i]))
                    goes_on |= join_common_steps(&ranges[i], &ranges[j]);
        for (uint32_t i = 0; i < count; i++)
            if (!is_empty(&ranges[i]) && !(ranges[i].stride && is_covered(ranges, kept, &ranges[i])))
                ranges[kept++] = ranges[i];
        count = kept;
    }
    return count;
}

/* The same bytes, or a few more at the ends of strided ranges, in fewer ranges. */
uint32_t tsr_ranges_merge(struct tsr_access_range *ranges, uint32_t count)
{
    uint32_t kept = 0;
    if (count < 2)
        return count;
    count = join_neighbours(ranges, count, join_steps);
    count = join_neighbours(ranges, count, join_intervals);
    for (uint32_t i = 0; i < count; i++) /* in a group, dense ranges come first */
        if (!ranges[i].stride || !is_covered(ranges, kept, &ranges[i]))
            ranges[kept++] = ranges[i];
    return kept;
}
