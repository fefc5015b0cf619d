/*
 * A timeline has one usage curve per resource: how much of it is taken from when on. A booking finds the earliest time at which
 * all the resources it needs are free for its whole duration, before, between or after earlier bookings. Curves keep the newest
 * MOST_STEPS changes; nothing is booked before the oldest kept one, so the result depends only on the order of the calls.
 */
#include "clock.h"

#include "../space/space.h"
#include "base/vec.h"

#include <stdlib.h>
#include <string.h>

#define MOST_STEPS 2048u
#define LOCATIONS (TSR_MACHINE_DEVICES + 1u)

struct step {
    uint64_t ns; /* from here until the next step */
    uint32_t used;
};

struct usage {
    TSR_VEC(struct step) steps; /* ascending; before the first and after the last nothing is used */
    uint32_t capacity;
    uint64_t oldest_ns; /* nothing is booked before */
};

struct tsr_timeline {
    struct usage compute[TSR_MACHINE_DEVICES]; /* capacity 1000: permille of the SMs */
    struct usage engines[TSR_MACHINE_DEVICES]; /* capacity: copy engines */
    struct usage links[LOCATIONS][LOCATIONS];  /* [from][to], capacity 1 */
};

/* Index of the first step after ns. */
static size_t step_after(const struct usage *usage, uint64_t ns)
{
    size_t low = 0, high = usage->steps.count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (usage->steps.data[middle].ns <= ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static uint64_t usage_earliest(const struct usage *usage, uint32_t amount, uint64_t duration_ns, uint64_t ready_ns)
{
    uint64_t start = ready_ns > usage->oldest_ns ? ready_ns : usage->oldest_ns;
    size_t index = step_after(usage, start);
    for (size_t i = index ? index - 1 : 0; i < usage->steps.count; i++) {
        const struct step *step = &usage->steps.data[i];
        if (step->ns >= start + duration_ns)
            break;
        if (step->used + amount > usage->capacity && i + 1 < usage->steps.count)
            start = usage->steps.data[i + 1].ns;
    }
    return start;
}

/* Makes a step begin exactly at ns and returns its index, or the count of steps when memory is exhausted. */
static size_t usage_split(struct usage *usage, uint64_t ns)
{
    size_t index = step_after(usage, ns);
    if (index && usage->steps.data[index - 1].ns == ns)
        return index - 1;
    struct step fresh = {ns, index ? usage->steps.data[index - 1].used : 0};
    if (!tsr_vec_push(&usage->steps, fresh))
        return usage->steps.count;
    memmove(&usage->steps.data[index + 1], &usage->steps.data[index], (usage->steps.count - 1 - index) * sizeof fresh);
    usage->steps.data[index] = fresh;
    return index;
}

static void usage_book(struct usage *usage, uint32_t amount, uint64_t start_ns, uint64_t duration_ns)
{
    if (!duration_ns || !tsr_vec_reserve(&usage->steps, usage->steps.count + 2))
        return;
    size_t first = usage_split(usage, start_ns), last = usage_split(usage, start_ns + duration_ns);
    for (size_t i = first; i < last; i++)
        usage->steps.data[i].used += amount;
    if (usage->steps.count <= MOST_STEPS)
        return;
    size_t dropped = usage->steps.count / 2;
    usage->oldest_ns = usage->steps.data[dropped].ns;
    usage->steps.count -= dropped;
    memmove(usage->steps.data, usage->steps.data + dropped, usage->steps.count * sizeof *usage->steps.data);
}

struct tsr_timeline *tsr_timeline_create(const struct tsr_machine *machine)
{
    struct tsr_timeline *timeline = calloc(1, sizeof *timeline);
    if (!timeline)
        return NULL;
    for (uint32_t device = 0; device < TSR_MACHINE_DEVICES; device++) {
        uint32_t engines = device < machine->device_count ? machine->devices[device].copy_engines : 0;
        timeline->compute[device].capacity = 1000;
        timeline->engines[device].capacity = engines ? engines : 1;
    }
    for (uint32_t from = 0; from < LOCATIONS; from++)
        for (uint32_t to = 0; to < LOCATIONS; to++)
            timeline->links[from][to].capacity = 1;
    return timeline;
}

void tsr_timeline_destroy(struct tsr_timeline *timeline)
{
    if (!timeline)
        return;
    for (uint32_t device = 0; device < TSR_MACHINE_DEVICES; device++) {
        tsr_vec_fini(&timeline->compute[device].steps);
        tsr_vec_fini(&timeline->engines[device].steps);
    }
    for (uint32_t from = 0; from < LOCATIONS; from++)
        for (uint32_t to = 0; to < LOCATIONS; to++)
            tsr_vec_fini(&timeline->links[from][to].steps);
    free(timeline);
}

uint64_t tsr_timeline_place_kernel(struct tsr_timeline *timeline, uint32_t device, struct tsr_kernel_time time,
                                   uint64_t ready_ns)
{
    struct usage *compute = &timeline->compute[device];
    uint64_t start = usage_earliest(compute, time.sm_permille, time.ns, ready_ns);
    usage_book(compute, time.sm_permille, start, time.ns);
    return start;
}

/* A copy takes its direction of the link and, on the device that drives it (the source, or the only one), a copy engine. */
uint64_t tsr_timeline_place_copy(struct tsr_timeline *timeline, uint32_t from, uint32_t to, uint64_t ns, uint64_t ready_ns)
{
    uint32_t driver = from < TSR_MACHINE_DEVICES ? from : to;
    if (driver >= TSR_MACHINE_DEVICES)
        return ready_ns;
    struct usage *link = &timeline->links[from][to], *engine = &timeline->engines[driver];
    uint64_t start = ready_ns;
    for (;;) {
        uint64_t found = usage_earliest(engine, 1, ns, usage_earliest(link, 1, ns, start));
        if (found == start)
            break;
        start = found;
    }
    usage_book(link, 1, start, ns);
    usage_book(engine, 1, start, ns);
    return start;
}
