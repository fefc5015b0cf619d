/*
 * Stream order across GPUs. The application's stream at home is the reference; no analysis is needed.
 *
 * For each stream the shim knows where its last work went. When work goes to an executor, the stream departs: the stream at home writes its
 * home fence after its earlier work, and the executor's stream waits for that. When work is enqueued at home, the stream joins: the executor's
 * stream writes the away fence, and the home stream waits for it; from then on the home driver's own rules (legacy default stream, events,
 * synchronisation) cover the work that ran elsewhere, too. Consecutive work of a stream on one executor needs no fence.
 *
 * Deciding where work goes and enqueuing it are one step, during which the stream is held (struct tsr_order_hold); of streams that wait for each
 * other, all are held. A call that waits on the host cannot hold anything meanwhile. Such a call is loose: another thread's work may depart
 * during it, and so it leaves a note that makes later departures wait for home again.
 *
 * A step makes several pieces of work of one thread one: in their stream, and in those that wait for it, no other thread's work comes between
 * them. That waits on the host, before it has passed the gate, until the step is over.
 *
 * No wait lasts for ever: a fence is only waited for once the record that writes it is on the lane, and records are
 * given to the driver in an order in which each WAIT comes after everything that it may depend on (tessera/lane.h).
 */
#ifndef TSR_ORDER_H
#define TSR_ORDER_H

#include "api/driver.h"

#include <stdbool.h>
#include <stdint.h>

struct tsr_lane_client;
struct tsr_stream;

struct tsr_order_hold {
    struct tsr_stream *stream; /* NULL: none */
    bool related;              /* the streams related to it are held too */
    bool loose;
    CUstream handle; /* of a loose call in a stream without a record */
    bool per_thread;
    bool gated; /* the gate (gate.h) has been passed */
};

/* From now on every call at home holds its stream, even while no stream is away (memory/copies.h). Atomic; set once in a session. */
extern bool tsr_order_strict __attribute__((visibility("hidden")));

/* Before work is enqueued at home in the stream (NULL: the default one, the thread's own if per_thread); tsr_order_leave after it, whatever
   the result. Errors: those of an executor that has failed; then nothing is held. */
CUresult tsr_order_enter(CUstream stream, bool per_thread, struct tsr_order_hold *hold);
/* The same for tracked work (order/strands.h): under data order it comes after work elsewhere only by ties. */
CUresult tsr_order_enter_tracked(CUstream stream, bool per_thread, struct tsr_order_hold *hold);
/* The same for a call that may wait on the host. */
CUresult tsr_order_enter_loose(CUstream stream, bool per_thread, struct tsr_order_hold *hold);
void tsr_order_leave(struct tsr_order_hold *hold);
/* The same as tsr_order_enter for what may come between the pieces of a step, because it only makes others wait: in code that holds locks which
   the step may need. */
CUresult tsr_order_enter_between(CUstream stream, bool per_thread, struct tsr_order_hold *hold);

/* Begins a step of the calling thread, which has none and holds nothing, in a stream at home (not NULL) all of whose work is recorded
   (tsr_order_strict). It comes after the work of streams that the stream waits for. False: that is not possible. */
bool tsr_order_step_begin(CUstream stream);
void tsr_order_step_end(void);
/* Whether any thread is in a step. None begins while the gate is closed. */
bool tsr_order_is_any_step(void);

/* The fast form of tsr_order_enter, or tsr_order_enter_tracked, for a stream whose record has been found before, all of whose work is recorded (tsr_order_strict).
   False: the other form has to be called; nothing is held. */
struct tsr_stream_found;
bool tsr_order_enter_found(const struct tsr_stream_found *found, bool tracked, struct tsr_order_hold *hold);

/*
 * How often, under data order, a GPU was given work whose effects others than this session's GPUs can observe: untracked work,
 * and tracked work on memory without a directory.
 */
extern uint64_t tsr_order_exposed __attribute__((visibility("hidden"))); /* atomic */
void tsr_order_expose(void);
static inline uint64_t tsr_order_exposed_now(void)
{
    return __atomic_load_n(&tsr_order_exposed, __ATOMIC_ACQUIRE);
}

/* Records an event in the stream: instead of cuEventRecord. */
CUresult tsr_order_record(CUevent event, CUstream stream, bool per_thread, unsigned flags);

/* Before a call at home waits for the stream's work, or queries it. Errors as above. */
CUresult tsr_order_join(CUstream stream, bool per_thread);
CUresult tsr_order_join_all(void);
/* Before all streams of a context are given something at home. Errors as above. */
CUresult tsr_order_enter_all(void);
/* All streams at home may have been made to wait for something: later departures wait for home again. */
void tsr_order_touch_all(void);
/* The same as tsr_order_join_all with a bound (monotonic time) on waiting on the host. Errors: also NOT_READY: the work was not complete by then. */
CUresult tsr_order_join_all_until(uint64_t deadline_ns);

/* Before the stream is destroyed: joins, and forgets its record. */
CUresult tsr_order_destroy(CUstream stream);
/* Before a context may be destroyed, while others go on: joins. */
CUresult tsr_order_destroy_contexts(void);

/* The driver has destroyed the context: forgets its streams. A failed executor's error is cleared when the last context that had work there is gone. */
void tsr_order_context_ended(CUcontext context);

/* Before work is posted to the lane: orders it after the stream's earlier work; gives the stream's slot on the lane. Post it before tsr_order_leave.
   Errors: NOT_SUPPORTED when it must stay home; the driver's; the executor's. Then nothing is held. */
CUresult tsr_order_depart(CUstream stream, bool per_thread, struct tsr_lane_client *lane, uint32_t *slot,
                          struct tsr_order_hold *hold);

/* The same for what may come between the pieces of a step. */
CUresult tsr_order_depart_between(CUstream stream, struct tsr_lane_client *lane, uint32_t *slot, struct tsr_order_hold *hold);

/* The same as tsr_order_depart for a stream (never NULL) whose record has been found before. */
CUresult tsr_order_depart_found(const struct tsr_stream_found *found, CUstream stream, struct tsr_lane_client *lane,
                                uint32_t *slot, struct tsr_order_hold *hold);

/* Whether the stream can be given more work on the lane without fences (stream NULL: no). Only a hint. */
bool tsr_order_is_there(const struct tsr_stream *stream, const struct tsr_lane_client *lane);

/* The lane of the stream's last work; NULL: home. Only a hint. */
struct tsr_lane_client *tsr_order_lane(CUstream stream, bool per_thread);

/* The error of an executor that has failed: sticky; every call that waits for work or enqueues it returns it. */
CUresult tsr_order_state(void);

/* A process' session begins: nothing is away. */
void tsr_order_start(bool by_data);

#endif
