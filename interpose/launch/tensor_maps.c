/* See tensor_maps.h. */
#include "launch/tensor_maps.h"

#include <pthread.h>
#include <string.h>

#include "base/hash.h"

#define SETS 512u /* a power of two */
#define WAYS 4u

struct known_map {
    bool used;
    uint8_t bytes[TSR_TENSOR_MAP_BYTES];
    struct tsr_box box;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct set {
    uint32_t newest;
    struct known_map maps[WAYS];
} sets[SETS]; /* lock */

static struct set *set_of(const void *map)
{
    return &sets[tsr_hash(map, TSR_TENSOR_MAP_BYTES) % SETS];
}

static struct known_map *find_locked(const void *map)
{
    struct set *set = set_of(map);
    for (uint32_t i = 0; i < WAYS; i++)
        if (set->maps[i].used && memcmp(set->maps[i].bytes, map, TSR_TENSOR_MAP_BYTES) == 0)
            return &set->maps[i];
    return NULL;
}

void tsr_tensor_map_note(const void *map, const struct tsr_box *box)
{
    pthread_mutex_lock(&lock);
    struct known_map *known = find_locked(map);
    if (!known) {
        struct set *set = set_of(map);
        set->newest = (set->newest + 1) % WAYS;
        known = &set->maps[set->newest];
    }
    known->used = true;
    known->box = *box;
    memcpy(known->bytes, map, TSR_TENSOR_MAP_BYTES);
    pthread_mutex_unlock(&lock);
}

bool tsr_tensor_map_find(const void *map, struct tsr_box *box)
{
    pthread_mutex_lock(&lock);
    const struct known_map *known = find_locked(map);
    if (known)
        *box = known->box;
    pthread_mutex_unlock(&lock);
    return known;
}

uint32_t tsr_tensor_map_ranges(const void *map, enum tsr_access_kind kind, struct tsr_access_range ranges[TSR_BOX_RANGES])
{
    struct tsr_box box;
    if (tsr_tensor_map_find(map, &box))
        return tsr_box_ranges(&box, kind, ranges);
    ranges[0] = (struct tsr_access_range){.kind = kind, .whole = 1, .parameter = -1, .symbol = -1, .last = -1};
    memcpy(&ranges[0].base, map, sizeof ranges[0].base);
    return 1;
}
