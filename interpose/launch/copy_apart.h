/*
 * Copies in a stream of another GPU of the application that cannot access the home GPU's memory, as there is no peer access. Drivers carry memory that they
 * allocated through the host; of memory that is mapped, as the arena's is, they refuse that, unless the copy names the contexts of both sides.
 */
#ifndef TSR_LAUNCH_COPY_APART_H
#define TSR_LAUNCH_COPY_APART_H

#include "api/driver.h"

#include <stdbool.h>
#include <stddef.h>

#include "driver/stream_handle.h"
#include "memory/memory.h"

/* Whether the copy is one of these; then *shape is what to ask the driver for. Takes the memory lock, so before anything is held. */
bool tsr_copy_is_apart_slow(CUstream stream, bool per_thread, CUdeviceptr to, CUdeviceptr from, size_t bytes,
                            CUDA_MEMCPY3D_PEER *shape);
bool tsr_copy_rows_are_apart_slow(CUstream stream, bool per_thread, const CUDA_MEMCPY2D *rows, CUDA_MEMCPY3D_PEER *shape);

static inline bool tsr_copy_is_apart(CUstream stream, bool per_thread, CUdeviceptr to, CUdeviceptr from, size_t bytes,
                                     CUDA_MEMCPY3D_PEER *shape)
{
    tsr_memory_open_for_copy(tsr_stream_named(stream, per_thread), to, from);
    return tsr_memory_any_apart() && tsr_copy_is_apart_slow(stream, per_thread, to, from, bytes, shape);
}

/* Whether a side of a copy may be a GPU's memory. */
static inline bool tsr_copy_may_be_device(CUmemorytype type)
{
    return type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_UNIFIED;
}

static inline bool tsr_copy_rows_are_apart(CUstream stream, bool per_thread, const CUDA_MEMCPY2D *rows,
                                           CUDA_MEMCPY3D_PEER *shape)
{
    if (rows)
        tsr_memory_open_for_copy(tsr_stream_named(stream, per_thread),
                                 tsr_copy_may_be_device(rows->dstMemoryType) ? rows->dstDevice : 0,
                                 tsr_copy_may_be_device(rows->srcMemoryType) ? rows->srcDevice : 0);
    return tsr_memory_any_apart() && tsr_copy_rows_are_apart_slow(stream, per_thread, rows, shape);
}

CUresult tsr_copy_apart(CUstream stream, bool per_thread, const CUDA_MEMCPY3D_PEER *shape);

#endif
