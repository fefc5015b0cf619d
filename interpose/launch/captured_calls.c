/* See captured_calls.h. */
#include "launch/captured_calls.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/fork.h"
#include "base/hash.h"
#include "base/map.h"
#include "driver/real.h"
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
    uint64_t capture; /* of a node: the driver's number of the capture */
    size_t size;      /* of the entry with its content */
    struct tsr_access_range *ranges;
    uint8_t *parameters;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct tsr_map entries; /* lock; by hash */
static struct tsr_map nodes;   /* lock; by handle: the newest launch that became it */
static size_t kept_bytes;      /* lock; of both */
static bool entries_lost;      /* lock; some were dropped: those that are there do not say all that calls said */
static bool nodes_changed;     /* lock; a graph may have some launches of a call without the others */

static void forget_parent(void)
{
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    entries = nodes = (struct tsr_map){0};
    kept_bytes = 0;
    entries_lost = nodes_changed = false;
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

/* What calls have in common, their inputs and work areas, once. */
static void add_once(struct entry *to, const struct tsr_access_range *range)
{
    int32_t count = to->call.operands.count;
    for (int32_t i = 0; i < count; i++)
        if (memcmp(&to->ranges[i], range, sizeof *range) == 0)
            return;
    to->ranges[to->call.operands.count++] = *range;
}

/* Without what only one of the calls says: bytes that it overwrites count as read, too. */
static void add_unmarked(struct entry *to, const struct tsr_library_operands *from)
{
    for (int32_t i = 0; i < from->count; i++) {
        struct tsr_access_range range = from->ranges[i];
        bool read_too = range.overwritten || range.scratch;
        range.overwritten = range.scratch = 0;
        add_once(to, &range);
        range.kind = TSR_ACCESS_READ;
        if (read_too)
            add_once(to, &range);
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

static void drop_locked(struct tsr_map *map, uint64_t key)
{
    struct entry *entry = tsr_map_remove(map, key);
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

static void drop_all_locked(struct tsr_map *map)
{
    struct tsr_map_entries all = tsr_map_remove_if(map, is_any, NULL);
    for (size_t i = 0; i < all.count; i++) {
        struct entry *entry = all.data[i].value;
        kept_bytes -= entry->size;
        tsr_captured_call_put(&entry->call);
    }
    tsr_vec_fini(&all);
}

/* Without memory nothing is known of the launch. */
static void put_in_locked(struct tsr_map *map, uint64_t key, struct entry *entry)
{
    drop_locked(map, key);
    if (kept_bytes > MOST_BYTES)
        drop_all_locked(&nodes); /* of which all calls hold then */
    if (kept_bytes > MOST_BYTES) {
        drop_all_locked(&entries);
        entries_lost = true;
    }
    if (entry && tsr_map_set(map, key, entry))
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
        put_in_locked(&entries, hash, copy_of(key, parameters, call));
    else if (!is_of(known, key, parameters))
        put_in_locked(&entries, hash, copy_of(key, parameters, &unknown));
    else if (!is_same(&known->call.operands, call))
        put_in_locked(&entries, hash, both(known, call));
}

static struct tsr_captured_shape shape_of(const struct tsr_launch *launch)
{
    return (struct tsr_captured_shape){.function = launch->known,
                                       .grid = {launch->grid[0], launch->grid[1], launch->grid[2]},
                                       .block = {launch->block[0], launch->block[1], launch->block[2]},
                                       .shared_bytes = launch->shared_bytes,
                                       .bytes = launch->gathered->bytes,
                                       .parameters = launch->gathered->values};
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
    struct tsr_captured_shape shape = shape_of(launch);
    struct key key = key_of(&shape);
    pthread_mutex_lock(&lock);
    keep_locked(hash_of(&key, shape.parameters), &key, shape.parameters, &call);
    pthread_mutex_unlock(&lock);
}

/* ---- by their nodes ---- */

static uint64_t handle_of(CUgraphNode node)
{
    return (uint64_t)(uintptr_t)node;
}

/* What the stream's capture has just made: whatever is captured next comes after it alone. NULL: the driver does not say. */
static CUgraphNode newest_node(CUstream stream, uint64_t *capture)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    const CUgraphNode *last = NULL;
    cuuint64_t number = 0;
    size_t count = 0;
    CUresult result = tsr_real.cuStreamGetCaptureInfo_v2(stream, &status, &number, NULL, &last, &count);
    *capture = number;
    return result == CUDA_SUCCESS && status == CU_STREAM_CAPTURE_STATUS_ACTIVE && count == 1 ? last[0] : NULL;
}

/*
 * A node that this capture has made before is the newest to two threads that launched into the stream at the same time. It is one's or the other's:
 * of two launches that differ, the node says which.
 */
static void keep_node_locked(uint64_t handle, const struct tsr_captured_shape *shape, const struct tsr_library_operands *call,
                             uint64_t capture)
{
    struct key key = key_of(shape);
    const struct entry *known = tsr_map_find(&nodes, handle);
    bool again = known && known->capture == capture;
    if (again && !is_of(known, &key, shape->parameters))
        return;
    struct entry *made = again ? both(known, call) : copy_of(&key, shape->parameters, call);
    if (made)
        made->capture = capture;
    put_in_locked(&nodes, handle, made);
}

void tsr_captured_call_keep_node(const struct tsr_launch *launch)
{
    struct tsr_library_operands call = tsr_library_operands_now();
    uint64_t capture;
    CUgraphNode node = call.call && tsr_launch_gather(launch) ? newest_node(launch->stream, &capture) : NULL;
    if (!node)
        return;
    struct tsr_captured_shape shape = shape_of(launch);
    pthread_mutex_lock(&lock);
    keep_node_locked(handle_of(node), &shape, &call, capture);
    pthread_mutex_unlock(&lock);
}

void tsr_captured_nodes_forget(void)
{
    tsr_fork_listen(&forks);
    pthread_mutex_lock(&lock);
    drop_all_locked(&nodes);
    pthread_mutex_unlock(&lock);
}

void tsr_captured_nodes_change(void)
{
    tsr_captured_nodes_forget();
    pthread_mutex_lock(&lock);
    nodes_changed = true;
    pthread_mutex_unlock(&lock);
}

/* ---- looking them up ---- */

static struct entry *find_locked(const struct tsr_map *map, uint64_t at, const struct key *key, const void *parameters)
{
    struct entry *found = at ? tsr_map_find(map, at) : NULL;
    return found && is_of(found, key, parameters) ? found : NULL;
}

/*
 * Of a function of which there are nodes outside of calls as well, a launch may be one that no call has spoken of. Where graphs' nodes were changed, it may be there without the others of
 * its call, for all of which together a mark holds.
 */
static struct entry *find_alike_locked(const struct tsr_captured_shape *shape, const struct key *key)
{
    if (entries_lost || __atomic_load_n(&shape->function->captured_alone, __ATOMIC_RELAXED))
        return NULL;
    struct entry *found = find_locked(&entries, hash_of(key, shape->parameters), key, shape->parameters);
    if (found && nodes_changed)
        return both(found, &found->call.operands);
    if (found)
        tsr_captured_call_share(&found->call);
    return found;
}

const struct tsr_captured_call *tsr_captured_call_get(const struct tsr_captured_shape *shape)
{
    struct key key = key_of(shape);
    pthread_mutex_lock(&lock);
    struct entry *found = find_locked(&nodes, handle_of(shape->node), &key, shape->parameters);
    if (found)
        tsr_captured_call_share(&found->call);
    else
        found = find_alike_locked(shape, &key);
    pthread_mutex_unlock(&lock);
    return found ? &found->call : NULL;
}
