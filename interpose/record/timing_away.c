/* See timing_away.h. */
#include "record/timing_away.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#include <tessera/lane.h>

#include "base/os.h"
#include "lane/lane_client.h"
#include "record/timing.h"
#include "record/timing_record.h"
#include "record/writer.h"

#define LANES 15u
#define LOOK_NS 500000 /* between looks at what is not known yet, at the end */

#define TIMES (TSR_LANE_TIMES - TSR_LANE_TIMES_PLACED)

_Static_assert(TSR_LANE_TIMES < UINT16_MAX, "a record has room for it");

enum { FREE, TAKEN, NAMED };

struct place {
    uint32_t state;  /* atomic */
    uint32_t ring;   /* of the launch's record, */
    uint64_t number; /* and its number there; UINT64_MAX: nobody wants to know */
};

struct times {
    const struct tsr_lane_client *lane;
    struct tsr_lane_time *answers;
    uint32_t next; /* atomic; where to look for a free place */
    uint32_t open; /* atomic; places that are not free */
    struct place places[TIMES];
};

static struct times *all[LANES]; /* atomic; made once each */

static struct times *make(struct tsr_lane_client *lane)
{
    struct times *none = NULL, *times = calloc(1, sizeof *times);
    if (!times)
        return NULL;
    times->lane = lane;
    times->answers = tsr_lane_times(lane);
    if (!__atomic_compare_exchange_n(&all[tsr_lane_number(lane)], &none, times, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        free(times);
        return none;
    }
    tsr_timing_run();
    return times;
}

static struct times *times_of(const struct tsr_lane_client *lane)
{
    return __atomic_load_n(&all[tsr_lane_number(lane)], __ATOMIC_ACQUIRE);
}

uint16_t tsr_timing_away_begin(struct tsr_lane_client *lane)
{
    struct times *times = times_of(lane);
    if (!times && !(times = make(lane)))
        return 0;
    uint32_t place = __atomic_fetch_add(&times->next, 1, __ATOMIC_RELAXED) % TIMES, state = FREE;
    if (!__atomic_compare_exchange_n(&times->places[place].state, &state, TAKEN, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        return 0; /* that launch of long ago is not known yet: there are as many as can be */
    __atomic_fetch_add(&times->open, 1, __ATOMIC_RELAXED);
    return (uint16_t)(place + 1);
}

static void release(struct times *times, struct place *place)
{
    __atomic_store_n(&times->answers[place - times->places].state, TSR_LANE_TIME_OPEN, __ATOMIC_RELAXED);
    __atomic_store_n(&place->state, FREE, __ATOMIC_RELEASE);
    __atomic_fetch_sub(&times->open, 1, __ATOMIC_RELAXED);
}

void tsr_timing_away_drop(const struct tsr_lane_client *lane, uint16_t time)
{
    struct times *times = times_of(lane);
    release(times, &times->places[time - 1]);
}

void tsr_timing_away_end(const struct tsr_lane_client *lane, uint16_t time, const struct tsr_thread *thread, uint64_t number)
{
    struct place *place = &times_of(lane)->places[time - 1];
    tsr_timing_note_timed();
    place->ring = thread->ring;
    place->number = number;
    __atomic_store_n(&place->state, NAMED, __ATOMIC_RELEASE);
}

static uint32_t harvest(struct times *times)
{
    uint32_t open = 0;
    bool lost = tsr_lane_is_lost(times->lane);
    for (uint32_t i = 0; i < TIMES && __atomic_load_n(&times->open, __ATOMIC_RELAXED); i++) {
        struct place *place = &times->places[i];
        const struct tsr_lane_time *answer = &times->answers[i];
        if (__atomic_load_n(&place->state, __ATOMIC_ACQUIRE) != NAMED)
            continue;
        uint32_t state = __atomic_load_n(&answer->state, __ATOMIC_ACQUIRE);
        if (state == TSR_LANE_TIME_OPEN && !lost) {
            open++;
            continue;
        }
        if (state == TSR_LANE_TIME_KNOWN && place->number != UINT64_MAX)
            tsr_timing_report(place->ring, place->number, answer->start_ns, answer->ns);
        else
            tsr_timing_lose(1);
        release(times, place);
    }
    return open;
}

uint32_t tsr_timing_away_harvest(void)
{
    uint32_t open = 0;
    for (uint32_t i = 0; i < LANES; i++) {
        struct times *times = __atomic_load_n(&all[i], __ATOMIC_ACQUIRE);
        open += times ? harvest(times) : 0;
    }
    return open;
}

void tsr_timing_away_finish(uint64_t patience_ns)
{
    uint64_t since = tsr_os_monotonic_ns();
    uint32_t open;
    while ((open = tsr_timing_away_harvest()) && tsr_os_monotonic_ns() - since < patience_ns)
        nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
    tsr_timing_lose(open);
}

void tsr_timing_away_forget(void)
{
    for (uint32_t i = 0; i < LANES; i++)
        all[i] = NULL;
}
