/*
 * Items: what the engine orders. An item is one piece of work with the items it must wait for; streams, events and launched graphs are
 * only ways of saying which those are. An item is submitted once all its predecessors are known, becomes ready when the last of them is
 * complete, and is complete when its work is done or discarded. A complete item keeps its virtual time and nothing else.
 *
 * One lock (the engine's) protects items, streams, events, captures and graphs: functions named _locked need it, the others must be
 * called without. What an item owns is released after the lock is given up, because that runs foreign code.
 */
#ifndef TSR_STREAM_ITEM_H
#define TSR_STREAM_ITEM_H

#include "work.h"

#include "base/vec.h"

enum tsr_item_state { TSR_ITEM_BLOCKED, TSR_ITEM_READY, TSR_ITEM_RUNNING, TSR_ITEM_DONE };

struct tsr_streams;

struct tsr_item {
    struct tsr_work work;                     /* owned until the item is complete */
    struct tsr_streams *streams;              /* its context's part; valid until the item is complete */
    uint64_t sequence;                        /* order of submission in this process, from 1 */
    uint64_t turn;                            /* lock; of those that are ready the lowest is next: the sequence, or drawn */
    unsigned references;                      /* atomic */
    unsigned blockers;                        /* lock; incomplete predecessors, plus one until it is submitted */
    enum tsr_item_state state;                /* lock */
    TSR_VEC(struct tsr_item *) successors;    /* lock; a reference each */
    uint64_t ready_ns;                        /* latest end of its predecessors and the submitting thread's host clock */
    uint64_t end_ns;                          /* once complete */
    void (*completed)(struct tsr_item *item); /* lock; told that it is complete, before others go on; NULL: nobody is */
    uint64_t awaited;                         /* waits for an event of another process: the record it waits for */
    struct tsr_grid *grid;                    /* a kernel that has been started; engine thread only */
    uint64_t started_real_ns,
        begun_real_ns;                /* engine thread only; of its turn; of all of it, 0: nobody need be told any more */
    struct tsr_item *previous, *next; /* lock; the context's incomplete items in order of submission */
    struct tsr_item *chained;         /* lock; completed together, then left to be released */
};

/* Takes *work over (it is emptied) on success. The item has one reference, the caller's. NULL: out of memory. */
struct tsr_item *tsr_item_create_locked(struct tsr_streams *streams, struct tsr_work *work, uint64_t host_ns);
/* predecessor may be NULL or complete. False: out of memory. */
bool tsr_item_after_locked(struct tsr_item *item, struct tsr_item *predecessor);
void tsr_item_submit_locked(struct tsr_item *item);
/* Instead of submitting: complete without having run. */
void tsr_item_cancel_locked(struct tsr_item *item);
/* Waits until it is complete and advances the thread's host clock to its end. False: the process is ending, it never will be. */
bool tsr_item_wait_locked(struct tsr_item *item);
void tsr_item_complete_locked(struct tsr_item *item, uint64_t end_ns);

/* References; NULL is allowed. No lock needed. */
struct tsr_item *tsr_item_get(struct tsr_item *item);
void tsr_item_put(struct tsr_item *item);

#endif
