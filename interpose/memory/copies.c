/* See copies.h. The table of extents that have copies. */
#include "memory/copies.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/log.h"
#include "base/os.h"
#include "base/vec.h"
#include "driver/gpus.h"
#include "driver/real.h"
#include "lane/lane_client.h"
#include "memory/allocation.h"
#include "memory/arena.h"
#include "memory/backing.h"
#include "memory/copies_parts.h"
#include "memory/home.h"
#include "memory/marks.h"
#include "memory/owners.h"
#include "memory/staging.h"
#include "object/capture.h"
#include "object/session.h"
#include "order/order.h"

#define PAGES (TSR_ARENA_BYTES / TSR_ARENA_PAGE)

uint32_t tsr_copies_away;
pthread_mutex_t tsr_copies_lock = PTHREAD_MUTEX_INITIALIZER;
struct tsr_copies_all tsr_copies_all;
CUresult tsr_copies_failed;

uint64_t *tsr_copies_states, tsr_copies_generation;
uint64_t tsr_copies_held[TSR_DIRECTORY_COPIES];

static struct tsr_copies **pages; /* lock; by page of the arena; NULL: none yet */

bool tsr_copies_are_on(void)
{
    const struct tsr_session *session = tsr_session();
    return session && (session->lane_count || session->policy->memory_host_bytes) &&
           session->policy->memory_place == TSR_POLICY_COPIES;
}

static bool is_wanted(uint32_t gpu, uint32_t peers)
{
    if (gpu == TSR_GPU_HOST)
        return !peers && tsr_replicas_open();
    bool there = gpu == tsr_session()->policy->home || tsr_owners_are_on();
    bool wanted = tsr_copies_are_on() && there && !peers && tsr_replicas_open();
    if (wanted)
        tsr_staging_open();
    return wanted;
}

static uint32_t rank_of(uint32_t gpu)
{
    if (gpu == TSR_GPU_HOST)
        return tsr_session_host(tsr_session());
    return tsr_lane_rank(tsr_session_lane((int32_t)gpu));
}

void tsr_copies_count_bytes(const struct tsr_copies *copies, uint16_t own, bool more)
{
    struct tsr_session *session = tsr_session();
    for (uint32_t rank = 0; rank <= session->lane_count; rank++) {
        if (!(own >> rank & 1) || rank == copies->replicas.owner)
            continue;
        tsr_copies_count(&session->policy->copies_bytes[tsr_session_gpu(session, rank) % TSR_GPUS],
                         more ? copies->bytes : -copies->bytes);
        tsr_copies_count(&tsr_copies_held[rank], more ? copies->bytes : -copies->bytes);
    }
}

void tsr_copies_tell_directory_locked(struct tsr_copies *copies, bool gone)
{
    struct tsr_policy *policy = tsr_session()->policy;
    uint64_t cells = gone ? 0 : copies->directory.cells.count, bytes = gone ? 0 : tsr_directory_memory(&copies->directory);
    if (cells != copies->reported_cells)
        tsr_copies_count(&policy->directory_cells, cells - copies->reported_cells);
    if (bytes != copies->reported_bytes)
        tsr_copies_count(&policy->directory_bytes, bytes - copies->reported_bytes);
    copies->reported_cells = cells;
    copies->reported_bytes = bytes;
}

/* New memory has no value yet, so all copies hold it. */
static bool start_directory(struct tsr_copies *copies)
{
    uint8_t owner = copies->replicas.owner, home = copies->replicas.used_by[0];
    if (tsr_copies_host_owns(copies))
        return tsr_directory_start_at(&copies->directory, copies->bytes,
                                      (uint16_t)(1u << owner | ((2u << tsr_session()->lane_count) - 1)), owner, owner);
    if (tsr_copies_away)
        return tsr_directory_start_at(&copies->directory, copies->bytes, (uint16_t)((2u << tsr_session()->lane_count) - 1),
                                      owner, owner);
    return tsr_directory_start_at(&copies->directory, copies->bytes, (uint16_t)(1u << home), home, owner);
}

static bool note_locked(struct tsr_copies *copies)
{
    if (!pages)
        pages = tsr_os_map(NULL, PAGES * sizeof pages[0], PROT_READ | PROT_WRITE, -1, 0);
    if (!tsr_copies_states)
        tsr_copies_states = tsr_os_map(NULL, PAGES * sizeof tsr_copies_states[0], PROT_READ | PROT_WRITE, -1, 0);
    static uint64_t made; /* lock */
    copies->number = made++;
    copies->place = tsr_copies_all.count;
    if (!pages || !tsr_copies_states || !tsr_vec_push(&tsr_copies_all, copies))
        return false;
    for (uint64_t at = 0; at < copies->bytes; at += TSR_ARENA_PAGE)
        pages[tsr_copies_page(copies->address + at)] = copies;
    tsr_copies_change(&tsr_copies_generation);
    tsr_copies_tell_directory_locked(copies, false);
    return true;
}

static CUresult begin(struct tsr_extent *extent, uint32_t gpu, uint32_t peers)
{
    if (!is_wanted(gpu, peers))
        return CUDA_ERROR_NOT_SUPPORTED;
    struct tsr_copies *copies = calloc(1, sizeof *copies);
    uint32_t owner = rank_of(gpu);
    CUresult result = copies ? tsr_replicas_make(extent, owner, &copies->replicas) : CUDA_ERROR_OUT_OF_MEMORY;
    if (result != CUDA_SUCCESS) {
        free(copies);
        return result;
    }
    copies->address = extent->address;
    copies->bytes = extent->bytes;
    tsr_copies_begin_own(extent, copies);
    pthread_mutex_lock(&tsr_copies_lock);
    bool noted = start_directory(copies) && note_locked(copies);
    pthread_mutex_unlock(&tsr_copies_lock);
    if (!noted) {
        tsr_copies_count_bytes(copies, copies->replicas.own, false);
        tsr_directory_fini(&copies->directory);
        tsr_replicas_drop(extent, &copies->replicas);
        free(copies);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    extent->copies = copies;
    tsr_arena_mark(extent->address, extent->bytes, true);
    if (tsr_copies_host_owns(copies))
        tsr_copies_begin_locked();
    return CUDA_SUCCESS;
}

static void drop(struct tsr_extent *extent)
{
    struct tsr_copies *copies = extent->copies;
    tsr_arena_mark(extent->address, extent->bytes, false);
    pthread_mutex_lock(&tsr_copies_lock);
    for (uint64_t at = 0; at < copies->bytes; at += TSR_ARENA_PAGE)
        pages[tsr_copies_page(copies->address + at)] = NULL;
    tsr_copies_change(&tsr_copies_generation);
    tsr_copies_tell_directory_locked(copies, true);
    tsr_vec_remove_swap(&tsr_copies_all, copies->place);
    if (copies->place < tsr_copies_all.count)
        tsr_copies_all.data[copies->place]->place = copies->place;
    pthread_mutex_unlock(&tsr_copies_lock);
    if (tsr_copies_matter()) { /* a pull that brought everything home may not be complete yet; from here on none begins */
        tsr_order_join_all();
        if (!tsr_is_any_capture())
            tsr_real.cuCtxSynchronize();
    }
    tsr_copies_count_bytes(copies, copies->replicas.own, false);
    tsr_replicas_drop(extent, &copies->replicas);
    tsr_directory_fini(&copies->directory);
    free(copies);
    extent->copies = NULL;
}

/* Once per GPU. */
static void tell_of_no_room(uint32_t copy)
{
    static uint32_t warned; /* memory lock */
    uint32_t gpu = tsr_session_gpu(tsr_session(), copy);
    if (!(warned >> copy & 1) && tsr_gpu_device(gpu) < 0)
        tsr_warn(
            "CUDA_VISIBLE_DEVICES hides GPU %u from the program: it has no copies of memory and uses home's, through the link",
            gpu);
    else if (!(warned >> copy & 1))
        tsr_warn(
            "GPU %u has no room for more copies of memory, by its memory_limit or at all; what it cannot hold it uses at home, "
            "through the link",
            gpu);
    warned |= 1u << copy;
}

/* Of its own, if there is room and it may, or the owner's. */
static CUresult give_replica(struct tsr_extent *extent, uint32_t copy, bool own, struct tsr_replicas *replicas)
{
    CUresult result = tsr_replicas_give(extent, copy, own, replicas);
    if (!own || replicas->own >> copy & 1)
        return result;
    tsr_copies_found_full(copy);
    if (tsr_copies_make_room(copy, extent->bytes)) {
        if (result == CUDA_SUCCESS)
            tsr_replicas_take(extent, copy, replicas);
        result = tsr_replicas_give(extent, copy, true, replicas);
    }
    return result;
}

static CUresult give_locked_memory(struct tsr_extent *extent, uint32_t copy)
{
    struct tsr_copies *copies = extent->copies;
    struct tsr_replicas replicas = copies->replicas;
    if (replicas.ready >> copy & 1)
        return replicas.own >> copy & 1 || !tsr_owners_are_on() ? CUDA_SUCCESS : tsr_copies_take_own(extent, copy);
    bool own = tsr_copies_may_have_own(copies, copy);
    CUresult result = give_replica(extent, copy, own, &replicas);
    pthread_mutex_lock(&tsr_copies_lock);
    if (result == CUDA_SUCCESS)
        copies->replicas = replicas;
    if (result == CUDA_SUCCESS && !(replicas.own >> copy & 1)) /* it uses the owner's */
        tsr_copies_change(&tsr_copies_generation);
    if (result != CUDA_SUCCESS)
        copies->refused |= (uint16_t)(1u << copy);
    pthread_mutex_unlock(&tsr_copies_lock);
    if (replicas.own >> copy & 1)
        tsr_copies_count_bytes(copies, replicas.own & (uint16_t)(1u << copy), true);
    else if (own)
        tell_of_no_room(copy);
    return result == CUDA_SUCCESS ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult tsr_copies_give(CUdeviceptr address, const struct tsr_lane_client *lane)
{
    if (!tsr_memory_at_home())
        return CUDA_ERROR_NOT_SUPPORTED;
    CUstreamCaptureMode mode = tsr_memory_relax_begin();
    tsr_memory_lock();
    struct tsr_extent *extent = tsr_arena_find(address);
    CUresult result =
        extent && extent->copies ? give_locked_memory(extent, tsr_lane_rank(lane)) : CUDA_SUCCESS; /* it is gone */
    tsr_memory_unlock();
    tsr_memory_relax_end(mode);
    return result;
}

void tsr_copies_forget(void)
{
    pthread_mutex_init(&tsr_copies_lock, NULL);
    tsr_copies_all.count = 0;
    tsr_copies_failed = CUDA_SUCCESS;
    tsr_copies_change(&tsr_copies_generation);
    __atomic_store_n(&tsr_copies_away, 0, __ATOMIC_RELEASE);
    tsr_copies_loose_queue = 0;
    if (pages)
        memset(pages, 0, PAGES * sizeof pages[0]);
    tsr_tickets_forget();
    tsr_copies_pull_stream_forget();
    tsr_replicas_forget();
    tsr_staging_forget();
}

struct tsr_copies *tsr_copies_at_locked(uint64_t address)
{
    return pages && address - TSR_ARENA_ADDRESS < TSR_ARENA_BYTES ? pages[tsr_copies_page(address)] : NULL;
}

void tsr_copies_fail_locked(CUresult error, const char *what)
{
    if (tsr_copies_failed == CUDA_SUCCESS)
        tsr_error("copies of memory: %s (error %d)", what, (int)error);
    tsr_copies_failed = error;
    tsr_copies_change(&tsr_copies_generation);
}

static void settle_locked(struct tsr_copies *copies)
{
    tsr_directory_settle(&copies->directory);
    memset(copies->read_by, 0, sizeof copies->read_by);
    memset(copies->written_by, 0, sizeof copies->written_by);
    copies->spilled.used = 0;
    copies->spilled.several = copies->spilled.arriving = false;
}

void tsr_copies_settle(void)
{
    tsr_tickets_part_from_streams();
    pthread_mutex_lock(&tsr_copies_lock);
    tsr_tickets_forget_queues_locked();
    for (size_t i = 0; i < tsr_copies_all.count; i++)
        settle_locked(tsr_copies_all.data[i]);
    for (size_t i = 0; i < tsr_copies_all.count; i++)
        tsr_copies_tell_directory_locked(tsr_copies_all.data[i], false);
    tsr_marks_settle_locked();
    tsr_staging_settle_locked();
    tsr_copies_change(&tsr_copies_generation);
    pthread_mutex_unlock(&tsr_copies_lock);
}

CUresult tsr_copies_fix(struct tsr_extent *extent)
{
    struct tsr_copies *copies = extent->copies;
    struct tsr_touch touch = {.first = extent->address, .end = extent->address + extent->bytes, .pulls = true, .writes = true};
    struct tsr_copies_use use = {.touches = &touch, .count = 1, .locked = true, .cause = TSR_PULL_GIVEN};
    bool matters = tsr_copies_matter() && !copies->fixed;
    pthread_mutex_lock(&tsr_copies_lock);
    copies->fixed = true;
    tsr_copies_change(&tsr_copies_generation);
    pthread_mutex_unlock(&tsr_copies_lock);
    CUresult result = matters ? tsr_copies_pull_home(&use) : CUDA_SUCCESS;
    if (result != CUDA_SUCCESS) {
        tsr_error("memory that others are to use could not be brought home (error %d)", (int)result);
        pthread_mutex_lock(&tsr_copies_lock);
        copies->fixed = false;
        pthread_mutex_unlock(&tsr_copies_lock);
    }
    return result;
}

CUmemGenericAllocationHandle tsr_copies_fixed_memory(const struct tsr_extent *extent)
{
    const struct tsr_replicas *replicas = extent->copies ? &extent->copies->replicas : NULL;
    return replicas ? replicas->memory[replicas->used_by[0]] : extent->memory;
}

void tsr_copies_start(uint32_t strands)
{
    static const struct tsr_backing_copies copies = {
        .begin = begin, .drop = drop, .fix = tsr_copies_fix, .yield = tsr_copies_yield};
    tsr_backing_have_copies(&copies);
    tsr_tickets_start(strands);
}
