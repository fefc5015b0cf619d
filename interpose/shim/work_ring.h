/*
 * A ring of work that one thread of the program puts in, and a thread of ours carries out in this order. Entries have any size and lie where they were put until they have been
 * carried out. In a forked child no ring has a thread.
 */
#ifndef TSR_SHIM_WORK_RING_H
#define TSR_SHIM_WORK_RING_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define TSR_WORK_LINE 64u
#define TSR_WORK_BYTES (2u << 20) /* of a ring */

/* Begins an entry, which is aligned to a line. */
struct tsr_work_entry {
    uint32_t bytes; /* a multiple of a line */
    bool skip;      /* the ring's: nothing is in it */
};

struct tsr_work_ring {
    uint8_t *memory;
    void (*carry_out)(const struct tsr_work_entry *entry);
    uint64_t given __attribute__((aligned(TSR_WORK_LINE))); /* atomic; bytes of all entries, */
    uint64_t done __attribute__((aligned(TSR_WORK_LINE)));  /* atomic; and of those that have been carried out */
    uint32_t asleep;                                        /* atomic; the thread waits for more */
    uint32_t steps, waiters;                                /* atomic; others wait for it: changes when it has done something */
};

/* Starts the ring's thread. The ring, which is all zeros or one of a parent process, stays where it is. False: there is no memory or no thread. */
bool tsr_work_start(struct tsr_work_ring *ring, void (*carry_out)(const struct tsr_work_entry *entry));

/*
 * Room for an entry of so many bytes, once there is; then it is filled in, and given to the thread. By one thread at a time. Returns its number, which is higher than those
 * before.
 */
void *tsr_work_room(struct tsr_work_ring *ring, uint32_t bytes);
uint64_t tsr_work_give(struct tsr_work_ring *ring, const struct tsr_work_entry *entry);

/* Whether the calling thread is one that carries out. */
extern __thread bool tsr_work_is_mine __attribute__((visibility("hidden")));

/* By any other thread: until the entry with that number has been carried out (0: none); until all that was given so far has been. */
void tsr_work_wait_for(struct tsr_work_ring *ring, uint64_t number);
static inline void tsr_work_wait(struct tsr_work_ring *ring)
{
    tsr_work_wait_for(ring, __atomic_load_n(&ring->given, __ATOMIC_ACQUIRE));
}

/* Whether that is so. */
static inline bool tsr_work_is_done(struct tsr_work_ring *ring, uint64_t number)
{
    return (int64_t)(__atomic_load_n(&ring->done, __ATOMIC_SEQ_CST) - number) >= 0;
}

static inline uint32_t tsr_work_rounded(uint64_t bytes)
{
    return (uint32_t)((bytes + TSR_WORK_LINE - 1) / TSR_WORK_LINE * TSR_WORK_LINE);
}

#endif
