#include "copy.h"

#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "../context/context.h"
#include "../space/bounds.h"

#define BOUNCE_BYTES 65536u
#define PAGE_BYTES 4096u
#define PROBED_PAGES 256u

/* One side of a copy. */
struct side {
    uint64_t base;
    size_t pitch, slice;
    CUmemorytype type;
};

static struct side source_of(const CUDA_MEMCPY3D_PEER *shape)
{
    size_t pitch = shape->srcPitch ? shape->srcPitch : shape->WidthInBytes + shape->srcXInBytes;
    size_t slice = pitch * (shape->srcHeight ? shape->srcHeight : shape->Height + shape->srcY);
    uint64_t base = shape->srcMemoryType == CU_MEMORYTYPE_HOST ? (uint64_t)(uintptr_t)shape->srcHost : shape->srcDevice;
    return (struct side){base + shape->srcZ * slice + shape->srcY * pitch + shape->srcXInBytes, pitch, slice,
                         shape->srcMemoryType};
}

static struct side target_of(const CUDA_MEMCPY3D_PEER *shape)
{
    size_t pitch = shape->dstPitch ? shape->dstPitch : shape->WidthInBytes + shape->dstXInBytes;
    size_t slice = pitch * (shape->dstHeight ? shape->dstHeight : shape->Height + shape->dstY);
    uint64_t base = shape->dstMemoryType == CU_MEMORYTYPE_HOST ? (uint64_t)(uintptr_t)shape->dstHost : shape->dstDevice;
    return (struct side){base + shape->dstZ * slice + shape->dstY * pitch + shape->dstXInBytes, pitch, slice,
                         shape->dstMemoryType};
}

static struct side staging_of(const CUDA_MEMCPY3D_PEER *shape, const void *staging)
{
    size_t slice = shape->WidthInBytes * shape->Height;
    return (struct side){(uint64_t)(uintptr_t)staging, shape->WidthInBytes, slice, CU_MEMORYTYPE_HOST};
}

static bool empty(const CUDA_MEMCPY3D_PEER *shape)
{
    return !shape->WidthInBytes || !shape->Height || !shape->Depth;
}

/* From the first byte to the last that is touched; 0 on overflow. */
static uint64_t extent(const struct side *side, const CUDA_MEMCPY3D_PEER *shape)
{
    uint64_t rows, slices, bytes, end;
    if (__builtin_mul_overflow(side->pitch, shape->Height - 1, &rows) ||
        __builtin_mul_overflow(side->slice, shape->Depth - 1, &slices) || __builtin_add_overflow(rows, slices, &bytes) ||
        __builtin_add_overflow(bytes, shape->WidthInBytes, &bytes) || __builtin_add_overflow(side->base, bytes, &end))
        return 0;
    return bytes;
}

enum coverage { COVERED, UNKNOWN, FORBIDDEN };

#define ANYBODY ((uint16_t)~0u)

/*
 * COVERED: every byte lies in ranges that allow the access to somebody, and mapped memory to one of the devices (bits); only mapped memory
 * may go on into the next range. UNKNOWN: the first byte lies in none.
 */
static enum coverage cover(const struct tsr_snapshot *snapshot, uint64_t base, uint64_t bytes, bool write, uint16_t devices,
                           uint32_t *location)
{
    for (uint64_t at = base; at < base + bytes;) {
        const struct tsr_range *range = tsr_snapshot_find(snapshot, at);
        if (!range)
            return at == base ? UNKNOWN : FORBIDDEN;
        if (!(tsr_range_devices(range, write) & (range->kind == TSR_RANGE_VMM ? devices : ANYBODY)))
            return FORBIDDEN;
        if (at == base)
            *location = range->location;
        else if (range->kind != TSR_RANGE_VMM)
            return FORBIDDEN;
        struct tsr_bounds_part part = tsr_bounds_part(range, at);
        if (!part.bytes)
            return FORBIDDEN;
        at = part.base + part.bytes;
    }
    return COVERED;
}

static CUresult check_side(const struct tsr_snapshot *snapshot, const struct side *side, const CUDA_MEMCPY3D_PEER *shape,
                           bool write, uint16_t devices, uint32_t *location, bool *pageable)
{
    uint64_t bytes = extent(side, shape);
    *location = TSR_LOCATION_HOST;
    if (side->type != CU_MEMORYTYPE_HOST && side->type != CU_MEMORYTYPE_DEVICE && side->type != CU_MEMORYTYPE_UNIFIED)
        return CUDA_ERROR_INVALID_VALUE;
    if (!bytes || !side->base || (shape->Height > 1 && side->pitch < shape->WidthInBytes))
        return CUDA_ERROR_INVALID_VALUE;
    switch (cover(snapshot, side->base, bytes, write, devices, location)) {
    case COVERED:
        return CUDA_SUCCESS;
    case UNKNOWN:
        *pageable = true;
        return side->type == CU_MEMORYTYPE_DEVICE ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

static uint16_t device_of(const struct tsr_context *context)
{
    return context ? (uint16_t)(1u << tsr_emulated_context_device(context)) : ANYBODY;
}

/* Who accesses one side of a copy. handle: of the side, in copies between peers. */
static CUresult find_devices(CUcontext handle, const struct tsr_context *by, uint16_t *devices)
{
    struct tsr_context *context;
    CUresult result = handle && by ? tsr_context_from_handle(handle, &context) : CUDA_SUCCESS;
    if (result == CUDA_SUCCESS)
        *devices = device_of(handle && by ? context : by);
    return result;
}

CUresult tsr_copy_check(const CUDA_MEMCPY3D_PEER *shape, const struct tsr_context *by, struct tsr_copy_places *places)
{
    uint16_t readers, writers;
    *places = (struct tsr_copy_places){.from = TSR_LOCATION_HOST, .to = TSR_LOCATION_HOST};
    if (empty(shape))
        return CUDA_SUCCESS;
    CUresult result = find_devices(shape->srcContext, by, &readers);
    if (!result)
        result = find_devices(shape->dstContext, by, &writers);
    if (result)
        return result;
    struct side source = source_of(shape), target = target_of(shape);
    struct tsr_space *space = tsr_space_instance();
    const struct tsr_snapshot *snapshot = tsr_space_get(space);
    result = check_side(snapshot, &source, shape, false, readers, &places->from, &places->from_pageable);
    if (!result)
        result = check_side(snapshot, &target, shape, true, writers, &places->to, &places->to_pageable);
    tsr_space_put(space, snapshot);
    places->bytes = (uint64_t)shape->WidthInBytes * shape->Height * shape->Depth;
    return result;
}

/* Through the kernel: false when the memory does not allow it. */
static bool move_foreign(uint64_t foreign, void *known, size_t bytes, bool write)
{
    while (bytes) {
        struct iovec here = {known, bytes}, there = {(void *)(uintptr_t)foreign, bytes};
        ssize_t moved =
            write ? process_vm_writev(getpid(), &here, 1, &there, 1, 0) : process_vm_readv(getpid(), &here, 1, &there, 1, 0);
        if (moved <= 0)
            return false;
        known = (char *)known + moved;
        foreign += (size_t)moved;
        bytes -= (size_t)moved;
    }
    return true;
}

/* Whether this process may use move_foreign at all; some sandboxes forbid it, then pageable memory is accessed directly. */
static bool foreign_possible(void)
{
    static int possible; /* atomic: 0 not known, 1 yes, 2 no */
    int known = __atomic_load_n(&possible, __ATOMIC_RELAXED);
    if (!known) {
        char from = 1, to = 0;
        known = move_foreign((uint64_t)(uintptr_t)&from, &to, 1, false) && to == 1 ? 1 : 2;
        __atomic_store_n(&possible, known, __ATOMIC_RELAXED);
    }
    return known == 1;
}

/* Reads one byte of each page. */
static bool mapped(uint64_t base, uint64_t bytes)
{
    struct iovec there[PROBED_PAGES];
    char bytes_read[PROBED_PAGES];
    uint64_t at = base, end = base + bytes;
    while (at < end) {
        size_t count = 0;
        for (; at < end && count < PROBED_PAGES; at = (at / PAGE_BYTES + 1) * PAGE_BYTES)
            there[count++] = (struct iovec){(void *)(uintptr_t)at, 1};
        struct iovec here = {bytes_read, count};
        if (process_vm_readv(getpid(), &here, 1, there, count, 0) != (ssize_t)count)
            return false;
    }
    return true;
}

CUresult tsr_copy_probe(const CUDA_MEMCPY3D_PEER *shape, const struct tsr_copy_places *places)
{
    if (empty(shape) || !foreign_possible())
        return CUDA_SUCCESS;
    struct side source = source_of(shape), target = target_of(shape);
    if ((places->from_pageable && !mapped(source.base, extent(&source, shape))) ||
        (places->to_pageable && !mapped(target.base, extent(&target, shape))))
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

static bool move(uint64_t to, bool to_known, uint64_t from, bool from_known, size_t bytes)
{
    if (to_known && from_known) {
        memmove((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes);
        return true;
    }
    if (to_known)
        return move_foreign(from, (void *)(uintptr_t)to, bytes, false);
    if (from_known)
        return move_foreign(to, (void *)(uintptr_t)from, bytes, true);
    char *bounce = malloc(BOUNCE_BYTES);
    bool done = bounce != NULL;
    for (size_t at = 0; done && at < bytes; at += BOUNCE_BYTES) {
        size_t part = bytes - at < BOUNCE_BYTES ? bytes - at : BOUNCE_BYTES;
        done = move_foreign(from + at, bounce, part, false) && move_foreign(to + at, bounce, part, true);
    }
    free(bounce);
    return done;
}

static bool move_shape(const CUDA_MEMCPY3D_PEER *shape, struct side to, bool to_known, struct side from, bool from_known)
{
    size_t width = shape->WidthInBytes, height = shape->Height, depth = shape->Depth;
    if (to.pitch == width && from.pitch == width) {
        width *= height;
        height = 1;
        if (to.slice == width && from.slice == width) {
            width *= depth;
            depth = 1;
        }
    }
    for (size_t z = 0; z < depth; z++)
        for (size_t y = 0; y < height; y++)
            if (!move(to.base + z * to.slice + y * to.pitch, to_known, from.base + z * from.slice + y * from.pitch, from_known,
                      width))
                return false;
    return true;
}

CUresult tsr_copy_run(const CUDA_MEMCPY3D_PEER *shape, const void *staging)
{
    if (empty(shape))
        return CUDA_SUCCESS;
    struct side source = staging ? staging_of(shape, staging) : source_of(shape), target = target_of(shape);
    struct tsr_space *space = tsr_space_instance();
    const struct tsr_snapshot *snapshot = tsr_space_get(space);
    uint32_t location;
    bool direct = !foreign_possible();
    enum coverage from = staging ? COVERED : cover(snapshot, source.base, extent(&source, shape), false, ANYBODY, &location);
    enum coverage to = cover(snapshot, target.base, extent(&target, shape), true, ANYBODY, &location);
    bool allowed = from != FORBIDDEN && to != FORBIDDEN && (from == COVERED || source.type != CU_MEMORYTYPE_DEVICE) &&
                   (to == COVERED || target.type != CU_MEMORYTYPE_DEVICE);
    bool done = allowed && move_shape(shape, target, to == COVERED || direct, source, from == COVERED || direct);
    tsr_space_put(space, snapshot);
    return done ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS;
}

void tsr_copy_corrupt(const CUDA_MEMCPY3D_PEER *shape)
{
    struct side target = target_of(shape);
    struct tsr_space *space = tsr_space_instance();
    const struct tsr_snapshot *snapshot = tsr_space_get(space);
    uint32_t location;
    if (!empty(shape) && cover(snapshot, target.base, 1, true, ANYBODY, &location) == COVERED)
        *(unsigned char *)(uintptr_t)target.base ^= 0xff;
    tsr_space_put(space, snapshot);
}

CUresult tsr_copy_stage(const CUDA_MEMCPY3D_PEER *shape, void **staging)
{
    void *memory = malloc(shape->WidthInBytes * shape->Height * shape->Depth);
    if (!memory)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (!move_shape(shape, staging_of(shape, memory), true, source_of(shape), !foreign_possible())) {
        free(memory);
        return CUDA_ERROR_INVALID_VALUE;
    }
    *staging = memory;
    return CUDA_SUCCESS;
}

CUresult tsr_memset_check(CUdeviceptr dst, size_t pitch, size_t width_bytes, size_t height, const struct tsr_context *by,
                          uint32_t *location)
{
    uint64_t bytes, end;
    *location = TSR_LOCATION_HOST;
    if (!width_bytes || !height)
        return CUDA_SUCCESS;
    if (height > 1 && pitch < width_bytes)
        return CUDA_ERROR_INVALID_VALUE;
    if (__builtin_mul_overflow(pitch, height - 1, &bytes) || __builtin_add_overflow(bytes, width_bytes, &bytes) ||
        __builtin_add_overflow(dst, bytes, &end))
        return CUDA_ERROR_INVALID_VALUE;
    struct tsr_space *space = tsr_space_instance();
    const struct tsr_snapshot *snapshot = tsr_space_get(space);
    enum coverage found = cover(snapshot, dst, bytes, true, device_of(by), location);
    tsr_space_put(space, snapshot);
    return found == COVERED ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static void fill(char *row, size_t width, unsigned value, unsigned element_bytes)
{
    if (element_bytes == 1) {
        memset(row, (int)(value & 0xff), width);
    } else if (element_bytes == 2) {
        for (size_t i = 0; i < width; i++)
            ((uint16_t *)(void *)row)[i] = (uint16_t)value;
    } else {
        for (size_t i = 0; i < width; i++)
            ((uint32_t *)(void *)row)[i] = value;
    }
}

CUresult tsr_memset_run(const struct tsr_work *work)
{
    uint32_t location;
    size_t width_bytes = work->memset.width * work->memset.element_bytes;
    struct tsr_space *space = tsr_space_instance();
    const struct tsr_snapshot *snapshot = tsr_space_get(space);
    CUresult result = tsr_memset_check(work->memset.dst, work->memset.pitch, width_bytes, work->memset.height, NULL, &location);
    for (size_t y = 0; !result && width_bytes && y < work->memset.height; y++)
        fill((char *)(uintptr_t)work->memset.dst + y * work->memset.pitch, work->memset.width, work->memset.value,
             work->memset.element_bytes);
    tsr_space_put(space, snapshot);
    return result ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_SUCCESS;
}
