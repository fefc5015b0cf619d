/*
 * Handles: the opaque pointer-sized values given to applications for contexts, streams, events, functions and so on.
 *
 * A handle names a slot, the slot's generation and a kind; it is never an address. Whatever an application passes, looking it up
 * touches only the table's own slots, which are never freed: stale, foreign and invented handles are recognised, never followed.
 * Values are multiples of 16 below 2^47 and above 2^20, so they look like pointers and never equal the special
 * values 0, 1 and 2; a slot's generation starts again after 65536 uses, and freed slots wait longest before they are used again.
 *
 * Looking up takes no lock. tsr_handle_find gives the object while the caller itself makes sure that nobody removes it;
 * tsr_handle_get holds it until tsr_handle_put. Removing makes the handle invalid at once; the object is destroyed by that call,
 * or by the last put if it is held.
 */
#ifndef TESSERA_BASE_HANDLE_H
#define TESSERA_BASE_HANDLE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define TSR_HANDLE_CHUNKS 4096
#define TSR_HANDLE_CHUNK_SLOTS 1024 /* so at most 2^22 handles at a time */
#define TSR_HANDLE_KINDS 32         /* kinds are 1 to 31, chosen by the user of the table */

typedef void (*tsr_handle_destroy)(void *object);

struct tsr_handle_slot {
    uint64_t state;             /* atomic: kind and generation, removed, holders; 0 kind = free. See handle.c */
    void *object;               /* written before state is made valid */
    tsr_handle_destroy destroy; /* likewise; may be NULL */
    uint32_t next_free;         /* lock; index of the slot freed after this one */
};

/* Zero bytes are an empty table (and, on Linux, an unlocked mutex). */
struct tsr_handles {
    pthread_mutex_t lock;                              /* creating and freeing slots */
    struct tsr_handle_slot *chunks[TSR_HANDLE_CHUNKS]; /* atomic; written once each, under lock */
    uint32_t slots;                                    /* atomic; slots ever used: the first are 1 to slots (0 is none) */
    uint32_t free_first, free_last;                    /* lock; queue of free slots, 0 = empty */
};

/* The handle of object, or NULL when memory or the table is exhausted. destroy (may be NULL) is called once, after removal. */
void *tsr_handle_create(struct tsr_handles *table, unsigned kind, void *object, tsr_handle_destroy destroy);

/* The object, or NULL when the handle is not a valid one of that kind. */
void *tsr_handle_find(struct tsr_handles *table, unsigned kind, const void *handle);
/* The kind of a valid handle, otherwise 0. */
unsigned tsr_handle_kind(struct tsr_handles *table, const void *handle);

void *tsr_handle_get(struct tsr_handles *table, unsigned kind, const void *handle);
void tsr_handle_put(struct tsr_handles *table, const void *handle);

/* False: the handle was not valid (for example destroyed before). */
bool tsr_handle_remove(struct tsr_handles *table, unsigned kind, const void *handle);

/* Calls visit for each valid handle of the kind, until it returns false. visit may create and remove handles. */
void tsr_handle_each(struct tsr_handles *table, unsigned kind, bool (*visit)(void *handle, void *object, void *argument),
                     void *argument);

/* Frees the slots without destroying objects. Nobody may use the table meanwhile. */
void tsr_handles_fini(struct tsr_handles *table);

#endif
