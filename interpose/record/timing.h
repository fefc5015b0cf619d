/*
 * Times on the GPU of a sample of launches: an event before and one after, in the launch's own stream, read later by a thread of the shim.
 *
 * The program must not notice. Nothing is timed while any stream of the process is being captured, nor where an event would keep launches from
 * overlapping (programmatic launches); the launching thread never waits, and skips a sample rather than contend for a lock. An error ends
 * timing in that context. Streams of the application get nothing but the two events; times are related to the host's clock through a
 * stream of the shim's own. Before a context ends, and when the process exits, completed samples are read and the rest are counted as lost.
 */
#ifndef TSR_RECORD_TIMING_H
#define TSR_RECORD_TIMING_H

#include "api/driver.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tessera/records.h>

struct tsr_thread;
struct tsr_timing_pair;

enum tsr_timing_mode { TSR_TIMING_OFF, TSR_TIMING_SAMPLED, TSR_TIMING_ALL };
extern enum tsr_timing_mode tsr_timing_mode __attribute__((visibility("hidden"))); /* constant once recording has begun */

#define TSR_TIMING_FIRST 8u   /* launches of a function that are timed always; */
#define TSR_TIMING_ONE_OF 128u /* of the others, one of so many; a power of two: two events cost 2 to 5 us (measured) */

/* Reads the options, and says which clock the GPUs have. Before recording begins. */
enum tsr_gpu_clock tsr_timing_start(void);

/* The first event; NULL: this one is not timed. context: the stream's number. The launch must follow at once. */
struct tsr_timing_pair *tsr_timing_begin(struct tsr_thread *thread, CUstream stream, uint16_t context);
/* The same for a graph or a copy, with samples of their own: a thread's first ones, then one of so many. Work that may run elsewhere is not timed. */
struct tsr_timing_pair *tsr_timing_begin_other(CUstream stream);
static inline struct tsr_timing_pair *tsr_timing_begin_work(uint64_t start, CUstream stream)
{
    return start && tsr_timing_mode != TSR_TIMING_OFF ? tsr_timing_begin_other(stream) : NULL;
}
/* What is timed elsewhere: one more is, and somebody reads the answers. */
void tsr_timing_note_timed(void);
void tsr_timing_run(void);

/* The second event, right after the launch. */
void tsr_timing_mark(struct tsr_timing_pair *pair, CUstream stream, bool launched);
/* Hands the pair over to be read; number: of the launch's record in the thread's ring, UINT64_MAX: it has none. */
void tsr_timing_end(struct tsr_timing_pair *pair, const struct tsr_thread *thread, uint64_t number);
/* After the record of such work; is_recorded: the thread's last record is the work's. */
void tsr_timing_end_work(struct tsr_timing_pair *pair, bool is_recorded);

/* Around a call that may end contexts: reads what is done, and lets nobody use events until resumed. */
void tsr_timing_pause(void);
/* Between the two: the context has ended. */
void tsr_timing_abandon(uint16_t context);
void tsr_timing_resume(void);

#endif
