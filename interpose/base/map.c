/* See map.h. A removed entry keeps its key with a NULL value, so probing goes on past it; growing drops such entries. */
#include "base/map.h"

#include <stdlib.h>

#define EMPTY 0ull
#define FIRST_SLOTS 64u

struct slot {
    uint64_t key; /* atomic; written once per table */
    void *value;  /* atomic */
};

struct tsr_map_table {
    struct tsr_map_table *older; /* replaced by this one */
    uint32_t mask;
    struct slot slots[];
};

static uint32_t hash(uint64_t key)
{
    key *= 0x9e3779b97f4a7c15ull;
    return (uint32_t)(key >> 32);
}

static struct slot *probe(struct tsr_map_table *table, uint64_t key)
{
    for (uint32_t i = hash(key);; i++) {
        struct slot *slot = &table->slots[i & table->mask];
        uint64_t there = __atomic_load_n(&slot->key, __ATOMIC_ACQUIRE);
        if (there == key || there == EMPTY)
            return slot;
    }
}

void *tsr_map_find(const struct tsr_map *map, uint64_t key)
{
    struct tsr_map_table *table = __atomic_load_n(&map->table, __ATOMIC_ACQUIRE);
    if (!table)
        return NULL;
    struct slot *slot = probe(table, key);
    return __atomic_load_n(&slot->key, __ATOMIC_RELAXED) == key ? __atomic_load_n(&slot->value, __ATOMIC_ACQUIRE) : NULL;
}

static void insert(struct tsr_map *map, struct tsr_map_table *table, uint64_t key, void *value)
{
    struct slot *slot = probe(table, key);
    __atomic_store_n(&slot->value, value, __ATOMIC_RELEASE);
    if (slot->key == EMPTY) {
        __atomic_store_n(&slot->key, key, __ATOMIC_RELEASE);
        map->used++;
    }
}

static bool grow_locked(struct tsr_map *map)
{
    struct tsr_map_table *old = map->table;
    uint32_t slots = old ? 2 * (old->mask + 1) : FIRST_SLOTS;
    struct tsr_map_table *table = calloc(1, sizeof *table + slots * sizeof table->slots[0]);
    if (!table)
        return false;
    table->mask = slots - 1;
    table->older = old;
    map->used = 0;
    for (uint32_t i = 0; old && i <= old->mask; i++)
        if (old->slots[i].key != EMPTY && old->slots[i].value)
            insert(map, table, old->slots[i].key, old->slots[i].value);
    __atomic_store_n(&map->table, table, __ATOMIC_RELEASE);
    return true;
}

bool tsr_map_set(struct tsr_map *map, uint64_t key, void *value)
{
    pthread_mutex_lock(&map->lock);
    bool room = map->table && 2 * (map->used + 1) <= map->table->mask;
    bool fits = room || grow_locked(map);
    if (fits)
        insert(map, map->table, key, value);
    pthread_mutex_unlock(&map->lock);
    return fits;
}

void *tsr_map_remove(struct tsr_map *map, uint64_t key)
{
    void *value = NULL;
    pthread_mutex_lock(&map->lock);
    if (map->table) {
        struct slot *slot = probe(map->table, key);
        if (slot->key == key)
            value = __atomic_exchange_n(&slot->value, NULL, __ATOMIC_ACQ_REL);
    }
    pthread_mutex_unlock(&map->lock);
    return value;
}

void tsr_map_each(struct tsr_map *map, void (*visit)(uint64_t key, void *value, void *argument), void *argument)
{
    pthread_mutex_lock(&map->lock);
    for (uint32_t i = 0; map->table && i <= map->table->mask; i++)
        if (map->table->slots[i].key != EMPTY && map->table->slots[i].value)
            visit(map->table->slots[i].key, map->table->slots[i].value, argument);
    pthread_mutex_unlock(&map->lock);
}

void tsr_map_fini(struct tsr_map *map)
{
    for (struct tsr_map_table *table = map->table, *older; table; table = older) {
        older = table->older;
        free(table);
    }
    map->table = NULL;
    map->used = 0;
}
