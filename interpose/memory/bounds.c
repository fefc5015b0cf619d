/* See bounds.h. */
#include "memory/bounds.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <tessera/bounds.h>

#include "base/log.h"
#include "base/options.h"
#include "base/os.h"
#include "driver/real.h"
#include "lane/executors.h"

_Static_assert(sizeof(uint64_t) == sizeof(CUdeviceptr), "the table's addresses");

enum mode { NOT_STARTED, NONE, GUARDS, EXACT };

static enum mode mode;           /* memory lock */
static struct tsr_bounds *table; /* atomic; NULL unless EXACT */
static const struct tsr_bounds_export *driver;

struct tsr_bounds_leaving {
    struct tsr_bounds_leaving *next, **from; /* leaving_lock; from: NULL once it is not to go any more */
    struct tsr_bounds_allocation of;
};

static pthread_mutex_t leaving_lock = PTHREAD_MUTEX_INITIALIZER; /* the last one that is taken */
static struct tsr_bounds_leaving *leaving_first;                 /* leaving_lock */

static const struct tsr_bounds_export *ask_driver(void)
{
    static const CUuuid id = TSR_BOUNDS_EXPORT;
    const void *found = NULL;
    CUresult result = tsr_real.cuGetExportTable(&found, &id);
    const struct tsr_bounds_export *export = found;
    return result == CUDA_SUCCESS && export && export->size == sizeof *export ? export : NULL;
}

/* Every process that runs kernels reads one table. */
static bool share_table(void)
{
    struct tsr_message message = {.kind = TSR_MESSAGE_BOUNDS, .bytes = sizeof *table};
    struct tsr_message undo = {.kind = TSR_MESSAGE_BOUNDS};
    int file = tsr_os_memfd("tessera-bounds", sizeof *table);
    struct tsr_bounds *made = file >= 0 ? tsr_os_map(NULL, sizeof *made, PROT_READ | PROT_WRITE, file, 0) : NULL;
    if (made)
        made->version = TSR_BOUNDS_VERSION;
    bool shared = made && tsr_executors_ask(&message, file, &undo) == CUDA_SUCCESS;
    if (file >= 0)
        close(file);
    if (!shared) {
        if (made)
            tsr_os_unmap(made, sizeof *made);
        return false;
    }
    madvise(made, sizeof *made, MADV_DONTDUMP);
    __atomic_store_n(&table, made, __ATOMIC_RELEASE);
    return true;
}

void tsr_bounds_start(void)
{
    if (mode != NOT_STARTED)
        return;
    mode = NONE;
    if (!tsr_options()->bounds)
        return;
    driver = ask_driver();
    mode = !driver ? GUARDS : share_table() ? EXACT : NONE;
    if (mode == EXACT)
        driver->use(table);
    else if (mode == NONE)
        tsr_warn("accesses beyond allocations cannot be checked: the executors do not share the table of allocations");
}

uint64_t tsr_bounds_gap_bytes(void)
{
    return mode == EXACT ? TSR_BOUNDS_UNIT : 0;
}

uint64_t tsr_bounds_guard_bytes(void)
{
    return mode == EXACT || mode == GUARDS ? TSR_BOUNDS_PAGE : 0;
}

bool tsr_bounds_are_guards(void)
{
    return mode == GUARDS;
}

bool tsr_bounds_are_exact(void)
{
    return mode == EXACT;
}

static uint64_t unit_of(CUdeviceptr address)
{
    return (address - TSR_ARENA_ADDRESS) / TSR_BOUNDS_UNIT;
}

/* The pages after the first that the allocation has bytes in. */
static void name_in_pages(const struct tsr_bounds_allocation *allocation, uint64_t begin)
{
    uint64_t page = (allocation->address - TSR_ARENA_ADDRESS) / TSR_BOUNDS_PAGE;
    uint64_t last = (allocation->address + allocation->granted - 1 - TSR_ARENA_ADDRESS) / TSR_BOUNDS_PAGE;
    while (++page <= last)
        __atomic_store_n(&table->before[page], begin, __ATOMIC_RELEASE);
}

void tsr_bounds_add(CUdeviceptr address, uint64_t bytes)
{
    if (mode != EXACT)
        return;
    uint64_t unit = unit_of(address);
    __atomic_store_n(&table->bytes[unit], bytes, __ATOMIC_RELAXED);
    struct tsr_bounds_allocation allocation = tsr_bounds_at(table, address);
    name_in_pages(&allocation, address);
    __atomic_fetch_or(&table->starts[unit / 64], 1ull << unit % 64, __ATOMIC_RELEASE);
}

void tsr_bounds_remove(CUdeviceptr address)
{
    if (!__atomic_load_n(&table, __ATOMIC_ACQUIRE) || address - TSR_ARENA_ADDRESS >= TSR_ARENA_BYTES)
        return;
    uint64_t unit = unit_of(address), bit = 1ull << unit % 64;
    if (!(__atomic_fetch_and(&table->starts[unit / 64], ~bit, __ATOMIC_ACQ_REL) & bit))
        return;
    struct tsr_bounds_allocation allocation = tsr_bounds_at(table, address);
    name_in_pages(&allocation, 0);
}

static bool has_starts(uint64_t page)
{
    const uint64_t *starts = table->starts + page * TSR_BOUNDS_PAGE_WORDS;
    for (uint64_t word = 0; word < TSR_BOUNDS_PAGE_WORDS; word++)
        if (__atomic_load_n(&starts[word], __ATOMIC_ACQUIRE))
            return true;
    return false;
}

/* Some of it may still have bounds, if the stream that freed it has not come to that. */
void tsr_bounds_unmapped(CUdeviceptr address, uint64_t bytes)
{
    if (mode != EXACT)
        return;
    uint64_t first = (address - TSR_ARENA_ADDRESS) / TSR_BOUNDS_PAGE, page = first, end = first + bytes / TSR_BOUNDS_PAGE;
    while (page < end && !has_starts(page))
        page++;
    if (page == end)
        madvise(&table->bytes[first * TSR_BOUNDS_PAGE / TSR_BOUNDS_UNIT], bytes / TSR_BOUNDS_UNIT * sizeof *table->bytes,
                MADV_REMOVE);
}

static void unlink_locked(struct tsr_bounds_leaving *leaving)
{
    *leaving->from = leaving->next;
    if (leaving->next)
        leaving->next->from = leaving->from;
    leaving->from = NULL;
}

struct tsr_bounds_leaving *tsr_bounds_leave_later(CUdeviceptr address)
{
    struct tsr_bounds_leaving *leaving = calloc(1, sizeof *leaving);
    if (!leaving)
        return NULL;
    leaving->of = tsr_bounds_at(table, address);
    pthread_mutex_lock(&leaving_lock);
    leaving->next = leaving_first;
    leaving->from = &leaving_first;
    if (leaving->next)
        leaving->next->from = &leaving->next;
    leaving_first = leaving;
    pthread_mutex_unlock(&leaving_lock);
    return leaving;
}

void tsr_bounds_leave(struct tsr_bounds_leaving *leaving)
{
    pthread_mutex_lock(&leaving_lock);
    if (leaving->from) {
        unlink_locked(leaving);
        tsr_bounds_remove(leaving->of.address);
    }
    pthread_mutex_unlock(&leaving_lock);
    free(leaving);
}

bool tsr_bounds_reuse(CUdeviceptr address, uint64_t bytes)
{
    if (mode != EXACT)
        return true;
    uint64_t granted = (bytes + TSR_BOUNDS_UNIT - 1) / TSR_BOUNDS_UNIT * TSR_BOUNDS_UNIT;
    struct tsr_bounds_leaving *same = NULL;
    bool other = false;
    pthread_mutex_lock(&leaving_lock);
    for (struct tsr_bounds_leaving *at = leaving_first; at && !other; at = at->next) {
        bool is_same = at->of.address == address && at->of.granted == granted;
        other = !is_same && at->of.address < address + granted && address < at->of.address + at->of.granted;
        same = is_same ? at : same;
    }
    if (!other && same)
        unlink_locked(same);
    pthread_mutex_unlock(&leaving_lock);
    return !other;
}

bool tsr_bounds_allow(CUdeviceptr address, uint64_t bytes)
{
    const struct tsr_bounds *used = __atomic_load_n(&table, __ATOMIC_ACQUIRE);
    return !used || address - TSR_ARENA_ADDRESS >= TSR_ARENA_BYTES || tsr_bounds_hold(used, address, bytes);
}

void tsr_bounds_lift(void)
{
    struct tsr_bounds *used = __atomic_load_n(&table, __ATOMIC_ACQUIRE);
    if (used)
        __atomic_add_fetch(&used->lifted, 1, __ATOMIC_SEQ_CST);
}

void tsr_bounds_restore(void)
{
    struct tsr_bounds *used = __atomic_load_n(&table, __ATOMIC_ACQUIRE);
    if (used)
        __atomic_sub_fetch(&used->lifted, 1, __ATOMIC_SEQ_CST);
}

void tsr_bounds_forget(void)
{
    struct tsr_bounds *used = __atomic_exchange_n(&table, NULL, __ATOMIC_ACQ_REL);
    if (used) {
        driver->use(NULL);
        tsr_os_unmap(used, sizeof *used);
    }
    mode = NOT_STARTED;
    pthread_mutex_init(&leaving_lock, NULL);
    while (leaving_first)
        unlink_locked(leaving_first); /* who has it gives it back */
}
