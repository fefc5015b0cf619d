/*
 * Which work comes after which (a part of copies.h). A worker is a stream of the application that work is in; a ticket is a piece of work of
 * one: its worker and a number that grows. A ticket is met for who asks if the program, or a wait that was added, already orders him
 * after it. Streams that end, and work from before tickets were given, are followed by the graveyard, a stream of ours that waits for them.
 *
 * Locks: tsr_tickets.ends, then tsr_copies_lock.
 */
#ifndef TSR_MEMORY_TICKETS_H
#define TSR_MEMORY_TICKETS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "api/driver.h"
#include "base/map.h"
#include "base/vec.h"

#define TSR_WORKER_SHIFT 48 /* a ticket: the worker above it, its number below */
#define TSR_NO_WORKER UINT32_MAX

/* Per-thread default streams count as the legacy one, which waits for them. */
struct tsr_worker {
    CUstream handle;
    CUcontext context; /* its own */
    uint64_t last;     /* number of its last ticket */
    CUevent event; /* after its work up to `recorded`, from before a capture during which it must not be asked; NULL: none */
    uint64_t recorded;
    uint32_t loose; /* calls that hold nothing and have not come back */
    bool gone;      /* destroyed: whoever comes after it waits for `graveyard` */
    bool dead;      /* with its context: all its work is complete */
};

extern pthread_mutex_t tsr_copies_lock; /* of all that copies know */

struct tsr_tickets {
    pthread_rwlock_t ends; /* held to write where a stream ends, to read by who asks it */
    struct {
        struct tsr_worker *data;
        size_t count, capacity;
    } workers;
    bool crowded;                /* atomic; there are more than are kept for long */
    struct tsr_map places;       /* of workers that are not gone: 1 + place, by handle, or by the context of a default stream */
    struct tsr_map after;        /* by pair of workers (comes after, came before): the number up to which it is known to */
    uint64_t before_all;         /* atomic; ticket of all work from before uses were noted; 0: no work elsewhere has begun */
    uint64_t numbers;            /* of tickets so far, */
    uint64_t complete;           /* and up to which all are complete */
    struct tsr_worker graveyard; /* handle NULL: none yet */
};

extern struct tsr_tickets tsr_tickets; /* tsr_copies_lock */

/* Whose work a use comes after by itself; a thread's own default stream after nobody's. */
struct tsr_asker {
    uint32_t worker;
    bool own;    /* a thread's own default stream: others that count as the same worker are not */
    uint32_t id; /* among those who come after others */
};

CUcontext tsr_tickets_context(void); /* the calling thread's */

/* The worker of a stream (never NULL). Its place; TSR_NO_WORKER: no memory. */
uint32_t tsr_worker_find_locked(CUstream named);
/* False: no memory. */
bool tsr_asker_init_locked(struct tsr_asker *asker, CUstream named);

/* A new one of the asker's. */
uint64_t tsr_ticket_take_locked(const struct tsr_asker *asker);
bool tsr_ticket_is_met_locked(const struct tsr_asker *asker, uint64_t ticket);
uint64_t tsr_ticket_pair(uint32_t later, uint32_t earlier); /* key of tsr_tickets.after: an asker's id, a worker */
static inline uint32_t tsr_ticket_worker(uint64_t ticket)
{
    return (uint32_t)(ticket >> TSR_WORKER_SHIFT);
}

/* There are too many: at a quiet moment, when all work is complete and no call is under way, they are forgotten. */
bool tsr_tickets_are_crowded(void);
void tsr_tickets_forget_workers(void);
/* In a child of fork, everything is. */
void tsr_tickets_forget(void);

/* Makes a stream, which the asker is in, come after all that a worker was given. Errors: NOT_READY, an unfinished call of another thread. */
CUresult tsr_tickets_come_after(CUstream stream, bool per_thread, const struct tsr_asker *asker, uint32_t place);
/* Into *event, which is made if there is none. The stream is held. */
CUresult tsr_worker_record(const struct tsr_worker *of, CUevent *event);
/* What has been enqueued so far counts as one worker's, who is gone; it may have written anything. Memory lock. */
CUresult tsr_tickets_bury_all(void);

static inline bool tsr_tickets_have_begun(void)
{
    return __atomic_load_n(&tsr_tickets.before_all, __ATOMIC_ACQUIRE) != 0;
}

#endif
