/* See migrate.h. */
#include "memory/migrate.h"

#include "base/log.h"
#include "base/os.h"
#include "base/vec.h"
#include "order/gate.h"
#include "memory/quiet.h"
#include "object/session.h"
#include "memory/allocation.h"
#include "memory/arena.h"
#include "memory/backing.h"
#include "memory/copies.h"
#include "memory/home.h"
#include "object/capture.h"

#define PAUSE_NS 1000000ull /* for which other threads may have to wait for an attempt that fails */
#define FIX_NS 20000000ull   /* when there will be no further attempt */
#define LEAST_DUE 32u
#define MOST_DUE (1u << 20)
#define PAGES_PER_LAUNCH 16u /* examined */

uint32_t tsr_migrate_due = LEAST_DUE;

struct move {
    struct tsr_extent *extent;
    uint32_t gpu;
};

struct moves {
    TSR_VEC(struct move) list; /* moves left out for want of memory come the next time */
    uint64_t pages;            /* examined */
};

static void judge(struct tsr_extent *extent, void *argument)
{
    struct moves *moves = argument;
    struct tsr_heat uses = tsr_heat_of(extent->address, extent->bytes);
    uint32_t wanted = tsr_residency_wanted(tsr_arena_plan(), &extent->residency, extent->bytes, &uses);
    moves->pages += extent->bytes / TSR_ARENA_PAGE;
    if (extent->shared && wanted != extent->residency.gpu)
        (void)tsr_vec_push(&moves->list, (struct move){extent, wanted});
    for (unsigned i = 0; i < 32 && tsr_residency_is_stale(tsr_arena_plan(), &extent->residency, &uses); i++) {
        tsr_heat_halve(extent->address, extent->bytes);
        uses = tsr_heat_of(extent->address, extent->bytes);
    }
}

static CUresult move_locked(struct tsr_extent *extent, uint32_t gpu)
{
    struct tsr_policy *policy = tsr_session()->policy;
    CUresult result = tsr_backing_move(extent, gpu);
    if (result != CUDA_SUCCESS) {
        extent->residency.moves +=
            extent->residency.moves < TSR_RESIDENCY_MOST_MOVES; /* a failed move is not tried again at once, nor for ever */
        return result;
    }
    tsr_heat_clear(extent->address, extent->bytes);
    __atomic_fetch_add(&policy->moved, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&policy->moved_bytes, extent->bytes, __ATOMIC_RELAXED);
    return CUDA_SUCCESS;
}

/* False: there was no quiet moment within the time. */
static bool move_all_locked(const struct moves *moves, uint64_t timeout_ns)
{
    bool quiet = false;
    uint64_t start_ns = tsr_os_monotonic_ns();
    if (!tsr_gate_close(timeout_ns))
        return false;
    uint64_t gone_ns = tsr_os_monotonic_ns() - start_ns;
    if (!tsr_is_any_capture() && gone_ns < timeout_ns && tsr_quiet_wait(timeout_ns - gone_ns) == CUDA_SUCCESS) {
        quiet = true;
        for (size_t i = 0; i < moves->list.count; i++)
            (void)move_locked(moves->list.data[i].extent, moves->list.data[i].gpu);
    }
    tsr_gate_open();
    return quiet;
}

/* After an attempt without a quiet moment, twice as many launches until the next one. */
static void set_due(const struct moves *moves, bool quiet)
{
    uint64_t due = tsr_arena_plan()->move_uses ? LEAST_DUE + moves->pages / PAGES_PER_LAUNCH : 1;
    if (!quiet)
        due = 2ull * __atomic_load_n(&tsr_migrate_due, __ATOMIC_RELAXED);
    __atomic_store_n(&tsr_migrate_due, due < MOST_DUE ? (uint32_t)due : MOST_DUE, __ATOMIC_RELAXED);
}

void tsr_migrate_now(void)
{
    struct moves moves = {0};
    if (tsr_is_any_capture() || !tsr_memory_at_home())
        return;
    CUstreamCaptureMode mode = tsr_memory_relax_begin();
    tsr_memory_lock();
    if (tsr_heat_pages && __atomic_exchange_n(&tsr_heat_counter.launches, 0, __ATOMIC_RELAXED)) {
        tsr_arena_each(judge, &moves);
        set_due(&moves, moves.list.count == 0 || move_all_locked(&moves, PAUSE_NS));
    }
    tsr_memory_unlock();
    tsr_memory_relax_end(mode);
    tsr_vec_fini(&moves.list);
}

bool tsr_migrate_can_fix(const struct tsr_extent *extent)
{
    return !extent->next;
}

CUresult tsr_migrate_fix_locked(struct tsr_extent *extent)
{
    struct moves moves = {0};
    uint32_t home = tsr_session()->policy->home;
    if (!tsr_migrate_can_fix(extent))
        return CUDA_ERROR_NOT_SUPPORTED;
    CUresult result = extent->copies ? tsr_copies_fix(extent) : CUDA_SUCCESS;
    if (!extent->residency.fixed && !tsr_owners_are_on() && extent->residency.gpu != home && extent->shared &&
        tsr_vec_push(&moves.list, (struct move){extent, home}) && !move_all_locked(&moves, FIX_NS))
        tsr_info("memory of GPU %u is given to others as it is: there was no quiet moment to bring it home",
                 extent->residency.gpu);
    extent->residency.fixed = true;
    tsr_vec_fini(&moves.list);
    return result;
}
