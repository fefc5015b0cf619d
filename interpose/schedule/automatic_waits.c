/* See automatic.h: what the host waits for, and where streams wait for each other. */
#include "schedule/automatic.h"

#include "schedule/automatic_parts.h"
#include "schedule/decisions.h"
#include "schedule/host_time.h"

#define NOT_WAITING -1.0

static __thread double wait_began_ns = NOT_WAITING;

void tsr_automatic_wait_begins(void)
{
    if (!tsr_automatic_is_on)
        return;
    pthread_mutex_lock(&tsr_automatic_lock);
    wait_began_ns = tsr_host_time_ns();
    pthread_mutex_unlock(&tsr_automatic_lock);
}

void tsr_automatic_waits_not(void)
{
    wait_began_ns = NOT_WAITING;
}

static bool is_beside(const void *ticket, uint64_t other)
{
    uint32_t gpu = tsr_place_gpu(&tsr_automatic->place, other);
    return gpu != UINT32_MAX && gpu == tsr_place_gpu(&tsr_automatic->place, *(const uint64_t *)ticket);
}

/* Whether other streams than that of the launch (NULL: it is not known) had work on its GPU, too. */
static bool is_shared_locked(CUstream stream, uint64_t ticket)
{
    uint32_t busy = tsr_stream_points_busy(&tsr_automatic->points, stream, wait_began_ns, is_beside, &ticket);
    return stream != CU_STREAM_LEGACY && busy > (stream ? 0 : 1); /* a wait for the legacy stream is one for others as well */
}

static bool is_any(const void *context, uint64_t ticket)
{
    (void)context;
    return ticket;
}

/* The calling thread has waited for it since wait_began_ns; in virtual time until then. shared: see is_shared_locked. */
static void end_wait_locked(uint64_t ticket, double until_ns, bool shared)
{
    tsr_samples_poll(&tsr_automatic->samples);
    tsr_decisions_flush();
    tsr_host_time_waited(until_ns);
    if (ticket) {
        (shared ? tsr_place_waited_beside : tsr_place_waited)(&tsr_automatic->place, ticket, wait_began_ns, tsr_host_time_ns());
        struct tsr_guard_clocks clocks = tsr_place_clocks_at_work(&tsr_automatic->place);
        tsr_guard_waited(&tsr_automatic->guard, &clocks);
    }
    wait_began_ns = NOT_WAITING;
}

void tsr_automatic_waited_for(CUstream stream, uint64_t ticket)
{
    if (!tsr_automatic_is_on || wait_began_ns == NOT_WAITING)
        return;
    pthread_mutex_lock(&tsr_automatic_lock);
    end_wait_locked(ticket, tsr_place_finish(&tsr_automatic->place, ticket), is_shared_locked(stream, ticket));
    tsr_automatic->figures.read_back++;
    pthread_mutex_unlock(&tsr_automatic_lock);
}

void tsr_automatic_waited(CUstream stream)
{
    if (!tsr_automatic_is_on || wait_began_ns == NOT_WAITING)
        return;
    pthread_mutex_lock(&tsr_automatic_lock);
    struct tsr_point point = tsr_stream_points_of(&tsr_automatic->points, stream),
                     all = tsr_stream_points_of(&tsr_automatic->points, NULL);
    end_wait_locked(point.latest, point.ns[TSR_PLACE_ACTUAL], stream && is_shared_locked(stream, point.latest));
    bool others = stream && tsr_stream_points_busy(&tsr_automatic->points, stream, tsr_host_time_ns(), is_any, NULL);
    if (point.latest == all.latest && !others)
        tsr_place_idle(&tsr_automatic->place, tsr_host_time_ns());
    tsr_stream_points_done(&tsr_automatic->points, stream);
    tsr_automatic_report_locked();
    pthread_mutex_unlock(&tsr_automatic_lock);
}

void tsr_automatic_waited_event(CUevent event)
{
    if (!tsr_automatic_is_on || wait_began_ns == NOT_WAITING)
        return;
    pthread_mutex_lock(&tsr_automatic_lock);
    const struct tsr_point *point = tsr_stream_points_event(&tsr_automatic->points, event);
    if (point) {
        end_wait_locked(point->latest, point->ns[TSR_PLACE_ACTUAL], is_shared_locked(NULL, point->latest));
        tsr_automatic_report_locked();
    }
    wait_began_ns = NOT_WAITING;
    pthread_mutex_unlock(&tsr_automatic_lock);
}

void tsr_automatic_recorded(CUevent event, CUstream stream)
{
    if (!tsr_automatic_is_on)
        return;
    pthread_mutex_lock(&tsr_automatic_lock);
    tsr_stream_points_record(&tsr_automatic->points, event, stream);
    pthread_mutex_unlock(&tsr_automatic_lock);
}

void tsr_automatic_follows(CUstream stream, CUevent event)
{
    if (!tsr_automatic_is_on)
        return;
    pthread_mutex_lock(&tsr_automatic_lock);
    tsr_stream_points_follow(&tsr_automatic->points, stream, event);
    pthread_mutex_unlock(&tsr_automatic_lock);
}
