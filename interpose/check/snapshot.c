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

#define MOST_ROWS 65536u /* that are set in one call */
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

CUdeviceptr tsr_snapshot_at(const struct tsr_snapshots *snapshots, unsigned number, CUdeviceptr extent)
{
    for (size_t i = 0; i < snapshots->ranges.count; i++)
        if (snapshots->ranges.data[i].address == extent)
            return snapshots->copies[number] + snapshots->ranges.data[i].offset;
    return 0;
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

/* What of a span with a stride lies in [low, high), which it overlaps. */
static struct tsr_compare_rows rows_between(const struct tsr_strided_range *span, CUdeviceptr low, CUdeviceptr high)
{
    uint64_t first = (low - span->low) / span->stride, last = (high - 1 - span->low) / span->stride;
    return (struct tsr_compare_rows){.address = span->low + first * span->stride,
                                     .low = low,
                                     .high = high,
                                     .count = last - first + 1,
                                     .width = span->width,
                                     .stride = span->stride};
}

/* What a range of the snapshots has of a span. */
struct part {
    CUdeviceptr low, high;
    CUdeviceptr copied; /* of low, in snapshot 0 */
};

typedef CUresult use_part(struct tsr_snapshots *snapshots, const struct tsr_strided_range *span, const struct part *part,
                          void *argument);

static CUresult each_part(struct tsr_snapshots *snapshots, const struct tsr_strided_range *span, use_part *use, void *argument)
{
    CUresult result = CUDA_SUCCESS;
    tsr_bounds_lift();
    for (size_t i = 0; i < snapshots->ranges.count && result == CUDA_SUCCESS; i++) {
        const struct range *range = &snapshots->ranges.data[i];
        CUdeviceptr low = span->low > range->address ? span->low : range->address;
        CUdeviceptr end = range->address + range->bytes, high = span->high < end ? span->high : end;
        struct part part = {low, high, range->offset + (low - range->address)};
        if (low < high)
            result = use(snapshots, span, &part, argument);
    }
    result = finish(snapshots, result);
    tsr_bounds_restore();
    return result;
}

struct copying {
    unsigned number;
    bool back; /* to memory */
    uint64_t bytes;
};

static CUresult copy_part(struct tsr_snapshots *snapshots, const struct tsr_strided_range *span, const struct part *part,
                          void *argument)
{
    struct copying *copying = argument;
    CUdeviceptr copied = snapshots->copies[copying->number] + part->copied;
    uint64_t distance = copied - part->low;
    if (!span->stride) {
        copying->bytes += part->high - part->low;
        return tsr_real.cuMemcpyDtoDAsync_v2(copying->back ? part->low : copied, copying->back ? copied : part->low,
                                             part->high - part->low, snapshots->stream);
    }
    struct tsr_compare_rows rows = rows_between(span, part->low, part->high);
    copying->bytes += rows.count * rows.width;
    if (copying->back) {
        rows.address += distance;
        rows.low += distance;
        rows.high += distance;
        distance = -distance;
    }
    return tsr_compare_copy_rows(snapshots->compare, &rows, distance, snapshots->stream);
}

CUresult tsr_snapshot_adopt(struct tsr_snapshots *snapshots, unsigned number, const struct tsr_strided_range *span,
                            uint64_t *bytes)
{
    struct copying copying = {.number = number};
    CUresult result = each_part(snapshots, span, copy_part, &copying);
    *bytes = copying.bytes;
    return result;
}

CUresult tsr_snapshot_put_back(struct tsr_snapshots *snapshots, unsigned number, const struct tsr_strided_range *span)
{
    struct copying copying = {.number = number, .back = true};
    return each_part(snapshots, span, copy_part, &copying);
}

struct filling {
    uint8_t value;
    uint64_t *bytes;
};

static CUresult fill_part(struct tsr_snapshots *snapshots, const struct tsr_strided_range *span, const struct part *part,
                          void *argument)
{
    const struct filling *filling = argument;
    CUresult result = CUDA_SUCCESS;
    if (!span->stride) {
        *filling->bytes += part->high - part->low;
        return tsr_real.cuMemsetD8Async(part->low, filling->value, part->high - part->low, snapshots->stream);
    }
    struct tsr_compare_rows rows = rows_between(span, part->low, part->high);
    for (uint64_t i = 0; i < rows.count && result == CUDA_SUCCESS;) {
        CUdeviceptr row = rows.address + i * rows.stride, low = row < rows.low ? rows.low : row;
        CUdeviceptr end = row + rows.width, high = end > rows.high ? rows.high : end;
        bool entire = low == row && high == end;
        uint64_t last = rows.count - 1, many = entire && i < last ? last - i : 1; /* the last one may be cut off */
        many = many < MOST_ROWS ? many : MOST_ROWS;
        if (many > 1)
            result = tsr_real.cuMemsetD2D8Async(row, rows.stride, filling->value, rows.width, many, snapshots->stream);
        else if (low < high)
            result = tsr_real.cuMemsetD8Async(low, filling->value, high - low, snapshots->stream);
        *filling->bytes += many > 1 ? many * rows.width : low < high ? high - low : 0;
        i += many;
    }
    return result;
}

CUresult tsr_snapshot_fill(struct tsr_snapshots *snapshots, const struct tsr_strided_range *span, uint8_t value,
                           uint64_t *bytes)
{
    struct filling filling = {value, bytes};
    return each_part(snapshots, span, fill_part, &filling);
}

bool tsr_snapshot_holds(const struct tsr_snapshots *snapshots, const struct tsr_strided_range *span)
{
    CUdeviceptr held = span->low;
    bool found = true;
    while (held < span->high && found) { /* ranges may touch each other, in any order */
        found = false;
        for (size_t i = 0; i < snapshots->ranges.count; i++) {
            const struct range *range = &snapshots->ranges.data[i];
            if (held >= range->address && held - range->address < range->bytes) {
                held = range->address + range->bytes;
                found = true;
            }
        }
    }
    return found;
}

struct untouched {
    unsigned number, other;
    uint8_t value;
};

#define PIECE (1u << 20)

static bool is_in_row(const struct tsr_strided_range *span, CUdeviceptr address)
{
    return !span->stride || (address - span->low) % span->stride < span->width;
}

/* pieces: room for three. */
static CUresult put_back_piece(struct tsr_snapshots *snapshots, const struct tsr_strided_range *span,
                               const struct untouched *of, CUdeviceptr address, CUdeviceptr copied, size_t bytes,
                               uint8_t *pieces)
{
    uint8_t *here = pieces, *there = pieces + PIECE, *other = pieces + 2 * PIECE;
    CUresult result = tsr_real.cuMemcpyDtoHAsync_v2(here, address, bytes, snapshots->stream);
    if (result == CUDA_SUCCESS)
        result = tsr_real.cuMemcpyDtoHAsync_v2(there, snapshots->copies[of->number] + copied, bytes, snapshots->stream);
    if (result == CUDA_SUCCESS)
        result = tsr_real.cuMemcpyDtoHAsync_v2(other, snapshots->copies[of->other] + copied, bytes, snapshots->stream);
    result = finish(snapshots, result);
    for (size_t i = 0; i < bytes && result == CUDA_SUCCESS; i++)
        if (here[i] == of->value && there[i] == other[i] && is_in_row(span, address + i))
            here[i] = there[i];
    if (result == CUDA_SUCCESS)
        result = tsr_real.cuMemcpyHtoDAsync_v2(address, here, bytes, snapshots->stream);
    return finish(snapshots, result);
}

static CUresult put_back_part(struct tsr_snapshots *snapshots, const struct tsr_strided_range *span, const struct part *part,
                              void *argument)
{
    uint8_t *pieces = malloc((size_t)3 * PIECE);
    CUresult result = pieces ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    for (CUdeviceptr low = part->low; low < part->high && result == CUDA_SUCCESS; low += PIECE) {
        size_t bytes = part->high - low < PIECE ? part->high - low : PIECE;
        result = put_back_piece(snapshots, span, argument, low, part->copied + (low - part->low), bytes, pieces);
    }
    free(pieces);
    return result;
}

CUresult tsr_snapshot_put_back_untouched(struct tsr_snapshots *snapshots, unsigned number, unsigned other,
                                         const struct tsr_strided_range *span, uint8_t value)
{
    struct untouched untouched = {number, other, value};
    return each_part(snapshots, span, put_back_part, &untouched);
}

struct tsr_strided_range tsr_predicted_span(const struct tsr_access_range *range)
{
    CUdeviceptr low = range->base + (uint64_t)range->first, high = range->base + (uint64_t)range->last + 1;
    bool rows = range->stride > range->width && range->width > 0;
    return (struct tsr_strided_range){low, high, rows ? (uint64_t)range->stride : 0, rows ? (uint64_t)range->width : 0};
}
