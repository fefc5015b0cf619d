/* Memory pools and stream-ordered allocation. */
#include "guard.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"

#include "../context/handles.h"
#include "../memory/pool.h"
#include "../memory/share.h"
#include "../stream/work.h"

static CUresult find(CUmemoryPool handle, struct tsr_emulated_pool **out)
{
    TSR_TRY(tsr_driver_ready());
    *out = handle ? tsr_handle_find(tsr_handle_table(), TSR_KIND_POOL, handle) : NULL;
    return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static struct tsr_stream_key key_of(struct tsr_emulated_stream *stream)
{
    return (struct tsr_stream_key){stream, tsr_context_id(tsr_stream_context(stream))};
}

/* When nothing is left, what has been freed may only be waiting for its turn. */
static CUresult alloc_patiently(struct tsr_emulated_pool *pool, struct tsr_emulated_stream *stream, size_t bytes,
                                uint64_t *address)
{
    struct tsr_context *context = tsr_stream_context(stream);
    CUresult result = tsr_pool_alloc(pool, context, bytes, key_of(stream), address);
    if (result != CUDA_ERROR_OUT_OF_MEMORY || tsr_stream_capturing(stream))
        return result;
    TSR_TRY(tsr_context_wait(context));
    return tsr_pool_alloc(pool, context, bytes, key_of(stream), address);
}

static CUresult alloc_on(struct tsr_emulated_pool *pool, struct tsr_emulated_stream *stream, size_t bytes, CUdeviceptr *out)
{
    uint64_t address;
    if (!pool)
        TSR_TRY(tsr_pool_current(tsr_emulated_context_device(tsr_stream_context(stream)), &pool));
    TSR_REQUIRE(
        tsr_pool_device(pool) == tsr_emulated_context_device(tsr_stream_context(stream)) ||
            tsr_machine_instance()
                ->links[tsr_emulated_context_device(tsr_stream_context(stream)) * TSR_MACHINE_DEVICES + tsr_pool_device(pool)]
                .peer_access,
        CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(alloc_patiently(pool, stream, bytes, &address));
    *out = address;
    return CUDA_SUCCESS;
}

static CUresult alloc(CUdeviceptr *dptr, size_t bytes, struct tsr_emulated_pool *pool, CUstream handle)
{
    struct tsr_emulated_stream *stream;
    TSR_REQUIRE(dptr, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(tsr_stream_get(tsr_driver_stream(handle), &stream));
    CUresult result = CUDA_SUCCESS;
    if (bytes)
        result = alloc_on(pool, stream, bytes, dptr);
    else
        *dptr = 0;
    tsr_stream_put(stream);
    return result;
}

CUresult CUDAAPI cuMemAllocAsync(CUdeviceptr *dptr, size_t bytesize, CUstream hStream)
{
    TSR_TRY(tsr_driver_ready());
    return alloc(dptr, bytesize, NULL, hStream);
}

CUresult CUDAAPI cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream)
{
    struct tsr_emulated_pool *found;
    TSR_TRY(find(pool, &found));
    return alloc(dptr, bytesize, found, hStream);
}

/* On the engine, when the stream has come to it; also when it never will. */
static void free_reached(void *data, bool run)
{
    (void)run;
    tsr_pool_free_end(data);
    free(data);
}

static CUresult free_on(struct tsr_emulated_stream *stream, CUdeviceptr dptr)
{
    if (tsr_stream_capturing(stream)) {
        tsr_info("memory freed in a captured graph stays allocated until its pool is destroyed");
        return CUDA_SUCCESS;
    }
    struct tsr_pool_free *pending = malloc(sizeof *pending);
    TSR_REQUIRE(pending, CUDA_ERROR_OUT_OF_MEMORY);
    if (!tsr_pool_free_begin(dptr, key_of(stream), pending)) {
        free(pending);
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct tsr_work work = {.kind = TSR_WORK_CALL, .context = tsr_stream_context(stream)};
    work.call.fn = free_reached;
    work.call.data = pending;
    work.call.name = "cuMemFreeAsync";
    return tsr_stream_submit(stream, &work);
}

/* Ordinary memory may be freed in stream order too: here by waiting for the stream, and for what its next work would come after. */
static CUresult free_ordinary(struct tsr_emulated_stream *stream, CUdeviceptr dptr)
{
    struct tsr_range range;
    struct tsr_emulated_allocation allocation;
    TSR_REQUIRE(tsr_emulated_allocation_find(dptr, &range, &allocation) && range.base == dptr, CUDA_ERROR_INVALID_VALUE);
    bool imported = range.kind == TSR_RANGE_IPC && allocation.detail;
    TSR_REQUIRE(range.kind == TSR_RANGE_PLAIN || imported, CUDA_ERROR_INVALID_VALUE);
    TSR_REQUIRE(!tsr_stream_capturing(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    struct tsr_work nothing = {.kind = TSR_WORK_EMPTY};
    TSR_TRY(tsr_stream_submit(stream, &nothing));
    TSR_TRY(tsr_stream_wait(stream));
    if (imported)
        return tsr_share_close(dptr);
    return tsr_memory_release(dptr, TSR_RANGE_PLAIN) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream)
{
    struct tsr_emulated_stream *stream;
    struct tsr_range range;
    TSR_TRY(tsr_driver_ready());
    TSR_TRY(tsr_stream_get(tsr_driver_stream(hStream), &stream));
    CUresult result;
    if (!dptr)
        result = CUDA_SUCCESS;
    else if (!tsr_space_lookup(tsr_space_instance(), dptr, &range))
        result = CUDA_ERROR_INVALID_VALUE;
    else
        result = range.kind == TSR_RANGE_POOL ? free_on(stream, dptr) : free_ordinary(stream, dptr);
    tsr_stream_put(stream);
    return result;
}

CUresult CUDAAPI cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *poolProps)
{
    struct tsr_emulated_pool *made;
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(pool && poolProps && poolProps->allocType == CU_MEM_ALLOCATION_TYPE_PINNED, CUDA_ERROR_INVALID_VALUE);
    TSR_REQUIRE(poolProps->location.type == CU_MEM_LOCATION_TYPE_DEVICE, CUDA_ERROR_NOT_SUPPORTED);
    TSR_REQUIRE(tsr_device_check(poolProps->location.id) == CUDA_SUCCESS, CUDA_ERROR_INVALID_VALUE);
    unsigned types = (unsigned)poolProps->handleTypes;
    TSR_REQUIRE(!(types & ~(unsigned)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR), CUDA_ERROR_NOT_SUPPORTED);
    TSR_TRY(tsr_pool_create((uint32_t)poolProps->location.id, poolProps->maxSize, types, &made));
    *pool = tsr_emulated_pool_handle(made);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemPoolDestroy(CUmemoryPool pool)
{
    struct tsr_emulated_pool *found;
    TSR_TRY(find(pool, &found));
    return tsr_pool_destroy(found);
}

static CUresult device_pool(CUmemoryPool *out, CUdevice dev, CUresult (*get)(uint32_t, struct tsr_emulated_pool **))
{
    struct tsr_emulated_pool *pool;
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(out, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(tsr_device_check(dev));
    TSR_TRY(get((uint32_t)dev, &pool));
    *out = tsr_emulated_pool_handle(pool);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetDefaultMemPool(CUmemoryPool *pool_out, CUdevice dev)
{
    return device_pool(pool_out, dev, tsr_pool_default);
}

CUresult CUDAAPI cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev)
{
    return device_pool(pool, dev, tsr_pool_current);
}

CUresult CUDAAPI cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool)
{
    struct tsr_emulated_pool *found;
    TSR_TRY(tsr_device_check(dev));
    TSR_TRY(find(pool, &found));
    TSR_REQUIRE(tsr_pool_device(found) == (uint32_t)dev, CUDA_ERROR_INVALID_DEVICE);
    tsr_pool_current_set((uint32_t)dev, found);
    return CUDA_SUCCESS;
}

static CUresult location_check(const CUmemLocation *location, CUmemAllocationType type)
{
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(location && type == CU_MEM_ALLOCATION_TYPE_PINNED, CUDA_ERROR_INVALID_VALUE);
    TSR_REQUIRE(location->type == CU_MEM_LOCATION_TYPE_DEVICE, CUDA_ERROR_NOT_SUPPORTED);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemGetDefaultMemPool(CUmemoryPool *pool_out, CUmemLocation *location, CUmemAllocationType type)
{
    TSR_TRY(location_check(location, type));
    return cuDeviceGetDefaultMemPool(pool_out, location->id);
}

CUresult CUDAAPI cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type)
{
    TSR_TRY(location_check(location, type));
    return cuDeviceGetMemPool(pool, location->id);
}

CUresult CUDAAPI cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool)
{
    TSR_TRY(location_check(location, type));
    return cuDeviceSetMemPool(location->id, pool);
}

CUresult CUDAAPI cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep)
{
    struct tsr_emulated_pool *found;
    TSR_TRY(find(pool, &found));
    tsr_emulated_pool_trim(found, minBytesToKeep);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
    struct tsr_emulated_pool *found;
    TSR_TRY(find(pool, &found));
    TSR_REQUIRE(value, CUDA_ERROR_INVALID_VALUE);
    return tsr_pool_attribute_get(found, attr, value);
}

CUresult CUDAAPI cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
    struct tsr_emulated_pool *found;
    TSR_TRY(find(pool, &found));
    TSR_REQUIRE(value, CUDA_ERROR_INVALID_VALUE);
    return tsr_pool_attribute_set(found, attr, value);
}

static bool access_known(CUmemAccess_flags flags)
{
    return flags == CU_MEM_ACCESS_FLAGS_PROT_NONE || flags == CU_MEM_ACCESS_FLAGS_PROT_READ ||
           flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
}

CUresult CUDAAPI cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool memPool, CUmemLocation *location)
{
    struct tsr_emulated_pool *found;
    TSR_TRY(find(memPool, &found));
    TSR_REQUIRE(flags && location && location->type == CU_MEM_LOCATION_TYPE_DEVICE, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(tsr_device_check(location->id));
    tsr_pool_access_get(found, (uint32_t)location->id, flags);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count)
{
    struct tsr_emulated_pool *found;
    TSR_TRY(find(pool, &found));
    TSR_REQUIRE(map && count, CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < count; i++) {
        TSR_REQUIRE(map[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE && access_known(map[i].flags),
                    CUDA_ERROR_INVALID_VALUE);
        TSR_TRY(tsr_device_check(map[i].location.id));
        uint32_t from = (uint32_t)map[i].location.id, to = tsr_pool_device(found);
        bool reachable = from == to || tsr_machine_instance()->links[from * TSR_MACHINE_DEVICES + to].peer_access;
        TSR_REQUIRE(reachable, CUDA_ERROR_INVALID_DEVICE);
        TSR_REQUIRE(from != to || map[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE, CUDA_ERROR_INVALID_DEVICE);
    }
    for (size_t i = 0; i < count; i++)
        tsr_pool_access_set(found, (uint32_t)map[i].location.id, map[i].flags);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemPoolExportToShareableHandle(void *handle_out, CUmemoryPool pool, CUmemAllocationHandleType handleType,
                                                  unsigned long long flags)
{
    struct tsr_emulated_pool *found;
    TSR_TRY(find(pool, &found));
    TSR_REQUIRE(handle_out && !flags && handleType == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, CUDA_ERROR_INVALID_VALUE);
    TSR_REQUIRE(tsr_pool_handle_types(found) & (unsigned)handleType, CUDA_ERROR_INVALID_VALUE);
    int descriptor = tsr_pool_export(found);
    TSR_REQUIRE(descriptor >= 0, CUDA_ERROR_OPERATING_SYSTEM);
    memcpy(handle_out, &descriptor, sizeof descriptor);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemPoolImportFromShareableHandle(CUmemoryPool *pool_out, void *handle, CUmemAllocationHandleType handleType,
                                                    unsigned long long flags)
{
    struct tsr_emulated_pool *pool;
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(pool_out && !flags && handleType == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, CUDA_ERROR_INVALID_VALUE);
    TSR_REQUIRE((uintptr_t)handle <= INT32_MAX, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(tsr_pool_import((int)(uintptr_t)handle, &pool));
    *pool_out = tsr_emulated_pool_handle(pool);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemPoolExportPointer(CUmemPoolPtrExportData *shareData_out, CUdeviceptr ptr)
{
    struct tsr_range range;
    struct tsr_emulated_allocation allocation;
    struct tsr_share_name name;
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(shareData_out && tsr_emulated_allocation_find(ptr, &range, &allocation) && range.kind == TSR_RANGE_POOL,
                CUDA_ERROR_INVALID_VALUE);
    TSR_REQUIRE(tsr_pool_handle_types(allocation.detail), CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(tsr_share_make(ptr, &name));
    memcpy(shareData_out, &name, sizeof name);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemPoolImportPointer(CUdeviceptr *ptr_out, CUmemoryPool pool, CUmemPoolPtrExportData *shareData)
{
    struct tsr_emulated_pool *found;
    struct tsr_context *context;
    struct tsr_share_name name;
    uint64_t address;
    TSR_TRY(find(pool, &found));
    TSR_REQUIRE(ptr_out && shareData && tsr_pool_is_imported(found), CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(tsr_context_current(&context));
    memcpy(&name, shareData, sizeof name);
    TSR_TRY(tsr_emulated_share_open(context, &name, found, &address));
    *ptr_out = address;
    return CUDA_SUCCESS;
}
