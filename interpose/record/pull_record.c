/* See pull_record.h. */
#include "record/pull_record.h"

#include "memory/pull_seen.h"
#include "object/capture.h"
#include "record/recorder.h"
#include "record/timing.h"
#include "record/timing_away.h"
#include "record/writer.h"

#define TIMED_FIRST 8u   /* pulls of a thread that are timed always; */
#define TIMED_ONE_OF 16u /* of the others, one of so many */

static bool is_sample(struct tsr_thread *thread)
{
    if (tsr_timing_mode != TSR_TIMING_SAMPLED)
        return tsr_timing_mode == TSR_TIMING_ALL;
    return thread->pulls++ < TIMED_FIRST || tsr_thread_random(thread) % TIMED_ONE_OF == 0;
}

static void begin(struct tsr_pull_seen *pull)
{
    struct tsr_thread *thread = (pull->start = tsr_record_start()) ? tsr_thread() : NULL;
    if (!thread || !is_sample(thread))
        return;
    if (pull->lane)
        pull->time = tsr_timing_away_begin(pull->lane);
    else if (!tsr_is_any_capture())
        pull->pair = tsr_timing_begin(thread, pull->stream, tsr_record_context(thread, pull->stream));
}

/* The record's number in the ring; UINT64_MAX: there is no room. */
static uint64_t write(const struct tsr_pull_seen *pull, struct tsr_thread *thread)
{
    if (!thread || !tsr_ring_has_room(&thread->writer, 1))
        return UINT64_MAX;
    *tsr_ring_at(&thread->writer, 0) = (struct tsr_record){.start = pull->start,
                                                           .ticks = tsr_record_ticks(pull->start),
                                                           .kind = TSR_RECORD_PULL,
                                                           .context = tsr_record_context(thread, pull->stream),
                                                           .stream = (uintptr_t)pull->stream,
                                                           .u.pull = {.address = pull->address,
                                                                      .bytes = pull->bytes,
                                                                      .writer = pull->writer,
                                                                      .ticket = pull->ticket,
                                                                      .from = (uint8_t)pull->from,
                                                                      .to = (uint8_t)pull->to,
                                                                      .cause = (uint8_t)pull->cause,
                                                                      .through_host = pull->through_host}};
    tsr_ring_commit(&thread->writer, 1);
    return thread->writer.tail - 1;
}

static void end(struct tsr_pull_seen *pull, bool done)
{
    struct tsr_thread *thread = pull->start ? tsr_thread() : NULL;
    if (pull->pair)
        tsr_timing_mark(pull->pair, pull->stream, done);
    uint64_t number = done ? write(pull, thread) : UINT64_MAX;
    if (pull->pair)
        tsr_timing_end(pull->pair, thread, number);
    if (pull->time && done)
        tsr_timing_away_end(pull->lane, pull->time, thread, number);
    else if (pull->time)
        tsr_timing_away_drop(pull->lane, pull->time);
}

void tsr_pull_records_start(void)
{
    static const struct tsr_pull_listener listener = {.begin = begin, .end = end};
    if (tsr_has_role(TSR_RECORDING))
        tsr_pull_listener = &listener;
}
