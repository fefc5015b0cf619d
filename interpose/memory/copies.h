/*
 * A copy of memory per GPU: under the policy's place `copies`, extents have replicas (replicas.h) and a directory that says which copies hold
 * which bytes. Before work is enqueued on a GPU, the bytes that it may read and that the GPU's copy does not hold are pulled, in the work's stream;
 * afterwards that copy alone holds what the work may write. The program's order is kept: work that the program orders after other work
 * also comes after that work's pulls and writes. A wait is added only where the access sets of two pieces of work overlap, being
 * over-approximations, although the program does not order them.
 *
 * Work on GPUs other than home has a known access set. Work at home without one has everything brought home first. Until the first work on another
 * GPU uses shared memory, nothing is recorded and nothing costs time.
 *
 * Locks: tsr_copies_prepare takes the memory lock, the gate and streams, one after the other; the copies' own lock is the last one.
 */
#ifndef TSR_MEMORY_COPIES_H
#define TSR_MEMORY_COPIES_H

#include "api/driver.h"

#include <stdbool.h>
#include <stdint.h>

#include <tessera/policy.h>
#include <tessera/records.h>

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
 * A proof that a use needs nothing and changes nothing when it is repeated, valid while the states that it names are the same. For a stream's
 * queue (tickets.h), and each extent that the use touches.
 */
#define TSR_PROOF_EXTENTS 6u
struct tsr_proof_extent {
    uint64_t page, state;
};
struct tsr_copies_proof {
    struct tsr_ticket_queue *queue; /* NULL: there is no proof */
    uint64_t generation;
    uint32_t strand; /* of the queue's stream (order/strands.h) */
    uint32_t count;
    struct tsr_proof_extent extents[TSR_PROOF_EXTENTS];
    struct tsr_proof_extent *more; /* whoever keeps the proof has room for more extents here; NULL: no */
    uint32_t more_room;
};

static inline struct tsr_proof_extent *tsr_proof_extent(struct tsr_copies_proof *proof, uint32_t at)
{
    return at < TSR_PROOF_EXTENTS ? &proof->extents[at] : &proof->more[at - TSR_PROOF_EXTENTS];
}

struct tsr_copies_use {
    const struct tsr_touch *touches;
    uint32_t count;
    bool everything; /* it may touch anything; only at home */
    bool tracked;    /* its access set is complete, and only later work of the stream can observe its completion */
    enum tsr_pull_cause cause;
    bool locked; /* the caller has the memory lock: queues are not forgotten now */
    CUstream stream;
    bool per_thread;
    struct tsr_lane_client *lane;   /* NULL: it runs at home */
    struct tsr_copies_proof *proof; /* gets a proof for repeating the use; NULL: it will not be repeated */
    bool stages;                    /* its pulls may be staged (staging.h) */
    uint64_t *ticket;               /* gets the use's ticket (directory.h), if it has one; may be NULL */
    enum tsr_reason *reason;        /* gets why the lane cannot take it, if memory is the cause; may be NULL */
    uint32_t *
        lanes; /* of one that overwrites all that it writes, at home: gets the set of lanes on which the caller lets the stream do the same; NULL: nowhere else */
    bool on_all; /* also on those on which the stream has had nothing else to do lately */
};

extern uint32_t tsr_copies_away __attribute__((visibility("hidden"))); /* atomic; not 0: other GPUs than home may hold bytes */

extern uint64_t tsr_copies_held[]
    __attribute__((visibility("hidden"))); /* atomic; by rank: bytes of copies of others' memory */

static inline bool tsr_copies_matter(void)
{
    return __builtin_expect(__atomic_load_n(&tsr_copies_away, __ATOMIC_ACQUIRE) != 0, 0);
}

/* Whether the policy wants copies, and there may be some. Constant for a session. */
bool tsr_copies_are_on(void);

/*
 * prepare, before the stream is held: makes it wait for the work that it must come after. pull, while the stream is held: pulls, and records the use. Errors:
 * NOT_READY: begin again, because other threads have changed something; NOT_SUPPORTED, for a lane: it must run at home; the driver's and the executor's.
 */
CUresult tsr_copies_prepare(const struct tsr_copies_use *use);
/* A cheaper form for callers that can easily begin again: usually there is nothing to wait for, and tsr_copies_pull checks that, too. */
CUresult tsr_copies_prepare_lightly(const struct tsr_copies_use *use);
CUresult tsr_copies_pull(const struct tsr_copies_use *use, const struct tsr_order_hold *hold, uint32_t slot);

/* The stream is held. Whether the proof is still valid: then the repeated use is recorded, and nothing else has to be done. */
bool tsr_copies_repeat(const struct tsr_copies_proof *proof, const struct tsr_order_hold *hold);
/* Completes a proof; the stream has been held since the use. NULL: there is none. */
void tsr_copies_prove(const struct tsr_copies_proof *proof, const struct tsr_order_hold *hold);

/* Records uses from now on, rather than from the first work elsewhere, if the moment is quiet. */
void tsr_copies_begin(void);
/* Where the bytes are that work with these touches would read (directory.h). Adds to the survey. */
struct tsr_survey;
struct tsr_survey_of;
void tsr_copies_survey(const struct tsr_touch *touches, uint32_t count, const struct tsr_survey_of *of,
                       struct tsr_survey *survey);

/* Sets a mark after the work that the stream, which is held, has just been given, so that other GPUs can wait for it and not for later work (order/strands.h). */
CUresult tsr_copies_mark(const struct tsr_order_hold *hold, const struct tsr_lane_client *lane);

/* All proofs become invalid: what was known of launches may be wrong. */
void tsr_copies_look_again(void);

/* Instead of tsr_order_enter for work at home: does all of the above, and holds the stream. */
CUresult tsr_copies_enter(const struct tsr_copies_use *use, struct tsr_order_hold *hold);
/* The same for a stream at home that has been looked up. */
CUresult tsr_copies_enter_found(const struct tsr_copies_use *use, const struct tsr_stream_found *found,
                                struct tsr_order_hold *hold);
/* The same for a call that may touch anything, whether or not there are copies. */
CUresult tsr_copies_enter_all(CUstream stream, bool per_thread, struct tsr_order_hold *hold);
/* For a loose call, which may wait on the host and so holds nothing (tsr_order_enter_loose): until tsr_copies_loose_end, whatever the result. */
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
/* The same of a call whose stream's device can access ordinary memory already (tsr_memory_open_for_copy). */
CUresult tsr_copies_loose_open(CUstream stream, bool per_thread);
CUresult tsr_copies_loose_bytes(CUstream stream, bool per_thread, uint64_t to, uint64_t from, uint64_t bytes);
CUresult tsr_copies_loose_rows(CUstream stream, bool per_thread, uint64_t to, uint64_t pitch, uint64_t width, uint64_t height);

/* In a pool, where the program has waited: passes memory between GPUs so that each owns its share, once the program has stopped allocating. */
void tsr_copies_level(void);

/* The stream is about to be destroyed. */
void tsr_copies_stream_ends(CUstream stream);

/* A capture is about to begin in the stream (tsr_captures_change_begin). */
void tsr_copies_capture_begins(CUstream stream, bool per_thread);
/* A stream is about to wait for an event, and may then be part of a capture (the same). */
void tsr_copies_may_join_capture(CUstream stream, bool per_thread);
/* Around the driver's ending of a context: meanwhile nobody begins to wait for the work of its streams. gone: it has ended; NULL: none has. */
void tsr_copies_context_end_begin(void);
void tsr_copies_context_end_finish(CUcontext gone);

/* Before there is memory. strands: of each stream (order/strands.h). */
void tsr_copies_start(uint32_t strands);

/* The rest with the memory lock held. */

/*
 * For comparing copies, at a quiet moment that lasts (memory/quiet.h). complete_home: home pulls all bytes that it does not hold, in the stream, and no
 * other copy loses any. fetch: bytes that the own copy of the lane's GPU holds are copied, in the stream, to where `place` says that those of an
 * extent go (0: nowhere). Errors: the driver's, an executor's.
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

/* Before others than this session are given the home GPU's memory: brings its bytes there; from now on work that touches it stays there.
   Errors: the driver's; then nothing has changed, and others must not be given the memory. */
CUresult tsr_copies_fix(struct tsr_extent *extent);
/* Then: the memory that holds them. */
CUmemGenericAllocationHandle tsr_copies_fixed_memory(const struct tsr_extent *extent);
void tsr_copies_forget(void);

/*
 * The program needs room: copies on the device (-1: on all other GPUs) are dropped, of that many bytes if there are as many, first those that others
 * hold as well; what of the others only they held is brought home. Waits until nothing runs. False: there are none, or that was not the moment.
 */
bool tsr_copies_yield(CUdevice device, uint64_t bytes);

#endif
