/*
 * Which work comes after which (a part of copies.h). A ticket names a piece of work: its queue, which is a stream of the application, and a number
 * in the queue, which grows. A ticket is satisfied for another piece of work if the program, or a wait that was added, already orders that after
 * it. Streams that end, and work from before tickets were given, are followed by `retired`, a stream of ours that waits for them.
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

/* A strand's work (order/strands.h). Fields that are not atomic are accessed while the stream is held. */
struct tsr_ticket_strand {
    TSR_APART uint64_t last; /* atomic; number of its last ticket */
    uint64_t joined;         /* up to this number, all work that the stream is given from now on comes after the strand's */
    uint64_t shared_read;    /* number of its last work that read memory without a directory */
    uint64_t shared_write;   /* and of its last that wrote such memory */
    uint64_t pulled;         /* and of its last whose pulls were not staged (staging.h) */
    uint64_t after_all;      /* tsr_tickets.before_all, if its work is known to come after that */
    uint64_t used_at;        /* broadcasts of the queue when it last had work that was none */
    uint64_t after
        [TSR_STRANDS]; /* by other strand of the stream: up to this number, work that this strand is given from now on comes after its */
};

/*
 * Per-thread default streams share the legacy one's queue, since that waits for them: as its strand 0, wherever they run. Under stream order there is only
 * strand 0. Queues are not moved in memory; they are reused.
 */
struct tsr_ticket_queue {
    struct tsr_ticket_strand strands[TSR_STRANDS];
    struct tsr_ticket_queue *free; /* next one that can be used again */
    uint32_t place;                /* of strand 0; the others' follow */
    CUstream handle;
    CUcontext context; /* its own */
    CUevent
        event; /* after its work up to `recorded`, made before a capture, during which the stream must not be queried; NULL: none */
    uint64_t recorded;
    uint32_t loose;      /* loose calls that have not returned */
    uint64_t broadcasts; /* (launch/broadcast.h); accessed while the stream is held */
    bool gone;           /* destroyed: work that must come after it waits for `retired` */
    bool dead;           /* destroyed with its context: all its work is complete */
};

extern pthread_mutex_t tsr_copies_lock; /* protects the state of all copies */

struct tsr_tickets {
    pthread_rwlock_t ends; /* write-locked where a stream ends, read-locked while a stream is queried or waited for */
    struct {
        struct tsr_ticket_queue **data;
        size_t count, capacity; /* count: atomic */
    } queues;                   /* by place: each queue has as many places as strands */
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
    struct tsr_map after; /* by pair of places of strands (comes after, came before): the number up to which it is known to */
    uint64_t before_all;  /* atomic; ticket of all work from before uses were noted; 0: no work elsewhere has begun */
    struct tsr_ticket_queue retired; /* handle NULL: none yet */
};

extern struct tsr_tickets tsr_tickets; /* tsr_copies_lock */

/* The work for which waits are determined: it comes after its own queue's work by itself, unless it is in a thread's own default stream. */
struct tsr_asker {
    uint32_t queue;  /* place of strand 0 */
    uint32_t strand; /* of the work */
    bool own;        /* in a thread's own default stream: not ordered with others that share its queue */
    uint32_t id;     /* first index of tsr_tickets.after: the strand's place, or what stands for the thread */
};

uint64_t tsr_ticket_last_of(const struct tsr_ticket_queue *queue, uint32_t strand); /* the number of its last ticket */
CUcontext tsr_tickets_context(void);                                                /* the calling thread's */

/* The queue of a stream (never NULL). The place of its strand 0; TSR_NO_QUEUE: no memory. */
uint32_t tsr_ticket_queue_find_locked(CUstream named);
/* A queue that no look-up finds. NULL: no memory. */
struct tsr_ticket_queue *tsr_ticket_queue_add_locked(CUstream handle, CUcontext context);
/* lane: that the work goes to; NULL: home. False: no memory. */
bool tsr_asker_init_locked(struct tsr_asker *asker, CUstream named, const struct tsr_lane_client *lane);

/*
 * A new ticket for the asker. A repeat (directory.h) takes only the number, with the stream held but without the lock: it does so before it checks that it
 * may repeat, and a thread that ends repeating reads the number afterwards.
 */
uint64_t tsr_ticket_take_locked(const struct tsr_asker *asker);
extern __thread uint64_t tsr_ticket_taken
    __attribute__((visibility("hidden"), tls_model("initial-exec"))); /* the last number */
static inline uint64_t tsr_ticket_number(struct tsr_ticket_queue *queue, uint32_t strand)
{
    return tsr_ticket_taken = __atomic_add_fetch(&queue->strands[strand].last, 1, __ATOMIC_SEQ_CST);
}
/* Whether the asker's work already comes after the ticket's. Within one stream that is the program's order, unless the two are in different strands. */
bool tsr_ticket_is_satisfied_locked(const struct tsr_asker *asker, uint64_t ticket);
/* The same for different strands of one stream, which is held. */
bool tsr_ticket_is_tied_locked(const struct tsr_asker *asker, uint64_t ticket);
/* The ticket's strand, if that is another one of the asker's stream; else TSR_STRANDS. */
uint32_t tsr_ticket_other_strand_locked(const struct tsr_asker *asker, uint64_t ticket);
/* The ticket's number; if its writer repeats, that of the queue's last ticket. */
uint64_t tsr_ticket_number_of_locked(uint64_t ticket);
/*
 * Ties the asker's strand to another one's work up to the number, or to all that it has been given; the stream is held. Errors: the
 * driver's, the executors'.
 */
CUresult tsr_tickets_tie_locked(const struct tsr_asker *asker, struct tsr_stream *stream, uint32_t strand, uint64_t number);
/* Whether the strand has had work of its own since there were a few broadcasts: so it may want to have the next one. */
static inline bool tsr_ticket_strand_is_used(const struct tsr_ticket_queue *queue, uint32_t strand)
{
    return queue->broadcasts - queue->strands[strand].used_at <= 2 * tsr_tickets.strands;
}
/* Those of the stream, as a set; 0: the stream has no queue. A hint. */
uint32_t tsr_tickets_used_strands(CUstream named);
/* Sets a mark (order/strands.h) after all work of the strand that has a number. The stream is held, and has been since that work got it. */
CUresult tsr_tickets_mark(struct tsr_stream *stream, uint32_t strand);
uint64_t tsr_ticket_pair(uint32_t later, uint32_t earlier); /* key of tsr_tickets.after: an asker's id, a place */
/* Number of the strand's last ticket; 0: it has been forgotten. */
uint64_t tsr_ticket_last_locked(uint32_t place);

/* Whether there are too many queues. They are forgotten at a quiet moment, when all work is complete and no call is under way: first streams give them up. */
bool tsr_tickets_are_crowded(void);
void tsr_tickets_part_from_streams(void);
void tsr_tickets_forget_queues_locked(void);
/* A session begins. */
void tsr_tickets_start(uint32_t strands);
/* In a forked child: forgets everything. */
void tsr_tickets_forget(void);

/* Makes the asker's stream wait for all work that a queue was given. Errors: NOT_READY: another thread is in a loose call. */
CUresult tsr_tickets_come_after(CUstream stream, bool per_thread, const struct tsr_asker *asker, uint32_t place);
/*
 * Makes the asker's strand alone, which is on the lane, wait for another stream's work on the same lane up to the ticket; neither stream is joined. For who uses bytes
 * that this work has brought there: what has used them before is then on that lane, too. Errors: NOT_SUPPORTED: that is not possible, come_after is.
 */
CUresult tsr_tickets_follow(CUstream stream, struct tsr_lane_client *lane, const struct tsr_asker *asker, uint64_t ticket);

/* Another thread may be about to wait for the queue's event, so it is destroyed later, with tsr_tickets.ends write-locked. */
void tsr_ticket_queue_drop_event_locked(struct tsr_ticket_queue *queue);
void tsr_tickets_destroy_dropped_locked(void);
/* Into *event, which is made if there is none. The stream is held. */
CUresult tsr_ticket_queue_record(const struct tsr_ticket_queue *of, CUevent *event);
/* All work enqueued so far counts as one queue's that is gone; it may have written anything. Memory lock held. */
CUresult tsr_tickets_retire_all(void);

/* Places in use; without the lock, a hint. */
static inline size_t tsr_tickets_count(void)
{
    return __atomic_load_n(&tsr_tickets.queues.count, __ATOMIC_RELAXED);
}

static inline bool tsr_tickets_have_begun(void)
{
    return __atomic_load_n(&tsr_tickets.before_all, __ATOMIC_ACQUIRE) != 0;
}

#endif
