/* See report.h. */
#include "schedule/report.h"

static struct tsr_policy_schedule reported;

void tsr_schedule_report_init(void)
{
    reported = (struct tsr_policy_schedule){0};
}

static void add(uint64_t *to, uint64_t *before, uint64_t now)
{
    __atomic_fetch_add(to, now - *before, __ATOMIC_RELAXED);
    *before = now;
}

static uint64_t since(double start_ns, double at_ns)
{
    return at_ns > start_ns ? (uint64_t)(at_ns - start_ns) : 0;
}

void tsr_schedule_report(struct tsr_policy_schedule *to, const struct tsr_schedule_figures *figures,
                         const struct tsr_place *place, const struct tsr_guard *guard)
{
    struct tsr_guard_clocks clocks = tsr_place_clocks(place);
    if (!figures->start_ns)
        return;
    add(&to->launches, &reported.launches, figures->launches);
    add(&to->unknown, &reported.unknown, figures->unknown);
    add(&to->rested, &reported.rested, guard->rested);
    add(&to->windows, &reported.windows, guard->windows);
    add(&to->won, &reported.won, guard->won);
    add(&to->taken_ns, &reported.taken_ns, since(figures->start_ns, clocks.end_ns));
    add(&to->single_ns, &reported.single_ns, since(figures->start_ns, clocks.single_ns));
    add(&to->promised_ns, &reported.promised_ns, since(figures->start_ns, clocks.promised_ns));
    add(&to->read_back, &reported.read_back, figures->read_back);
}
