/* See spill.h. */
#include "memory/spill.h"

#include <pthread.h>

#include "base/options.h"
#include "base/os.h"
#include "driver/real.h"
#include "memory/allocation.h"
#include "memory/fetchers.h"
#include "memory/home.h"
#include "memory/marks.h"
#include "memory/owners.h"
#include "memory/quiet.h"
#include "memory/recurrence.h"
#include "object/capture.h"
#include "object/session.h"
#include "order/gate.h"
#include "order/order.h"

#define WAIT_NS 2000000000ull /* for work that uses what is to go */
#define LOOK_NS 10000ull
#define KEPT_USES 2u   /* as much as so many of the present use: what was used last stays, since there is the work that a fetch runs beside */
#define MOST_AHEAD 2u  /* fetches that are under way ahead of launches: who needs something at once waits for no more */
#define TRIES 2u       /* the first may find that the GPU has less room than it should */
#define HOME 0u

static struct tsr_recurrence order; /* copies' lock */
static uint64_t times;              /* copies' lock; counts what is remembered in tsr_spilled.looked */
static uint32_t due;                /* atomic; it may be possible to fetch something ahead */
static __thread uint64_t began;     /* tsr_copies_uses when the present use began */
static __thread bool asks;          /* it still asks for copies */

static struct tsr_policy_host *told(void)
{
    return &tsr_session()->policy->host;
}

void tsr_spill_begins(void)
{
    pthread_mutex_lock(&tsr_copies_lock);
    began = tsr_copies_uses + 1;
    pthread_mutex_unlock(&tsr_copies_lock);
    asks = true;
}

void tsr_spill_asked(void)
{
    asks = false;
}

bool tsr_spill_is_since(uint64_t use)
{
    return asks && use >= began;
}

static bool is_at_home(const struct tsr_copies *copies)
{
    return copies->replicas.own >> HOME & 1;
}

/* The place among all extents; constant for its life. */
static uint32_t item_of(const struct tsr_copies *copies)
{
    return (uint32_t)tsr_copies_page(copies->address);
}

static struct tsr_copies *of_item_locked(uint32_t item)
{
    struct tsr_copies *copies = tsr_copies_at_locked(TSR_ARENA_ADDRESS + item * TSR_ARENA_PAGE);
    return copies && tsr_copies_host_owns(copies) ? copies : NULL;
}

void tsr_spill_used_locked(struct tsr_copies *copies, const struct tsr_spill_use *use)
{
    struct tsr_spilled *staged = &copies->spilled;
    staged->several |= staged->used && staged->queue != use->queue + 1;
    staged->used = tsr_copies_uses;
    staged->queue = use->queue + 1;
    staged->arriving &= !use->whole;
    bool other = use->counts && tsr_recurrence_note(&order, item_of(copies));
    if (other)
        __atomic_store_n(&due, 1, __ATOMIC_RELAXED);
    if (other || !use->counts)
        tsr_marks_want_locked(use->queue);
    if (!use->counts)
        return;
    tsr_copies_count(&told()->through_link, !is_at_home(copies));
    tsr_copies_count(&told()->prefetched_used, staged->ahead);
    staged->ahead = false;
}

void tsr_spill_used_away_locked(struct tsr_copies *copies)
{
    copies->spilled.several = true;
}

void tsr_spill_mark_locked(CUstream named, uint32_t queue)
{
    if (tsr_marks_are_wanted_locked(queue) && !tsr_is_any_capture() && !tsr_tickets.queues.data[queue]->loose)
        tsr_marks_set_locked(named, queue, tsr_copies_uses - 1);
}

/* No work uses it, as far as is known; waits: as in marks.h. */
static bool is_idle_locked(struct tsr_copies *copies, bool waits)
{
    struct tsr_spilled *staged = &copies->spilled;
    if (staged->used && !staged->several && tsr_marks_tell_complete_locked(staged->queue - 1, staged->used, waits))
        staged->used = 0;
    if (staged->arriving && tsr_fetcher_is_idle_locked(staged->fetcher, waits))
        staged->arriving = false;
    return !staged->used && !staged->several && !staged->arriving;
}

/* Sets a mark after what a queue has been given so far, not in a capture. */
static bool mark_now(uint32_t queue)
{
    struct tsr_order_hold hold;
    bool set = false, gated = tsr_gate_enter(); /* before captures are held up: a capture passes it, too */
    pthread_rwlock_rdlock(&tsr_tickets.ends);
    tsr_captures_hold();
    pthread_mutex_lock(&tsr_copies_lock);
    const struct tsr_ticket_queue *found = queue < tsr_tickets.queues.count ? tsr_tickets.queues.data[queue] : NULL;
    CUstream handle = found ? found->handle : NULL;
    bool can = found && !found->gone && !found->dead;
    pthread_mutex_unlock(&tsr_copies_lock);
    if (can && !tsr_is_any_capture() && tsr_order_enter_between(handle, false, &hold) == CUDA_SUCCESS) {
        pthread_mutex_lock(&tsr_copies_lock);
        set = !tsr_tickets.queues.data[queue]->loose && tsr_marks_set_locked(handle, queue, tsr_copies_uses);
        pthread_mutex_unlock(&tsr_copies_lock);
        tsr_order_leave(&hold);
    }
    tsr_captures_release();
    pthread_rwlock_unlock(&tsr_tickets.ends);
    tsr_gate_leave(gated);
    return set;
}

/* Marks do not tell. */
static void settle_all(void)
{
    if (!tsr_gate_close(WAIT_NS))
        return;
    if (!tsr_is_any_capture() && tsr_quiet_wait(WAIT_NS) == CUDA_SUCCESS)
        tsr_copies_settle();
    tsr_gate_open();
}

/* Waits until no work uses the extent. */
static bool await_idle(struct tsr_copies *copies)
{
    static const uint32_t never;
    uint64_t deadline = tsr_os_monotonic_ns() + WAIT_NS;
    bool tried = false;
    for (;;) {
        pthread_mutex_lock(&tsr_copies_lock);
        struct tsr_spilled staged = copies->spilled;
        bool idle = is_idle_locked(copies, true);
        bool marked = !staged.used || tsr_marks_are_set_locked(staged.queue - 1, staged.used);
        pthread_mutex_unlock(&tsr_copies_lock);
        if (idle || tsr_os_monotonic_ns() >= deadline)
            return idle;
        if (!staged.several && (marked || mark_now(staged.queue - 1))) {
            tsr_os_futex_wait(&never, 0, LOOK_NS, false);
        } else if (!tried) {
            tried = true;
            settle_all();
        } else {
            return false;
        }
    }
}

/* From here on nobody uses it, if nothing does now. */
static bool begin_move(struct tsr_copies *copies)
{
    pthread_mutex_lock(&tsr_copies_lock);
    bool idle = is_idle_locked(copies, false) && !copies->spilled.moving;
    copies->spilled.moving |= idle;
    if (idle)
        tsr_copies_change(tsr_copies_state(copies));
    pthread_mutex_unlock(&tsr_copies_lock);
    return idle;
}

static void end_move(struct tsr_copies *copies, const struct tsr_replicas *replicas)
{
    pthread_mutex_lock(&tsr_copies_lock);
    if (replicas)
        copies->replicas = *replicas;
    copies->spilled.moving = false;
    tsr_copies_change(tsr_copies_state(copies));
    pthread_mutex_unlock(&tsr_copies_lock);
}

static bool is_changed(const struct tsr_copies *copies)
{
    pthread_mutex_lock(&tsr_copies_lock);
    enum tsr_directory_keeps keeps = tsr_directory_keeps(&copies->directory, HOME);
    pthread_mutex_unlock(&tsr_copies_lock);
    return keeps == TSR_DIRECTORY_KEEPS_EXCLUSIVE;
}

/* Home's copy goes. False: it is in use again, or what it holds could not be written back. */
static bool evict(struct tsr_copies *copies)
{
    bool gone = false;
    if (!begin_move(copies))
        return false;
    bool changed = is_changed(copies);
    if (!changed || tsr_copies_bring(copies, copies->replicas.owner) == CUDA_SUCCESS) {
        tsr_copies_give_up(copies, HOME);
        gone = true;
        tsr_copies_count(&told()->evicted, 1);
        tsr_copies_count(&told()->evicted_bytes, copies->bytes);
        tsr_copies_count(&told()->written_back, changed);
        tsr_copies_count(&told()->written_back_bytes, changed ? copies->bytes : 0);
    }
    end_move(copies, NULL);
    return gone;
}

/* Finds out of each extent how soon it is used. */
static void look_forward_locked(void)
{
    uint64_t period = tsr_recurrence_period(&order);
    times++;
    for (uint64_t after = 0; after < period; after++) {
        struct tsr_copies *copies = of_item_locked(tsr_recurrence_next(&order, after));
        if (!copies || copies->spilled.looked == times)
            continue;
        copies->spilled.looked = times;
        copies->spilled.next = after;
    }
}

static uint64_t next_use_locked(const struct tsr_copies *copies)
{
    return copies->spilled.looked == times ? copies->spilled.next : UINT64_MAX;
}

/* Of what the host owns, bytes of the present use. */
static uint64_t needed_locked(void)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < tsr_copies_all.count; i++)
        if (tsr_copies_host_owns(tsr_copies_all.data[i]) && tsr_copies_all.data[i]->used_at[HOME] >= began)
            bytes += tsr_copies_all.data[i]->bytes;
    return bytes;
}

/* What was used last, in the order of launches, keeps its copies: marked as needed at once. */
static void keep_last_locked(void)
{
    uint64_t kept = 0, most = KEPT_USES * needed_locked();
    for (uint64_t ago = 0; ago < order.count && ago < TSR_RECURRENCE_ITEMS && kept < most; ago++) {
        struct tsr_copies *copies = of_item_locked(tsr_recurrence_last(&order, ago));
        if (!copies || !is_at_home(copies) || (copies->spilled.looked == times && !copies->spilled.next))
            continue;
        kept += copies->bytes;
        copies->spilled.looked = times;
        copies->spilled.next = 0;
    }
}

struct wanted {
    uint64_t before; /* uses: what has been used since stays */
    uint64_t after;  /* so much later than the present, at least, the next use has to be */
    bool idle;       /* only what nothing uses now */
};

/* The extent whose copy is used last from now on. */
static struct tsr_copies *choose_locked(const struct wanted *wanted)
{
    struct tsr_copies *best = NULL;
    for (size_t i = 0; i < tsr_copies_all.count; i++) {
        struct tsr_copies *copies = tsr_copies_all.data[i];
        if (!tsr_copies_host_owns(copies) || !is_at_home(copies) || copies->fixed || copies->spilled.moving ||
            copies->used_at[HOME] >= wanted->before || next_use_locked(copies) < wanted->after)
            continue;
        uint64_t next = next_use_locked(copies), most = best ? next_use_locked(best) : 0;
        bool later = !best || next > most || (next == most && copies->used_at[HOME] < best->used_at[HOME]);
        if (later && (!wanted->idle || is_idle_locked(copies, false)))
            best = copies;
    }
    return best;
}

static struct tsr_copies *choose(uint64_t before)
{
    struct wanted wanted = {.before = before, .after = 1};
    pthread_mutex_lock(&tsr_copies_lock);
    look_forward_locked();
    keep_last_locked();
    struct tsr_copies *found = choose_locked(&wanted);
    wanted.after = 0;
    if (!found)
        found = choose_locked(&wanted);
    pthread_mutex_unlock(&tsr_copies_lock);
    return found;
}

static bool has_room(uint64_t bytes)
{
    return tsr_copies_have_room(HOME, bytes);
}

static bool make_room(uint64_t bytes)
{
    while (!has_room(bytes)) {
        struct tsr_copies *last = choose(began ? began : UINT64_MAX);
        if (!last)
            return tsr_copies_make_room(HOME, bytes);
        if (!await_idle(last) || !evict(last))
            return false;
    }
    return true;
}

/* Nothing at home uses the extent: home gets a copy, and it is fetched. */
static bool fetch(struct tsr_extent *extent, bool ahead)
{
    struct tsr_copies *copies = extent->copies;
    struct tsr_replicas replicas = copies->replicas;
    if (!begin_move(copies))
        return false;
    CUresult result = tsr_replicas_give_home(extent, &replicas);
    end_move(copies, &replicas);
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        tsr_copies_found_full(HOME);
    if (result != CUDA_SUCCESS)
        return false;
    tsr_copies_count_bytes(copies, 1u << HOME, true);
    uint64_t bytes = tsr_fetcher_fetch(copies);
    pthread_mutex_lock(&tsr_copies_lock);
    copies->spilled.ahead = ahead;
    pthread_mutex_unlock(&tsr_copies_lock);
    tsr_copies_count(ahead ? &told()->prefetched : &told()->fetched, bytes != 0);
    tsr_copies_count(ahead ? &told()->prefetched_bytes : &told()->fetched_bytes, bytes);
    return true;
}

bool tsr_spill_take(struct tsr_extent *extent)
{
    if (tsr_is_any_capture() || !tsr_options()->fetch)
        return false;
    for (unsigned i = 0; i < TRIES && make_room(extent->bytes) && await_idle(extent->copies); i++)
        if (fetch(extent, false))
            return true;
    return false;
}

/* What comes next of what home has no copy of, and when. NULL: nothing that is known. */
static struct tsr_copies *next_missing_locked(uint64_t *when)
{
    uint64_t period = tsr_recurrence_is_sure(&order) ? tsr_recurrence_period(&order) : 0;
    for (uint64_t after = 0; after < period; after++) {
        struct tsr_copies *copies = of_item_locked(tsr_recurrence_next(&order, after));
        if (!copies || is_at_home(copies) || copies->fixed)
            continue;
        *when = after;
        return is_idle_locked(copies, false) ? copies : NULL;
    }
    return NULL;
}

/* False: there is nothing to be fetched now. */
static bool fetch_one_ahead(void)
{
    uint64_t when = 0;
    struct tsr_copies *last = NULL;
    pthread_mutex_lock(&tsr_copies_lock);
    struct tsr_copies *next = tsr_fetchers_at_work_locked() < MOST_AHEAD ? next_missing_locked(&when) : NULL;
    bool room = next && has_room(next->bytes);
    if (next && !room) {
        struct wanted wanted = {.before = UINT64_MAX, .after = when + 1, .idle = true};
        look_forward_locked();
        last = choose_locked(&wanted);
    }
    pthread_mutex_unlock(&tsr_copies_lock);
    if (!next || (!room && (!last || !evict(last))))
        return false;
    struct tsr_extent *extent = has_room(next->bytes) ? tsr_arena_find(next->address) : NULL;
    return extent && fetch(extent, true);
}

void tsr_spill_has_waited(void)
{
    if (!tsr_owners_have_host())
        return;
    __atomic_store_n(&due, 1, __ATOMIC_RELAXED);
    tsr_spill_look_ahead();
}

void tsr_spill_look_ahead(void)
{
    if (!__atomic_exchange_n(&due, 0, __ATOMIC_RELAXED) || tsr_options()->fetch < 2 || tsr_is_any_capture() ||
        !tsr_memory_at_home())
        return;
    CUstreamCaptureMode mode = tsr_memory_relax_begin();
    tsr_memory_lock();
    for (unsigned i = 0; i < MOST_AHEAD && fetch_one_ahead(); i++)
        __atomic_store_n(&due, 1, __ATOMIC_RELAXED);
    tsr_memory_unlock();
    tsr_memory_relax_end(mode);
}

void tsr_spill_context_gone(CUcontext context)
{
    pthread_mutex_lock(&tsr_copies_lock);
    tsr_marks_context_gone_locked(context);
    tsr_fetchers_context_gone_locked(context);
    pthread_mutex_unlock(&tsr_copies_lock);
}

void tsr_spill_forget(void)
{
    tsr_recurrence_start(&order);
    tsr_marks_forget();
    tsr_fetchers_forget();
    due = 0;
}
