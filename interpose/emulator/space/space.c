/*
 * See space.h. The ranges are sorted, in leaves of a few hundred, under a lock, so that a change moves little however many there are; a
 * snapshot, one array, is made when somebody asks for one after a change, so a series of allocations without work in between copies
 * nothing. Snapshots in use are linked in a list with the sequence number of the state they
 * show; removing a range waits for those older than the removal.
 */
#include "space.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/os.h"
#include "base/vec.h"

#define LINE_BYTES 128
#define LEAF_RANGES 256
#define LINES_MAPPED_FROM (256u << 10) /* from this size on line arrays are fresh pages: no memory until touched */

struct record {
    struct tsr_snapshot snapshot; /* references: holders, and the space itself while it is current */
    uint64_t sequence;
    struct record *next, **link;
    const struct tsr_range *ranges[];
};

struct leaf {
    size_t count; /* at least 1 */
    struct tsr_range *ranges[LEAF_RANGES];
};

struct tsr_space {
    pthread_mutex_t lock;
    pthread_cond_t returned;       /* a snapshot was freed */
    TSR_VEC(struct leaf *) leaves; /* ranges sorted by base, in each leaf and from leaf to leaf */
    size_t count;                  /* of ranges */
    struct record *current;        /* NULL after a change */
    struct record *records;        /* all that have references */
    uint64_t sequence;             /* removals so far */
    uint32_t next_id;
};

static struct tsr_space instance = {.lock = PTHREAD_MUTEX_INITIALIZER, .returned = PTHREAD_COND_INITIALIZER, .next_id = 1};
static const struct tsr_snapshot nothing; /* when no memory is left for a snapshot */

struct tsr_space *tsr_space_instance(void)
{
    return &instance;
}

static void record_put_locked(struct tsr_space *space, struct record *record)
{
    if (--record->snapshot.references)
        return;
    *record->link = record->next;
    if (record->next)
        record->next->link = record->link;
    free(record);
    pthread_cond_broadcast(&space->returned);
}

static void changed_locked(struct tsr_space *space)
{
    struct record *current = space->current;
    space->current = NULL;
    if (current)
        record_put_locked(space, current);
}

static struct record *record_make_locked(struct tsr_space *space)
{
    size_t count = space->count, done = 0;
    struct record *record = malloc(sizeof *record + count * sizeof record->ranges[0]);
    if (!record)
        return NULL;
    for (size_t i = 0; i < space->leaves.count; i++) {
        const struct leaf *leaf = space->leaves.data[i];
        memcpy(record->ranges + done, leaf->ranges, leaf->count * sizeof leaf->ranges[0]);
        done += leaf->count;
    }
    record->snapshot = (struct tsr_snapshot){.count = (uint32_t)count, .references = 1, .ranges = record->ranges};
    record->sequence = space->sequence;
    record->next = space->records;
    record->link = &space->records;
    if (record->next)
        record->next->link = &record->next;
    space->records = record;
    return record;
}

const struct tsr_snapshot *tsr_space_get(struct tsr_space *space)
{
    pthread_mutex_lock(&space->lock);
    if (!space->current)
        space->current = record_make_locked(space);
    const struct tsr_snapshot *result = &nothing;
    if (space->current) {
        space->current->snapshot.references++;
        result = &space->current->snapshot;
    }
    pthread_mutex_unlock(&space->lock);
    return result;
}

void tsr_space_put(struct tsr_space *space, const struct tsr_snapshot *snapshot)
{
    if (snapshot == &nothing)
        return;
    pthread_mutex_lock(&space->lock);
    record_put_locked(space, (struct record *)snapshot);
    pthread_mutex_unlock(&space->lock);
}

/* Index of the first range whose base is above the address. */
static size_t above(const struct tsr_range *const *ranges, size_t count, uint64_t address)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (ranges[middle]->base <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* A place in the leaves: the first range whose base is above an address, in the leaf of the one before it. */
struct place {
    size_t leaf, index; /* index may be the leaf's count */
};

static struct place above_locked(const struct tsr_space *space, uint64_t address)
{
    size_t low = 0, high = space->leaves.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (space->leaves.data[middle]->ranges[0]->base <= address)
            low = middle + 1;
        else
            high = middle;
    }
    if (!low)
        return (struct place){0, 0};
    const struct leaf *leaf = space->leaves.data[low - 1];
    return (struct place){low - 1, above((const struct tsr_range *const *)leaf->ranges, leaf->count, address)};
}

/* NULL: there is none. */
static struct tsr_range *before_locked(const struct tsr_space *space, struct place place)
{
    return place.index ? space->leaves.data[place.leaf]->ranges[place.index - 1] : NULL;
}

static struct tsr_range *at_locked(const struct tsr_space *space, struct place place)
{
    if (place.leaf < space->leaves.count && place.index < space->leaves.data[place.leaf]->count)
        return space->leaves.data[place.leaf]->ranges[place.index];
    return place.leaf + 1 < space->leaves.count ? space->leaves.data[place.leaf + 1]->ranges[0] : NULL;
}

static struct leaf *leaf_insert_locked(struct tsr_space *space, size_t index)
{
    struct leaf *leaf = calloc(1, sizeof *leaf);
    if (!leaf || !tsr_vec_push(&space->leaves, leaf)) {
        free(leaf);
        return NULL;
    }
    struct leaf **data = space->leaves.data;
    memmove(data + index + 1, data + index, (space->leaves.count - 1 - index) * sizeof *data);
    return data[index] = leaf;
}

/* False: no memory. */
static bool insert_locked(struct tsr_space *space, struct tsr_range *range)
{
    struct place place = above_locked(space, range->base);
    if (!space->leaves.count && !leaf_insert_locked(space, 0))
        return false;
    struct leaf *leaf = space->leaves.data[place.leaf];
    if (leaf->count == LEAF_RANGES) {
        struct leaf *second = leaf_insert_locked(space, place.leaf + 1);
        if (!second)
            return false;
        second->count = LEAF_RANGES / 2;
        leaf->count -= second->count;
        memcpy(second->ranges, leaf->ranges + leaf->count, second->count * sizeof second->ranges[0]);
        if (place.index > leaf->count) {
            place.index -= leaf->count;
            leaf = second;
        }
    }
    struct tsr_range **at = leaf->ranges + place.index;
    memmove(at + 1, at, (leaf->count++ - place.index) * sizeof *at);
    *at = range;
    space->count++;
    return true;
}

/* Of the range before the place. */
static void remove_locked(struct tsr_space *space, struct place place)
{
    struct leaf *leaf = space->leaves.data[place.leaf];
    struct tsr_range **at = leaf->ranges + place.index;
    memmove(at - 1, at, (leaf->count - place.index) * sizeof *at);
    space->count--;
    if (--leaf->count)
        return;
    struct leaf **data = space->leaves.data + place.leaf;
    memmove(data, data + 1, (space->leaves.count - 1 - place.leaf) * sizeof *data);
    space->leaves.count--;
    free(leaf);
}

static bool holds(const struct tsr_range *range, uint64_t address)
{
    return address - range->base < range->bytes;
}

const struct tsr_range *tsr_snapshot_find(const struct tsr_snapshot *snapshot, uint64_t address)
{
    size_t index = above(snapshot->ranges, snapshot->count, address);
    return index && holds(snapshot->ranges[index - 1], address) ? snapshot->ranges[index - 1] : NULL;
}

static uint64_t line_bytes(const struct tsr_range *range)
{
    return range->bytes / LINE_BYTES + 2;
}

static uint8_t *lines_make(uint64_t bytes)
{
    return bytes < LINES_MAPPED_FROM ? calloc(1, bytes) : tsr_os_map(NULL, bytes, PROT_READ | PROT_WRITE, -1, 0);
}

static void lines_free(uint8_t *lines, uint64_t bytes)
{
    if (!lines)
        return;
    if (bytes < LINES_MAPPED_FROM)
        free(lines);
    else
        tsr_os_unmap(lines, bytes);
}

static void range_free(struct tsr_range *range)
{
    lines_free(range->read_lines, line_bytes(range));
    lines_free(range->write_lines, line_bytes(range));
    free(range);
}

static struct tsr_range *range_make(const struct tsr_range *from)
{
    struct tsr_range *range = malloc(sizeof *range);
    if (!range)
        return NULL;
    *range = *from;
    range->read_lines = lines_make(line_bytes(range));
    range->write_lines = lines_make(line_bytes(range));
    if (range->read_lines && range->write_lines)
        return range;
    range_free(range);
    return NULL;
}

static bool overlaps_locked(const struct tsr_space *space, uint64_t base, uint64_t bytes)
{
    struct place place = above_locked(space, base);
    const struct tsr_range *before = before_locked(space, place), *after = at_locked(space, place);
    return (before && holds(before, base)) || (after && after->base - base < bytes);
}

CUresult tsr_space_add(struct tsr_space *space, const struct tsr_range *from)
{
    struct tsr_range *range = range_make(from);
    if (!range)
        return CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_lock(&space->lock);
    CUresult result = CUDA_SUCCESS;
    if (!range->bytes || overlaps_locked(space, range->base, range->bytes))
        result = CUDA_ERROR_INVALID_VALUE;
    else if (!insert_locked(space, range))
        result = CUDA_ERROR_OUT_OF_MEMORY;
    if (result == CUDA_SUCCESS) {
        range->id = space->next_id++;
        changed_locked(space);
    }
    pthread_mutex_unlock(&space->lock);
    if (result != CUDA_SUCCESS)
        range_free(range);
    return result;
}

/* The range that begins at base, or NULL. */
static struct tsr_range *exact_locked(const struct tsr_space *space, uint64_t base)
{
    struct tsr_range *range = before_locked(space, above_locked(space, base));
    return range && range->base == base ? range : NULL;
}

static bool shown_before_locked(const struct tsr_space *space, uint64_t sequence)
{
    for (const struct record *record = space->records; record; record = record->next)
        if (record->sequence < sequence)
            return true;
    return false;
}

bool tsr_space_remove(struct tsr_space *space, uint64_t base)
{
    pthread_mutex_lock(&space->lock);
    struct tsr_range *range = exact_locked(space, base);
    if (!range) {
        pthread_mutex_unlock(&space->lock);
        return false;
    }
    remove_locked(space, above_locked(space, base));
    changed_locked(space);
    uint64_t sequence = ++space->sequence;
    while (shown_before_locked(space, sequence))
        pthread_cond_wait(&space->returned, &space->lock);
    pthread_mutex_unlock(&space->lock);
    range_free(range);
    return true;
}

bool tsr_space_access_set(struct tsr_space *space, uint64_t base, uint16_t readable, uint16_t writable)
{
    pthread_mutex_lock(&space->lock);
    struct tsr_range *range = exact_locked(space, base);
    if (range) {
        __atomic_store_n(&range->readable, readable, __ATOMIC_RELAXED);
        __atomic_store_n(&range->writable, writable, __ATOMIC_RELAXED);
    }
    pthread_mutex_unlock(&space->lock);
    return range != NULL;
}

bool tsr_space_requested_set(struct tsr_space *space, uint64_t base, uint64_t requested_bytes)
{
    pthread_mutex_lock(&space->lock);
    struct tsr_range *range = exact_locked(space, base);
    if (range)
        range->requested_bytes = requested_bytes;
    pthread_mutex_unlock(&space->lock);
    return range != NULL;
}

bool tsr_space_lookup(struct tsr_space *space, uint64_t address, struct tsr_range *out)
{
    pthread_mutex_lock(&space->lock);
    const struct tsr_range *range = before_locked(space, above_locked(space, address));
    bool found = range && holds(range, address);
    if (found)
        *out = *range;
    pthread_mutex_unlock(&space->lock);
    return found;
}

bool tsr_space_neighbours(struct tsr_space *space, uint64_t address, struct tsr_range *before, struct tsr_range *after)
{
    pthread_mutex_lock(&space->lock);
    struct place place = above_locked(space, address);
    const struct tsr_range *first = before_locked(space, place), *second = at_locked(space, place);
    *before = first ? *first : (struct tsr_range){0};
    *after = second ? *second : (struct tsr_range){0};
    bool found = space->count > 0;
    pthread_mutex_unlock(&space->lock);
    return found;
}

bool tsr_space_overlaps(struct tsr_space *space, uint64_t base, uint64_t bytes)
{
    pthread_mutex_lock(&space->lock);
    bool result = overlaps_locked(space, base, bytes);
    pthread_mutex_unlock(&space->lock);
    return result;
}

bool tsr_space_next(struct tsr_space *space, uint64_t from, struct tsr_range *out)
{
    pthread_mutex_lock(&space->lock);
    const struct tsr_range *range = at_locked(space, from ? above_locked(space, from - 1) : (struct place){0, 0});
    if (range)
        *out = *range;
    pthread_mutex_unlock(&space->lock);
    return range != NULL;
}
