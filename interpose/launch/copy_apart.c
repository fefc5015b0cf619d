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
    side->ours = tsr_arena_covers(address);
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

static bool is_apart(CUstream named, CUDA_MEMCPY3D_PEER *shape)
{
    struct side to, from;
    if (!tsr_memory_is_apart(named) || !find_side(shape->dstDevice, &to) || !find_side(shape->srcDevice, &from))
        return false;
    shape->dstContext = to.context;
    shape->srcContext = from.context;
    return to.ours || from.ours;
}

bool tsr_copy_is_apart_slow(CUstream stream, bool per_thread, CUdeviceptr to, CUdeviceptr from, size_t bytes,
                            CUDA_MEMCPY3D_PEER *shape)
{
    *shape = (CUDA_MEMCPY3D_PEER){.dstDevice = to, .srcDevice = from, .WidthInBytes = bytes, .Height = 1};
    return bytes && is_apart(tsr_stream_named(stream, per_thread), shape);
}

bool tsr_copy_rows_are_apart_slow(CUstream stream, bool per_thread, const CUDA_MEMCPY2D *rows, CUDA_MEMCPY3D_PEER *shape)
{
    if (!rows || !rows->WidthInBytes || !rows->Height || !tsr_copy_may_be_device(rows->dstMemoryType) ||
        !tsr_copy_may_be_device(rows->srcMemoryType))
        return false;
    *shape = (CUDA_MEMCPY3D_PEER){.srcXInBytes = rows->srcXInBytes,
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
        shape->dstDevice += rows->dstY * rows->dstPitch;
        shape->srcDevice += rows->srcY * rows->srcPitch;
    }
    return is_apart(tsr_stream_named(stream, per_thread), shape);
}

CUresult tsr_copy_apart(CUstream stream, bool per_thread, const CUDA_MEMCPY3D_PEER *shape)
{
    CUstream named = tsr_stream_named(stream, per_thread);
    return shape->Height > 1 ? tsr_real.cuMemcpy3DPeerAsync(shape, named)
                             : tsr_real.cuMemcpyPeerAsync(shape->dstDevice + shape->dstXInBytes, shape->dstContext,
                                                          shape->srcDevice + shape->srcXInBytes, shape->srcContext,
                                                          shape->WidthInBytes, named);
}
