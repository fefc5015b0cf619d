/*
 * Owners, where the memory of several GPUs is one pool: each extent of the arena has one GPU that keeps its bytes, which is where there was room when
 * it was made. What is made one after the other lies together: a GPU is filled before the next one is begun. Other GPUs may have copies of
 * it (copies.h), in what the pool leaves to them of each GPU, the reserve. What fits no GPU any more host memory may own, in pieces (spill.h).
 * GPUs are identified by rank (tsr_session_gpu), and so is the host (tsr_session_host). Only decides and counts. Memory lock held.
 */
#ifndef TSR_MEMORY_OWNERS_H
#define TSR_MEMORY_OWNERS_H

#include <stdbool.h>
#include <stdint.h>

#define TSR_OWNERS_NONE UINT32_MAX

/* Whether the policy wants a pool. Takes no lock. */
bool tsr_owners_are_wanted(void);
/* Whether there is one. The first call finds out, and may wait for the proofs of pairs (pairs.h). */
bool tsr_owners_are_on(void);
void tsr_owners_forget(void);

/* The GPU that is to own new memory, or the host; NONE: none outside of the set `but` has room by what is known here. */
uint32_t tsr_owners_next(uint64_t bytes, uint32_t but);
/* The GPUs and the host, as a set, that are not to own so much in one piece. */
uint32_t tsr_owners_too_small(uint64_t bytes);
/* The same as `next` for part of it: the most bytes that one GPU, or else the host, has room for, in whole pages. */
uint64_t tsr_owners_most(void);
/* Whether the pool has host memory. Takes no lock. */
extern bool tsr_owners_host;
static inline bool tsr_owners_have_host(void)
{
    return __builtin_expect(__atomic_load_n(&tsr_owners_host, __ATOMIC_RELAXED), 0);
}
/* While this is so, the host gets nothing new: what is free, and not taken back yet, may make room on GPUs. */
void tsr_owners_hold_host_back(bool held_back);
/* The driver has none, for this reason: there is none from now on. */
void tsr_owners_host_refused(int error);
void tsr_owners_add(uint32_t rank, uint64_t bytes);
void tsr_owners_remove(uint32_t rank, uint64_t bytes);
/* Memory has another owner now. */
void tsr_owners_pass(uint32_t from, uint32_t to, uint64_t bytes);
uint64_t tsr_owners_free(uint32_t rank);
/* The pool's part of the GPUs up to this one, of all. */
double tsr_owners_share(uint32_t rank);

/* The program was refused memory. */
void tsr_owners_refused(void);

/*
 * What the program has mapped by itself (vmm.h) has an owner, too, and no copies: whole pages are a GPU's, or nobody's (NONE) any more. look: adds
 * to `bytes`, by rank, what of a range each GPU owns; takes no lock.
 */
void tsr_owners_mark(uint64_t address, uint64_t bytes, uint32_t rank);
void tsr_owners_look(uint64_t first, uint64_t end, uint64_t *bytes);

bool tsr_owners_is_any(uint64_t address);

uint64_t tsr_owners_owned(uint32_t rank);
/* Room for a copy of another GPU's memory, on a GPU that has so much of copies, and no more than `most` for these and what it owns. */
bool tsr_owners_have_room(uint32_t rank, uint64_t bytes, uint64_t copies_bytes, uint64_t most);

struct tsr_owners_room {
    uint64_t total, free;
    uint64_t home; /* of the free bytes, those on the home GPU */
};
struct tsr_owners_room tsr_owners_room(void);

/* The same, once that has been found out. Takes no lock. */
extern bool tsr_owners_begun;
static inline bool tsr_owners_have_begun(void)
{
    return __builtin_expect(__atomic_load_n(&tsr_owners_begun, __ATOMIC_RELAXED), 0);
}

extern uint64_t tsr_owners_changes; /* atomic; memory that has been added */
/* How often memory was added, or given another owner. Takes no lock. */
uint64_t tsr_owners_changed(void);

/* Bytes of the pool on other GPUs than home. Takes no lock. */
extern uint64_t tsr_owners_away_bytes;
static inline bool tsr_owners_are_spread(void)
{
    return __builtin_expect(__atomic_load_n(&tsr_owners_away_bytes, __ATOMIC_RELAXED) != 0, 0);
}

#endif
