/* See pool.h. */
#include "memory/pool.h"

#include <stdlib.h>

#include "base/map.h"
#include "base/vec.h"
#include "memory/allocation.h"
#include "memory/arena.h"
#include "memory/bounds.h"
#include "memory/copies.h"
#include "memory/freed.h"
#include "memory/home.h"
#include "memory/memory.h"
#include "memory/owners.h"
#include "memory/quiet.h"
#include "order/order.h"
#include "driver/real.h"
#include "object/capture.h"
#include "object/session.h"
#include "driver/stream_handle.h"

#define CHUNK (32ull << 20) /* by which a pool grows, as the driver's do */
#define TRIM_LOOK_NS 100000 /* in which an event of GPUs without work is seen */

struct tsr_pool {
    CUmemoryPool handle;
    struct tsr_heap heap;
    uint64_t used, used_high, reserved_high, threshold;
    bool closed; /* the application has destroyed it */
};

static TSR_VEC(struct tsr_pool *) pools; /* memory lock */
static struct tsr_map by_handle;         /* served pools; and, by default ones, lazily */
static uint32_t
    open_to; /* atomic, written under the memory lock; bit n: device n can access all pools, whatever the application says */
bool tsr_pools_are_used;

static struct tsr_pool *create(CUmemoryPool handle, uint64_t most_bytes)
{
    struct tsr_pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        return NULL;
    *pool = (struct tsr_pool){.handle = handle,
                              .heap = {.pool = pool, .chunk_bytes = CHUNK, .most_bytes = most_bytes, .peers = open_to}};
    if (!tsr_vec_reserve(&pools, pools.count + 1) || !tsr_map_set(&by_handle, (uint64_t)(uintptr_t)handle, pool)) {
        free(pool);
        return NULL;
    }
    tsr_vec_push(&pools, pool);
    __atomic_store_n(&tsr_pools_are_used, true, __ATOMIC_RELEASE);
    return pool;
}

struct tsr_pool *tsr_pool_find(CUmemoryPool handle)
{
    CUmemoryPool of_device;
    struct tsr_pool *pool = handle ? tsr_map_find(&by_handle, (uint64_t)(uintptr_t)handle) : NULL;
    if (pool || !handle)
        return pool;
    if (tsr_real.cuDeviceGetDefaultMemPool(&of_device, tsr_session()->home) != CUDA_SUCCESS || of_device != handle)
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
                  properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE && properties->location.id == tsr_session()->home &&
                  properties->usage == 0;
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

static uint64_t kept_bytes(const struct tsr_pool *pool)
{
    return pool->closed ? 0 : pool->threshold;
}

/* Where no driver says so, as some have no event of all work of a context, memory without copies is trimmed all the same. */
static bool is_quiet_locked(void)
{
    CUresult result = CUDA_ERROR_NOT_READY;
    tsr_captures_hold(); /* which asking for all work of a context would spoil */
    if (!tsr_is_any_capture())
        result = tsr_quiet_wait(TRIM_LOOK_NS);
    tsr_captures_release();
    return result == CUDA_SUCCESS || (result == CUDA_ERROR_NOT_FOUND && !tsr_copies_matter());
}

static bool has_spare(const struct tsr_pool *pool, uint64_t keep_bytes)
{
    return pool->heap.mapped_bytes > keep_bytes && tsr_heap_idle_bytes(&pool->heap);
}

/*
 * Executors unmap memory when all their work is complete, and pulls of other streams' work may still move bytes of what is free. The program may have that work wait for
 * itself, so nobody waits here: what is not trimmed now is when it is asked for again, or when an allocation would fail otherwise.
 */
static void trim_all_locked(void)
{
    bool any = false;
    for (size_t i = 0; i < pools.count; i++)
        any |= has_spare(pools.data[i], kept_bytes(pools.data[i]));
    bool quiet = any && is_quiet_locked();
    for (size_t i = 0; quiet && i < pools.count; i++)
        tsr_heap_trim(&pools.data[i]->heap, kept_bytes(pools.data[i]));
    forget_closed_locked();
}

uint64_t tsr_pools_spare_bytes_locked(void)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < pools.count; i++) {
        const struct tsr_pool *pool = pools.data[i];
        uint64_t over = pool->heap.mapped_bytes > kept_bytes(pool) ? pool->heap.mapped_bytes - kept_bytes(pool) : 0;
        uint64_t idle = over ? tsr_heap_idle_bytes(&pool->heap) : 0;
        bytes += idle < over ? idle : over;
    }
    return bytes;
}

void tsr_pool_settle_all_locked(void)
{
    CUstreamCaptureMode mode = tsr_memory_relax_begin();
    tsr_freed_release_complete_locked();
    trim_all_locked();
    tsr_memory_relax_end(mode);
}

void tsr_pool_reclaim_locked(void)
{
    tsr_freed_release_complete_locked();
    if (tsr_is_any_capture()) /* which waiting would end */
        return;
    tsr_freed_release_after_waiting_locked();
    for (size_t i = 0; i < pools.count; i++)
        tsr_heap_trim(&pools.data[i]->heap, 0);
}

bool tsr_pools_have_idle_locked(void)
{
    bool any = tsr_freed_is_any_waiting_locked();
    for (size_t i = 0; i < pools.count && !any; i++)
        any = tsr_heap_idle_bytes(&pools.data[i]->heap);
    return any;
}

static struct tsr_allocation *take_locked(struct tsr_pool *pool, uint64_t set, size_t bytes, CUcontext context)
{
    struct tsr_allocation *taken = tsr_allocation_take(&pool->heap, set, bytes, context);
    return taken ? taken : tsr_allocation_take(&pool->heap, TSR_BLOCKS_FREE, bytes, context);
}

/* Whatever is waited for and given back: the program itself has set the limit. */
static bool is_beyond_limit(const struct tsr_pool *pool, uint64_t bytes)
{
    uint64_t most = pool->heap.most_bytes;
    return most && (bytes > most || pool->used > most - bytes);
}

static CUresult allocate_locked(struct tsr_pool *pool, uint64_t set, size_t bytes, CUcontext context,
                                struct tsr_allocation **out)
{
    if (is_beyond_limit(pool, bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    if ((*out = take_locked(pool, set, bytes, context)))
        return CUDA_SUCCESS;
    tsr_freed_release_complete_locked();
    if ((*out = take_locked(pool, set, bytes, context)))
        return CUDA_SUCCESS;
    trim_all_locked();
    tsr_owners_hold_host_back(true);
    CUresult result = tsr_heap_grow(&pool->heap, bytes);
    tsr_owners_hold_host_back(false);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        tsr_memory_reclaim_locked();
        result = tsr_heap_grow(&pool->heap, bytes);
    }
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        tsr_owners_refused();
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
    result = allocate_locked(pool, tsr_freed_set(tsr_stream_named(stream, per_thread), context), bytes, context, &allocation);
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

void tsr_pool_give_locked(struct tsr_allocation *allocation, uint64_t set)
{
    allocation->heap->pool->used -= allocation->bytes;
    tsr_allocation_give(allocation, set);
}

static void CUDA_CB remove_bounds(void *leaving)
{
    tsr_bounds_leave(leaving);
}

/* What was posted to the stream before may still use the memory, what comes after may not. */
static void remove_bounds_after(CUstream stream, CUdeviceptr address)
{
    struct tsr_bounds_leaving *leaving = tsr_bounds_leave_later(address);
    if (!leaving)
        tsr_bounds_remove(address);
    else if (tsr_order_join(stream, false) != CUDA_SUCCESS ||
             tsr_real.cuLaunchHostFunc(stream, remove_bounds, leaving) != CUDA_SUCCESS)
        tsr_bounds_leave(leaving);
}

bool tsr_pool_free(CUdeviceptr address, CUstream stream, bool per_thread)
{
    CUcontext context = NULL;
    tsr_real.cuCtxGetCurrent(&context);
    tsr_memory_lock();
    struct tsr_allocation *allocation = tsr_allocation_find(address);
    bool found = allocation && allocation->address == address && allocation->heap && allocation->heap->pool;
    if (found) {
        CUstream named = tsr_stream_named(stream, per_thread);
        uint64_t set = tsr_freed_set(named, context);
        if (tsr_blocks_set(&allocation->heap->blocks, set) && tsr_freed_note_locked(set, named, context)) {
            if (tsr_bounds_are_exact())
                remove_bounds_after(named, address); /* first: the set may be free for all right after */
            tsr_pool_give_locked(allocation, set);
        } /* else it leaks, which is better than memory of two owners */
    }
    tsr_memory_unlock();
    return found;
}

void tsr_pool_stream_ends(CUstream stream)
{
    tsr_memory_lock();
    tsr_freed_stream_ends_locked(stream);
    tsr_memory_unlock();
}

void tsr_pool_release_set_locked(uint64_t set)
{
    for (size_t i = 0; i < pools.count; i++)
        tsr_blocks_release(&pools.data[i]->heap.blocks, set);
}

void tsr_pool_rename_set_locked(uint64_t set, uint64_t to)
{
    for (size_t i = 0; i < pools.count; i++)
        tsr_blocks_rename(&pools.data[i]->heap.blocks, set, to);
}

void tsr_pool_trim(struct tsr_pool *pool, uint64_t keep_bytes)
{
    tsr_memory_lock();
    tsr_pool_settle_all_locked();
    if (has_spare(pool, keep_bytes) && is_quiet_locked())
        tsr_heap_trim(&pool->heap, keep_bytes);
    tsr_memory_unlock();
}

static bool is_pooled_locked(CUdeviceptr address)
{
    const struct tsr_allocation *allocation = address ? tsr_allocation_find(address) : NULL;
    return allocation && allocation->heap && allocation->heap->pool;
}

void tsr_pools_open(CUdevice device, CUdeviceptr to, CUdeviceptr from)
{
    CUresult result = CUDA_SUCCESS;
    if (__atomic_load_n(&open_to, __ATOMIC_ACQUIRE) >> device & 1)
        return;
    tsr_memory_lock();
    bool opens = is_pooled_locked(to) || is_pooled_locked(from);
    for (size_t i = 0; i < pools.count && opens && result == CUDA_SUCCESS; i++)
        result = tsr_heap_grant(&pools.data[i]->heap, device, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    if (opens && result == CUDA_SUCCESS)
        __atomic_fetch_or(&open_to, 1u << device, __ATOMIC_RELEASE);
    tsr_memory_unlock();
}

CUresult tsr_pool_grant(struct tsr_pool *pool, CUdevice device, CUmemAccess_flags flags)
{
    tsr_memory_lock();
    bool is_open = open_to >> device & 1;
    CUresult result = is_open ? CUDA_SUCCESS : tsr_heap_grant(&pool->heap, device, flags);
    tsr_memory_unlock();
    return result;
}

void tsr_pool_destroyed_locked(CUmemoryPool handle)
{
    struct tsr_pool *pool = tsr_map_remove(&by_handle, (uint64_t)(uintptr_t)handle);
    if (pool) {
        pool->closed = true;
        tsr_pool_settle_all_locked();
    }
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
    open_to = 0;
    tsr_pools_are_used = false;
    tsr_vec_clear(&pools);
    tsr_freed_forget();
    by_handle = (struct tsr_map){0};
}
