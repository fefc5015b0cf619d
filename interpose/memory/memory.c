/* Ordinary memory: cuMemAlloc and its family, and what they answer about it. */
#include "memory/home.h"
#include "memory/memory.h"
#include "memory/contexts.h"
#include "memory/copies.h"

#include "base/vec.h"
#include "memory/allocation.h"
#include "memory/arena.h"
#include "memory/backing.h"
#include "memory/bounds.h"
#include "memory/freed.h"
#include "object/capture.h"
#include "driver/engaged.h"
#include "memory/home_only.h"
#include "memory/ipc.h"
#include "order/order.h"
#include "memory/physical.h"
#include "memory/pairs.h"
#include "memory/pool.h"
#include "memory/owners.h"
#include "memory/relay.h"
#include "memory/room.h"
#include "memory/spill.h"
#include "driver/real.h"
#include "object/session.h"
#include "memory/vmm.h"
#include "driver/stream_handle.h"

#define LARGE (TSR_ARENA_PAGE / 2) /* above it an allocation has an extent of its own */
#define PITCH 512u                 /* what the driver aligns rows to */

static struct tsr_heap small = {.chunk_bytes = TSR_ARENA_PAGE}; /* memory lock */
static TSR_VEC(struct tsr_allocation *) doomed;                 /* memory lock; freed while a capture forbade to wait */

static void give_now_locked(struct tsr_allocation *allocation)
{
    if (allocation->heap && allocation->heap->pool)
        tsr_pool_give_locked(allocation, TSR_BLOCKS_FREE);
    else
        tsr_allocation_give(allocation, TSR_BLOCKS_FREE);
}

/* What was freed of the context, whose work is complete. */
static void give_doomed_locked(CUcontext context)
{
    for (size_t i = doomed.count; i-- > 0;) {
        struct tsr_allocation *allocation = doomed.data[i];
        if (allocation->context != context)
            continue;
        tsr_vec_remove_swap(&doomed, i);
        give_now_locked(allocation);
    }
}

/* What is freed while somebody captures, once nobody does. */
static void reclaim_doomed_locked(void)
{
    while (doomed.count && !tsr_is_any_capture()) {
        CUcontext context = doomed.data[doomed.count - 1]->context;
        if (tsr_memory_wait(context) != CUDA_SUCCESS)
            return;
        give_doomed_locked(context);
    }
}

void tsr_memory_reclaim_locked(void)
{
    if (!doomed.count && !tsr_heap_idle_bytes(&small) && !tsr_pools_have_idle_locked())
        return;
    reclaim_doomed_locked();
    tsr_pool_reclaim_locked();
    if (!tsr_is_any_capture()) /* during which nobody can wait for pulls of what is free */
        tsr_heap_trim(&small, 0);
}

void tsr_memory_reclaim(void)
{
    CUstreamCaptureMode mode = tsr_memory_relax_begin();
    tsr_memory_lock();
    tsr_memory_reclaim_locked();
    tsr_memory_unlock();
    tsr_memory_relax_end(mode);
}

static CUresult allocate_locked(size_t bytes, CUcontext context, struct tsr_allocation **out)
{
    tsr_bounds_start();
    if (bytes > LARGE || tsr_bounds_are_guards())
        return tsr_allocation_map(bytes, small.peers, context, out);
    CUresult result = CUDA_SUCCESS;
    *out = tsr_allocation_take(&small, TSR_BLOCKS_FREE, bytes, context);
    if (!*out)
        result = tsr_heap_grow(&small, bytes);
    if (!*out && result == CUDA_SUCCESS)
        *out = tsr_allocation_take(&small, TSR_BLOCKS_FREE, bytes, context);
    return *out || result != CUDA_SUCCESS ? result : CUDA_ERROR_OUT_OF_MEMORY;
}

/*
 * The error of a failed executor or kernel is sticky, and memory that is there already would not notice a kernel's. During some captures the
 * driver refuses to allocate, and invalidates them: it is asked for a little.
 */
CUresult tsr_memory_refused(void)
{
    CUdeviceptr little;
    size_t free_bytes, total;
    CUresult result = tsr_order_state();
    if (result != CUDA_SUCCESS)
        return result;
    if (!tsr_is_any_capture())
        return tsr_real.cuMemGetInfo_v2(&free_bytes, &total);
    result = tsr_real.cuMemAlloc_v2(&little, 1);
    if (result == CUDA_SUCCESS)
        tsr_real.cuMemFree_v2(little);
    return result == CUDA_ERROR_OUT_OF_MEMORY ? CUDA_SUCCESS : result;
}

CUresult tsr_memory_allocate(size_t bytes, CUdeviceptr *address)
{
    CUcontext context;
    struct tsr_allocation *allocation;
    CUresult result = tsr_real.cuCtxGetCurrent(&context);
    if (result == CUDA_SUCCESS)
        result = tsr_memory_refused();
    if (result != CUDA_SUCCESS)
        return result;
    CUstreamCaptureMode mode = tsr_memory_relax_begin();
    tsr_memory_lock();
    tsr_owners_hold_host_back(true);
    result = allocate_locked(bytes, context, &allocation);
    tsr_owners_hold_host_back(false);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        tsr_memory_reclaim_locked();
        result = allocate_locked(bytes, context, &allocation);
    }
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        tsr_owners_refused();
    if (result == CUDA_SUCCESS)
        *address = allocation->address;
    tsr_memory_unlock();
    tsr_memory_relax_end(mode);
    return result;
}

TSR_REDIRECTED(cuMemAlloc_v2)(CUdeviceptr *dptr, size_t bytesize)
{
    if (dptr && bytesize && tsr_memory_at_home()) {
        CUresult result = tsr_memory_allocate(bytesize, dptr);
        if (result != CUDA_ERROR_NOT_SUPPORTED)
            return result;
    }
    struct tsr_room room = {.device = TSR_ROOM_CURRENT, .bytes = bytesize};
    CUresult result;
    do
        result = tsr_real.cuMemAlloc_v2(dptr, bytesize);
    while (tsr_room_is_made(&room, result));
    if (result == CUDA_SUCCESS)
        tsr_home_only_add(*dptr, bytesize,
                          tsr_memory_at_home() ? TSR_REASON_MEMORY_NOT_SHARED : TSR_REASON_MEMORY_OTHER_DEVICE);
    return result;
}

TSR_REDIRECTED(cuMemAllocPitch_v2)(CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes, size_t Height,
                                   unsigned int ElementSizeBytes)
{
    size_t pitch = (WidthInBytes + PITCH - 1) / PITCH * PITCH, bytes;
    bool valid = dptr && pPitch && WidthInBytes && Height && pitch >= WidthInBytes &&
                 (ElementSizeBytes == 4 || ElementSizeBytes == 8 || ElementSizeBytes == 16) && WidthInBytes <= INT32_MAX &&
                 !__builtin_mul_overflow(pitch, Height, &bytes);
    if (valid && tsr_memory_at_home()) {
        CUresult result = tsr_memory_allocate(bytes, dptr);
        if (result == CUDA_SUCCESS)
            *pPitch = pitch;
        if (result != CUDA_ERROR_NOT_SUPPORTED)
            return result;
    }
    struct tsr_room room = {.device = TSR_ROOM_CURRENT};
    CUresult result;
    do
        result = tsr_real.cuMemAllocPitch_v2(dptr, pPitch, WidthInBytes, Height, ElementSizeBytes);
    while (tsr_room_is_made(&room, result));
    if (result == CUDA_SUCCESS)
        tsr_home_only_add(*dptr, *pPitch * Height,
                          tsr_memory_at_home() ? TSR_REASON_MEMORY_NOT_SHARED : TSR_REASON_MEMORY_OTHER_DEVICE);
    return result;
}

CUresult tsr_memory_wait(CUcontext owner)
{
    CUcontext current = NULL;
    CUresult result = tsr_real.cuCtxGetCurrent(&current);
    if (result == CUDA_SUCCESS && !current)
        result = CUDA_ERROR_INVALID_CONTEXT;
    if (result == CUDA_SUCCESS)
        result = tsr_order_join_all();
    if (result == CUDA_SUCCESS && owner == current)
        result = tsr_real.cuCtxSynchronize();
    if (result != CUDA_SUCCESS || owner == current)
        return result == CUDA_SUCCESS ? tsr_order_state() : result;
    if (tsr_real.cuCtxPushCurrent_v2(owner) != CUDA_SUCCESS) /* it is gone, and its memory with it */
        return CUDA_ERROR_INVALID_VALUE;
    result = tsr_real.cuCtxSynchronize();
    tsr_real.cuCtxPopCurrent_v2(&current);
    return result == CUDA_SUCCESS ? tsr_order_state() : result;
}

static void give_later_locked(struct tsr_allocation *allocation)
{
    if (tsr_vec_push(&doomed, allocation))
        tsr_allocation_hide(allocation);
}

/* To wait for a context while one of its streams is captured would end the capture, though the program may free memory meanwhile. */
static CUresult free_in_arena(CUdeviceptr dptr, const struct tsr_allocation *found)
{
    bool capturing = tsr_is_any_capture();
    CUresult result = capturing ? CUDA_SUCCESS : tsr_memory_wait(found->context);
    capturing |= result == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED; /* one has just begun */
    if (capturing)
        result = tsr_memory_refused();
    if (result != CUDA_SUCCESS)
        return result;
    CUstreamCaptureMode mode = tsr_memory_relax_begin();
    tsr_memory_lock();
    struct tsr_allocation *allocation = tsr_allocation_find(dptr);
    bool same = allocation && allocation->id == found->id;
    if (same && capturing) {
        give_later_locked(allocation);
    } else if (same) {
        give_doomed_locked(found->context);
        give_now_locked(allocation);
    }
    tsr_memory_unlock();
    tsr_memory_relax_end(mode);
    return same ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult tsr_memory_free(CUdeviceptr address)
{
    struct tsr_allocation found;
    bool begins = tsr_memory_describe(address, &found) && found.address == address;
    return begins ? free_in_arena(address, &found) : CUDA_ERROR_INVALID_VALUE;
}

/* For what the stream's next work would wait for: also the legacy stream's, by its rules, if the stream has had no work of its own since. */
static CUresult wait_for_stream(CUstream named)
{
    struct tsr_order_hold hold;
    CUcontext context, popped;
    CUevent event = NULL;
    CUresult result = tsr_order_enter(named, false, &hold);
    if (result != CUDA_SUCCESS)
        return result;
    bool other = !tsr_stream_is_default(named) && tsr_real.cuStreamGetCtx(named, &context) == CUDA_SUCCESS &&
                 tsr_real.cuCtxPushCurrent_v2(context) == CUDA_SUCCESS; /* the event is of the stream's */
    result = tsr_real.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
    if (result == CUDA_SUCCESS)
        result = tsr_real.cuEventRecord(event, named);
    tsr_order_leave(&hold);
    if (result == CUDA_SUCCESS)
        result = tsr_real.cuEventSynchronize(event);
    if (event)
        tsr_real.cuEventDestroy_v2(event);
    if (other)
        tsr_real.cuCtxPopCurrent_v2(&popped);
    return result;
}

bool tsr_memory_free_after(CUdeviceptr dptr, CUstream stream, bool per_thread, CUresult *result)
{
    struct tsr_allocation found;
    if (!tsr_memory_describe(dptr, &found) || found.address != dptr)
        return false;
    *result = wait_for_stream(tsr_stream_named(stream, per_thread));
    tsr_memory_lock();
    struct tsr_allocation *allocation = *result == CUDA_SUCCESS ? tsr_allocation_find(dptr) : NULL;
    bool same = allocation && allocation->id == found.id;
    if (same && tsr_is_any_capture() && tsr_copies_matter()) /* pulls of other streams may move its bytes */
        give_later_locked(allocation);
    else if (same)
        tsr_allocation_give(allocation, TSR_BLOCKS_FREE);
    tsr_memory_unlock();
    return true;
}

TSR_REDIRECTED(cuMemFree_v2)(CUdeviceptr dptr)
{
    struct tsr_allocation found;
    if (tsr_memory_describe(dptr, &found))
        return tsr_memory_free(dptr);
    CUresult result = tsr_order_join_all();
    if (result != CUDA_SUCCESS)
        return result;
    struct tsr_home_only taken = tsr_home_only_take(dptr);
    result = tsr_real.cuMemFree_v2(dptr);
    tsr_home_only_put_back(taken, result);
    return result;
}

bool tsr_memory_describe(CUdeviceptr address, struct tsr_allocation *out)
{
    tsr_memory_lock();
    const struct tsr_allocation *allocation = tsr_allocation_find(address);
    if (allocation)
        *out = *allocation;
    tsr_memory_unlock();
    return allocation != NULL;
}

TSR_REDIRECTED(cuMemGetAddressRange_v2)(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr)
{
    struct tsr_allocation found;
    if (!tsr_memory_describe(dptr, &found) && !tsr_ipc_describe(dptr, &found.address, &found.bytes))
        return tsr_arena_covers(dptr) ? CUDA_ERROR_NOT_FOUND : tsr_real.cuMemGetAddressRange_v2(pbase, psize, dptr);
    if (pbase)
        *pbase = found.address;
    if (psize)
        *psize = found.bytes;
    return CUDA_SUCCESS;
}

/* What others have of the home GPU is none of the pool's. */
static CUresult pool_info(size_t *free, size_t *total, uint64_t idle)
{
    size_t here;
    tsr_memory_lock();
    struct tsr_owners_room room = tsr_owners_room();
    uint64_t given_back = __atomic_load_n(&tsr_copies_held[0], __ATOMIC_RELAXED);
    tsr_memory_unlock();
    CUresult result = tsr_real.cuMemGetInfo_v2(&here, total);
    if (result != CUDA_SUCCESS)
        return result;
    uint64_t lacks = room.home > here + given_back ? room.home - here - given_back : 0;
    *free = room.free + idle - lacks;
    *total = room.total;
    return CUDA_SUCCESS;
}

/* Chunks that hold nothing are mapped and yet free; memory that lies elsewhere is the home GPU's all the same. */
TSR_REDIRECTED(cuMemGetInfo_v2)(size_t *free, size_t *total)
{
    if (!free || !tsr_memory_at_home())
        return tsr_real.cuMemGetInfo_v2(free, total);
    tsr_memory_lock();
    tsr_pool_settle_all_locked();
    uint64_t idle = tsr_heap_idle_bytes(&small) + tsr_pools_spare_bytes_locked(), away = tsr_backing_away_bytes();
    bool pooled = tsr_owners_are_on();
    tsr_memory_unlock();
    if (pooled)
        return pool_info(free, total, idle);
    CUresult result = tsr_real.cuMemGetInfo_v2(free, total);
    if (result == CUDA_SUCCESS)
        *free = *free + idle > away ? *free + idle - away : 0;
    return result;
}

static CUresult pool_total(size_t *bytes, CUdevice device)
{
    CUresult result = tsr_real.cuDeviceTotalMem_v2(bytes, device);
    if (result != CUDA_SUCCESS || !tsr_owners_are_wanted() || device != tsr_session()->home)
        return result;
    tsr_memory_lock();
    if (tsr_owners_are_on())
        *bytes = tsr_owners_room().total;
    tsr_memory_unlock();
    return CUDA_SUCCESS;
}

TSR_REDIRECTED(cuDeviceTotalMem_v2)(size_t *bytes, CUdevice dev)
{
    return bytes ? pool_total(bytes, dev) : tsr_real.cuDeviceTotalMem_v2(bytes, dev);
}

static void give_if_owned(struct tsr_allocation *allocation, void *context)
{
    bool pooled = allocation->heap && allocation->heap->pool;
    if (allocation->context == context && !pooled && !allocation->doomed)
        tsr_allocation_give(allocation, TSR_BLOCKS_FREE);
}

void tsr_memory_context_gone(CUcontext context)
{
    tsr_memory_lock();
    tsr_memory_context_ended_locked(context);
    tsr_freed_context_gone_locked(context);
    give_doomed_locked(context);
    tsr_allocation_each(give_if_owned, context);
    tsr_heap_trim(&small, 0);
    tsr_host_context_gone_locked(context);
    tsr_memory_unlock();
    tsr_spill_context_gone(context);
    tsr_relay_context_gone(context);
}

CUresult tsr_memory_open_to(CUdevice device)
{
    tsr_memory_lock();
    CUresult result = tsr_heap_grant(&small, device, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    if (result == CUDA_SUCCESS)
        result = tsr_heap_grant(NULL, device, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    tsr_memory_unlock();
    return result;
}

void tsr_memory_forget(void)
{
    tsr_allocation_forget();
    tsr_pool_forget();
    tsr_arena_forget();
    tsr_copies_forget();
    tsr_spill_forget();
    tsr_vmm_forget();
    tsr_physical_forget();
    tsr_host_forget();
    tsr_memory_context_forget();
    tsr_relay_forget();
    tsr_pairs_forget();
    tsr_ipc_forget();
    tsr_home_only_forget();
    small = (struct tsr_heap){.chunk_bytes = TSR_ARENA_PAGE};
    tsr_vec_clear(&doomed);
}
