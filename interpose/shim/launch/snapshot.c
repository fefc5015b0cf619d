/* See snapshot.h. */
#include "shim/launch/snapshot.h"

#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "shim/memory/allocation.h"
#include "shim/memory/arena.h"
#include "shim/entry/real.h"

#define CHUNK_BYTES (1u << 20)

struct range {
    CUdeviceptr address;
    uint64_t bytes, offset; /* in a snapshot */
};

struct tsr_snapshots {
    TSR_VEC(struct range) ranges; /* all extents that are shared, unless memory was short */
    bool short_of_memory;
    uint64_t bytes;
    CUdeviceptr copies[2];
    CUstream stream;
    uint8_t here[CHUNK_BYTES], there[CHUNK_BYTES];
};

static void add(struct tsr_extent *extent, void *argument)
{
    struct tsr_snapshots *snapshots = argument;
    struct range range = {extent->address, extent->bytes, snapshots->bytes};
    if (!extent->shared)
        return;
    snapshots->short_of_memory |= !tsr_vec_push(&snapshots->ranges, range);
    snapshots->bytes += extent->bytes;
}

CUresult tsr_snapshots_create(uint64_t limit_bytes, struct tsr_snapshots **out)
{
    struct tsr_snapshots *snapshots = calloc(1, sizeof *snapshots);
    if (!snapshots)
        return CUDA_ERROR_OUT_OF_MEMORY;
    tsr_arena_each(add, snapshots);
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    if (!snapshots->short_of_memory && (!limit_bytes || snapshots->bytes <= limit_bytes))
        result = tsr_real.cuStreamCreate(&snapshots->stream, CU_STREAM_NON_BLOCKING);
    for (unsigned i = 0; i < 2 && result == CUDA_SUCCESS && snapshots->bytes; i++)
        result = tsr_real.cuMemAlloc_v2(&snapshots->copies[i], snapshots->bytes);
    if (result == CUDA_SUCCESS)
        *out = snapshots;
    else
        tsr_snapshots_destroy(snapshots);
    return result;
}

void tsr_snapshots_destroy(struct tsr_snapshots *snapshots)
{
    for (unsigned i = 0; i < 2; i++)
        if (snapshots->copies[i])
            tsr_real.cuMemFree_v2(snapshots->copies[i]);
    if (snapshots->stream)
        tsr_real.cuStreamDestroy_v2(snapshots->stream);
    tsr_vec_fini(&snapshots->ranges);
    free(snapshots);
}

static CUresult copy(struct tsr_snapshots *snapshots, unsigned number, bool restore)
{
    CUresult result = CUDA_SUCCESS;
    for (size_t i = 0; i < snapshots->ranges.count && result == CUDA_SUCCESS; i++) {
        const struct range *range = &snapshots->ranges.data[i];
        CUdeviceptr there = snapshots->copies[number] + range->offset;
        result = tsr_real.cuMemcpyDtoDAsync_v2(restore ? range->address : there, restore ? there : range->address, range->bytes,
                                               snapshots->stream);
    }
    return result == CUDA_SUCCESS ? tsr_real.cuStreamSynchronize(snapshots->stream) : result;
}

CUresult tsr_snapshot_take(struct tsr_snapshots *snapshots, unsigned number)
{
    return copy(snapshots, number, false);
}

CUresult tsr_snapshot_restore(struct tsr_snapshots *snapshots, unsigned number)
{
    return copy(snapshots, number, true);
}

static void compare_chunk(const struct tsr_snapshots *snapshots, CUdeviceptr address, size_t bytes, struct tsr_difference *out)
{
    if (memcmp(snapshots->here, snapshots->there, bytes) == 0)
        return;
    for (size_t i = 0; i < bytes; i++) {
        if (snapshots->here[i] == snapshots->there[i])
            continue;
        if (out->bytes++ == 0)
            *out = (struct tsr_difference){1, address + i, snapshots->here[i], snapshots->there[i]};
    }
}

CUresult tsr_snapshot_compare(struct tsr_snapshots *snapshots, unsigned number, struct tsr_difference *out)
{
    CUresult result = CUDA_SUCCESS;
    *out = (struct tsr_difference){0};
    for (size_t i = 0; i < snapshots->ranges.count; i++) {
        const struct range *range = &snapshots->ranges.data[i];
        for (uint64_t offset = 0; offset < range->bytes && result == CUDA_SUCCESS; offset += CHUNK_BYTES) {
            size_t bytes = range->bytes - offset < CHUNK_BYTES ? range->bytes - offset : CHUNK_BYTES;
            CUdeviceptr copied = snapshots->copies[number] + range->offset + offset;
            result = tsr_real.cuMemcpyDtoHAsync_v2(snapshots->here, range->address + offset, bytes, snapshots->stream);
            if (result == CUDA_SUCCESS)
                result = tsr_real.cuMemcpyDtoHAsync_v2(snapshots->there, copied, bytes, snapshots->stream);
            if (result == CUDA_SUCCESS)
                result = tsr_real.cuStreamSynchronize(snapshots->stream);
            if (result == CUDA_SUCCESS)
                compare_chunk(snapshots, range->address + offset, bytes, out);
        }
    }
    return result;
}
