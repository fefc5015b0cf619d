/* See points.h. */
#include "schedule/points.h"

#include <string.h>

struct tsr_point_stream *tsr_stream_points_at(struct tsr_points *points, CUstream handle)
{
    uint32_t place = ((uintptr_t)handle >> 4 ^ (uintptr_t)handle >> 12) % TSR_POINT_STREAMS;
    struct tsr_point_stream *stream = &points->streams[place];
    if (!stream->handle && handle && points->used_count < TSR_POINT_STREAMS)
        points->used[points->used_count++] = (uint8_t)place;
    if (stream->handle != handle)
        *stream = (struct tsr_point_stream){.handle = handle};
    return stream;
}

static struct tsr_point_event *event_at(const struct tsr_points *points, CUevent handle)
{
    return (struct tsr_point_event *)&points->events[((uintptr_t)handle >> 4 ^ (uintptr_t)handle >> 14) % TSR_POINT_EVENTS];
}

/* Later work comes after what is done by then. */
static void raise_to(double to[TSR_PLACE_TIMELINES], const double ns[TSR_PLACE_TIMELINES])
{
    for (uint32_t timeline = 0; timeline < TSR_PLACE_TIMELINES; timeline++)
        to[timeline] = ns[timeline] > to[timeline] ? ns[timeline] : to[timeline];
}

static void extend(struct tsr_point *point, const struct tsr_point *by)
{
    if (by->ns[TSR_PLACE_ACTUAL] >= point->ns[TSR_PLACE_ACTUAL])
        point->latest = by->latest;
    raise_to(point->ns, by->ns);
}

/* What was expected then may have been too much. */
static void limit(struct tsr_point *point, double end_ns)
{
    if (point->ns[TSR_PLACE_ACTUAL] > end_ns)
        point->ns[TSR_PLACE_ACTUAL] = end_ns;
}

void tsr_stream_points_join(struct tsr_point_stream *stream, uint32_t joins)
{
    if (stream->joins != joins)
        raise_to(stream->after_ns, stream->given.ns);
    stream->joins = joins;
}

void tsr_stream_points_give(struct tsr_points *points, CUstream handle, uint64_t ticket,
                            const double finish_ns[TSR_PLACE_TIMELINES], double end_ns)
{
    struct tsr_point_stream *stream = tsr_stream_points_at(points, handle);
    struct tsr_point own = {.latest = ticket};
    memcpy(own.ns, finish_ns, sizeof own.ns);
    stream->last = ticket;
    limit(&stream->given, end_ns);
    limit(&points->all.given, end_ns);
    extend(&stream->given, &own);
    extend(&points->all.given, &own);
}

struct tsr_point tsr_stream_points_of(struct tsr_points *points, CUstream handle)
{
    struct tsr_point point = handle ? tsr_stream_points_at(points, handle)->given : points->all.given;
    for (uint32_t i = 0; handle == CU_STREAM_LEGACY && i < TSR_POINT_STREAMS; i++)
        if (points->streams[i].related)
            extend(&point, &points->streams[i].given);
    return point;
}

uint32_t tsr_stream_points_busy(const struct tsr_points *points, CUstream but, double at_ns,
                                bool (*on_gpu)(const void *context, uint64_t ticket), const void *context)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < points->used_count; i++) {
        const struct tsr_point_stream *stream = &points->streams[points->used[i]];
        count += stream->handle != but && stream->given.ns[TSR_PLACE_ACTUAL] > at_ns && on_gpu(context, stream->given.latest);
    }
    return count;
}

void tsr_stream_points_done(struct tsr_points *points, CUstream handle)
{
    struct tsr_point_stream *stream = handle ? tsr_stream_points_at(points, handle) : &points->all;
    stream->given = (struct tsr_point){0};
}

void tsr_stream_points_record(struct tsr_points *points, CUevent event, CUstream stream)
{
    *event_at(points, event) = (struct tsr_point_event){event, tsr_stream_points_of(points, stream)};
}

const struct tsr_point *tsr_stream_points_event(const struct tsr_points *points, CUevent event)
{
    const struct tsr_point_event *of = event_at(points, event);
    return of->handle == event ? &of->point : NULL;
}

void tsr_stream_points_follow(struct tsr_points *points, CUstream handle, CUevent event)
{
    const struct tsr_point *point = tsr_stream_points_event(points, event);
    struct tsr_point_stream *stream = tsr_stream_points_at(points, handle);
    if (!point)
        return;
    raise_to(stream->after_ns, point->ns);
    extend(&stream->given, point);
}
