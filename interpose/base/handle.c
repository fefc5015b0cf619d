/*
 * Handle: bits 46..42 kind, 41..26 generation, 25..4 slot index, 3..0 zero.
 * State of a slot: identity << 32 | removed << 31 | holders, where identity = kind << 16 | generation. A free slot has kind 0 and
 * keeps its generation. The whole word changes by compare-and-swap, so nobody can take hold of a removed handle.
 */
#include "base/handle.h"

#include <stddef.h>
#include <stdlib.h>

#define INDEX_BITS 22
#define INDEX_MASK ((1u << INDEX_BITS) - 1)
#define REMOVED 0x80000000u
#define HOLDERS 0x7fffffffu

_Static_assert((uint64_t)TSR_HANDLE_CHUNKS *TSR_HANDLE_CHUNK_SLOTS == 1u << INDEX_BITS, "the index covers all slots");

static uint32_t identity_of(const void *handle)
{
    return (uint32_t)((uintptr_t)handle >> (INDEX_BITS + 4));
}

static uint32_t index_of(const void *handle)
{
    return (uint32_t)((uintptr_t)handle >> 4) & INDEX_MASK;
}

static void *handle_from(uint32_t identity, uint32_t index)
{
    return (void *)((uintptr_t)identity << (INDEX_BITS + 4) | (uintptr_t)index << 4);
}

static uint32_t kind_of(uint32_t identity)
{
    return identity >> 16;
}

/* The slot of an index below table->slots + 1. */
static struct tsr_handle_slot *slot_at(struct tsr_handles *table, uint32_t index)
{
    return &__atomic_load_n(&table->chunks[index / TSR_HANDLE_CHUNK_SLOTS], __ATOMIC_ACQUIRE)[index % TSR_HANDLE_CHUNK_SLOTS];
}

/* NULL when the value cannot be a handle of this table, whatever it is. */
static struct tsr_handle_slot *slot_of(struct tsr_handles *table, const void *handle)
{
    uint32_t index = index_of(handle);
    uint32_t kind = kind_of(identity_of(handle));
    if (((uintptr_t)handle & 15) || (uintptr_t)handle >> 47 || !kind || kind >= TSR_HANDLE_KINDS || !index ||
        index > __atomic_load_n(&table->slots, __ATOMIC_ACQUIRE))
        return NULL;
    return slot_at(table, index);
}

/* A never used slot's index, 0 when there is none. */
static uint32_t slot_extend_locked(struct tsr_handles *table)
{
    uint32_t index = table->slots + 1;
    if (index > INDEX_MASK)
        return 0;
    struct tsr_handle_slot **chunk = &table->chunks[index / TSR_HANDLE_CHUNK_SLOTS];
    if (!*chunk) {
        struct tsr_handle_slot *slots = calloc(TSR_HANDLE_CHUNK_SLOTS, sizeof *slots);
        if (!slots)
            return 0;
        __atomic_store_n(chunk, slots, __ATOMIC_RELEASE);
    }
    __atomic_store_n(&table->slots, index, __ATOMIC_RELEASE);
    return index;
}

static uint32_t slot_take_locked(struct tsr_handles *table)
{
    uint32_t index = table->free_first;
    if (!index)
        return slot_extend_locked(table);
    table->free_first = slot_at(table, index)->next_free;
    if (!table->free_first)
        table->free_last = 0;
    return index;
}

static void slot_free(struct tsr_handles *table, uint32_t index, struct tsr_handle_slot *slot)
{
    tsr_handle_destroy destroy = slot->destroy;
    void *object = slot->object;
    uint64_t generation = __atomic_load_n(&slot->state, __ATOMIC_RELAXED) >> 32 & 0xffff;
    pthread_mutex_lock(&table->lock);
    __atomic_store_n(&slot->state, ((generation + 1) & 0xffff) << 32, __ATOMIC_RELEASE);
    slot->next_free = 0;
    if (table->free_last)
        slot_at(table, table->free_last)->next_free = index;
    else
        table->free_first = index;
    table->free_last = index;
    pthread_mutex_unlock(&table->lock);
    if (destroy)
        destroy(object);
}

void *tsr_handle_create(struct tsr_handles *table, unsigned kind, void *object, tsr_handle_destroy destroy)
{
    if (!kind || kind >= TSR_HANDLE_KINDS)
        return NULL;
    pthread_mutex_lock(&table->lock);
    uint32_t index = slot_take_locked(table);
    pthread_mutex_unlock(&table->lock);
    if (!index)
        return NULL;
    struct tsr_handle_slot *slot = slot_at(table, index);
    uint32_t identity = kind << 16 | (uint32_t)(__atomic_load_n(&slot->state, __ATOMIC_RELAXED) >> 32 & 0xffff);
    __atomic_store_n(&slot->object, object, __ATOMIC_RELAXED);
    slot->destroy = destroy;
    __atomic_store_n(&slot->state, (uint64_t)identity << 32, __ATOMIC_RELEASE);
    return handle_from(identity, index);
}

static bool state_is_valid(uint64_t state, const void *handle)
{
    return state >> 32 == identity_of(handle) && !(state & REMOVED);
}

/* The object is read between two equal states, so it belongs to this handle and not to a later use of the slot. */
void *tsr_handle_find(struct tsr_handles *table, unsigned kind, const void *handle)
{
    struct tsr_handle_slot *slot = slot_of(table, handle);
    if (!slot || kind_of(identity_of(handle)) != kind)
        return NULL;
    if (!state_is_valid(__atomic_load_n(&slot->state, __ATOMIC_ACQUIRE), handle))
        return NULL;
    void *object = __atomic_load_n(&slot->object, __ATOMIC_ACQUIRE);
    return state_is_valid(__atomic_load_n(&slot->state, __ATOMIC_RELAXED), handle) ? object : NULL;
}

unsigned tsr_handle_kind(struct tsr_handles *table, const void *handle)
{
    struct tsr_handle_slot *slot = slot_of(table, handle);
    return slot && state_is_valid(__atomic_load_n(&slot->state, __ATOMIC_ACQUIRE), handle) ? kind_of(identity_of(handle)) : 0;
}

void *tsr_handle_get(struct tsr_handles *table, unsigned kind, const void *handle)
{
    struct tsr_handle_slot *slot = slot_of(table, handle);
    if (!slot || kind_of(identity_of(handle)) != kind)
        return NULL;
    uint64_t state = __atomic_load_n(&slot->state, __ATOMIC_ACQUIRE);
    do {
        if (!state_is_valid(state, handle) || (state & HOLDERS) == HOLDERS)
            return NULL;
    } while (!__atomic_compare_exchange_n(&slot->state, &state, state + 1, true, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE));
    return __atomic_load_n(&slot->object, __ATOMIC_RELAXED);
}

void tsr_handle_put(struct tsr_handles *table, const void *handle)
{
    struct tsr_handle_slot *slot = slot_of(table, handle);
    if (!slot)
        return;
    uint64_t state = __atomic_sub_fetch(&slot->state, 1, __ATOMIC_ACQ_REL);
    if ((state & REMOVED) && !(state & HOLDERS))
        slot_free(table, index_of(handle), slot);
}

bool tsr_handle_remove(struct tsr_handles *table, unsigned kind, const void *handle)
{
    struct tsr_handle_slot *slot = slot_of(table, handle);
    if (!slot || kind_of(identity_of(handle)) != kind)
        return false;
    uint64_t state = __atomic_load_n(&slot->state, __ATOMIC_ACQUIRE);
    do {
        if (!state_is_valid(state, handle))
            return false;
    } while (!__atomic_compare_exchange_n(&slot->state, &state, state | REMOVED, true, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
    if (!(state & HOLDERS))
        slot_free(table, index_of(handle), slot);
    return true;
}

void tsr_handle_each(struct tsr_handles *table, unsigned kind, bool (*visit)(void *handle, void *object, void *argument),
                     void *argument)
{
    uint32_t slots = __atomic_load_n(&table->slots, __ATOMIC_ACQUIRE);
    for (uint32_t index = 1; index <= slots; index++) {
        uint32_t identity = (uint32_t)(__atomic_load_n(&slot_at(table, index)->state, __ATOMIC_ACQUIRE) >> 32);
        void *handle = handle_from(identity, index);
        if (kind_of(identity) != kind)
            continue;
        void *object = tsr_handle_get(table, kind, handle);
        if (!object)
            continue;
        bool more = visit(handle, object, argument);
        tsr_handle_put(table, handle);
        if (!more)
            return;
    }
}

void tsr_handles_fini(struct tsr_handles *table)
{
    for (uint32_t i = 0; i < TSR_HANDLE_CHUNKS; i++) {
        free(table->chunks[i]);
        table->chunks[i] = NULL;
    }
    table->slots = table->free_first = table->free_last = 0;
}
