/* See home_only.h. A sorted array of ranges that do not overlap; readers share the lock. */
#include "memory/home_only.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"

uint32_t tsr_home_only_count;

static pthread_rwlock_t ranges_lock = PTHREAD_RWLOCK_INITIALIZER;
static TSR_VEC(struct tsr_home_only) ranges; /* ranges_lock; by address */
static bool overflown;                       /* ranges_lock; a range could not be noted */

/* Index of the first range that begins above the address. */
static size_t above_locked(uint64_t address)
{
    size_t low = 0, high = ranges.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (ranges.data[middle].address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void publish_locked(void)
{
    __atomic_store_n(&tsr_home_only_count, (uint32_t)ranges.count + overflown, __ATOMIC_RELEASE);
}

/* Takes out what overlaps: the driver has given these addresses anew. */
static void clear_locked(uint64_t address, uint64_t bytes)
{
    size_t end = above_locked(address + (bytes ? bytes - 1 : 0)), begin = end;
    while (begin && ranges.data[begin - 1].address + ranges.data[begin - 1].bytes > address)
        begin--;
    if (begin == end)
        return;
    memmove(ranges.data + begin, ranges.data + end, (ranges.count - end) * sizeof ranges.data[0]);
    ranges.count -= end - begin;
}

void tsr_home_only_add(uint64_t address, uint64_t bytes, enum tsr_reason reason)
{
    struct tsr_home_only range = {address, bytes, reason};
    pthread_rwlock_wrlock(&ranges_lock);
    clear_locked(address, bytes);
    size_t at = above_locked(address);
    if (tsr_vec_push(&ranges, range)) {
        memmove(ranges.data + at + 1, ranges.data + at, (ranges.count - 1 - at) * sizeof range);
        ranges.data[at] = range;
    } else {
        overflown = true;
    }
    publish_locked();
    pthread_rwlock_unlock(&ranges_lock);
}

struct tsr_home_only tsr_home_only_take(uint64_t address)
{
    struct tsr_home_only taken = {0};
    pthread_rwlock_wrlock(&ranges_lock);
    size_t at = above_locked(address);
    if (at && ranges.data[at - 1].address == address) {
        taken = ranges.data[at - 1];
        memmove(ranges.data + at - 1, ranges.data + at, (ranges.count - at) * sizeof ranges.data[0]);
        ranges.count--;
    }
    publish_locked();
    pthread_rwlock_unlock(&ranges_lock);
    return taken;
}

void tsr_home_only_put_back(struct tsr_home_only taken, CUresult freed)
{
    if (taken.bytes && freed != CUDA_SUCCESS)
        tsr_home_only_add(taken.address, taken.bytes, taken.reason);
}

void tsr_home_only_forget(void)
{
    pthread_rwlock_init(&ranges_lock, NULL);
    ranges.count = 0;
    overflown = false;
    publish_locked();
}

static enum tsr_reason reason_locked(uint64_t address)
{
    if (overflown)
        return TSR_REASON_MEMORY_NOT_SHARED;
    size_t at = above_locked(address);
    bool inside = at && address - ranges.data[at - 1].address < ranges.data[at - 1].bytes;
    return inside ? ranges.data[at - 1].reason : TSR_REASON_NONE;
}

enum tsr_reason tsr_home_only_reason(uint64_t address)
{
    pthread_rwlock_rdlock(&ranges_lock);
    enum tsr_reason reason = reason_locked(address);
    pthread_rwlock_unlock(&ranges_lock);
    return reason;
}

enum tsr_reason tsr_home_only_scan_slow(const void *parameters, size_t bytes)
{
    enum tsr_reason reason = TSR_REASON_NONE;
    pthread_rwlock_rdlock(&ranges_lock);
    for (size_t offset = 0; offset + sizeof(uint64_t) <= bytes && reason == TSR_REASON_NONE; offset += sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, (const char *)parameters + offset, sizeof word);
        reason = reason_locked(word);
    }
    pthread_rwlock_unlock(&ranges_lock);
    return reason;
}
