#include "copy_shape.h"

#include <stddef.h>
#include <string.h>

#include "../stream/copy.h"
#include "guard.h"

#define STAGED_BYTES (64u << 20) /* a larger pageable source is not copied aside, its copy is waited for */

_Static_assert(sizeof(CUDA_MEMCPY3D) == sizeof(CUDA_MEMCPY3D_PEER) &&
                   offsetof(CUDA_MEMCPY3D, dstMemoryType) == offsetof(CUDA_MEMCPY3D_PEER, dstMemoryType) &&
                   offsetof(CUDA_MEMCPY3D, Depth) == offsetof(CUDA_MEMCPY3D_PEER, Depth),
               "they differ in what they call the context only");

CUDA_MEMCPY3D_PEER tsr_copy_linear(CUmemorytype to, uint64_t dst, CUmemorytype from, uint64_t src, size_t bytes)
{
    return (CUDA_MEMCPY3D_PEER){
        .srcMemoryType = from,
        .srcHost = (const void *)(uintptr_t)src,
        .srcDevice = src,
        .dstMemoryType = to,
        .dstHost = (void *)(uintptr_t)dst,
        .dstDevice = dst,
        .WidthInBytes = bytes,
        .Height = 1,
        .Depth = 1,
    };
}

static CUresult check(const CUDA_MEMCPY3D_PEER *shape)
{
    const CUmemorytype types[] = {shape->srcMemoryType, shape->dstMemoryType};
    for (int i = 0; i < 2; i++) {
        TSR_REQUIRE(types[i] != CU_MEMORYTYPE_ARRAY, CUDA_ERROR_NOT_SUPPORTED);
        TSR_REQUIRE(types[i] >= CU_MEMORYTYPE_HOST && types[i] <= CU_MEMORYTYPE_UNIFIED, CUDA_ERROR_INVALID_VALUE);
    }
    TSR_REQUIRE(!shape->srcLOD && !shape->dstLOD, CUDA_ERROR_INVALID_VALUE);
    TSR_REQUIRE(!shape->srcPitch || shape->srcPitch >= shape->srcXInBytes + shape->WidthInBytes, CUDA_ERROR_INVALID_VALUE);
    TSR_REQUIRE(!shape->dstPitch || shape->dstPitch >= shape->dstXInBytes + shape->WidthInBytes, CUDA_ERROR_INVALID_VALUE);
    TSR_REQUIRE(shape->Depth <= 1 || !shape->srcHeight || shape->srcHeight >= shape->srcY + shape->Height,
                CUDA_ERROR_INVALID_VALUE);
    TSR_REQUIRE(shape->Depth <= 1 || !shape->dstHeight || shape->dstHeight >= shape->dstY + shape->Height,
                CUDA_ERROR_INVALID_VALUE);
    return CUDA_SUCCESS;
}

CUresult tsr_copy_from_2d(const CUDA_MEMCPY2D *from, CUDA_MEMCPY3D_PEER *out)
{
    TSR_REQUIRE(from, CUDA_ERROR_INVALID_VALUE);
    *out = (CUDA_MEMCPY3D_PEER){
        .srcXInBytes = from->srcXInBytes,
        .srcY = from->srcY,
        .srcMemoryType = from->srcMemoryType,
        .srcHost = from->srcHost,
        .srcDevice = from->srcDevice,
        .srcPitch = from->srcPitch,
        .dstXInBytes = from->dstXInBytes,
        .dstY = from->dstY,
        .dstMemoryType = from->dstMemoryType,
        .dstHost = from->dstHost,
        .dstDevice = from->dstDevice,
        .dstPitch = from->dstPitch,
        .WidthInBytes = from->WidthInBytes,
        .Height = from->Height,
        .Depth = 1,
    };
    return check(out);
}

CUresult tsr_copy_from_3d(const CUDA_MEMCPY3D *from, CUDA_MEMCPY3D_PEER *out)
{
    TSR_REQUIRE(from && !from->reserved0 && !from->reserved1, CUDA_ERROR_INVALID_VALUE);
    memcpy(out, from, sizeof *out);
    return check(out);
}

CUresult tsr_copy_from_peer(const CUDA_MEMCPY3D_PEER *from, CUDA_MEMCPY3D_PEER *out)
{
    TSR_REQUIRE(from, CUDA_ERROR_INVALID_VALUE);
    *out = *from;
    return check(out);
}

void tsr_copy_to_3d(const CUDA_MEMCPY3D_PEER *from, CUDA_MEMCPY3D *out)
{
    memcpy(out, from, sizeof *out);
    out->reserved0 = out->reserved1 = NULL;
}

CUresult tsr_copy_now(const CUDA_MEMCPY3D_PEER *shape)
{
    struct tsr_emulated_stream *stream;
    struct tsr_copy_places places;
    struct tsr_work work = {.kind = TSR_WORK_COPY, .copy = {*shape, NULL}};
    TSR_TRY(tsr_driver_ready());
    TSR_TRY(tsr_stream_get(tsr_driver_stream(NULL), &stream));
    CUresult result = tsr_capture_check_unsafe_call(tsr_stream_context(stream));
    if (!result)
        result = tsr_copy_check(shape, tsr_stream_context(stream), &places);
    if (!result)
        result = tsr_copy_probe(shape, &places);
    if (!result)
        result = tsr_stream_submit(stream, &work);
    if (!result)
        result = tsr_stream_wait(stream);
    tsr_stream_put(stream);
    return result;
}

static CUresult enqueue(struct tsr_emulated_stream *stream, const CUDA_MEMCPY3D_PEER *shape)
{
    struct tsr_copy_places places;
    struct tsr_work work = {.kind = TSR_WORK_COPY, .copy = {*shape, NULL}};
    TSR_TRY(tsr_copy_check(shape, tsr_stream_context(stream), &places));
    bool capturing = tsr_stream_capturing(stream);
    if (!capturing)
        TSR_TRY(tsr_copy_probe(shape, &places));
    bool stage = !capturing && places.from_pageable && !places.to_pageable && places.bytes <= STAGED_BYTES;
    if (stage)
        TSR_TRY(tsr_copy_stage(shape, &work.copy.staging));
    TSR_TRY(tsr_stream_submit(stream, &work));
    if (!capturing && !stage && (places.from_pageable || places.to_pageable))
        return tsr_stream_wait(stream);
    return CUDA_SUCCESS;
}

CUresult tsr_copy_async(const CUDA_MEMCPY3D_PEER *shape, CUstream handle)
{
    struct tsr_emulated_stream *stream;
    TSR_TRY(tsr_driver_ready());
    TSR_TRY(tsr_stream_get(tsr_driver_stream(handle), &stream));
    CUresult result = enqueue(stream, shape);
    tsr_stream_put(stream);
    return result;
}
