/*
 * Memory of which each GPU has a copy: under the policy's place `copies`, extents have replicas (replicas.h) and a directory of who holds
 * which bytes. Before work is enqueued on a GPU, what it may see and its copy does not hold is pulled there, in its stream; afterwards
 * it alone holds what it may write. The program's order stays what it is: what comes after other work by the program's word comes after
 * that work's pulls and writes, too. Only where the over-approximations of two pieces of work overlap that the program does not order,
 * a wait is added.
 *
 * Work on other GPUs has known ranges. Work at home of which nothing is known has everything brought home first. Until work on another
 * GPU uses shared memory nothing is noted and nothing costs.
 *
 * Locks: tsr_copies_prepare takes the memory lock, the gate and streams, one after the other; the copies' own lock is the last one.
 */
#ifndef TSR_MEMORY_COPIES_H
#define TSR_MEMORY_COPIES_H

#include "api/driver.h"

#include <stdbool.h>
#include <stdint.h>

#include <tessera/policy.h>

#include "order/order.h"

struct tsr_extent;
struct tsr_lane_client;

/* Bytes first to end, addresses; what is not in an extent with copies does not matter. As in struct tsr_use (directory.h). */
struct tsr_touch {
    uint64_t first, end;
    bool pulls, writes;
    uint64_t stride, width;
};

/*
 * That a use needed nothing and changed nothing, or would not if it came again: while nothing has changed it need not be looked at. Of a stream's
 * queue (tickets.h), and the state of each extent that was touched.
 */
#define TSR_PROOF_EXTENTS 6u
struct tsr_copies_proof {
    struct tsr_ticket_queue *queue; /* NULL: there is no proof */
    uint64_t generation;
    uint32_t strand; /* of the queue's stream (order/strands.h) */
    uint32_t count;
    struct {
        uint64_t page, state;
    } extents[TSR_PROOF_EXTENTS];
};

struct tsr_copies_use {
    const struct tsr_touch *touches;
    uint32_t count;
    bool everything; /* it may touch anything; only at home */
    bool tracked;    /* all it touches is told, and nobody sees when it has happened but by what the stream does later */
    enum tsr_pull_cause cause;
    bool locked; /* the caller has the memory lock: nobody is forgotten now */
    CUstream stream;
    bool per_thread;
    struct tsr_lane_client *lane;   /* NULL: it runs at home */
    struct tsr_copies_proof *proof; /* to be filled in by who will repeat the use; NULL: nobody will */
    uint64_t *ticket;               /* gets the use's ticket (directory.h), if it is given one; NULL: nobody asks */
};

extern uint32_t tsr_copies_away __attribute__((visibility("hidden"))); /* atomic; not 0: other GPUs than home may hold bytes */

static inline bool tsr_copies_matter(void)
{
    return __builtin_expect(__atomic_load_n(&tsr_copies_away, __ATOMIC_ACQUIRE) != 0, 0);
}

/* Whether the policy wants copies, and there may be some. Constant for a session. */
bool tsr_copies_are_on(void);

/*
 * Before the stream is held: makes it come after what it has to. Then, the stream being held: pulls, and notes the use. Errors: NOT_READY, to
 * begin again, because other threads were faster; NOT_SUPPORTED, of a lane: it must run at home; the driver's and the executor's.
 */
CUresult tsr_copies_prepare(const struct tsr_copies_use *use);
/* The same for who can easily begin again: usually there is nothing to come after, and tsr_copies_pull looks, too. */
CUresult tsr_copies_prepare_lightly(const struct tsr_copies_use *use);
CUresult tsr_copies_pull(const struct tsr_copies_use *use, const struct tsr_order_hold *hold, uint32_t slot);

/* The stream is held. Whether a use that was proved is as it was: then it is noted, and that is all. */
bool tsr_copies_repeat(const struct tsr_copies_proof *proof, const struct tsr_order_hold *hold);
/* The stream is still held since the use that was to be proved; NULL: none was. */
void tsr_copies_prove(const struct tsr_copies_proof *proof, const struct tsr_order_hold *hold);

/* So that uses are noted from now on, and not only from the first work elsewhere, if this is the moment. */
void tsr_copies_begin(void);
/* What work that touches this would find (directory.h). Adds to the survey. */
struct tsr_survey;
struct tsr_survey_of;
void tsr_copies_survey(const struct tsr_touch *touches, uint32_t count, const struct tsr_survey_of *of,
                       struct tsr_survey *survey);

/* Work has just been given to the stream, which is held: other GPUs can come after it, and not after what comes next (order/strands.h). */
CUresult tsr_copies_mark(const struct tsr_order_hold *hold, const struct tsr_lane_client *lane);

/* No proof stands any more: what was known of launches may be wrong. */
void tsr_copies_look_again(void);

/* In the place of tsr_order_enter for work at home: does all of the above, and holds the stream. */
CUresult tsr_copies_enter(const struct tsr_copies_use *use, struct tsr_order_hold *hold);
/* The same for a call that may touch anything, whether or not there are copies. */
CUresult tsr_copies_enter_all(CUstream stream, bool per_thread, struct tsr_order_hold *hold);
/* For a call that may wait on the host, and so holds nothing (tsr_order_enter_loose): until tsr_copies_loose_end, whatever came out. */
CUresult tsr_copies_loose_slow(const struct tsr_copies_use *use);
void tsr_copies_loose_end_slow(void);
extern __thread uint32_t tsr_copies_loose_queue __attribute__((visibility("hidden")));

static inline CUresult tsr_copies_loose(const struct tsr_copies_use *use)
{
    return tsr_copies_matter() ? tsr_copies_loose_slow(use) : CUDA_SUCCESS;
}

static inline void tsr_copies_loose_end(void)
{
    if (__builtin_expect(tsr_copies_loose_queue != 0, 0))
        tsr_copies_loose_end_slow();
}

/* For the generated wrappers: a call in the stream may touch anything; reads bytes and overwrites others (0: none). */
CUresult tsr_copies_loose_all(CUstream stream, bool per_thread);
CUresult tsr_copies_loose_bytes(CUstream stream, bool per_thread, uint64_t to, uint64_t from, uint64_t bytes);
CUresult tsr_copies_loose_rows(CUstream stream, bool per_thread, uint64_t to, uint64_t pitch, uint64_t width, uint64_t height);

/* The stream is about to be destroyed. */
void tsr_copies_stream_ends(CUstream stream);

/* A capture is about to begin in the stream (tsr_captures_change_begin). */
void tsr_copies_capture_begins(CUstream stream, bool per_thread);
/* A stream is about to wait for an event, and may then be part of a capture (the same). */
void tsr_copies_may_join_capture(CUstream stream, bool per_thread);
/* The context has been destroyed, and its streams with it. */
void tsr_copies_context_gone(CUcontext context);

/* Before there is memory. strands: of each stream (order/strands.h). */
void tsr_copies_start(uint32_t strands);

/* The rest with the memory lock held. */

/*
 * For who compares copies, at a quiet moment that lasts (memory/quiet.h): home gets all bytes that it does not hold, and nobody loses any, in the
 * stream; then bytes that the lane's GPU holds a copy of its own of are copied in the stream to where `place` says that an extent's go (0:
 * nowhere). Errors: the driver's, an executor's.
 */
CUresult tsr_copies_complete_home(CUstream stream);
struct tsr_copies_fetch {
    CUstream stream;
    struct tsr_lane_client *lane;
    CUdeviceptr (*place)(void *context, CUdeviceptr extent);
    void *context;
};
CUresult tsr_copies_fetch(const struct tsr_copies_fetch *fetch);
/* From now on home alone holds everything. */
CUresult tsr_copies_only_home(CUstream stream);

/* From now on others use the home GPU's memory: its bytes are brought there, and work that touches it stays there.
   Errors: the driver's; then nothing has changed, and others must not have it. */
CUresult tsr_copies_fix(struct tsr_extent *extent);
void tsr_copies_forget(void);

/*
 * The program needs room: copies on the device (-1: on all other GPUs) are dropped, of that many bytes if there are as many, first those that others
 * hold as well; what of the others only they held is brought home. Waits until nothing runs. False: there are none, or that was not the moment.
 */
bool tsr_copies_yield(CUdevice device, uint64_t bytes);

#endif
