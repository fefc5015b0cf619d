/*
 * Copies and memsets of linear memory. Every copy is a CUDA_MEMCPY3D_PEER: rows of WidthInBytes, Height rows a slice, Depth slices. Memory that is not in
 * the address space is pageable host memory: it is read and written through the kernel, so that a wrong pointer is an error and not a signal.
 */
#ifndef TSR_STREAM_COPY_H
#define TSR_STREAM_COPY_H

#include "work.h"

struct tsr_copy_places {
    uint32_t from, to; /* device number or TSR_LOCATION_HOST */
    uint64_t bytes;
    bool from_pageable, to_pageable;
};

/*
 * Whether the copy is possible now, and between which places. UNIFIED operands may be anything, DEVICE ones must lie in the address
 * space, HOST ones are not looked at further. Memory that is mapped (cuMemMap) must allow it to the context's device, of copies between peers to each
 * side's own (drivers copy other memory of any device); by: NULL: to some device. Errors: INVALID_VALUE; those of the peers' contexts.
 */
CUresult tsr_copy_check(const CUDA_MEMCPY3D_PEER *shape, const struct tsr_context *by, struct tsr_copy_places *places);
/* Whether the pageable sides are mapped in this process, as far as they are pages. Errors: INVALID_VALUE. */
CUresult tsr_copy_probe(const CUDA_MEMCPY3D_PEER *shape, const struct tsr_copy_places *places);
/* Copies; if staging is not NULL it holds the source, packed. Errors: ILLEGAL_ADDRESS. */
CUresult tsr_copy_run(const CUDA_MEMCPY3D_PEER *shape, const void *staging);
/* Changes the first byte where it has gone to. */
void tsr_copy_corrupt(const CUDA_MEMCPY3D_PEER *shape);
/* The source, packed, in memory that the caller frees. Errors: OUT_OF_MEMORY, INVALID_VALUE. */
CUresult tsr_copy_stage(const CUDA_MEMCPY3D_PEER *shape, void **staging);

/* dst must lie in the address space and be writable, as for copies; *location: where. Errors: INVALID_VALUE. */
CUresult tsr_memset_check(CUdeviceptr dst, size_t pitch, size_t width_bytes, size_t height, const struct tsr_context *by,
                          uint32_t *location);
CUresult tsr_memset_run(const struct tsr_work *work);

#endif
