/*
 * Delayed freeing of objects that are looked up without a lock. When a program uses a handle in one thread while another one destroys it, the
 * first may still read the object; so an object is freed only after many others have been passed in.
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
