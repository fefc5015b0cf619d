/*
 * All the ways in which the driver's functions describe a copy, as one: struct CUDA_MEMCPY3D_PEER. And how copies are enqueued:
 * - asynchronous ones whose source is pageable host memory read it before they return, those whose target is pageable wait until they are done;
 * - in a capturing stream neither happens, the node names the memory;
 * - synchronous ones run in the default stream and wait.
 */
#ifndef TSR_ENTRY_COPY_SHAPE_H
#define TSR_ENTRY_COPY_SHAPE_H

#include "api/driver.h"

#include "../stream/work.h"

/* One side as an address of the given type. */
CUDA_MEMCPY3D_PEER tsr_copy_linear(CUmemorytype to, uint64_t dst, CUmemorytype from, uint64_t src, size_t bytes);
/* Errors: NOT_SUPPORTED (arrays), INVALID_VALUE (pitches, types, level of detail). */
CUresult tsr_copy_from_2d(const CUDA_MEMCPY2D *from, CUDA_MEMCPY3D_PEER *out);
CUresult tsr_copy_from_3d(const CUDA_MEMCPY3D *from, CUDA_MEMCPY3D_PEER *out);
CUresult tsr_copy_from_peer(const CUDA_MEMCPY3D_PEER *from, CUDA_MEMCPY3D_PEER *out);
void tsr_copy_to_3d(const CUDA_MEMCPY3D_PEER *from, CUDA_MEMCPY3D *out);

CUresult tsr_copy_now(const CUDA_MEMCPY3D_PEER *shape);
CUresult tsr_copy_async(const CUDA_MEMCPY3D_PEER *shape, CUstream stream);

#endif
