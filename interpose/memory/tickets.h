/*
 * Which work comes after which (a part of copies.h). A queue is a stream of the application that work is in; a ticket is a piece of work of
 * one: its queue and a number that grows. A ticket is met for who asks if the program, or a wait that was added, already orders him
 * after it. Streams that end, and work from before tickets were given, are followed by `retired`, a stream of ours that waits for them.
 *
 * Locks: tsr_tickets.ends, then tsr_copies_lock.
 */
#ifndef TSR_MEMORY_TICKETS_H
#define TSR_MEMORY_TICKETS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <tessera/apart.h>

#include "api/driver.h"
#include "base/map.h"
#include "base/vec.h"
#include "memory/directory.h"
#include "order/strands.h"

#define TSR_NO_QUEUE UINT32_MAX

/* A strand's work (order/strands.h). What is not atomic belongs to who holds the stream. */
struct tsr_ticket_strand {
    TSR_APART uint64_t last;     /* atomic; number of its last ticket */
    uint64_t joined;             /* all that the stream is given from now on comes after it up to here */
    uint64_t shared;             /* its last ticket that used memory which no directory knows */
    uint64_t after[TSR_STRANDS]; /* what it is given from now on comes after others of the stream's up to here */
};

/*
 * Per-thread default streams count as the legacy one, which waits for them: as its strand 0, wherever they run. Under stream order there is only
 * strand 0. Stays where it is; used again.
 */
struct tsr_ticket_queue {
    struct tsr_ticket_strand strands[TSR_STRANDS];
    struct tsr_ticket_queue *free; /* next one that can be used again */
    uint32_t place;                /* of strand 0; the others' follow */
    CUstream handle;
    CUcontext context; /* its own */
    CUevent event; /* after its work up to `recorded`, from before a capture during which it must not be asked; NULL: none */
    uint64_t recorded;
    uint32_t loose; /* calls that hold nothing and have not come back */
    bool gone;      /* destroyed: whatever comes after it waits for `retired` */
    bool dead;      /* with its context: all its work is complete */
};

extern pthread_mutex_t tsr_copies_lock; /* of all that copies know */

struct tsr_tickets {
    pthread_rwlock_t ends; /* held to write where a stream ends, to read by who asks it and waits for the answer */
    struct {
        struct tsr_ticket_queue **data;
        size_t count, capacity; /* count: atomic */
    } queues;                   /* by place: each as often as it has strands */
    uint32_t strands;           /* of a queue; constant for a session */
    struct {
        CUcontext *data;
        size_t count, capacity;
    } contexts; /* that queues have been of, also of such as have been forgotten, and that still are */
    struct tsr_ticket_queue *free;
    struct {
        CUevent *data;
        size_t count, capacity;
    } dropped; /* events of queues, to be destroyed */
    struct tsr_map
        places; /* of queues that are not gone: 1 + place of strand 0, by handle, or by the context of a default stream */
    struct tsr_map
        after; /* by pair of places (comes after: a queue's, came before: a strand's): the number up to which it is known to */
    uint64_t before_all; /* atomic; ticket of all work from before uses were noted; 0: no work elsewhere has begun */
    struct tsr_ticket_queue retired; /* handle NULL: none yet */
};

extern struct tsr_tickets tsr_tickets; /* tsr_copies_lock */

/* Whose work a use comes after by itself; a thread's own default stream after nobody's. */
struct tsr_asker {
    uint32_t queue;  /* place of strand 0 */
    uint32_t strand; /* it is */
    bool own;        /* a thread's own default stream: others that count as the same queue are not */
    uint32_t id;     /* among those who come after others */
};

CUcontext tsr_tickets_context(void); /* the calling thread's */

/* The queue of a stream (never NULL). The place of its strand 0; TSR_NO_QUEUE: no memory. */
uint32_t tsr_ticket_queue_find_locked(CUstream named);
/* Of no stream that could be found. NULL: no memory. */
struct tsr_ticket_queue *tsr_ticket_queue_add_locked(CUstream handle, CUcontext context);
/* lane: that the work goes to; NULL: home. False: no memory. */
bool tsr_asker_init_locked(struct tsr_asker *asker, CUstream named, const struct tsr_lane_client *lane);

/*
 * A new one of the asker's. Who repeats what he has done before (directory.h) takes only its number, holding the stream but not the lock: he does
 * so before he looks whether he can, and who ends that looks at the number afterwards.
 */
uint64_t tsr_ticket_take_locked(const struct tsr_asker *asker);
extern __thread uint64_t tsr_ticket_taken
    __attribute__((visibility("hidden"), tls_model("initial-exec"))); /* the last number */
static inline uint64_t tsr_ticket_number(struct tsr_ticket_queue *queue, uint32_t strand)
{
    return tsr_ticket_taken = __atomic_add_fetch(&queue->strands[strand].last, 1, __ATOMIC_SEQ_CST);
}
/* Of the asker's own stream: whether the program's order says so, unless the two are different strands. */
bool tsr_ticket_is_met_locked(const struct tsr_asker *asker, uint64_t ticket);
/* The same of different strands, the stream being held. */
bool tsr_ticket_is_tied_locked(const struct tsr_asker *asker, uint64_t ticket);
/* Its strand, if it is another one of the asker's stream; else TSR_STRANDS. */
uint32_t tsr_ticket_other_strand_locked(const struct tsr_asker *asker, uint64_t ticket);
/* The ticket's number, or that of the last one, if its writer repeats. */
uint64_t tsr_ticket_number_of_locked(uint64_t ticket);
/*
 * Ties the asker's strand to another one's work up to the number, or to all that it has been given; the stream is held. Errors: the
 * driver's, the executors'.
 */
CUresult tsr_tickets_tie_locked(const struct tsr_asker *asker, struct tsr_stream *stream, uint32_t strand, uint64_t number);
/* The stream is held, and so is all work that the strand was given a number for: whoever comes after it need not come after what is next. */
CUresult tsr_tickets_mark(struct tsr_stream *stream, uint32_t strand);
uint64_t tsr_ticket_pair(uint32_t later, uint32_t earlier); /* key of tsr_tickets.after: an asker's id, a queue */
/* Number of the strand's last ticket; 0: it has been forgotten. */
uint64_t tsr_ticket_last_locked(uint32_t place);

/* There are too many: at a quiet moment, when all work is complete and no call is under way, streams part from them and they are forgotten. */
bool tsr_tickets_are_crowded(void);
void tsr_tickets_part_from_streams(void);
void tsr_tickets_forget_queues_locked(void);
/* A session begins. */
void tsr_tickets_start(uint32_t strands);
/* In a child of fork, everything is. */
void tsr_tickets_forget(void);

/* Makes a stream, which the asker is in, come after all that a queue was given. Errors: NOT_READY, an unfinished call of another thread. */
CUresult tsr_tickets_come_after(CUstream stream, bool per_thread, const struct tsr_asker *asker, uint32_t place);
/* Whoever has just seen the queue's event may still wait for it. Destroyed later: tsr_tickets.ends is held to write. */
void tsr_ticket_queue_drop_event_locked(struct tsr_ticket_queue *queue);
void tsr_tickets_destroy_dropped_locked(void);
/* Into *event, which is made if there is none. The stream is held. */
CUresult tsr_ticket_queue_record(const struct tsr_ticket_queue *of, CUevent *event);
/* What has been enqueued so far counts as one queue's, who is gone; it may have written anything. Memory lock. */
CUresult tsr_tickets_retire_all(void);

/* Queue; with the lock not held, a hint. */
static inline size_t tsr_tickets_count(void)
{
    return __atomic_load_n(&tsr_tickets.queues.count, __ATOMIC_RELAXED);
}

static inline bool tsr_tickets_have_begun(void)
{
    return __atomic_load_n(&tsr_tickets.before_all, __ATOMIC_ACQUIRE) != 0;
}

#endif
