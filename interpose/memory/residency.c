/* See residency.h. */
#include "memory/residency.h"

#define STALE_USES 8u /* times what a move takes */

static uint32_t class_of(uint64_t bytes)
{
    uint32_t number = bytes ? 63u - (uint32_t)__builtin_clzll(bytes) : 0;
    return number < TSR_RESIDENCY_CLASSES ? number : TSR_RESIDENCY_CLASSES - 1;
}

uint32_t tsr_residency_first(const struct tsr_residency_plan *plan, uint64_t bytes)
{
    uint32_t class = class_of(bytes);
    return plan->follows && plan->classes[class].known ? plan->classes[class].gpu : plan->gpu;
}

static uint32_t most_used(const struct tsr_heat *uses)
{
    uint32_t best = 0;
    for (uint32_t gpu = 1; gpu < TSR_HEAT_GPUS; gpu++)
        if (uses->by_gpu[gpu] > uses->by_gpu[best])
            best = gpu;
    return best;
}

static uint64_t threshold(const struct tsr_residency_plan *plan, const struct tsr_residency *of)
{
    return (uint64_t)plan->move_uses << 2 * of->moves;
}

static bool pays(const struct tsr_residency_plan *plan, const struct tsr_residency *of, uint64_t there, uint64_t here)
{
    if (plan->move_uses == 0)
        return there > here;
    return of->moves < TSR_RESIDENCY_MOST_MOVES && there >= 2 * here && there - here >= threshold(plan, of);
}

uint32_t tsr_residency_wanted(struct tsr_residency_plan *plan, const struct tsr_residency *of, uint64_t bytes,
                              const struct tsr_heat *uses)
{
    uint32_t best = most_used(uses), class = class_of(bytes);
    uint64_t there = uses->by_gpu[best], here = uses->by_gpu[of->gpu];
    if (!plan->follows || there == 0 || there < plan->move_uses)
        return of->gpu;
    if (best == of->gpu || there >= 2 * here) {
        plan->classes[class].known = true;
        plan->classes[class].gpu = (uint8_t)best;
    }
    return !of->fixed && pays(plan, of, there, here) ? best : of->gpu;
}

bool tsr_residency_is_stale(const struct tsr_residency_plan *plan, const struct tsr_residency *of, const struct tsr_heat *uses)
{
    uint64_t sum = 0;
    for (uint32_t gpu = 0; gpu < TSR_HEAT_GPUS; gpu++)
        sum += uses->by_gpu[gpu];
    return sum > STALE_USES * threshold(plan, of);
}
