/*
 * Launches that no rule of the policy places, under `schedule: auto`: what the rule of tessera/place.h is asked, and what is reported to it, in a program's process.
 * Copies and memsets whose touches are known are placed as launches are. It also knows what the host waits for, and where strands are joined. For programs that launch from one thread:
 * others are served, one at a time.
 */
#ifndef TSR_SCHEDULE_AUTOMATIC_H
#define TSR_SCHEDULE_AUTOMATIC_H

#include "api/driver.h"

#include <stdbool.h>
#include <stdint.h>

#include "memory/copies.h"

struct tsr_function_record;
struct tsr_lane_client;
struct tsr_session;
struct tsr_stream;

/* Constant for a session. */
extern bool tsr_automatic_is_on __attribute__((visibility("hidden")));

/* A kernel of a graph. */
struct tsr_automatic_part {
    const struct tsr_function_record *function;
    uint32_t grid[3], block[3], shared_bytes;
    uint64_t bytes; /* that it touches */
};

struct tsr_automatic_launch {
    const struct tsr_function_record *function;
    const uint32_t *grid, *block; /* three each */
    uint32_t shared_bytes;
    CUstream stream;
    uint32_t joins;                  /* of the stream so far (lane/streams.h) */
    bool related;                    /* the legacy stream waits for it by CUDA's rules, or it is that */
    bool own;                        /* in a thread's own default stream */
    const struct tsr_touch *touches; /* NULL: it may touch anything, or cannot leave: it stays home */
    uint32_t count;
    const struct tsr_automatic_part
        *parts; /* until it was measured it is expected to take as long as they do, one after the other */
    uint32_t part_count;
    bool stays;          /* what it touches is known, but it cannot leave */
    uint16_t unprepared; /* lanes (bit k: number k) that do not have its code yet */
};

/* Says of the stream in which it is launched what the rule asks. NULL: nothing is known of it. */
void tsr_automatic_in(struct tsr_automatic_launch *launch, const struct tsr_stream *stream);
/* In a pool: bytes that would have to come to each GPU, by rank, for work with these touches. */
void tsr_automatic_distances(const struct tsr_touch *touches, uint32_t count, double *bytes);

/*
 * For some time nothing was to be gained: until there may be again, work goes home without being chosen for, or looked at, and is not reported. What it touches
 * counts as unknown, which costs little where home holds everything.
 */
bool tsr_automatic_sleeps(void);
/* Where the launch goes; NULL: home. The same thread reports next where it went. */
struct tsr_lane_client *tsr_automatic_choose(const struct tsr_automatic_launch *launch);
/*
 * Of a launch that stays home: touches of what it reads that is to be copied to the GPU of the lane in the background, and whose number is returned; 0:
 * of nothing. constants: room for as many as it has.
 */
uint32_t tsr_automatic_fetches(const struct tsr_automatic_launch *launch, struct tsr_touch *constants,
                               struct tsr_lane_client **lane);
/* They are being copied. */
void tsr_automatic_fetched(void);
/* lane: as above. ticket: of its use (memory/copies.h); 0: it has none. */
void tsr_automatic_went(const struct tsr_lane_client *lane, uint64_t ticket);

/* Whether work goes to several GPUs now. */
bool tsr_automatic_spreads(void);

/* Whether launches like it may go elsewhere now; it has been chosen that this one does not. */
bool tsr_automatic_may_leave(void);

/*
 * Whether pulls for work that no rule placed (placed), or one did, may be staged (memory/staging.h): not if the chosen GPU has nothing else to do until
 * it can pull, which is sooner done in one step; nor under a plan, which counts on that.
 */
bool tsr_automatic_stages(bool placed);

/* Whether others are to be able to come after what its GPU was given before it, and not after it too: if it takes long. */
bool tsr_automatic_marks_before(const struct tsr_lane_client *lane);
/* The same for it, and not after what its GPU is given next: now and then. */
bool tsr_automatic_marks(const struct tsr_lane_client *lane);
/* A mark was set after the piece of work with the ticket: it will show when that has ended. The caller holds the stream. */
void tsr_automatic_marked(const struct tsr_lane_client *lane, uint64_t ticket, const struct tsr_stream *stream);

/* Of a launch that was chosen to go to the lane: for its record (tessera/lane.h), if it is a sample whose time is taken there; 0: it is none. */
uint16_t tsr_automatic_sample(const struct tsr_lane_client *lane);
/* Around the launch just reported, at home: whether it is a sample, whose time is taken. The stream's GPU is home. */
void tsr_automatic_begins(CUstream stream);
void tsr_automatic_ends(CUstream stream, bool refused);

/* What stands for copies and memsets, in the place of a function; their grid is the size that tells one class from another. */
#define TSR_AUTOMATIC_COPY ((const struct tsr_function_record *)1)
#define TSR_AUTOMATIC_SET ((const struct tsr_function_record *)2)
#define TSR_AUTOMATIC_GIVE ((const struct tsr_function_record *)3) /* from the host */

/* Around a call in which the host waits for all that is in the stream; NULL: for all there is. */
void tsr_automatic_wait_begins(void);
void tsr_automatic_waited(CUstream stream);
/* It was one piece of work, in that stream. */
void tsr_automatic_waited_for(CUstream stream, uint64_t ticket);
/* It was for an event. */
void tsr_automatic_waited_event(CUevent event);
/* It does not wait after all. */
void tsr_automatic_waits_not(void);

/* The event was recorded in the stream; a stream waits for it. */
void tsr_automatic_recorded(CUevent event, CUstream stream);
void tsr_automatic_follows(CUstream stream, CUevent event);

/* A process' session begins. */
void tsr_automatic_start(const struct tsr_session *session, bool emulated);

#endif
