/*
 * See space.h. The ranges are a sorted array under a lock; a snapshot of it is made when somebody asks for one after a change, so a series of
 * allocations without work in between copies nothing. Snapshots in use are linked in a list with the sequence number of the state they
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
#define LINES_MAPPED_FROM (256u << 10) /* from this size on line arrays are fresh pages: no memory until touched */

struct record {
    struct tsr_snapshot snapshot; /* references: holders, and the space itself while it is current */
    uint64_t sequence;
    struct record *next, **link;
    const struct tsr_range *ranges[];
};

struct tsr_space {
    pthread_mutex_t lock;
    pthread_cond_t returned;            /* a snapshot was freed */
    TSR_VEC(struct tsr_range *) ranges; /* sorted by base */
    struct record *current;             /* NULL after a change */
    struct record *records;             /* all that have references */
    uint64_t sequence;                  /* removals so far */
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
    size_t count = space->ranges.count;
    struct record *record = malloc(sizeof *record + count * sizeof record->ranges[0]);
    if (!record)
        return NULL;
    if (count)
        memcpy(record->ranges, space->ranges.data, count * sizeof record->ranges[0]);
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

static size_t above_locked(const struct tsr_space *space, uint64_t address)
{
    return above((const struct tsr_range *const *)space->ranges.data, space->ranges.count, address);
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
    size_t index = above_locked(space, base);
    if (index && holds(space->ranges.data[index - 1], base))
        return true;
    return index < space->ranges.count && space->ranges.data[index]->base - base < bytes;
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
    else if (!tsr_vec_push(&space->ranges, range))
        result = CUDA_ERROR_OUT_OF_MEMORY;
    if (result == CUDA_SUCCESS) {
        struct tsr_range **data = space->ranges.data;
        size_t last = space->ranges.count - 1;
        size_t index = above((const struct tsr_range *const *)data, last, range->base);
        memmove(data + index + 1, data + index, (last - index) * sizeof *data);
        data[index] = range;
        range->id = space->next_id++;
        changed_locked(space);
    }
    pthread_mutex_unlock(&space->lock);
    if (result != CUDA_SUCCESS)
        range_free(range);
    return result;
}

/* Index of the range that begins at base; the count when there is none. */
static size_t exact_locked(const struct tsr_space *space, uint64_t base)
{
    size_t index = above_locked(space, base);
    return index && space->ranges.data[index - 1]->base == base ? index - 1 : space->ranges.count;
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
    size_t index = exact_locked(space, base);
    if (index == space->ranges.count) {
        pthread_mutex_unlock(&space->lock);
        return false;
    }
    struct tsr_range **data = space->ranges.data, *range = data[index];
    memmove(data + index, data + index + 1, (space->ranges.count - index - 1) * sizeof *data);
    space->ranges.count--;
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
    size_t index = exact_locked(space, base);
    bool found = index < space->ranges.count;
    if (found) {
        __atomic_store_n(&space->ranges.data[index]->readable, readable, __ATOMIC_RELAXED);
        __atomic_store_n(&space->ranges.data[index]->writable, writable, __ATOMIC_RELAXED);
    }
    pthread_mutex_unlock(&space->lock);
    return found;
}

bool tsr_space_requested_set(struct tsr_space *space, uint64_t base, uint64_t requested_bytes)
{
    pthread_mutex_lock(&space->lock);
    size_t index = exact_locked(space, base);
    bool found = index < space->ranges.count;
    if (found)
        space->ranges.data[index]->requested_bytes = requested_bytes;
    pthread_mutex_unlock(&space->lock);
    return found;
}

bool tsr_space_lookup(struct tsr_space *space, uint64_t address, struct tsr_range *out)
{
    pthread_mutex_lock(&space->lock);
    size_t index = above_locked(space, address);
    bool found = index && holds(space->ranges.data[index - 1], address);
    if (found)
        *out = *space->ranges.data[index - 1];
    pthread_mutex_unlock(&space->lock);
    return found;
}

bool tsr_space_neighbours(struct tsr_space *space, uint64_t address, struct tsr_range *before, struct tsr_range *after)
{
    pthread_mutex_lock(&space->lock);
    size_t index = above_locked(space, address);
    *before = *after = (struct tsr_range){0};
    if (index)
        *before = *space->ranges.data[index - 1];
    if (index < space->ranges.count)
        *after = *space->ranges.data[index];
    bool found = space->ranges.count > 0;
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
    size_t index = from ? above_locked(space, from - 1) : 0;
    bool found = index < space->ranges.count;
    if (found)
        *out = *space->ranges.data[index];
    pthread_mutex_unlock(&space->lock);
    return found;
}
