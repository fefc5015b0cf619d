/*
 * See home_only.h. A sorted array of ranges that do not overlap. Look-ups read it without a lock: a version is odd while it changes, what was
 * read beside a change is thrown away, and arrays that became too small stay allocated.
 */
#include "memory/home_only.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "driver/engaged.h"
#include "memory/address_map.h"

#define FIRST_ROOM 64u
#define MOST_FLAGGED_BYTES (256ull << 30) /* a wider range is looked for at any address, for good */

struct range {
    uint64_t address, bytes, reason; /* atomic */
};

struct array {
    struct array *before; /* that became too small: a look-up may still read it */
    size_t room;
    struct range all[];
};

uint32_t tsr_home_only_count TSR_HOT; /* read by every launch, away from what launches write */

static pthread_mutex_t ranges_lock = PTHREAD_MUTEX_INITIALIZER; /* changing */
static uint64_t ranges_version;                                 /* atomic; odd while something changes */
static struct array *ranges;                                    /* atomic; lock to change */
static size_t range_count;                                      /* atomic; lock to change */
static uint64_t lowest TSR_HOT, highest TSR_HOT; /* atomic; lock to change; all ranges lie from one up to the other */
static bool unflagged TSR_HOT;                   /* atomic; lock to change; pages of a range may not have the flag */
static bool overflown TSR_HOT;                   /* atomic; lock to change; a range could not be noted */

static struct range get(const struct array *in, size_t at)
{
    return (struct range){.address = __atomic_load_n(&in->all[at].address, __ATOMIC_ACQUIRE),
                          .bytes = __atomic_load_n(&in->all[at].bytes, __ATOMIC_ACQUIRE),
                          .reason = __atomic_load_n(&in->all[at].reason, __ATOMIC_ACQUIRE)};
}

static void put(struct array *in, size_t at, struct range range)
{
    __atomic_store_n(&in->all[at].address, range.address, __ATOMIC_RELEASE);
    __atomic_store_n(&in->all[at].bytes, range.bytes, __ATOMIC_RELEASE);
    __atomic_store_n(&in->all[at].reason, range.reason, __ATOMIC_RELEASE);
}

/* Index of the first of `among` ranges that begins above the address. */
static size_t above(const struct array *in, size_t among, uint64_t address)
{
    size_t low = 0, high = among;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (__atomic_load_n(&in->all[middle].address, __ATOMIC_ACQUIRE) <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* ---- changing, with the lock ---- */

static void begin_change_locked(void)
{
    __atomic_store_n(&ranges_version, ranges_version + 1,
                     __ATOMIC_RELAXED); /* a reader that sees later stores sees this, too */
}

/*
 * Who looks beside a change may see the end of one state and the beginning of another. Of a range that was there all the time, both contain
 * it.
 */
static void set_ends_locked(void)
{
    struct range last = range_count ? get(ranges, range_count - 1) : (struct range){0};
    __atomic_store_n(&lowest, range_count ? get(ranges, 0).address : 0, __ATOMIC_RELEASE);
    __atomic_store_n(&highest, last.address + last.bytes, __ATOMIC_RELEASE);
}

static void end_change_locked(void)
{
    set_ends_locked();
    __atomic_store_n(&ranges_version, ranges_version + 1, __ATOMIC_RELEASE);
    __atomic_store_n(&tsr_home_only_count, (uint32_t)range_count + overflown, __ATOMIC_RELEASE);
}

/* Room for one more. */
static bool grow_locked(void)
{
    if (ranges && range_count < ranges->room)
        return true;
    size_t room = ranges ? 2 * ranges->room : FIRST_ROOM;
    struct array *larger = calloc(1, sizeof *larger + room * sizeof larger->all[0]);
    if (!larger)
        return false;
    larger->before = ranges;
    larger->room = room;
    for (size_t i = 0; i < range_count; i++)
        put(larger, i, get(ranges, i));
    __atomic_store_n(&ranges, larger, __ATOMIC_RELEASE);
    return true;
}

static void remove_locked(size_t begin, size_t end)
{
    for (size_t i = end; i < range_count; i++)
        put(ranges, begin + i - end, get(ranges, i));
    __atomic_store_n(&range_count, range_count - (end - begin), __ATOMIC_RELEASE);
}

/* Takes out what overlaps: the driver has given these addresses anew. */
static void clear_locked(uint64_t address, uint64_t bytes)
{
    size_t end = ranges ? above(ranges, range_count, address + (bytes ? bytes - 1 : 0)) : 0, begin = end;
    while (begin && get(ranges, begin - 1).address + get(ranges, begin - 1).bytes > address)
        begin--;
    if (begin != end)
        remove_locked(begin, end);
}

static void insert_locked(struct range range)
{
    if (!grow_locked()) {
        __atomic_store_n(&overflown, true, __ATOMIC_RELEASE);
        return;
    }
    if (range.bytes > MOST_FLAGGED_BYTES || !tsr_address_set_flag(range.address, range.bytes, TSR_ADDRESS_HOME_ONLY))
        __atomic_store_n(&unflagged, true, __ATOMIC_RELEASE);
    size_t at = above(ranges, range_count, range.address);
    for (size_t i = range_count; i > at; i--)
        put(ranges, i, get(ranges, i - 1));
    put(ranges, at, range);
    __atomic_store_n(&range_count, range_count + 1, __ATOMIC_RELEASE);
}

void tsr_home_only_add(uint64_t address, uint64_t bytes, enum tsr_reason reason)
{
    pthread_mutex_lock(&ranges_lock);
    begin_change_locked();
    clear_locked(address, bytes);
    insert_locked((struct range){address, bytes, (uint64_t)reason});
    end_change_locked();
    pthread_mutex_unlock(&ranges_lock);
}

/* Pages that a range was in, and that no other one is in any more. */
static void clear_flags_locked(struct range gone)
{
    uint64_t first = gone.address >> TSR_ADDRESS_PAGE_SHIFT,
             end = ((gone.address + gone.bytes - 1) >> TSR_ADDRESS_PAGE_SHIFT) + 1;
    size_t at = above(ranges, range_count, gone.address);
    if (at && (get(ranges, at - 1).address + get(ranges, at - 1).bytes - 1) >> TSR_ADDRESS_PAGE_SHIFT >= first)
        first++;
    if (at < range_count && end > first && get(ranges, at).address >> TSR_ADDRESS_PAGE_SHIFT < end)
        end--;
    if (gone.bytes && gone.bytes <= MOST_FLAGGED_BYTES && first < end)
        tsr_address_clear_flag(first << TSR_ADDRESS_PAGE_SHIFT, (end - first) << TSR_ADDRESS_PAGE_SHIFT, TSR_ADDRESS_HOME_ONLY);
}

struct tsr_home_only tsr_home_only_take(uint64_t address)
{
    struct tsr_home_only taken = {0};
    pthread_mutex_lock(&ranges_lock);
    size_t at = ranges ? above(ranges, range_count, address) : 0;
    struct range found = at ? get(ranges, at - 1) : (struct range){0};
    if (at && found.address == address) {
        begin_change_locked();
        taken = (struct tsr_home_only){found.address, found.bytes, (enum tsr_reason)found.reason};
        remove_locked(at - 1, at);
        clear_flags_locked(found);
        end_change_locked();
    }
    pthread_mutex_unlock(&ranges_lock);
    return taken;
}

void tsr_home_only_put_back(struct tsr_home_only taken, CUresult freed)
{
    if (taken.bytes && freed != CUDA_SUCCESS)
        tsr_home_only_add(taken.address, taken.bytes, taken.reason);
}

void tsr_home_only_forget(void)
{
    pthread_mutex_init(&ranges_lock, NULL);
    for (size_t i = 0; i < range_count && !unflagged; i++)
        tsr_address_clear_flag(get(ranges, i).address, get(ranges, i).bytes, TSR_ADDRESS_HOME_ONLY);
    range_count = 0;
    overflown = unflagged = false;
    ranges_version += ranges_version & 1;
    tsr_home_only_count = 0;
}

/* ---- looking ---- */

uint64_t tsr_home_only_changes(void)
{
    return __atomic_load_n(&ranges_version, __ATOMIC_ACQUIRE);
}

/* Of an address in a page that has such a range. */
static enum tsr_reason exact(uint64_t address)
{
    for (;;) {
        uint64_t before = __atomic_load_n(&ranges_version, __ATOMIC_ACQUIRE);
        const struct array *in = __atomic_load_n(&ranges, __ATOMIC_ACQUIRE);
        size_t among = __atomic_load_n(&range_count, __ATOMIC_ACQUIRE), room = in ? in->room : 0;
        size_t at = in ? above(in, among < room ? among : room, address) : 0;
        struct range range = at ? get(in, at - 1) : (struct range){0};
        if (!(before & 1) && __atomic_load_n(&ranges_version, __ATOMIC_RELAXED) == before)
            return address - range.address < range.bytes ? (enum tsr_reason)range.reason : TSR_REASON_NONE;
        __builtin_ia32_pause();
    }
}

enum tsr_reason tsr_home_only_reason(uint64_t address)
{
    if (__builtin_expect(__atomic_load_n(&overflown, __ATOMIC_ACQUIRE), 0))
        return TSR_REASON_MEMORY_NOT_SHARED;
    bool may_be = tsr_address_flags(address) & TSR_ADDRESS_HOME_ONLY || __atomic_load_n(&unflagged, __ATOMIC_ACQUIRE);
    return may_be ? exact(address) : TSR_REASON_NONE;
}

static uint64_t word_at(const void *parameters, size_t number)
{
    uint64_t word;
    memcpy(&word, (const char *)parameters + number * sizeof word, sizeof word);
    return word;
}

#define TOGETHER 8u

/* Nearly all words lie outside of where ranges are at all, and are looked at eight at a time. */
enum tsr_reason tsr_home_only_scan_slow(const void *parameters, size_t bytes)
{
    size_t words = bytes / sizeof(uint64_t), at = 0;
    if (__builtin_expect(__atomic_load_n(&overflown, __ATOMIC_ACQUIRE), 0))
        return words ? TSR_REASON_MEMORY_NOT_SHARED : TSR_REASON_NONE;
    uint64_t low = __atomic_load_n(&lowest, __ATOMIC_ACQUIRE), span = __atomic_load_n(&highest, __ATOMIC_ACQUIRE) - low;
    enum tsr_reason reason = TSR_REASON_NONE;
    while (at < words && reason == TSR_REASON_NONE) {
        size_t end = at + TOGETHER < words ? at + TOGETHER : words;
        bool any = false;
        for (size_t i = at; i < end; i++)
            any |= word_at(parameters, i) - low < span;
        for (; any && at < end && reason == TSR_REASON_NONE; at++)
            reason = tsr_home_only_reason(word_at(parameters, at));
        at = any ? at : end;
    }
    return reason;
}
