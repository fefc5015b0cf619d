/*
 * Wrappers of the stream-ordered allocator. Pools of the home GPU's device memory that are not shared with other processes are served from
 * the arena (pool.h); all others, and what is allocated while a stream is captured, remain the driver's and are home-only.
 */
#include "driver/engaged.h"
#include "memory/allocation.h"
#include "memory/home_only.h"
#include "memory/home.h"
#include "memory/memory.h"
#include "order/order.h"
#include "memory/pool.h"
#include "memory/room.h"
#include "driver/real.h"
#include "object/session.h"
#include "driver/stream_handle.h"

static bool is_capturing(CUstream stream, bool *valid)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    *valid = tsr_real.cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS;
    return status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/* Whether the pool's memory is to come from the arena; *reason: why it does not. */
static struct tsr_pool *serving(CUmemoryPool handle, CUstream stream, bool per_thread, enum tsr_reason *reason)
{
    bool valid;
    *reason = is_capturing(tsr_stream_named(stream, per_thread), &valid) ? TSR_REASON_MEMORY_GRAPH
              : tsr_memory_at_home()                                     ? TSR_REASON_MEMORY_POOL
                                                                         : TSR_REASON_MEMORY_OTHER_DEVICE;
    return valid && *reason == TSR_REASON_MEMORY_POOL ? tsr_pool_find(handle) : NULL;
}

static CUresult note(CUresult result, const CUdeviceptr *address, size_t bytes, enum tsr_reason reason)
{
    if (result == CUDA_SUCCESS && bytes)
        tsr_home_only_add(*address, bytes, reason);
    return result;
}

/* The pool that cuMemAllocAsync takes from. */
static CUmemoryPool current_pool(void)
{
    CUdevice device;
    CUmemoryPool pool = NULL;
    if (tsr_real.cuCtxGetDevice(&device) == CUDA_SUCCESS)
        tsr_real.cuDeviceGetMemPool(&pool, device);
    return pool;
}

static bool allocate(CUmemoryPool handle, CUdeviceptr *address, size_t bytes, CUstream stream, bool per_thread,
                     enum tsr_reason *reason, CUresult *result)
{
    struct tsr_pool *pool = address && bytes ? serving(handle, stream, per_thread, reason) : NULL;
    if (!pool)
        return false;
    *result = tsr_pool_allocate(pool, bytes, stream, per_thread, address);
    if (*result != CUDA_ERROR_NOT_SUPPORTED)
        return true;
    *reason = TSR_REASON_MEMORY_NOT_SHARED;
    return false;
}

#define ALLOC_ASYNC(symbol, per_thread)                                                                                        \
    TSR_REDIRECTED(symbol)(CUdeviceptr *dptr, size_t bytesize, CUstream hStream)                                              \
    {                                                                                                                          \
        enum tsr_reason reason = TSR_REASON_MEMORY_POOL;                                                                       \
        CUresult result;                                                                                                       \
        if (allocate(current_pool(), dptr, bytesize, hStream, per_thread, &reason, &result))                                   \
            return result;                                                                                                     \
        result = tsr_order_join(hStream, per_thread);                                                                          \
        struct tsr_room room = {.device = TSR_ROOM_CURRENT, .bytes = bytesize};                                                \
        if (result != CUDA_SUCCESS)                                                                                            \
            return result;                                                                                                     \
        do                                                                                                                     \
            result = tsr_real.symbol(dptr, bytesize, hStream);                                                                 \
        while (tsr_room_is_made(&room, result));                                                                               \
        return note(result, dptr, bytesize, reason);                                                                           \
    }

ALLOC_ASYNC(cuMemAllocAsync, false)
ALLOC_ASYNC(cuMemAllocAsync_ptsz, true)

#define ALLOC_FROM_POOL_ASYNC(symbol, per_thread)                                                                              \
    TSR_REDIRECTED(symbol)(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream)                           \
    {                                                                                                                          \
        enum tsr_reason reason = TSR_REASON_MEMORY_POOL;                                                                       \
        CUresult result;                                                                                                       \
        if (allocate(pool, dptr, bytesize, hStream, per_thread, &reason, &result))                                             \
            return result;                                                                                                     \
        result = tsr_order_join(hStream, per_thread);                                                                          \
        struct tsr_room room = {.device = TSR_ROOM_ANY, .bytes = bytesize};                                                    \
        if (result != CUDA_SUCCESS)                                                                                            \
            return result;                                                                                                     \
        do                                                                                                                     \
            result = tsr_real.symbol(dptr, bytesize, pool, hStream);                                                           \
        while (tsr_room_is_made(&room, result));                                                                               \
        return note(result, dptr, bytesize, reason);                                                                           \
    }

ALLOC_FROM_POOL_ASYNC(cuMemAllocFromPoolAsync, false)
ALLOC_FROM_POOL_ASYNC(cuMemAllocFromPoolAsync_ptsz, true)

/* Memory of the driver's. What a graph frees may come back when it is launched again. */
static CUresult free_elsewhere(CUdeviceptr address, CUstream stream, bool per_thread, bool captured,
                               CUresult (*forward)(CUdeviceptr, CUstream))
{
    CUresult result = tsr_order_join(stream, per_thread);
    if (result != CUDA_SUCCESS)
        return result;
    struct tsr_home_only taken = captured ? (struct tsr_home_only){0} : tsr_home_only_take(address);
    result = forward(address, stream);
    tsr_home_only_put_back(taken, result);
    return result;
}

static CUresult free_async(CUdeviceptr address, CUstream stream, bool per_thread, CUresult (*forward)(CUdeviceptr, CUstream))
{
    bool valid, captured = is_capturing(tsr_stream_named(stream, per_thread), &valid);
    CUresult result;
    if (valid && !captured && tsr_pool_free(address, stream, per_thread))
        return tsr_order_state();
    if (valid && !captured && tsr_memory_free_after(address, stream, per_thread, &result))
        return result;
    return free_elsewhere(address, stream, per_thread, captured, forward);
}

#define FREE_ASYNC(symbol, per_thread)                                                                                         \
    TSR_REDIRECTED(symbol)(CUdeviceptr dptr, CUstream hStream)                                                                 \
    {                                                                                                                          \
        return free_async(dptr, hStream, per_thread, tsr_real.symbol);                                                         \
    }

FREE_ASYNC(cuMemFreeAsync, false)
FREE_ASYNC(cuMemFreeAsync_ptsz, true)

TSR_REDIRECTED(cuMemPoolCreate)(CUmemoryPool *pool, const CUmemPoolProps *poolProps)
{
    CUresult result = tsr_real.cuMemPoolCreate(pool, poolProps);
    if (result == CUDA_SUCCESS)
        tsr_pool_created(*pool, poolProps);
    return result;
}

TSR_REDIRECTED(cuMemPoolDestroy)(CUmemoryPool pool)
{
    tsr_memory_lock(); /* another thread may get the handle at once, and notes it under the lock */
    CUresult result = tsr_real.cuMemPoolDestroy(pool);
    if (result == CUDA_SUCCESS)
        tsr_pool_destroyed_locked(pool);
    tsr_memory_unlock();
    return result;
}

TSR_REDIRECTED(cuMemPoolTrimTo)(CUmemoryPool pool, size_t minBytesToKeep)
{
    CUresult result = tsr_real.cuMemPoolTrimTo(pool, minBytesToKeep);
    struct tsr_pool *ours = result == CUDA_SUCCESS ? tsr_pool_find(pool) : NULL;
    if (ours)
        tsr_pool_trim(ours, minBytesToKeep);
    return result;
}

TSR_REDIRECTED(cuMemPoolSetAccess)(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count)
{
    CUresult result = tsr_real.cuMemPoolSetAccess(pool, map, count);
    struct tsr_pool *ours = result == CUDA_SUCCESS ? tsr_pool_find(pool) : NULL;
    for (size_t i = 0; ours && i < count && result == CUDA_SUCCESS; i++)
        if (map[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE && !tsr_memory_is_home(&map[i].location))
            result = tsr_pool_grant(ours, map[i].location.id, map[i].flags);
    return result;
}

TSR_REDIRECTED(cuMemPoolGetAttribute)(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
    CUresult result = tsr_real.cuMemPoolGetAttribute(pool, attr, value);
    bool counter = attr == CU_MEMPOOL_ATTR_USED_MEM_CURRENT || attr == CU_MEMPOOL_ATTR_USED_MEM_HIGH ||
                   attr == CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT || attr == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH;
    struct tsr_pool *ours = result == CUDA_SUCCESS && counter ? tsr_pool_find(pool) : NULL;
    if (!ours)
        return result;
    struct tsr_pool_counters counters = tsr_pool_count(ours);
    *(cuuint64_t *)value = attr == CU_MEMPOOL_ATTR_USED_MEM_CURRENT       ? counters.used
                           : attr == CU_MEMPOOL_ATTR_USED_MEM_HIGH        ? counters.used_high
                           : attr == CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT ? counters.reserved
                                                                          : counters.reserved_high;
    return result;
}

TSR_REDIRECTED(cuMemPoolSetAttribute)(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
    CUresult result = tsr_real.cuMemPoolSetAttribute(pool, attr, value);
    struct tsr_pool *ours = result == CUDA_SUCCESS ? tsr_pool_find(pool) : NULL;
    if (ours && attr == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
        tsr_pool_set_threshold(ours, *(const cuuint64_t *)value);
    else if (ours && (attr == CU_MEMPOOL_ATTR_USED_MEM_HIGH || attr == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH))
        tsr_pool_reset_high(ours, attr == CU_MEMPOOL_ATTR_USED_MEM_HIGH);
    return result;
}
