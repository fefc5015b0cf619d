/* See copies.h. The table of extents that have copies. */
#include "memory/copies.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/log.h"
#include "base/os.h"
#include "base/vec.h"
#include "driver/real.h"
#include "memory/allocation.h"
#include "memory/arena.h"
#include "memory/backing.h"
#include "memory/copies_parts.h"
#include "object/capture.h"
#include "object/session.h"
#include "order/order.h"

#define PAGES (TSR_ARENA_BYTES / TSR_ARENA_PAGE)

uint32_t tsr_copies_away;
pthread_mutex_t tsr_copies_lock = PTHREAD_MUTEX_INITIALIZER;
struct tsr_copies_all tsr_copies_all;
CUresult tsr_copies_failed;

static struct tsr_copies **pages; /* lock; by page of the arena; NULL: none yet */

bool tsr_copies_are_on(void)
{
    const struct tsr_session *session = tsr_session();
    return session && session->lane_count && session->policy->memory_place == TSR_POLICY_COPIES;
}

static uint64_t page_of(CUdeviceptr address)
{
    return (address - TSR_ARENA_ADDRESS) / TSR_ARENA_PAGE;
}

static bool is_wanted(uint32_t gpu, uint32_t peers)
{
    return tsr_copies_are_on() && gpu == tsr_session()->policy->home && !peers && tsr_replicas_open();
}

static void count_copies(const struct tsr_copies *copies, bool more)
{
    struct tsr_session *session = tsr_session();
    for (uint32_t i = 0; i < session->lane_count; i++)
        if (copies->replicas.own >> (i + 1) & 1)
            tsr_copies_count(&session->policy->copies_bytes[session->lane_device[i] % 16],
                             more ? copies->bytes : -copies->bytes);
}

static bool note_locked(struct tsr_copies *copies)
{
    if (!pages)
        pages = tsr_os_map(NULL, PAGES * sizeof pages[0], PROT_READ | PROT_WRITE, -1, 0);
    copies->place = tsr_copies_all.count;
    if (!pages || !tsr_vec_push(&tsr_copies_all, copies))
        return false;
    for (uint64_t at = 0; at < copies->bytes; at += TSR_ARENA_PAGE)
        pages[page_of(copies->address + at)] = copies;
    return true;
}

static CUresult begin(struct tsr_extent *extent, uint32_t gpu, uint32_t peers)
{
    if (!is_wanted(gpu, peers))
        return CUDA_ERROR_NOT_SUPPORTED;
    struct tsr_copies *copies = calloc(1, sizeof *copies);
    CUresult result = copies ? tsr_replicas_make(extent, &copies->replicas) : CUDA_ERROR_OUT_OF_MEMORY;
    if (result != CUDA_SUCCESS) {
        free(copies);
        return result;
    }
    copies->address = extent->address;
    copies->bytes = extent->bytes;
    pthread_mutex_lock(&tsr_copies_lock);
    uint16_t holders = tsr_copies_away ? copies->replicas.own : 1;
    bool noted = tsr_directory_start(&copies->directory, copies->bytes, holders) && note_locked(copies);
    pthread_mutex_unlock(&tsr_copies_lock);
    if (!noted) {
        tsr_directory_fini(&copies->directory);
        tsr_replicas_drop(extent, &copies->replicas);
        free(copies);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    extent->copies = copies;
    count_copies(copies, true);
    tsr_arena_mark(extent->address, extent->bytes, true);
    return CUDA_SUCCESS;
}

static void drop(struct tsr_extent *extent)
{
    struct tsr_copies *copies = extent->copies;
    tsr_arena_mark(extent->address, extent->bytes, false);
    if (tsr_copies_matter()) { /* what was brought home with all else may still be on its way */
        tsr_order_join_all();
        if (!tsr_is_any_capture())
            tsr_real.cuCtxSynchronize();
    }
    pthread_mutex_lock(&tsr_copies_lock);
    for (uint64_t at = 0; at < copies->bytes; at += TSR_ARENA_PAGE)
        pages[page_of(copies->address + at)] = NULL;
    tsr_vec_remove_swap(&tsr_copies_all, copies->place);
    if (copies->place < tsr_copies_all.count)
        tsr_copies_all.data[copies->place]->place = copies->place;
    pthread_mutex_unlock(&tsr_copies_lock);
    count_copies(copies, false);
    tsr_replicas_drop(extent, &copies->replicas);
    tsr_directory_fini(&copies->directory);
    free(copies);
    extent->copies = NULL;
}

void tsr_copies_forget(void)
{
    pthread_mutex_init(&tsr_copies_lock, NULL);
    tsr_copies_all.count = 0;
    tsr_copies_failed = CUDA_SUCCESS;
    __atomic_store_n(&tsr_copies_away, 0, __ATOMIC_RELEASE);
    tsr_copies_loose_worker = 0;
    if (pages)
        memset(pages, 0, PAGES * sizeof pages[0]);
    tsr_tickets_forget();
    tsr_copies_ferry_forget();
    tsr_replicas_forget();
}

struct tsr_copies *tsr_copies_at_locked(uint64_t address)
{
    return pages && address - TSR_ARENA_ADDRESS < TSR_ARENA_BYTES ? pages[page_of(address)] : NULL;
}

void tsr_copies_fail_locked(CUresult error, const char *what)
{
    if (tsr_copies_failed == CUDA_SUCCESS)
        tsr_error("copies of memory: %s (error %d)", what, (int)error);
    tsr_copies_failed = error;
}

CUresult tsr_copies_fix(struct tsr_extent *extent)
{
    struct tsr_copies *copies = extent->copies;
    struct tsr_touch touch = {.first = extent->address, .end = extent->address + extent->bytes, .pulls = true, .writes = true};
    struct tsr_copies_use use = {.touches = &touch, .count = 1, .locked = true, .stream = CU_STREAM_LEGACY};
    struct tsr_order_hold hold;
    bool matters = tsr_copies_matter() && !copies->fixed;
    pthread_mutex_lock(&tsr_copies_lock);
    copies->fixed = true;
    pthread_mutex_unlock(&tsr_copies_lock);
    CUresult result = matters ? tsr_copies_enter(&use, &hold) : CUDA_SUCCESS;
    if (matters && result == CUDA_SUCCESS) {
        tsr_order_leave(&hold);
        result = tsr_real.cuStreamSynchronize(CU_STREAM_LEGACY);
    }
    if (result != CUDA_SUCCESS) {
        tsr_error("memory that others are to use could not be brought home (error %d)", (int)result);
        pthread_mutex_lock(&tsr_copies_lock);
        copies->fixed = false;
        pthread_mutex_unlock(&tsr_copies_lock);
    }
    return result;
}

void tsr_copies_start(void)
{
    static const struct tsr_backing_copies copies = {.begin = begin, .drop = drop, .fix = tsr_copies_fix};
    tsr_backing_have_copies(&copies);
}
