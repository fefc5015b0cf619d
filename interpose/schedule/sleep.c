/* See sleep.h. */
#include "schedule/sleep.h"

#include "base/os.h"
#include "schedule/host_time.h"

#define LOOK_NS 500e6 /* in which nothing is promised, before it sleeps */
#define FIRST_NS 2e9  /* for so long, and each time twice as long, */
#define LONGEST_NS 10e9 /* up to this; a window that is won makes the next such time short again */

/* The monotonic one. Emulated, the host's time is known only from work that is looked at. */
static uint64_t clock_ns(const struct tsr_sleep *sleep)
{
    return tsr_host_time_is_virtual() ? __atomic_load_n(&sleep->unseen_ns, __ATOMIC_RELAXED) : tsr_os_monotonic_ns();
}

static void look_anew(struct tsr_sleep *sleep, const struct tsr_guard *guard, const struct tsr_guard_clocks *now,
                      uint64_t launches)
{
    sleep->began = *now;
    sleep->launches = launches;
    __atomic_store_n(&sleep->looks, guard->rests, __ATOMIC_RELAXED);
}

void tsr_sleep_look(struct tsr_sleep *sleep, const struct tsr_guard *guard, const struct tsr_guard_clocks *now,
                    uint64_t launches, bool makes)
{
    double passed_ns = now->single_ns - sleep->began.single_ns;
    bool looks = guard->rests && !makes && __atomic_load_n(&sleep->looks, __ATOMIC_RELAXED);
    if (looks && passed_ns < LOOK_NS)
        return;
    if (!looks || now->promised_ns - sleep->began.promised_ns <= (1 - guard->options.least) * passed_ns) {
        look_anew(sleep, guard, now, launches);
        return;
    }
    if (!sleep->next_ns || sleep->won != guard->won)
        sleep->next_ns = FIRST_NS;
    sleep->won = guard->won;
    sleep->launch_ns = (uint64_t)(passed_ns / (double)(launches - sleep->launches));
    __atomic_store_n(&sleep->until, clock_ns(sleep) + (uint64_t)sleep->next_ns, __ATOMIC_RELEASE);
    sleep->next_ns = sleep->next_ns < LONGEST_NS / 2 ? 2 * sleep->next_ns : LONGEST_NS;
}

bool tsr_sleep_goes_on(struct tsr_sleep *sleep)
{
    uint64_t until = __atomic_load_n(&sleep->until, __ATOMIC_ACQUIRE);
    if (!until)
        return false;
    if (tsr_host_time_is_virtual())
        __atomic_add_fetch(&sleep->unseen_ns, sleep->launch_ns, __ATOMIC_RELAXED);
    if (clock_ns(sleep) < until)
        return true;
    __atomic_store_n(&sleep->looks, false, __ATOMIC_RELAXED);
    __atomic_store_n(&sleep->until, 0, __ATOMIC_RELEASE);
    return false;
}
