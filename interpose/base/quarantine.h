/*
 * Objects that were looked up without a lock, and that nobody can find any more. A program that uses a handle while another of its threads
 * destroys it may still look at one: so they are freed only when many others have come after them.
 */
#ifndef TESSERA_BASE_QUARANTINE_H
#define TESSERA_BASE_QUARANTINE_H

#include <stdint.h>

#define TSR_QUARANTINE_PLACES 256u

/* Zero bytes are an empty one. */
struct tsr_quarantine {
    uint32_t next;                        /* atomic */
    void *objects[TSR_QUARANTINE_PLACES]; /* atomic */
};

/* Takes the object in; gives the one that has been there longest, which is to be freed now, or NULL. */
static inline void *tsr_quarantine_pass(struct tsr_quarantine *quarantine, void *object)
{
    uint32_t place = __atomic_fetch_add(&quarantine->next, 1, __ATOMIC_RELAXED) % TSR_QUARANTINE_PLACES;
    return __atomic_exchange_n(&quarantine->objects[place], object, __ATOMIC_ACQ_REL);
}

#endif
