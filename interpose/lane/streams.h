/*
 * The application's streams on the home GPU: a record for each stream that has had work elsewhere, and the slots by which executors know
 * streams.
 *
 * Records are reused but never freed, because a handle that the application has destroyed may still be looked up. A slot is
 * a stream in each executor with a pair of fences. A record is given a slot when its first work departs, and may lose it again while all of its
 * work is complete, so that the number of streams is not limited by the number of slots.
 */
#ifndef TSR_LANE_STREAMS_H
#define TSR_LANE_STREAMS_H

#include "api/driver.h"

#include <stdbool.h>
#include <stdint.h>

#include <tessera/apart.h>
#include <tessera/lane.h>

#include "base/lock.h"
#include "object/assigned.h"

struct tsr_lane_client;
struct tsr_staging;
struct tsr_ticket_queue;

enum tsr_stream_kind {
    TSR_STREAM_LEGACY, /* the default stream of a context: it and the blocking ones wait for each other */
    TSR_STREAM_BLOCKING,
    TSR_STREAM_OWN,  /* a thread's default stream: blocking; only its thread can enqueue in it */
    TSR_STREAM_FREE, /* created with CU_STREAM_NON_BLOCKING */
    TSR_STREAM_KINDS
};

#define TSR_STREAM_NO_SLOT UINT32_MAX

/* A mark of a strand (order/strands.h): a value that the home fences of all lanes get there, or, of a lane, its away fence. */
#define TSR_STREAM_MARKS 1024u /* a power of two */
struct tsr_stream_mark {
    uint64_t number; /* of the strand's last work before the mark */
    uint64_t value;
};

struct tsr_stream_marks {
    uint32_t count; /* since the queue or the slot changed; the last ones are kept */
    struct tsr_stream_mark all[TSR_STREAM_MARKS];
};

struct tsr_stream {
    TSR_APART struct tsr_stream *next; /* of all records; written once */
    struct tsr_stream *free;           /* next record that can be used again, under the list's lock */
    struct tsr_lock lock;
    enum tsr_stream_kind
        kind; /* this, context and thread: atomic, written under the lock: a record that is used again may be looked at */
    CUstream handle; /* explicit: never NULL */
    CUcontext context;
    uint32_t gpu;   /* by object/place.h */
    bool elsewhere; /* of another GPU than home: Tessera leaves it alone */
    bool live;      /* atomic */
    bool orphan;    /* lock; OWN: its thread has ended */
    bool touched;   /* atomic; home work may have come since the last departure */
    int priority;
    uint64_t thread;              /* OWN */
    uint32_t slot;                /* lock; TSR_STREAM_NO_SLOT: none */
    struct tsr_lane_client *lane; /* atomic; where its last work went; NULL: home. A hint */
    /* Bit k: lane k. Atomic, written under the lock. */
    uint32_t away;                 /* has work for which the stream at home does not wait yet */
    uint32_t unsignalled;          /* of these: has work after the last signal */
    uint32_t forked;               /* of these: already waits for all work at home that its work must come after */
    uint64_t signalled[TSR_LANES]; /* lock; the last signal of lanes that are away and not among `unsignalled` */
    uint64_t
        fork_values[TSR_LANES]; /* lock; by lane: the last fence at home for which the strand there waits since it forked */
    uint32_t joins; /* atomic, written under the lock; how often its strands were joined: later work comes after all of them */
    struct tsr_ticket_queue *queue; /* lock; its queue of tickets (memory/tickets.h); NULL: not known */
    struct tsr_stream_marks *marks; /* lock; by strand; NULL: there have not been any */
    uint32_t marks_slot;            /* lock */
    CUstream aside;                 /* lock; of ours: its events are recorded there (order/aside.h); NULL: not made yet */
    CUevent aside_mark;
    bool aside_used;             /* since the stream last waited for it */
    struct tsr_staging *staging; /* lock; of its pulls (memory/staging.h), which checks the generation; NULL: none */
    uint64_t generation;         /* atomic; another one whenever the record is used again */
    struct tsr_assigned assigned;
};

/* The stream's queue or slot has changed. Its lock is held, or no other thread knows it. */
void tsr_stream_drop_marks(struct tsr_stream *stream);

/* The record of a stream (NULL: the default one, the thread's own if per_thread). NULL: no such stream, or no memory. */
struct tsr_stream *tsr_stream_find(CUstream stream, bool per_thread);
/* The same, without making one. */
struct tsr_stream *tsr_stream_seen(CUstream stream, bool per_thread);
/* A record that was found, and the epoch then: no record has been forgotten since if the epoch is still the same. */
struct tsr_stream_found {
    struct tsr_stream *stream; /* NULL: none */
    uint64_t epoch;
};
/* The machine's number of the stream's GPU (never NULL; see place.h), and its record. Asks the driver the first time only. */
uint32_t tsr_stream_place(CUstream stream, struct tsr_stream_found *found);
/* Whether a look-up would still find the same. Certain only while the record's lock is held. */
bool tsr_stream_is_same(const struct tsr_stream_found *found);
/* The first of all records; walk by `next`, skipping those that are not live. Read without the lock, their fields are hints. */
struct tsr_stream *tsr_stream_first(void);
static inline bool tsr_stream_is(const struct tsr_stream *stream, enum tsr_stream_kind kind)
{
    return __atomic_load_n(&stream->live, __ATOMIC_ACQUIRE) && __atomic_load_n(&stream->kind, __ATOMIC_RELAXED) == kind;
}
static inline bool tsr_stream_is_of(const struct tsr_stream *stream, CUcontext context)
{
    return __atomic_load_n(&stream->live, __ATOMIC_ACQUIRE) && __atomic_load_n(&stream->context, __ATOMIC_RELAXED) == context;
}
/* The stream is destroyed; its slot is reused when its work is complete. Its work has been joined. */
void tsr_stream_forget(struct tsr_stream *stream);
/* Forgets streams of threads that have ended: those that are home, have no pending join, and are not held. */
void tsr_stream_forget_orphans(void);
/* The driver has destroyed the context: forgets its streams that are home and have no pending join. */
void tsr_stream_forget_of(CUcontext context);
/* A forked child begins with none. */
void tsr_stream_reset(void);
/* Number of the calling thread, never used again. */
uint64_t tsr_stream_thread(void);

/* Whether work at home must join, or other streams wait for it. Without the lock, a hint. */
static inline uint32_t tsr_stream_lanes(const uint32_t *which)
{
    return __atomic_load_n(which, __ATOMIC_ACQUIRE);
}

/* Slots. The caller holds the stream's lock. */
bool tsr_slot_take(struct tsr_stream *stream);      /* false: all are busy */
uint64_t tsr_slot_next_value(uint32_t slot);        /* the next value of either fence of the slot */
CUcontext tsr_slot_context(uint32_t slot);          /* of its stream; valid while there is work in the slot */
bool tsr_slot_opened(uint32_t slot, unsigned lane); /* the executor has a stream for it */
void tsr_slot_set_opened(uint32_t slot, unsigned lane);
void tsr_slot_set_signalled(uint32_t slot, const struct tsr_lane_client *lane, uint64_t value); /* its last away fence there */

/* Whether an away fence there has not been written yet. Takes no lock. */
bool tsr_slots_busy(const struct tsr_lane_client *lane);

/* Whether work of the application is with the lane's executor, or may be. Takes no lock. */
bool tsr_streams_are_with(const struct tsr_lane_client *lane);

/* Called for the streams of a thread that ends; order.c sets it. */
extern void (*tsr_stream_thread_ends)(struct tsr_stream *stream);

#endif
