/*
 * See map.h. A removed entry keeps its key with a NULL value, so probing goes on past it; a new table drops such entries. A table that was
 * replaced is written anew when one of its size is needed: a look-up that is still in it sees by its version that it must begin again.
 */
#include "base/map.h"

#include <stdlib.h>

#define EMPTY 0ull
#define FIRST_SLOTS 64u

struct slot {
    uint64_t key; /* atomic; written once per table */
    void *value;  /* atomic */
};

struct tsr_map_table {
    struct tsr_map_table *older; /* lock; replaced before this one */
    uint64_t version;            /* atomic; odd while the table is written anew */
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

static bool look_up(struct tsr_map_table *table, uint64_t key, void **value)
{
    uint64_t version = __atomic_load_n(&table->version, __ATOMIC_ACQUIRE);
    struct slot *slot = probe(table, key);
    *value = __atomic_load_n(&slot->key, __ATOMIC_ACQUIRE) == key ? __atomic_load_n(&slot->value, __ATOMIC_ACQUIRE) : NULL;
    return !(version & 1) && __atomic_load_n(&table->version, __ATOMIC_RELAXED) == version;
}

void *tsr_map_find(const struct tsr_map *map, uint64_t key)
{
    struct tsr_map_table *table;
    void *value = NULL;
    do
        table = __atomic_load_n(&map->table, __ATOMIC_ACQUIRE);
    while (table && !look_up(table, key, &value));
    return value;
}

static void insert_locked(struct tsr_map *map, struct tsr_map_table *table, uint64_t key, void *value)
{
    struct slot *slot = probe(table, key);
    map->live += (value != NULL) - (slot->value != NULL);
    __atomic_store_n(&slot->value, value, __ATOMIC_RELEASE);
    if (slot->key == EMPTY) {
        __atomic_store_n(&slot->key, key, __ATOMIC_RELEASE);
        map->used++;
    }
}

/* One that was replaced, empty and with an odd version; NULL: there is none of that size. */
static struct tsr_map_table *reuse_locked(struct tsr_map *map, uint32_t slots)
{
    struct tsr_map_table **at = map->table ? &map->table->older : NULL;
    while (at && *at && (*at)->mask != slots - 1)
        at = &(*at)->older;
    struct tsr_map_table *table = at ? *at : NULL;
    if (!table)
        return NULL;
    *at = table->older;
    __atomic_store_n(&table->version, table->version + 1, __ATOMIC_RELAXED);
    for (uint32_t i = 0; i < slots; i++) {
        __atomic_store_n(&table->slots[i].value, NULL, __ATOMIC_RELEASE);
        __atomic_store_n(&table->slots[i].key, EMPTY, __ATOMIC_RELEASE);
    }
    return table;
}

static struct tsr_map_table *make(uint32_t slots)
{
    struct tsr_map_table *table = calloc(1, sizeof *table + slots * sizeof table->slots[0]);
    if (!table)
        return NULL;
    table->version = 1;
    table->mask = slots - 1;
    return table;
}

/* Doubles unless most of what fills the table has been removed. */
static bool replace_locked(struct tsr_map *map)
{
    struct tsr_map_table *old = map->table;
    uint32_t slots = !old ? FIRST_SLOTS : 4 * map->live > old->mask ? 2 * (old->mask + 1) : old->mask + 1;
    struct tsr_map_table *table = reuse_locked(map, slots);
    if (!table && !(table = make(slots)))
        return false;
    table->older = old;
    map->used = map->live = 0;
    for (uint32_t i = 0; old && i <= old->mask; i++)
        if (old->slots[i].key != EMPTY && old->slots[i].value)
            insert_locked(map, table, old->slots[i].key, old->slots[i].value);
    __atomic_store_n(&table->version, table->version + 1, __ATOMIC_RELEASE);
    __atomic_store_n(&map->table, table, __ATOMIC_RELEASE);
    return true;
}

bool tsr_map_set(struct tsr_map *map, uint64_t key, void *value)
{
    pthread_mutex_lock(&map->lock);
    bool room = map->table && 2 * (map->used + 1) <= map->table->mask;
    bool fits = room || replace_locked(map);
    if (fits)
        insert_locked(map, map->table, key, value);
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
        map->live -= value != NULL;
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

struct tsr_map_entries tsr_map_remove_if(struct tsr_map *map,
                                         bool (*condition)(uint64_t key, const void *value, const void *argument),
                                         const void *argument)
{
    struct tsr_map_entries removed = {0};
    pthread_mutex_lock(&map->lock);
    for (uint32_t i = 0; map->table && i <= map->table->mask; i++) {
        struct slot *slot = &map->table->slots[i];
        struct tsr_map_entry entry = {slot->key, slot->value};
        if (!entry.value || !condition(entry.key, entry.value, argument) || !tsr_vec_push(&removed, entry))
            continue;
        __atomic_store_n(&slot->value, NULL, __ATOMIC_RELEASE);
        map->live--;
    }
    pthread_mutex_unlock(&map->lock);
    return removed;
}

void tsr_map_clear(struct tsr_map *map)
{
    pthread_mutex_lock(&map->lock);
    for (uint32_t i = 0; map->live && i <= map->table->mask; i++)
        if (map->table->slots[i].value)
            __atomic_store_n(&map->table->slots[i].value, NULL, __ATOMIC_RELEASE);
    map->live = 0;
    pthread_mutex_unlock(&map->lock);
}

void tsr_map_fini(struct tsr_map *map)
{
    for (struct tsr_map_table *table = map->table, *older; table; table = older) {
        older = table->older;
        free(table);
    }
    map->table = NULL;
    map->used = map->live = 0;
}
