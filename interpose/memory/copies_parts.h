/* What the files that implement copies.h share: the table of extents that have copies (copies.c). */
#ifndef TSR_MEMORY_COPIES_PARTS_H
#define TSR_MEMORY_COPIES_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/driver.h"
#include "memory/arena.h"
#include "memory/copies.h"
#include "memory/directory.h"
#include "memory/owners.h"
#include "memory/replicas.h"
#include "memory/tickets.h"
#include "object/session.h"

/* Of memory that the host owns: what spill.h knows of it. Lock. */
struct tsr_spilled {
    uint64_t used;    /* tsr_copies_uses when work at home used it last; 0: such work is complete */
    uint32_t queue;   /* 1 + the place of that work's queue (tickets.h) */
    bool several;     /* there is also work of other queues, or on other GPUs */
    bool moving;      /* what is mapped at its address is changing: nobody may use it */
    bool ahead;       /* home's copy was fetched before a launch asked for it, and none has used it yet */
    bool arriving;    /* what was fetched for it may be on its way */
    uint32_t fetcher; /* the stream that fetched it last, by number */
    uint64_t looked;  /* at what time `next` was found out; */
    uint64_t next;    /* how many other extents are used first; UINT64_MAX: not known to be used again */
};

struct tsr_copies {
    CUdeviceptr address;
    uint64_t bytes;
    size_t place;     /* among all */
    bool fixed;       /* lock; only home uses it */
    bool full;        /* lock; the directory has no room for the use that is being made: it gathers */
    uint16_t refused; /* lock; bit n: GPU n, numbered as copies, cannot use it */
    uint64_t used_at
        [TSR_DIRECTORY_COPIES]; /* lock; by GPU, numbered as copies: tsr_copies_uses when it used it last, but for repeats */
    uint64_t number;            /* in the order in which they were made */
    /* In a pool (owners.h): GPUs, numbered as copies. Lock. */
    uint16_t wanted;                          /* bit n: GPU n is to have its own copy */
    uint64_t denied_at[TSR_DIRECTORY_COPIES]; /* tsr_copies_uses when it could not have one; 0: never */
    uint64_t written_at;                      /* tsr_copies_uses when it was written last; 0: never */
    uint64_t read_by[TSR_DIRECTORY_COPIES],
        written_by[TSR_DIRECTORY_COPIES]; /* tickets of the last tracked uses, for those who use the same copy; 0: none */
    struct tsr_spilled spilled;
    struct tsr_replicas replicas;            /* changed with both locks */
    struct tsr_directory directory;          /* lock */
    uint64_t reported_cells, reported_bytes; /* lock; of these, what the policy's table includes */
};

/* Whether the memory is the host's (owners.h). */
static inline bool tsr_copies_host_owns(const struct tsr_copies *copies)
{
    return tsr_owners_have_host() && copies->replicas.owner == tsr_session_host(tsr_session());
}

/* Whether a GPU that had no room for a copy uses home's. */
static inline bool tsr_copies_are_shared(const struct tsr_copies *copies)
{
    return (copies->replicas.ready & ~copies->replicas.own) != 0;
}

/* All there are. */
struct tsr_copies_all {
    struct tsr_copies **data;
    size_t count, capacity;
};
extern struct tsr_copies_all tsr_copies_all; /* lock */

/*
 * Atomic. By page of the arena, the state of the extent that begins there: counts what those who repeat uses have to look at again (directory.h).
 * And the generation: what all have to.
 */
extern uint64_t *tsr_copies_states, tsr_copies_generation;
static inline void tsr_copies_change(uint64_t *which)
{
    __atomic_add_fetch(which, 1, __ATOMIC_SEQ_CST);
}
static inline uint64_t tsr_copies_page(CUdeviceptr address)
{
    return (address - TSR_ARENA_ADDRESS) / TSR_ARENA_PAGE;
}
static inline uint64_t *tsr_copies_state(const struct tsr_copies *copies)
{
    return &tsr_copies_states[tsr_copies_page(copies->address)];
}

/* What the directory says is not so: nothing that uses copies can go on. Sticky. */
extern CUresult tsr_copies_failed; /* lock */
void tsr_copies_fail_locked(CUresult error, const char *what);

/* The extent that the address is in; NULL: it has no copies. */
struct tsr_copies *tsr_copies_at_locked(uint64_t address);

/* Gives the lane's GPU a copy of the extent that is at the address, if there is one. Takes the memory lock. */
CUresult tsr_copies_give(CUdeviceptr address, const struct tsr_lane_client *lane);

extern uint64_t tsr_copies_uses; /* lock; that have been looked at */

/*
 * Records the use, whose stream is held, if it needs and changes nothing but the writers of what it writes (copies_in_place.c). False: it has to be
 * looked at.
 */
bool tsr_copies_use_in_place_locked(const struct tsr_copies_use *use, const struct tsr_order_hold *hold);

/* The cell of one part that holds all bytes of the touch, and, if it is written, no others; NULL: there is more to it. */
struct tsr_cell *tsr_copies_cell_locked(const struct tsr_touch *touch, struct tsr_copies **copies);

/* In a pool: room for a copy. Takes no lock. */
bool tsr_copies_have_room(uint32_t copy, uint64_t bytes);
/* The GPU had no memory for a copy, though it should: others have some of it. They may give it back, so this is forgotten after a while. */
void tsr_copies_found_full(uint32_t copy);
/* Memory lock. Makes room for a copy on a full GPU. False: there is none to be made, or no quiet moment. */
bool tsr_copies_make_room(uint32_t copy, uint64_t bytes);
/* Memory lock; nothing on its GPU uses the copy, of which it holds nothing alone. The copy goes. */
void tsr_copies_give_up(struct tsr_copies *copies, uint32_t copy);
/* Memory lock. As tsr_copies_begin (copies.h). */
void tsr_copies_begin_locked(void);
bool tsr_copies_holds_exclusively(struct tsr_copies *copies, uint32_t copy);
/* In a pool any GPU that uses it gets a copy. */
bool tsr_copies_are_small(const struct tsr_copies *copies);
/* In a pool, where home sees all copies: all bytes come to one. Nothing runs and nobody is inside; a context of the home GPU is current. */
CUresult tsr_copies_bring(struct tsr_copies *copies, uint32_t copy);
void tsr_copies_count_bytes(const struct tsr_copies *copies, uint16_t own, bool more);

/* In a pool (copies_own.c): whether a GPU that has no copy of its own is to have one for this use, if there is room. */
bool tsr_copies_deserves_own_locked(const struct tsr_copies *copies, const struct tsr_use *use, uint32_t gpu);
/* Adds to the survey, by GPU, what the use would cost there. */
void tsr_copies_survey_in_pool_locked(const struct tsr_copies *copies, const struct tsr_use *use,
                                      const struct tsr_survey_of *of, struct tsr_survey *survey);
/* The same for what the program has mapped by itself, which has no copies. */
void tsr_copies_survey_mapped(uint64_t first, uint64_t end, const struct tsr_survey_of *of, struct tsr_survey *survey);
/* Memory lock. Whether a GPU without a copy gets memory of its own; without a pool: if it can. */
bool tsr_copies_may_have_own(struct tsr_copies *copies, uint32_t gpu);
/* Memory lock. A GPU that uses the owner's gets memory of its own, if there is room and a quiet moment. */
CUresult tsr_copies_take_own(struct tsr_extent *extent, uint32_t gpu);
/* Memory lock. The extent is new, and no GPU has used it: home gets memory of its own of a small one. */
void tsr_copies_begin_own(const struct tsr_extent *extent, struct tsr_copies *copies);
void tsr_copies_deny(struct tsr_copies *copies, uint32_t gpu);

/* Tells how much the directory holds now; gone: nothing. */
void tsr_copies_tell_directory_locked(struct tsr_copies *copies, bool gone);

/* All work is complete, and nobody is inside: no use comes after any before it. */
void tsr_copies_settle(void);

/* Work that a use does not come after yet, and must. Errors: as tsr_copies_prepare. */
#ifndef TSR_COPIES_MOST_WAITS
#define TSR_COPIES_MOST_WAITS 64u /* beyond that, it begins again */
#endif
struct tsr_copies_waits {
    struct tsr_asker asker;
    uint64_t tickets[TSR_COPIES_MOST_WAITS]; /* the last one of each strand */
    uint32_t count;
    CUdeviceptr missing; /* an extent of which the GPU has no copy yet; 0: none */
};
CUresult tsr_copies_ask(const struct tsr_copies_use *use, struct tsr_copies_waits *out);

/* One of the home GPU that uses have been noted in. NULL: there is none any more, so other GPUs hold nothing that matters. */
CUcontext tsr_copies_some_context(void);

/* A stream of ours at home, made with the first use: pulls for another device's, and for nobody's (copies_enter.c). */
CUresult tsr_copies_pull_stream(CUstream *out);
/* Brings home what the use touches, in that stream (the legacy one might join a capture), and waits. Any context, or none, may be current. */
CUresult tsr_copies_pull_home(struct tsr_copies_use *use);
void tsr_copies_pull_stream_gone_locked(CUcontext context);
void tsr_copies_pull_stream_forget(void);

static inline void tsr_copies_count(uint64_t *counter, uint64_t more)
{
    __atomic_fetch_add(counter, more, __ATOMIC_RELAXED);
}

#endif
