/* See clock.h. */
#include "times/clock.h"

#include <sched.h>
#include <time.h>

#include <tessera/emulator_table.h>

#include "base/os.h"

#define ANCHOR_AGE_NS 1000000000ull
#define ANCHOR_SPIN_NS 200000ull /* an idle GPU needs a few microseconds */
#define ANCHOR_PATIENCE_NS 20000000ull
#define ANCHOR_ATTEMPTS 3
#define USUAL_DELAY_NS 2000 /* by how much the times of events on an idle stream vary */
#define DRIFT_NS 100        /* drift of the host's clock against the GPU's between two anchors */

void tsr_times_find_emulator(struct tsr_times_driver *driver, CUresult (*export_table)(const void **, const CUuuid *))
{
    const CUuuid id = TSR_EMULATOR_TABLE_ID;
    const void *found = NULL;
    if (export_table(&found, &id) != CUDA_SUCCESS || !found)
        return;
    const struct tsr_emulator_table *table = found;
    driver->emulated = true;
    if (table->bytes < sizeof *table || !table->is_frozen())
        return;
    driver->event_ns = table->event_ns;
    driver->host_ns = table->host_ns;
}

bool tsr_times_is_past(const struct tsr_times_driver *driver, CUevent event)
{
    uint64_t ns;
    if (!driver->event_ns)
        return driver->event_query(event) == CUDA_SUCCESS;
    return driver->event_ns(event, &ns) == CUDA_SUCCESS && ns <= driver->host_ns();
}

CUresult tsr_times_query(const struct tsr_times_driver *driver, CUevent event)
{
    uint64_t ns;
    return driver->event_ns ? driver->event_ns(event, &ns) : driver->event_query(event);
}

/* Waits a bounded moment for an event on our own stream. */
static bool await(const struct tsr_times_driver *driver, CUevent event)
{
    uint64_t since = tsr_os_monotonic_ns(), waited = 0;
    CUresult result;
    while ((result = driver->event_query(event)) == CUDA_ERROR_NOT_READY && waited < ANCHOR_PATIENCE_NS) {
        if (waited < ANCHOR_SPIN_NS)
            sched_yield();
        else
            nanosleep(&(struct timespec){.tv_nsec = (long)ANCHOR_SPIN_NS}, NULL);
        waited = tsr_os_monotonic_ns() - since;
    }
    return result == CUDA_SUCCESS;
}

/* When `event` happened, to within half the time between recording and observing it. 0: it has not, within the bound. */
static uint64_t happen(const struct tsr_times_driver *driver, CUstream stream, CUevent event, uint64_t *width)
{
    uint64_t before = tsr_os_monotonic_ns();
    if (driver->event_record(event, stream) != CUDA_SUCCESS || !await(driver, event))
        return 0;
    *width = tsr_os_monotonic_ns() - before;
    return before + *width / 2;
}

static bool prepare_anchor(const struct tsr_times_driver *driver, struct tsr_times_clock *clock)
{
    if (!clock->stream && driver->stream_create(&clock->stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS)
        return false;
    return clock->spare || driver->event_create(&clock->spare, CU_EVENT_DEFAULT) == CUDA_SUCCESS;
}

static bool elapsed_ns(const struct tsr_times_driver *driver, CUevent from, CUevent to, int64_t *ns)
{
    float milliseconds;
    if (driver->elapsed(&milliseconds, from, to) != CUDA_SUCCESS)
        return false;
    *ns = (int64_t)((double)milliseconds * 1e6);
    return true;
}

/* The error of a new anchor differs from that of the one before, which shifts all delays. The host's clock may drift a little, too. */
static void set_anchor(const struct tsr_times_driver *driver, struct tsr_times_clock *clock, uint64_t ns, uint64_t now)
{
    int64_t since;
    CUevent before = clock->anchor;
    if (!before)
        clock->least_delay_ns = INT64_MAX;
    else if (clock->least_delay_ns != INT64_MAX && elapsed_ns(driver, before, clock->spare, &since))
        clock->least_delay_ns += (int64_t)(ns - clock->anchor_ns) - since + DRIFT_NS;
    clock->anchor = clock->spare;
    clock->spare = before;
    clock->anchor_ns = ns;
    clock->taken_ns = now;
}

bool tsr_times_prepare(const struct tsr_times_driver *driver, struct tsr_times_clock *clock)
{
    uint64_t now = tsr_os_monotonic_ns(), narrowest = UINT64_MAX, width = 0;
    if (driver->event_ns || (clock->anchor && now - clock->taken_ns < ANCHOR_AGE_NS))
        return true;
    for (int attempt = 0; attempt < ANCHOR_ATTEMPTS && prepare_anchor(driver, clock); attempt++) {
        uint64_t ns = happen(driver, clock->stream, clock->spare, &width);
        if (!ns)
            break;
        if (width >= narrowest)
            continue;
        narrowest = width;
        set_anchor(driver, clock, ns, now);
    }
    return clock->anchor != NULL;
}

/*
 * How long the GPU was idle between the first event and the work, because the host had not enqueued the work yet: the time that the
 * host took for that, less the stream's backlog when the event was recorded. Losing the CPU makes the host's delays longer, never
 * shorter, so the shortest one is the most accurate.
 */
static int64_t gap_ns(struct tsr_times_clock *clock, const struct tsr_times_asked *asked, uint64_t start_ns)
{
    int64_t delay = (int64_t)start_ns - (int64_t)asked->asked_ns;
    if (delay < clock->least_delay_ns)
        clock->least_delay_ns = delay;
    int64_t late = delay - clock->least_delay_ns - USUAL_DELAY_NS;
    int64_t gap = (int64_t)(asked->launched_ns - asked->begun_ns) - (late > 0 ? late : 0);
    return gap > 0 ? gap : 0;
}

/* On the clock that is shared by all GPUs of an emulated machine. */
static bool read_own(const struct tsr_times_driver *driver, CUevent begin, CUevent end, uint64_t *start_ns, uint64_t *ns)
{
    uint64_t ended;
    if (driver->event_ns(begin, start_ns) != CUDA_SUCCESS || driver->event_ns(end, &ended) != CUDA_SUCCESS)
        return false;
    *ns = ended > *start_ns ? ended - *start_ns : 0;
    return true;
}

bool tsr_times_read(const struct tsr_times_driver *driver, struct tsr_times_clock *clock, CUevent begin, CUevent end,
                    const struct tsr_times_asked *asked, uint64_t *start_ns, uint64_t *ns)
{
    int64_t since, length;
    if (driver->event_ns)
        return read_own(driver, begin, end, start_ns, ns);
    if (!elapsed_ns(driver, clock->anchor, begin, &since) || !elapsed_ns(driver, begin, end, &length))
        return false;
    uint64_t start = clock->anchor_ns + (uint64_t)since;
    int64_t gap = driver->emulated ? 0 : gap_ns(clock, asked, start);
    if (gap > length)
        gap = length > 0 ? length : 0;
    *start_ns = start + (uint64_t)gap;
    *ns = (uint64_t)(length - gap);
    return true;
}
