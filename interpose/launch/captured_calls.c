/* See captured_calls.h. */
#include "launch/captured_calls.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/fork.h"
#include "base/hash.h"
#include "base/map.h"
#include "launch/launch.h"
#include "object/registry.h"

#define MOST_RANGES 512u /* of one launch in different calls */
#define MOST_BYTES (32u << 20) /* kept; graphs keep what they have found for as long as they are there */

struct key {
    uint32_t function, grid[3], block[3], shared_bytes, bytes;
};

struct entry {
    struct tsr_captured_call call; /* the first member */
    struct key key;
    size_t size; /* of the entry with its content */
    struct tsr_access_range *ranges;
    uint8_t *parameters;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct tsr_map entries; /* lock; by hash */
static size_t kept_bytes;      /* lock */

static void forget_parent(void)
{
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    entries = (struct tsr_map){0};
    kept_bytes = 0;
}

static const struct tsr_fork_listener forks = {.in_child = forget_parent};

static struct key key_of(const struct tsr_captured_shape *shape)
{
    return (struct key){.function = shape->function->id,
                        .grid = {shape->grid[0], shape->grid[1], shape->grid[2]},
                        .block = {shape->block[0], shape->block[1], shape->block[2]},
                        .shared_bytes = shape->shared_bytes,
                        .bytes = shape->bytes};
}

static uint64_t hash_of(const struct key *key, const void *parameters)
{
    uint64_t hash = tsr_hash(key, sizeof *key) * 0x9e3779b97f4a7c15ull ^ (key->bytes ? tsr_hash(parameters, key->bytes) : 0);
    return hash == UINT64_MAX || !hash ? 1 : hash;
}

static bool is_of(const struct entry *entry, const struct key *key, const void *parameters)
{
    return memcmp(&entry->key, key, sizeof *key) == 0 && memcmp(entry->parameters, parameters, key->bytes) == 0;
}

void tsr_captured_call_put(const struct tsr_captured_call *call)
{
    struct tsr_captured_call *shared = (struct tsr_captured_call *)call;
    if (shared && __atomic_sub_fetch(&shared->references, 1, __ATOMIC_ACQ_REL) == 0)
        free(shared);
}

void tsr_captured_call_share(const struct tsr_captured_call *call)
{
    __atomic_add_fetch(&((struct tsr_captured_call *)call)->references, 1, __ATOMIC_RELAXED);
}

/* With room for ranges. */
static struct entry *make(const struct key *key, const void *parameters, uint32_t count)
{
    size_t ranges = count * sizeof(struct tsr_access_range), size = sizeof(struct entry) + ranges + key->bytes;
    struct entry *made = calloc(1, size);
    if (!made)
        return NULL;
    *made = (struct entry){.call.references = 1, .key = *key, .size = size};
    made->ranges = (struct tsr_access_range *)(void *)(made + 1);
    made->parameters = (uint8_t *)(made + 1) + ranges;
    memcpy(made->parameters, parameters, key->bytes);
    return made;
}

static struct entry *copy_of(const struct key *key, const void *parameters, const struct tsr_library_operands *call)
{
    uint32_t count = call->count > 0 ? (uint32_t)call->count : 0;
    struct entry *made = make(key, parameters, count);
    if (!made)
        return NULL;
    made->call.operands = *call;
    made->call.operands.ranges = made->ranges;
    if (count)
        memcpy(made->ranges, call->ranges, count * sizeof *call->ranges);
    return made;
}

static bool is_same(const struct tsr_library_operands *one, const struct tsr_library_operands *other)
{
    return one->call == other->call && one->count == other->count && one->other_gpus == other->other_gpus &&
           (one->count <= 0 || memcmp(one->ranges, other->ranges, (size_t)one->count * sizeof *one->ranges) == 0);
}

/* Without what only one of the calls says: bytes that it overwrites count as read, too. */
static void add_unmarked(struct entry *to, const struct tsr_library_operands *from)
{
    for (int32_t i = 0; i < from->count; i++) {
        struct tsr_access_range range = from->ranges[i];
        bool read_too = range.overwritten || range.scratch;
        range.overwritten = range.scratch = 0;
        to->ranges[to->call.operands.count++] = range;
        range.kind = TSR_ACCESS_READ;
        if (read_too)
            to->ranges[to->call.operands.count++] = range;
    }
}

/* What either of them says. */
static struct entry *both(const struct entry *one, const struct tsr_library_operands *other)
{
    const struct tsr_library_operands *first = &one->call.operands;
    bool known = first->count >= 0 && other->count >= 0 && (uint32_t)(first->count + other->count) <= MOST_RANGES;
    struct entry *made = make(&one->key, one->parameters, known ? 2 * (uint32_t)(first->count + other->count) : 0);
    if (!made)
        return NULL;
    made->call.operands = (struct tsr_library_operands){.call = other->call,
                                                        .other_gpus = first->other_gpus | other->other_gpus,
                                                        .ranges = made->ranges,
                                                        .why = "a launch of several library calls"};
    made->call.operands.count = known ? 0 : -1;
    if (known) {
        add_unmarked(made, first);
        add_unmarked(made, other);
    }
    return made;
}

static void drop_locked(uint64_t hash)
{
    struct entry *entry = tsr_map_remove(&entries, hash);
    if (entry) {
        kept_bytes -= entry->size;
        tsr_captured_call_put(&entry->call);
    }
}

static bool is_any(uint64_t key, const void *value, const void *argument)
{
    (void)key;
    (void)value;
    (void)argument;
    return true;
}

static void drop_all_locked(void)
{
    struct tsr_map_entries all = tsr_map_remove_if(&entries, is_any, NULL);
    for (size_t i = 0; i < all.count; i++) {
        struct entry *entry = all.data[i].value;
        kept_bytes -= entry->size;
        tsr_captured_call_put(&entry->call);
    }
    tsr_vec_fini(&all);
}

/* Without memory nothing is known of the launch. */
static void put_in_locked(uint64_t hash, struct entry *entry)
{
    drop_locked(hash);
    if (kept_bytes > MOST_BYTES)
        drop_all_locked();
    if (entry && tsr_map_set(&entries, hash, entry))
        kept_bytes += entry->size;
    else if (entry)
        tsr_captured_call_put(&entry->call);
}

/* Two launches with the same hash are none that something is known of. */
static void keep_locked(uint64_t hash, const struct key *key, const void *parameters, const struct tsr_library_operands *call)
{
    static const struct tsr_library_operands unknown = {.count = -1, .why = "two launches that cannot be told apart"};
    const struct entry *known = tsr_map_find(&entries, hash);
    if (!known)
        put_in_locked(hash, copy_of(key, parameters, call));
    else if (!is_of(known, key, parameters))
        put_in_locked(hash, copy_of(key, parameters, &unknown));
    else if (!is_same(&known->call.operands, call))
        put_in_locked(hash, both(known, call));
}

void tsr_captured_call_keep(const struct tsr_launch *launch)
{
    struct tsr_library_operands call = tsr_library_operands_now();
    if (!call.call) {
        __atomic_store_n(&launch->known->captured_alone, true, __ATOMIC_RELAXED);
        return;
    }
    if (!tsr_launch_gather(launch))
        return;
    tsr_fork_listen(&forks);
    struct tsr_captured_shape shape = {.function = launch->known,
                                       .grid = {launch->grid[0], launch->grid[1], launch->grid[2]},
                                       .block = {launch->block[0], launch->block[1], launch->block[2]},
                                       .shared_bytes = launch->shared_bytes,
                                       .bytes = launch->gathered->bytes,
                                       .parameters = launch->gathered->values};
    struct key key = key_of(&shape);
    pthread_mutex_lock(&lock);
    keep_locked(hash_of(&key, shape.parameters), &key, shape.parameters, &call);
    pthread_mutex_unlock(&lock);
}

/* Of a function that is captured outside of calls as well, a launch may be one that no call has spoken of. */
const struct tsr_captured_call *tsr_captured_call_get(const struct tsr_captured_shape *shape)
{
    struct key key = key_of(shape);
    if (__atomic_load_n(&shape->function->captured_alone, __ATOMIC_RELAXED))
        return NULL;
    pthread_mutex_lock(&lock);
    struct entry *found = tsr_map_find(&entries, hash_of(&key, shape->parameters));
    if (found && !is_of(found, &key, shape->parameters))
        found = NULL;
    if (found)
        tsr_captured_call_share(&found->call);
    pthread_mutex_unlock(&lock);
    return found ? &found->call : NULL;
}
