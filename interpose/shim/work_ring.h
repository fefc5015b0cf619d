/*
 * A ring of work that one thread of the program puts in, and a thread of ours carries out in this order. Entries have any size and lie where they were put until they have been
 * carried out. In a forked child there is none.
 */
#ifndef TSR_SHIM_WORK_RING_H
#define TSR_SHIM_WORK_RING_H

#include <stdbool.h>
#include <stdint.h>

#define TSR_WORK_LINE 64u

/* Begins an entry, which is aligned to a line. */
struct tsr_work_entry {
    uint32_t bytes; /* a multiple of a line */
    bool skip;      /* the ring's: nothing is in it */
};

/* Starts the thread, if this process has none. False: there is no memory or no thread. */
bool tsr_work_start(void (*carry_out)(const struct tsr_work_entry *entry));

/* Room for an entry of so many bytes, once there is; then it is filled in, and given to the thread. By one thread at a time. Returns its number, which is higher than those before. */
void *tsr_work_room(uint32_t bytes);
uint64_t tsr_work_give(const struct tsr_work_entry *entry);

/* Whether the calling thread is the one that carries out. */
extern __thread bool tsr_work_is_mine __attribute__((visibility("hidden")));

/* By any other thread: until all that was given so far has been carried out; or the entry with that number (0: none). */
void tsr_work_wait(void);
void tsr_work_wait_for(uint64_t number);
/* Whether all has been. */
bool tsr_work_is_done(void);

static inline uint32_t tsr_work_rounded(uint64_t bytes)
{
    return (uint32_t)((bytes + TSR_WORK_LINE - 1) / TSR_WORK_LINE * TSR_WORK_LINE);
}

#endif
