/*
 * Stream order across GPUs: the application's stream at home is the spine. Needs no analysis.
 *
 * For each stream the shim knows where its last work went. Work that goes to an executor first departs: home work before it writes the
 * stream's home fence and the executor's stream waits for it. Anything enqueued at home first joins: the executor's stream writes the
 * away fence and the home stream waits for it; then the home driver's own rules (legacy default stream, events, synchronisation) hold
 * for what ran elsewhere too. Consecutive work of a stream on one executor needs no fence.
 *
 * Deciding and enqueuing are one step: between them the stream is held (struct tsr_order_hold), and for streams that wait for each other,
 * all of them. A call that waits on the host cannot hold anything meanwhile. It is loose: another thread's work may depart beside it,
 * and so it leaves a mark that makes later departures wait for home again.
 *
 * Nothing here can wait for ever: a fence is only waited for once the record that leads to it is on the lane, and records are
 * given to the driver in an order in which each WAIT comes after what it may depend on (tessera/lane.h).
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
    CUstream handle; /* loose without a record */
    bool per_thread;
    bool gated; /* the gate (gate.h) has been passed */
};

/* Every call at home holds its stream, also while nothing is away (memory/copies.h). Atomic; set once in a session. */
extern bool tsr_order_strict __attribute__((visibility("hidden")));

/* Before work is enqueued at home in the stream (NULL: the default one, the thread's own if per_thread); tsr_order_leave after it, whatever
   came out. Errors: the executor's, when it has failed; then nothing is held. */
CUresult tsr_order_enter(CUstream stream, bool per_thread, struct tsr_order_hold *hold);
/* The same for tracked work (order/strands.h): under data order it comes after work elsewhere only by ties. */
CUresult tsr_order_enter_tracked(CUstream stream, bool per_thread, struct tsr_order_hold *hold);
/* The same for a call that may wait on the host. */
CUresult tsr_order_enter_loose(CUstream stream, bool per_thread, struct tsr_order_hold *hold);
void tsr_order_leave(struct tsr_order_hold *hold);

/* The same as tsr_order_enter, or tsr_order_enter_tracked, for a stream whose record has been found before, all of whose work is noted (tsr_order_strict). False: that has to
   be asked; nothing is held. */
struct tsr_stream_found;
bool tsr_order_enter_found(const struct tsr_stream_found *found, bool tracked, struct tsr_order_hold *hold);

/*
 * How often, under data order, anything was given to a GPU of which others than this session's GPUs can see that it has happened: whatever is not
 * tracked, and tracked work over memory that no directory knows.
 */
extern uint64_t tsr_order_exposed __attribute__((visibility("hidden"))); /* atomic */
void tsr_order_expose(void);
static inline uint64_t tsr_order_exposed_now(void)
{
    return __atomic_load_n(&tsr_order_exposed, __ATOMIC_ACQUIRE);
}

/* Before something waits for the stream's work, or asks for it, at home. Errors as above. */
CUresult tsr_order_join(CUstream stream, bool per_thread);
CUresult tsr_order_join_all(void);
/* The same with a bound for what has to be waited for on the host. Errors: also NOT_READY: it was not complete by then (monotonic time). */
CUresult tsr_order_join_all_until(uint64_t deadline_ns);

/* Before the stream, or contexts, are destroyed: as joining, and what is known of them is forgotten. */
CUresult tsr_order_destroy(CUstream stream);
CUresult tsr_order_destroy_contexts(void);

/* The driver has destroyed the context. With the last one that had work with an executor that has failed, its error goes. */
void tsr_order_context_ended(CUcontext context);

/* Makes the stream's next work possible on the lane; gives the lane's stream slot. The work is posted before tsr_order_leave.
   Errors: NOT_SUPPORTED when it must stay home; the driver's; the executor's. Then nothing is held. */
CUresult tsr_order_depart(CUstream stream, bool per_thread, struct tsr_lane_client *lane, uint32_t *slot,
                          struct tsr_order_hold *hold);

/* The same for a stream (never NULL) whose record has been found before. */
CUresult tsr_order_depart_found(const struct tsr_stream_found *found, CUstream stream, struct tsr_lane_client *lane,
                                uint32_t *slot, struct tsr_order_hold *hold);

/* Whether the stream can be given more on the lane as it is (stream NULL: no). Only a hint. */
bool tsr_order_is_there(const struct tsr_stream *stream, const struct tsr_lane_client *lane);

/* The lane of the stream's last work; NULL: home. Only a hint. */
struct tsr_lane_client *tsr_order_lane(CUstream stream, bool per_thread);

/* The error of an executor that has failed: sticky, the answer of every call that waits for work or enqueues it. */
CUresult tsr_order_state(void);

/* A process' session begins: nothing is away. */
void tsr_order_start(bool by_data);

#endif
