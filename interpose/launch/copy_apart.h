/*
 * Copies in a stream of another GPU of the application that cannot access the home GPU's memory, as there is no peer access. Drivers carry memory that they
 * allocated through the host; of memory that is mapped, as the arena's is, they refuse that, unless the copy names the contexts of both sides.
 */
#ifndef TSR_LAUNCH_COPY_APART_H
#define TSR_LAUNCH_COPY_APART_H

#include "api/driver.h"

#include <stdbool.h>
#include <stddef.h>

#include "memory/memory.h"

/* False: the copy is none of these. Else its result. */
bool tsr_copy_apart_slow(CUstream stream, bool per_thread, CUdeviceptr to, CUdeviceptr from, size_t bytes, CUresult *result);
bool tsr_copy_rows_apart_slow(CUstream stream, bool per_thread, const CUDA_MEMCPY2D *rows, CUresult *result);

static inline bool tsr_copy_apart(CUstream stream, bool per_thread, CUdeviceptr to, CUdeviceptr from, size_t bytes,
                                  CUresult *result)
{
    return tsr_memory_any_apart() && tsr_copy_apart_slow(stream, per_thread, to, from, bytes, result);
}

static inline bool tsr_copy_rows_apart(CUstream stream, bool per_thread, const CUDA_MEMCPY2D *rows, CUresult *result)
{
    return tsr_memory_any_apart() && tsr_copy_rows_apart_slow(stream, per_thread, rows, result);
}

#endif
