/* See snapshot.h. */
#include "check/snapshot.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "check/compare.h"
#include "memory/arena.h"
#include "memory/bounds.h"
#include "memory/vmm.h"
#include "driver/real.h"

#define SPARE_BYTES (256u << 20) /* that are left to the driver, which may load code or need local memory for the launch */

struct range {
    CUdeviceptr address;
    uint64_t bytes, offset; /* in a snapshot */
};

struct tsr_snapshots {
    TSR_VEC(struct range) ranges; /* all that is shared, unless memory was short */
    bool short_of_memory;
    unsigned count;
    uint64_t bytes;
    CUdeviceptr copies[TSR_SNAPSHOTS];
    CUstream stream;
    struct tsr_compare *compare;
    struct tsr_compare_chunk *chunks; /* what comparing finds, */
    CUdeviceptr found;                /* on the GPU */
};

_Static_assert(TSR_ARENA_PAGE % TSR_COMPARE_CHUNK == 0, "extents are compared in whole chunks");

static void add(CUdeviceptr address, uint64_t bytes, void *argument)
{
    struct tsr_snapshots *snapshots = argument;
    struct range range = {address, bytes, snapshots->bytes};
    snapshots->short_of_memory |= !tsr_vec_push(&snapshots->ranges, range);
    snapshots->bytes += bytes;
}

static void add_extent(struct tsr_extent *extent, void *argument)
{
    if (extent->shared && !extent->residency.fixed)
        add(extent->address, extent->bytes, argument);
}

static size_t found_bytes(const struct tsr_snapshots *snapshots)
{
    return snapshots->bytes / TSR_COMPARE_CHUNK * sizeof(struct tsr_compare_chunk);
}

static bool has_room(const struct tsr_snapshots *snapshots, uint64_t limit_bytes)
{
    size_t free_bytes, total;
    uint64_t needed = snapshots->count * snapshots->bytes + found_bytes(snapshots);
    return !snapshots->short_of_memory && (!limit_bytes || snapshots->bytes <= limit_bytes) &&
           tsr_real.cuMemGetInfo_v2(&free_bytes, &total) == CUDA_SUCCESS && free_bytes >= needed + SPARE_BYTES;
}

static CUresult allocate(struct tsr_snapshots *snapshots)
{
    CUresult result = tsr_real.cuStreamCreate(&snapshots->stream, CU_STREAM_NON_BLOCKING);
    if (result == CUDA_SUCCESS)
        result = tsr_compare_create(&snapshots->compare);
    if (!snapshots->bytes)
        return result;
    snapshots->chunks = malloc(found_bytes(snapshots));
    if (!snapshots->chunks)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (result == CUDA_SUCCESS)
        result = tsr_real.cuMemAlloc_v2(&snapshots->found, found_bytes(snapshots));
    for (unsigned i = 0; i < snapshots->count && result == CUDA_SUCCESS; i++)
        result = tsr_real.cuMemAlloc_v2(&snapshots->copies[i], snapshots->bytes);
    return result;
}

CUresult tsr_snapshots_create(unsigned count, uint64_t limit_bytes, struct tsr_snapshots **out)
{
    struct tsr_snapshots *snapshots = calloc(1, sizeof *snapshots);
    if (!snapshots)
        return CUDA_ERROR_OUT_OF_MEMORY;
    snapshots->count = count;
    tsr_arena_each(add_extent, snapshots);
    tsr_vmm_each_locked(add, snapshots);
    CUresult result = has_room(snapshots, limit_bytes) ? allocate(snapshots) : CUDA_ERROR_OUT_OF_MEMORY;
    if (result == CUDA_SUCCESS)
        *out = snapshots;
    else
        tsr_snapshots_destroy(snapshots);
    return result;
}

void tsr_snapshots_destroy(struct tsr_snapshots *snapshots)
{
    for (unsigned i = 0; i < snapshots->count; i++)
        if (snapshots->copies[i])
            tsr_real.cuMemFree_v2(snapshots->copies[i]);
    if (snapshots->found)
        tsr_real.cuMemFree_v2(snapshots->found);
    if (snapshots->compare)
        tsr_compare_destroy(snapshots->compare);
    if (snapshots->stream)
        tsr_real.cuStreamDestroy_v2(snapshots->stream);
    tsr_vec_fini(&snapshots->ranges);
    free(snapshots->chunks);
    free(snapshots);
}

uint64_t tsr_snapshots_bytes(const struct tsr_snapshots *snapshots)
{
    return snapshots->bytes;
}

static CUresult finish(struct tsr_snapshots *snapshots, CUresult result)
{
    return result == CUDA_SUCCESS ? tsr_real.cuStreamSynchronize(snapshots->stream) : result;
}

static CUresult copy(struct tsr_snapshots *snapshots, unsigned number, bool restore)
{
    CUresult result = CUDA_SUCCESS;
    tsr_bounds_lift();
    for (size_t i = 0; i < snapshots->ranges.count && result == CUDA_SUCCESS; i++) {
        const struct range *range = &snapshots->ranges.data[i];
        CUdeviceptr there = snapshots->copies[number] + range->offset;
        result = tsr_real.cuMemcpyDtoDAsync_v2(restore ? range->address : there, restore ? there : range->address, range->bytes,
                                               snapshots->stream);
    }
    result = finish(snapshots, result);
    tsr_bounds_restore();
    return result;
}

CUresult tsr_snapshot_take(struct tsr_snapshots *snapshots, unsigned number)
{
    return copy(snapshots, number, false);
}

CUresult tsr_snapshot_restore(struct tsr_snapshots *snapshots, unsigned number)
{
    return copy(snapshots, number, true);
}

/* What each chunk's comparison says, in `chunks`. */
static CUresult compare_all(struct tsr_snapshots *snapshots, unsigned number)
{
    const struct tsr_compare_chunk same = {.first = UINT32_MAX};
    size_t bytes = found_bytes(snapshots);
    for (size_t i = 0; i < bytes / sizeof same; i++)
        snapshots->chunks[i] = same;
    CUresult result = tsr_real.cuMemcpyHtoDAsync_v2(snapshots->found, snapshots->chunks, bytes, snapshots->stream);
    for (size_t i = 0; i < snapshots->ranges.count && result == CUDA_SUCCESS; i++) {
        const struct range *range = &snapshots->ranges.data[i];
        CUdeviceptr found = snapshots->found + range->offset / TSR_COMPARE_CHUNK * sizeof same;
        result = tsr_compare_start(snapshots->compare, range->address, snapshots->copies[number] + range->offset, range->bytes,
                                   found, snapshots->stream);
    }
    if (result == CUDA_SUCCESS)
        result = tsr_real.cuMemcpyDtoHAsync_v2(snapshots->chunks, snapshots->found, bytes, snapshots->stream);
    return finish(snapshots, result);
}

static CUresult read_byte(struct tsr_snapshots *snapshots, CUdeviceptr from, uint8_t *byte)
{
    return finish(snapshots, tsr_real.cuMemcpyDtoHAsync_v2(byte, from, 1, snapshots->stream));
}

/* Sums up what the chunks say. *copied: where the first byte that differs stands in the snapshot. */
static void gather(const struct tsr_snapshots *snapshots, unsigned number, struct tsr_difference *out, CUdeviceptr *copied)
{
    for (size_t i = 0; i < snapshots->ranges.count; i++) {
        const struct range *range = &snapshots->ranges.data[i];
        for (uint64_t offset = 0; offset < range->bytes; offset += TSR_COMPARE_CHUNK) {
            const struct tsr_compare_chunk *chunk = &snapshots->chunks[(range->offset + offset) / TSR_COMPARE_CHUNK];
            if (chunk->different && !out->bytes) {
                out->address = range->address + offset + chunk->first;
                *copied = snapshots->copies[number] + range->offset + offset + chunk->first;
            }
            out->bytes += chunk->different;
        }
    }
}

CUresult tsr_snapshot_compare(struct tsr_snapshots *snapshots, unsigned number, struct tsr_difference *out)
{
    CUdeviceptr copied = 0;
    *out = (struct tsr_difference){0};
    tsr_bounds_lift();
    CUresult result = snapshots->bytes ? compare_all(snapshots, number) : CUDA_SUCCESS;
    if (result == CUDA_SUCCESS)
        gather(snapshots, number, out, &copied);
    if (result == CUDA_SUCCESS && out->bytes)
        result = read_byte(snapshots, out->address, &out->here);
    if (result == CUDA_SUCCESS && out->bytes)
        result = read_byte(snapshots, copied, &out->there);
    tsr_bounds_restore();
    return result;
}

/* What of a span with a stride lies in [low, high), which it meets. */
static struct tsr_rows rows_between(const struct tsr_span *span, CUdeviceptr low, CUdeviceptr high)
{
    uint64_t first = (low - span->low) / span->stride, last = (high - 1 - span->low) / span->stride;
    return (struct tsr_rows){.address = span->low + first * span->stride,
                             .low = low,
                             .high = high,
                             .count = last - first + 1,
                             .width = span->width,
                             .stride = span->stride};
}

CUresult tsr_snapshot_adopt(struct tsr_snapshots *snapshots, unsigned number, const struct tsr_span *span, uint64_t *bytes)
{
    CUresult result = CUDA_SUCCESS;
    *bytes = 0;
    tsr_bounds_lift();
    for (size_t i = 0; i < snapshots->ranges.count && result == CUDA_SUCCESS; i++) {
        const struct range *range = &snapshots->ranges.data[i];
        CUdeviceptr low = span->low > range->address ? span->low : range->address;
        CUdeviceptr end = range->address + range->bytes, high = span->high < end ? span->high : end;
        CUdeviceptr copied = snapshots->copies[number] + range->offset;
        if (low >= high)
            continue;
        if (span->stride) {
            struct tsr_rows rows = rows_between(span, low, high);
            result = tsr_compare_copy_rows(snapshots->compare, &rows, copied - range->address, snapshots->stream);
            *bytes += rows.count * rows.width;
        } else {
            result = tsr_real.cuMemcpyDtoDAsync_v2(copied + (low - range->address), low, high - low, snapshots->stream);
            *bytes += high - low;
        }
    }
    result = finish(snapshots, result);
    tsr_bounds_restore();
    return result;
}

struct tsr_span tsr_predicted_span(const struct tsr_access_range *range)
{
    CUdeviceptr low = range->base + (uint64_t)range->first, high = range->base + (uint64_t)range->last + 1;
    bool rows = range->stride > range->width && range->width > 0;
    return (struct tsr_span){low, high, rows ? (uint64_t)range->stride : 0, rows ? (uint64_t)range->width : 0};
}
