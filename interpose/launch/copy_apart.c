/* See copy_apart.h. */
#include "launch/copy_apart.h"

#include "driver/real.h"
#include "driver/stream_handle.h"
#include "memory/allocation.h"
#include "memory/arena.h"

struct side {
    bool ours; /* in the arena */
    CUcontext context;
};

/* False: it is no GPU's memory. */
static bool find_side(CUdeviceptr address, struct side *side)
{
    CUmemorytype type = CU_MEMORYTYPE_HOST;
    side->ours = tsr_arena_holds(address, 1);
    side->context = NULL;
    if (side->ours) {
        tsr_memory_lock();
        const struct tsr_allocation *allocation = tsr_allocation_find(address);
        side->context = allocation ? allocation->context : NULL;
        tsr_memory_unlock();
        return side->context;
    }
    return tsr_real.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) == CUDA_SUCCESS &&
           type == CU_MEMORYTYPE_DEVICE &&
           tsr_real.cuPointerGetAttribute(&side->context, CU_POINTER_ATTRIBUTE_CONTEXT, address) == CUDA_SUCCESS &&
           side->context;
}

/* Rows that follow each other are one. */
static bool copy(CUstream named, CUDA_MEMCPY3D_PEER *shape, CUresult *result)
{
    struct side to, from;
    if (!tsr_memory_is_apart(named) || !find_side(shape->dstDevice, &to) || !find_side(shape->srcDevice, &from) ||
        !(to.ours || from.ours))
        return false;
    shape->dstContext = to.context;
    shape->srcContext = from.context;
    *result = shape->Height == 1
                  ? tsr_real.cuMemcpyPeerAsync(shape->dstDevice + shape->dstXInBytes, to.context,
                                               shape->srcDevice + shape->srcXInBytes, from.context, shape->WidthInBytes, named)
                  : tsr_real.cuMemcpy3DPeerAsync(shape, named);
    return true;
}

bool tsr_copy_apart_slow(CUstream stream, bool per_thread, CUdeviceptr to, CUdeviceptr from, size_t bytes, CUresult *result)
{
    CUDA_MEMCPY3D_PEER shape = {.dstDevice = to, .srcDevice = from, .WidthInBytes = bytes, .Height = 1};
    return bytes && copy(tsr_stream_named(stream, per_thread), &shape, result);
}

static bool is_on_device(CUmemorytype type)
{
    return type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_UNIFIED;
}

bool tsr_copy_rows_apart_slow(CUstream stream, bool per_thread, const CUDA_MEMCPY2D *rows, CUresult *result)
{
    if (!rows || !rows->WidthInBytes || !rows->Height || !is_on_device(rows->dstMemoryType) ||
        !is_on_device(rows->srcMemoryType))
        return false;
    CUDA_MEMCPY3D_PEER shape = {.srcXInBytes = rows->srcXInBytes,
                                .srcY = rows->srcY,
                                .srcMemoryType = CU_MEMORYTYPE_DEVICE,
                                .srcDevice = rows->srcDevice,
                                .srcPitch = rows->srcPitch,
                                .dstXInBytes = rows->dstXInBytes,
                                .dstY = rows->dstY,
                                .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                                .dstDevice = rows->dstDevice,
                                .dstPitch = rows->dstPitch,
                                .WidthInBytes = rows->WidthInBytes,
                                .Height = rows->Height,
                                .Depth = 1};
    if (rows->Height == 1) { /* which has no pitch to speak of */
        shape.dstDevice += rows->dstY * rows->dstPitch;
        shape.srcDevice += rows->srcY * rows->srcPitch;
    }
    return copy(tsr_stream_named(stream, per_thread), &shape, result);
}
