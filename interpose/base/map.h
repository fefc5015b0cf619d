/*
 * A map from 64-bit keys (handles, addresses) to pointers: open addressing, look-up without a lock, changes under the map's own lock.
 * A look-up during a change sees the old or the new value. Tables that have been replaced stay allocated until tsr_map_fini, because a
 * look-up may still be in them, and are reused; there are at most two of each size, and the sizes form a geometric series. So the map takes
 * memory for the largest number of entries that it has held at one time, however many have come and gone.
 * Keys 0 and UINT64_MAX are not allowed.
 */
#ifndef TESSERA_BASE_MAP_H
#define TESSERA_BASE_MAP_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/vec.h"

struct tsr_map_table;

/* Zero bytes are an empty map. */
struct tsr_map {
    pthread_mutex_t lock;
    struct tsr_map_table *table; /* atomic */
    uint32_t used;               /* lock; slots that are not empty, removed ones included */
    uint32_t live;               /* lock; of which have a value */
};

void *tsr_map_find(const struct tsr_map *map, uint64_t key);      /* NULL: absent */
bool tsr_map_set(struct tsr_map *map, uint64_t key, void *value); /* replaces; false: out of memory */
void *tsr_map_remove(struct tsr_map *map, uint64_t key);          /* the value that was there, or NULL */
void tsr_map_each(struct tsr_map *map, void (*visit)(uint64_t key, void *value, void *argument),
                  void *argument); /* holds the lock */

/* Removes the entries that the condition holds for, which it is asked of with the map's lock held; one that there is no memory to tell of stays. */
struct tsr_map_entry {
    uint64_t key;
    void *value;
};
struct tsr_map_entries { /* to be freed with tsr_vec_fini */
    struct tsr_map_entry *data;
    size_t count, capacity;
};
struct tsr_map_entries tsr_map_remove_if(struct tsr_map *map,
                                         bool (*condition)(uint64_t key, const void *value, const void *argument),
                                         const void *argument);
void tsr_map_clear(struct tsr_map *map); /* removes all entries; the memory stays for others */
void tsr_map_fini(struct tsr_map *map);

#endif
