/*
 * Whether looking at launches is worth what it costs the program's thread. While the guard (tessera/place.h) keeps all work at home, and the strategy that would be
 * followed promises nothing for some time, nobody looks for some seconds, and each time for longer.
 */
#ifndef TSR_SCHEDULE_SLEEP_H
#define TSR_SCHEDULE_SLEEP_H

#include <stdbool.h>
#include <stdint.h>

#include <tessera/place.h>

/* Who calls tsr_sleep_look holds a lock; the rest is for any thread. */
struct tsr_sleep {
    uint64_t until;     /* atomic; by its clock; 0: awake */
    uint64_t unseen_ns; /* atomic; emulated, its clock: what has been slept through, */
    uint64_t launch_ns; /* at so much for each piece of work */
    bool looks;         /* atomic; since the clocks stood so, and so many launches had been looked at: */
    struct tsr_guard_clocks began;
    uint64_t launches;
    double next_ns; /* how long it lasts next time; 0: it has not been */
    uint64_t won;   /* windows, then */
};

/* A launch was looked at, the guard was asked, and the clocks stand so; launches: that were looked at. It may fall asleep, but not while code for a GPU or its
 * copy of memory is being made (makes): until these are there, nothing can be promised. */
void tsr_sleep_look(struct tsr_sleep *sleep, const struct tsr_guard *guard, const struct tsr_guard_clocks *now,
                    uint64_t launches, bool makes);
/* Before a piece of work: whether it is not looked at. */
bool tsr_sleep_goes_on(struct tsr_sleep *sleep);
static inline bool tsr_sleep_is_awake(const struct tsr_sleep *sleep)
{
    return !__atomic_load_n(&sleep->until, __ATOMIC_RELAXED);
}

#endif
