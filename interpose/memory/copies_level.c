/*
 * See copies.h. In a pool (owners.h): a GPU is filled before the next one is begun, so the last one may own little, and have little to do. Once the program has
 * stopped allocating, memory is divided anew, in the order in which it was allocated, in proportion to what the pool has of each GPU. What lies in one
 * piece stays in one piece, and what is small stays where it is. What another GPU alone holds of a piece, as whatever made it ran there, goes to the owner: bytes alone
 * decide where launches run, and would have them run with that copy for good.
 */
#include "memory/copies_parts.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/log.h"
#include "driver/real.h"
#include "memory/allocation.h"
#include "memory/backing.h"
#include "memory/home.h"
#include "memory/owners.h"
#include "memory/quiet.h"
#include "memory/spill.h"
#include "object/capture.h"
#include "object/session.h"
#include "order/gate.h"

#define SETTLED 256u           /* uses since memory was allocated last */
#define MOST_TIMES 8u         /* that memory is divided */
#define LEAST_PART 8u         /* of a GPU's share, 1/n: what is not worth moving */
#define QUIET_NS 100000000ull /* the program has just waited */

struct piece {
    struct tsr_copies *copies;
    uint32_t to; /* the GPU that is to own it */
};

/* Memory lock. */
static struct {
    uint64_t seen, since; /* changes of owners, and at which use they were seen */
    uint64_t done;        /* changes that there were when memory was divided last */
    uint32_t times;
} level;

static int by_number(const void *a, const void *b)
{
    const struct piece *one = a, *other = b;
    return one->copies->number < other->copies->number ? -1 : 1;
}

static bool may_move(const struct tsr_copies *copies)
{
    return !copies->fixed && copies->bytes > TSR_ARENA_PAGE && !tsr_copies_host_owns(copies);
}

/* GPUs other than the owner's whose copies alone hold some of its bytes. Of what is written again and again there may always be some. */
static uint32_t strays_of(struct tsr_copies *copies)
{
    uint32_t strays = 0;
    if (tsr_copies_uses - copies->written_at < SETTLED)
        return 0;
    for (uint32_t left = copies->replicas.own & ~(1u << copies->replicas.owner); left; left &= left - 1)
        strays |= tsr_copies_holds_exclusively(copies, (uint32_t)__builtin_ctz(left)) ? left & -left : 0;
    return strays;
}

/* What should move, and how many bytes that are. NULL: no memory, or none. */
static struct piece *divide(size_t *count, uint64_t *bytes)
{
    uint64_t all = 0, before = 0;
    struct piece *pieces = calloc(tsr_copies_all.count + 1, sizeof *pieces);
    *count = 0;
    *bytes = 0;
    for (size_t i = 0; pieces && i < tsr_copies_all.count; i++)
        if (may_move(tsr_copies_all.data[i])) {
            pieces[(*count)++].copies = tsr_copies_all.data[i];
            all += tsr_copies_all.data[i]->bytes;
        }
    if (pieces)
        qsort(pieces, *count, sizeof *pieces, by_number);
    for (size_t i = 0; i < *count; i++) {
        double middle = ((double)before + (double)pieces[i].copies->bytes / 2) / (double)all;
        while (pieces[i].to < tsr_session()->lane_count && tsr_owners_share(pieces[i].to) < middle)
            pieces[i].to++;
        before += pieces[i].copies->bytes;
        bool stays = pieces[i].to == pieces[i].copies->replicas.owner && !strays_of(pieces[i].copies);
        *bytes += stays ? 0 : pieces[i].copies->bytes;
    }
    if (*bytes < all / (tsr_session()->lane_count + 1) / LEAST_PART)
        *count = 0;
    return pieces;
}

/* The GPU has a copy of its own, or gets one. */
static bool give_own(const struct tsr_extent *extent, uint32_t gpu, struct tsr_replicas *replicas)
{
    if (replicas->own >> gpu & 1)
        return true;
    if (!gpu)
        return tsr_replicas_give_home(extent, replicas) == CUDA_SUCCESS;
    if (replicas->ready >> gpu & 1)
        tsr_replicas_take(extent, gpu, replicas);
    tsr_replicas_give(extent, gpu, true, replicas);
    return replicas->own >> gpu & 1;
}

static void keep(struct tsr_copies *copies, const struct tsr_replicas *replicas)
{
    pthread_mutex_lock(&tsr_copies_lock);
    copies->replicas = *replicas;
    copies->directory.base = replicas->owner;
    tsr_copies_change(tsr_copies_state(copies));
    pthread_mutex_unlock(&tsr_copies_lock);
}

/* Nothing runs and nobody is inside; a context of the home GPU is current. False: it stays, for want of room or by an error. */
static bool pass(struct tsr_copies *copies, uint32_t to)
{
    struct tsr_extent *extent = tsr_arena_find(copies->address);
    struct tsr_replicas replicas = copies->replicas;
    uint32_t from = replicas.owner;
    bool had = replicas.own >> to & 1, own = give_own(extent, to, &replicas);
    keep(copies, &replicas);
    if (own && !had)
        tsr_copies_count_bytes(copies, (uint16_t)(1u << to), true);
    if (!own || tsr_copies_bring(copies, to) != CUDA_SUCCESS)
        return false;
    tsr_copies_count_bytes(copies, (uint16_t)(1u << to), false);
    if (tsr_replicas_pass(extent, to, &replicas) != CUDA_SUCCESS) {
        tsr_copies_count_bytes(copies, (uint16_t)(1u << to), true);
        return false;
    }
    keep(copies, &replicas);
    extent->owner = (uint8_t)to;
    tsr_backing_passed(extent, tsr_session_gpu(tsr_session(), to));
    tsr_owners_pass(from, to, copies->bytes);
    tsr_copies_count(&tsr_session()->policy->passed, 1);
    tsr_copies_count(&tsr_session()->policy->passed_bytes, copies->bytes);
    return true;
}

/* Copies that held bytes alone are given up: they take room that pieces may need. */
static void bring_back(const struct piece *pieces, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct tsr_copies *copies = pieces[i].copies;
        uint32_t strays = pieces[i].to == copies->replicas.owner ? strays_of(copies) : 0; /* else passing it brings them */
        if (!strays || tsr_copies_bring(copies, copies->replicas.owner) != CUDA_SUCCESS)
            continue;
        for (; strays && !tsr_copies_are_small(copies); strays &= strays - 1)
            tsr_copies_give_up(copies, (uint32_t)__builtin_ctz(strays));
    }
}

/* A piece may have to wait until another has made room for it. */
static void pass_all(const struct piece *pieces, size_t count)
{
    for (bool passed = true; passed;) {
        passed = false;
        for (size_t i = count; i-- > 0;) {
            struct tsr_copies *copies = pieces[i].copies;
            bool fits = tsr_owners_free(pieces[i].to) >= copies->bytes;
            if (pieces[i].to != copies->replicas.owner && fits && pass(copies, pieces[i].to))
                passed = true;
        }
    }
}

/* False: there was no quiet moment. */
static bool level_locked(void)
{
    size_t count;
    uint64_t bytes;
    bool quiet = true;
    struct piece *pieces = divide(&count, &bytes);
    if (pieces && count) {
        quiet = tsr_gate_close(QUIET_NS);
        bool moves = quiet && !tsr_is_any_capture() && tsr_quiet_wait(QUIET_NS) == CUDA_SUCCESS;
        if (moves) {
            tsr_copies_settle();
            bring_back(pieces, count);
            pass_all(pieces, count);
            level.times++;
        }
        if (quiet)
            tsr_gate_open();
        quiet = moves;
        tsr_debug("pool: %llu bytes %s other GPUs", (unsigned long long)bytes, moves ? "went to" : "could not go to");
    }
    free(pieces);
    return quiet;
}

static bool is_due_locked(void)
{
    uint64_t changes = __atomic_load_n(&tsr_owners_changes, __ATOMIC_RELAXED);
    uint64_t uses = __atomic_load_n(&tsr_copies_uses, __ATOMIC_RELAXED);
    if (changes != level.seen) {
        level.seen = changes;
        level.since = uses;
    }
    return changes != level.done && uses - level.since >= SETTLED && level.times < MOST_TIMES;
}

void tsr_copies_level(void)
{
    if (!tsr_copies_matter() || tsr_is_any_capture() || !tsr_memory_at_home())
        return;
    tsr_spill_has_waited();
    CUstreamCaptureMode mode = tsr_memory_relax_begin();
    tsr_memory_lock();
    if (is_due_locked()) {
        if (level_locked())
            level.done = level.seen;
        else
            level.since = tsr_copies_uses;
    }
    tsr_memory_unlock();
    tsr_memory_relax_end(mode);
}
