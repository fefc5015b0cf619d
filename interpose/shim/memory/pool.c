/* See pool.h. */
#include "shim/memory/pool.h"

#include <stdlib.h>

#include "base/map.h"
#include "base/vec.h"
#include "shim/memory/allocation.h"
#include "shim/memory/arena.h"
#include "shim/memory/memory.h"
#include "shim/order/order.h"
#include "shim/record/capture.h"
#include "shim/entry/real.h"
#include "shim/launch/session.h"
#include "shim/entry/stream_handle.h"

#define CHUNK (32ull << 20) /* by which a pool grows, as the driver's do */
#define THREAD_SET (1ull << 63) /* of a stream that only its thread can ask about its work */
#define ENDED_SET (1ull << 62)

struct tsr_pool {
    CUmemoryPool handle;
    struct tsr_heap heap;
    uint64_t used, used_high, reserved_high, threshold;
    bool closed; /* the application has destroyed it */
};

/* A stream in which memory was freed, as long as that is not known to be complete. */
struct waiting {
    uint64_t set;
    CUstream stream; /* explicit */
    CUcontext context;
    CUevent event; /* instead of the stream, which has been destroyed */
};

static TSR_VEC(struct tsr_pool *) pools;   /* memory lock */
static TSR_VEC(struct waiting) waiting;    /* memory lock */
static struct tsr_map by_handle;           /* served pools; and, by default ones, lazily */
static uint64_t threads, ended;            /* atomic; memory lock */
static _Thread_local uint64_t this_thread; /* number of the thread; 0: none yet */

static struct tsr_pool *create(CUmemoryPool handle, uint64_t most_bytes)
{
    struct tsr_pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        return NULL;
    *pool = (struct tsr_pool){.handle = handle, .heap = {.pool = pool, .chunk_bytes = CHUNK, .most_bytes = most_bytes}};
    if (!tsr_vec_push(&pools, pool) || !tsr_map_set(&by_handle, (uint64_t)(uintptr_t)handle, pool)) {
        free(pool);
        return NULL;
    }
    return pool;
}

struct tsr_pool *tsr_pool_find(CUmemoryPool handle)
{
    CUmemoryPool of_device;
    struct tsr_pool *pool = handle ? tsr_map_find(&by_handle, (uint64_t)(uintptr_t)handle) : NULL;
    if (pool || !handle)
        return pool;
    if (tsr_real.cuDeviceGetDefaultMemPool(&of_device, (CUdevice)tsr_session()->policy->home) != CUDA_SUCCESS ||
        of_device != handle)
        return NULL;
    tsr_memory_lock();
    pool = tsr_map_find(&by_handle, (uint64_t)(uintptr_t)handle);
    if (!pool)
        pool = create(handle, 0);
    tsr_memory_unlock();
    return pool;
}

void tsr_pool_created(CUmemoryPool handle, const CUmemPoolProps *properties)
{
    bool served = properties->allocType == CU_MEM_ALLOCATION_TYPE_PINNED &&
                  properties->handleTypes == CU_MEM_HANDLE_TYPE_NONE &&
                  properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
                  (uint32_t)properties->location.id == tsr_session()->policy->home && properties->usage == 0;
    if (!served)
        return;
    tsr_memory_lock();
    create(handle, properties->maxSize);
    tsr_memory_unlock();
}

CUmemoryPool tsr_pool_handle(const struct tsr_pool *pool)
{
    return pool->handle;
}

/* Sets of blocks: one per stream, the default ones by context or by thread. */
static uint64_t set_of(CUstream stream, CUcontext context)
{
    if (stream == CU_STREAM_LEGACY)
        return (uint64_t)(uintptr_t)context | 1;
    if (stream != CU_STREAM_PER_THREAD)
        return (uint64_t)(uintptr_t)stream;
    if (!this_thread)
        this_thread = __atomic_add_fetch(&threads, 1, __ATOMIC_RELAXED);
    return THREAD_SET | ((uint64_t)(uintptr_t)context ^ this_thread << 32);
}

static void release_set_locked(size_t index)
{
    for (size_t i = 0; i < pools.count; i++)
        tsr_blocks_release(&pools.data[i]->heap.blocks, waiting.data[index].set);
    if (waiting.data[index].event)
        tsr_real.cuEventDestroy_v2(waiting.data[index].event);
    tsr_vec_remove_swap(&waiting, index);
}

/* Whether all work of the stream, wherever it runs, is complete. What cannot be asked, or not now, is not. */
static bool is_complete(const struct waiting *of)
{
    CUstreamCaptureStatus status;
    CUcontext popped;
    if (of->set & THREAD_SET)
        return false;
    if (of->event)
        return tsr_real.cuEventQuery(of->event) == CUDA_SUCCESS;
    if (tsr_real.cuCtxPushCurrent_v2(of->context) != CUDA_SUCCESS)
        return false;
    tsr_captures_hold();
    bool complete = tsr_real.cuStreamIsCapturing(of->stream, &status) == CUDA_SUCCESS &&
                    status == CU_STREAM_CAPTURE_STATUS_NONE && tsr_order_join(of->stream, false) == CUDA_SUCCESS &&
                    tsr_real.cuStreamQuery(of->stream) == CUDA_SUCCESS;
    tsr_captures_release();
    tsr_real.cuCtxPopCurrent_v2(&popped);
    return complete;
}

static void forget_closed_locked(void)
{
    for (size_t i = pools.count; i-- > 0;) {
        struct tsr_pool *pool = pools.data[i];
        if (!pool->closed || pool->heap.mapped_bytes)
            continue;
        tsr_blocks_fini(&pool->heap.blocks);
        free(pool);
        tsr_vec_remove_swap(&pools, i);
    }
}

static void release_complete_locked(void)
{
    for (size_t i = waiting.count; i-- > 0;)
        if (is_complete(&waiting.data[i]))
            release_set_locked(i);
}

static void trim_all_locked(void)
{
    for (size_t i = 0; i < pools.count; i++)
        tsr_heap_trim(&pools.data[i]->heap, pools.data[i]->closed ? 0 : pools.data[i]->threshold);
    forget_closed_locked();
}

void tsr_pool_settle_all_locked(void)
{
    CUstreamCaptureMode mode = tsr_memory_relax_begin();
    release_complete_locked();
    trim_all_locked();
    tsr_memory_relax_end(mode);
}

/* Waits for all work, also of streams that nobody can ask any more. */
static void release_after_waiting_locked(void)
{
    bool complete = tsr_order_join_all() == CUDA_SUCCESS;
    for (size_t i = waiting.count; i-- > 0;) {
        CUcontext popped;
        if (!complete || tsr_real.cuCtxPushCurrent_v2(waiting.data[i].context) != CUDA_SUCCESS)
            continue;
        if (tsr_real.cuCtxSynchronize() == CUDA_SUCCESS)
            release_set_locked(i);
        tsr_real.cuCtxPopCurrent_v2(&popped);
    }
}

void tsr_pool_reclaim_locked(void)
{
    release_complete_locked();
    release_after_waiting_locked();
    for (size_t i = 0; i < pools.count; i++)
        tsr_heap_trim(&pools.data[i]->heap, 0);
}

static struct tsr_allocation *take_locked(struct tsr_pool *pool, uint64_t set, size_t bytes, CUcontext context)
{
    struct tsr_allocation *taken = tsr_allocation_take(&pool->heap, set, bytes, context);
    return taken ? taken : tsr_allocation_take(&pool->heap, TSR_BLOCKS_FREE, bytes, context);
}

static CUresult allocate_locked(struct tsr_pool *pool, uint64_t set, size_t bytes, CUcontext context,
                                struct tsr_allocation **out)
{
    if ((*out = take_locked(pool, set, bytes, context)))
        return CUDA_SUCCESS;
    release_complete_locked();
    if ((*out = take_locked(pool, set, bytes, context)))
        return CUDA_SUCCESS;
    trim_all_locked();
    CUresult result = tsr_heap_grow(&pool->heap, bytes);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        tsr_memory_reclaim_locked();
        result = tsr_heap_grow(&pool->heap, bytes);
    }
    if (result != CUDA_SUCCESS)
        return result;
    *out = take_locked(pool, set, bytes, context);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult tsr_pool_allocate(struct tsr_pool *pool, size_t bytes, CUstream stream, bool per_thread, CUdeviceptr *address)
{
    CUcontext context;
    struct tsr_allocation *allocation;
    CUresult result = tsr_real.cuCtxGetCurrent(&context);
    if (result == CUDA_SUCCESS)
        result = tsr_order_state();
    if (result != CUDA_SUCCESS)
        return result;
    CUstreamCaptureMode mode = tsr_memory_relax_begin();
    tsr_memory_lock();
    result = allocate_locked(pool, set_of(tsr_stream_named(stream, per_thread), context), bytes, context, &allocation);
    if (result == CUDA_SUCCESS) {
        *address = allocation->address;
        pool->used += bytes;
        pool->used_high = pool->used > pool->used_high ? pool->used : pool->used_high;
        if (pool->heap.mapped_bytes > pool->reserved_high)
            pool->reserved_high = pool->heap.mapped_bytes;
    }
    tsr_memory_unlock();
    tsr_memory_relax_end(mode);
    return result;
}

/* The set of a stream in the pool's heap, and a note that it waits; TSR_BLOCKS_USED: no memory for that. */
static uint64_t waiting_set_locked(struct tsr_pool *pool, CUstream stream, CUcontext context)
{
    uint64_t set = set_of(stream, context);
    if (!tsr_blocks_set(&pool->heap.blocks, set))
        return TSR_BLOCKS_USED;
    for (size_t i = 0; i < waiting.count; i++)
        if (waiting.data[i].set == set)
            return set;
    return tsr_vec_push(&waiting, (struct waiting){.set = set, .stream = stream, .context = context}) ? set : TSR_BLOCKS_USED;
}

void tsr_pool_give_locked(struct tsr_allocation *allocation, uint64_t set)
{
    allocation->heap->pool->used -= allocation->bytes;
    tsr_allocation_give(allocation, set);
}

bool tsr_pool_free(CUdeviceptr address, CUstream stream, bool per_thread)
{
    CUcontext context = NULL;
    tsr_real.cuCtxGetCurrent(&context);
    tsr_memory_lock();
    struct tsr_allocation *allocation = tsr_allocation_find(address);
    bool found = allocation && allocation->address == address && allocation->heap && allocation->heap->pool;
    if (found) {
        uint64_t set = waiting_set_locked(allocation->heap->pool, tsr_stream_named(stream, per_thread), context);
        if (set != TSR_BLOCKS_USED) /* else it leaks, which is better than memory of two owners */
            tsr_pool_give_locked(allocation, set);
    }
    tsr_memory_unlock();
    return found;
}

/* An event of the stream's work so far stands in for it. */
static void replace_by_event_locked(struct waiting *of)
{
    uint64_t set = ENDED_SET | ++ended;
    CUcontext popped;
    if (tsr_real.cuCtxPushCurrent_v2(of->context) == CUDA_SUCCESS) {
        if (tsr_real.cuEventCreate(&of->event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS ||
            tsr_real.cuEventRecord(of->event, of->stream) != CUDA_SUCCESS)
            set |= THREAD_SET;
        tsr_real.cuCtxPopCurrent_v2(&popped);
    }
    for (size_t i = 0; i < pools.count; i++)
        tsr_blocks_rename(&pools.data[i]->heap.blocks, of->set, set);
    of->set = set;
}

void tsr_pool_stream_ends(CUstream stream)
{
    tsr_memory_lock();
    for (size_t i = waiting.count; i-- > 0;) {
        if (waiting.data[i].stream != stream || waiting.data[i].event)
            continue;
        if (is_complete(&waiting.data[i]))
            release_set_locked(i);
        else
            replace_by_event_locked(&waiting.data[i]);
    }
    tsr_memory_unlock();
}

void tsr_pool_trim(struct tsr_pool *pool, uint64_t keep_bytes)
{
    tsr_memory_lock();
    tsr_pool_settle_all_locked();
    tsr_heap_trim(&pool->heap, keep_bytes);
    tsr_memory_unlock();
}

CUresult tsr_pool_grant(struct tsr_pool *pool, CUdevice device, CUmemAccess_flags flags)
{
    tsr_memory_lock();
    CUresult result = tsr_heap_grant(&pool->heap, device, flags);
    tsr_memory_unlock();
    return result;
}

void tsr_pool_destroyed(CUmemoryPool handle)
{
    tsr_memory_lock();
    struct tsr_pool *pool = tsr_map_remove(&by_handle, (uint64_t)(uintptr_t)handle);
    if (pool) {
        pool->closed = true;
        tsr_pool_settle_all_locked();
    }
    tsr_memory_unlock();
}

struct tsr_pool_counters tsr_pool_count(struct tsr_pool *pool)
{
    tsr_memory_lock();
    tsr_pool_settle_all_locked();
    struct tsr_pool_counters counters = {pool->used, pool->used_high, pool->heap.mapped_bytes, pool->reserved_high};
    tsr_memory_unlock();
    return counters;
}

void tsr_pool_reset_high(struct tsr_pool *pool, bool used)
{
    tsr_memory_lock();
    if (used)
        pool->used_high = pool->used;
    else
        pool->reserved_high = pool->heap.mapped_bytes;
    tsr_memory_unlock();
}

void tsr_pool_set_threshold(struct tsr_pool *pool, uint64_t bytes)
{
    tsr_memory_lock();
    pool->threshold = bytes;
    tsr_memory_unlock();
}

void tsr_pool_forget(void)
{
    tsr_vec_clear(&pools);
    tsr_vec_clear(&waiting);
    by_handle = (struct tsr_map){0};
}
