/*
 * Points in the order of work, as the rule (tessera/place.h) sees them: all that a stream was given, or an event comes after, and when it is done in
 * each timeline. Handles are hashed: of two streams, or events, in one place the later one is remembered. Not for several threads at a time.
 */
#ifndef TSR_SCHEDULE_POINTS_H
#define TSR_SCHEDULE_POINTS_H

#include "api/driver.h"

#include <stdbool.h>
#include <stdint.h>

#include <tessera/place.h>

#define TSR_POINT_STREAMS 256u /* a power of two */
#define TSR_POINT_EVENTS 1024u /* the same */

/* The ticket of the launch that will be done last, and when all is, by timeline. */
struct tsr_point {
    uint64_t latest;
    double ns[TSR_PLACE_TIMELINES];
};

struct tsr_point_stream {
    CUstream handle; /* NULL: none, or all */
    uint32_t gpu;    /* of its last launch */
    uint64_t last;   /* ticket of that */
    struct tsr_point given;
    double after_ns[TSR_PLACE_TIMELINES]; /* when its next launch can begin, whatever it reads */
    uint32_t joins;
    bool related; /* to the legacy stream */
};

struct tsr_point_event {
    CUevent handle; /* NULL: none */
    struct tsr_point point;
};

struct tsr_points {
    struct tsr_point_stream streams[TSR_POINT_STREAMS], all;
    uint8_t used[TSR_POINT_STREAMS]; /* the places that have been taken */
    uint32_t used_count;
    struct tsr_point_event events[TSR_POINT_EVENTS];
};

struct tsr_point_stream *tsr_stream_points_at(struct tsr_points *points, CUstream handle);

/* What comes before the stream's next launch. joins: of its strands so far; a new one comes after all that the stream was given. */
void tsr_stream_points_join(struct tsr_point_stream *stream, uint32_t joins);

/* A launch was given to the stream: its ticket, and its end by timeline. end_ns: as is known now, of all work there is. */
void tsr_stream_points_give(struct tsr_points *points, CUstream handle, uint64_t ticket,
                            const double finish_ns[TSR_PLACE_TIMELINES], double end_ns);

/* All that the stream was given, and those for which it waits; NULL: all there is. */
struct tsr_point tsr_stream_points_of(struct tsr_points *points, CUstream handle);
/* How many streams but this one (NULL: of all) have work that is not done by then, as is expected. on_gpu: asks whether the ticket's launch went to the GPU. */
uint32_t tsr_stream_points_busy(const struct tsr_points *points, CUstream but, double at_ns,
                                bool (*on_gpu)(const void *context, uint64_t ticket), const void *context);
/* It is done. */
void tsr_stream_points_done(struct tsr_points *points, CUstream handle);

/* The event stands for what the stream was given. */
void tsr_stream_points_record(struct tsr_points *points, CUevent event, CUstream stream);
/* NULL: not known. */
const struct tsr_point *tsr_stream_points_event(const struct tsr_points *points, CUevent event);
/* The stream waits for the event. */
void tsr_stream_points_follow(struct tsr_points *points, CUstream stream, CUevent event);

#endif
