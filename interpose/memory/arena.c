/* See arena.h. */
#include "memory/arena.h"

#include <stdlib.h>

#include <tessera/lane.h>

#include "base/blocks.h"
#include "base/log.h"
#include "memory/address_map.h"
#include "memory/backing.h"
#include "memory/bounds.h"
#include "memory/heat.h"
#include "memory/owners.h"
#include "driver/gpus.h"
#include "driver/real.h"
#include "object/session.h"

#define LEAST_SAMPLES 4u /* of launches that use memory, before it moves */

static struct tsr_blocks space;        /* who has which addresses; owner of a block in use: its extent */
static CUdeviceptr arena;              /* atomic; memory lock to change; 0: not reserved yet, or the application has it */
static struct tsr_residency_plan plan; /* memory lock */

static CUresult reserve(void)
{
    if (arena)
        return CUDA_SUCCESS;
    CUdeviceptr address = 0;
    CUresult result = tsr_real.cuMemAddressReserve(&address, TSR_ARENA_BYTES, TSR_ARENA_PAGE, TSR_ARENA_ADDRESS, 0);
    if (result != CUDA_SUCCESS)
        return result;
    if (address != TSR_ARENA_ADDRESS || !tsr_blocks_add(&space, address, TSR_ARENA_BYTES)) {
        tsr_error("the arena's address range is taken; all memory stays home");
        tsr_real.cuMemAddressFree(address, TSR_ARENA_BYTES);
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    __atomic_store_n(&arena, address, __ATOMIC_RELEASE);
    tsr_bounds_start();
    return CUDA_SUCCESS;
}

bool tsr_arena_covers(CUdeviceptr address)
{
    return address - TSR_ARENA_ADDRESS < TSR_ARENA_BYTES && __atomic_load_n(&arena, __ATOMIC_ACQUIRE);
}

bool tsr_arena_mark(CUdeviceptr address, uint64_t bytes, bool mapped)
{
    if (mapped && tsr_address_set_flag(address, bytes, TSR_ADDRESS_EVERYWHERE))
        return true;
    tsr_address_clear_flag(address, bytes, TSR_ADDRESS_EVERYWHERE);
    return !mapped;
}

bool tsr_arena_holds(CUdeviceptr address, uint64_t bytes)
{
    uint64_t last = address + (bytes ? bytes - 1 : 0);
    if (last < address)
        return false;
    for (uint64_t page = address / TSR_ARENA_PAGE; page <= last / TSR_ARENA_PAGE; page++)
        if (!(tsr_address_flags(page * TSR_ARENA_PAGE) & TSR_ADDRESS_EVERYWHERE))
            return false;
    return true;
}

void tsr_arena_start(const struct tsr_policy *policy)
{
    bool copies = policy->memory_place == TSR_POLICY_COPIES;
    plan = (struct tsr_residency_plan){.gpu = (uint8_t)(copies ? policy->home : (uint32_t)policy->memory_place)};
    if (policy->memory_place != TSR_POLICY_FOLLOW)
        return;
    plan.gpu = (uint8_t)policy->memory_first;
    plan.move_uses = policy->memory_move_after;
    plan.follows = tsr_heat_start(policy->memory_move_after / LEAST_SAMPLES);
}

struct tsr_residency_plan *tsr_arena_plan(void)
{
    return &plan;
}

/* On the GPU where it should lie, or else at home; but no more than home alone could hold. */
static CUresult back(struct tsr_extent *extent, uint32_t peers)
{
    struct tsr_policy *policy = tsr_session()->policy;
    uint32_t gpu = tsr_residency_first(&plan, extent->bytes);
    if ((gpu != policy->home || tsr_backing_away_bytes()) && !tsr_backing_fits(extent->bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = gpu == policy->home ? CUDA_ERROR_NOT_SUPPORTED : tsr_backing_make(extent, gpu, peers);
    if (result != CUDA_SUCCESS)
        return tsr_backing_make(extent, policy->home, peers);
    __atomic_fetch_add(&policy->created_bytes[gpu], extent->bytes, __ATOMIC_RELAXED);
    return CUDA_SUCCESS;
}

static CUresult make(struct tsr_extent *extent, uint32_t gpu, uint32_t peers)
{
    CUresult result = tsr_backing_make(extent, gpu, peers);
    if (result == CUDA_ERROR_OUT_OF_MEMORY && gpu != TSR_GPU_HOST && tsr_backing_yield(tsr_gpu_device(gpu), extent->bytes))
        result = tsr_backing_make(extent, gpu, peers);
    return result;
}

/* On the first GPU that has room. */
static CUresult back_in_pool(struct tsr_extent *extent, uint32_t peers)
{
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    uint32_t tried = tsr_owners_too_small(extent->bytes), rank;
    while (result == CUDA_ERROR_OUT_OF_MEMORY && (rank = tsr_owners_next(extent->bytes, tried)) != TSR_OWNERS_NONE) {
        tried |= 1u << rank;
        result = make(extent, tsr_session_gpu(tsr_session(), rank), peers);
        if (result != CUDA_SUCCESS)
            continue;
        extent->owner = (uint8_t)rank;
        tsr_owners_add(rank, extent->bytes);
    }
    return result;
}

static void drop(struct tsr_extent *extent)
{
    tsr_backing_drop(extent);
    if (tsr_owners_are_on())
        tsr_owners_remove(extent->owner, extent->bytes);
}

static void drop_rest(struct tsr_extent *extent)
{
    for (struct tsr_extent *next; (next = extent->next);) {
        extent->next = next->next;
        drop(next);
        free(next);
    }
}

/* What one GPU has room for; a driver may have less, as others use its GPU, too. */
static CUresult back_part(struct tsr_extent *part, uint64_t left, uint32_t peers)
{
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    uint64_t most = tsr_owners_most();
    for (part->bytes = left < most ? left : most; part->bytes && result == CUDA_ERROR_OUT_OF_MEMORY;) {
        result = back_in_pool(part, peers);
        if (result == CUDA_ERROR_OUT_OF_MEMORY)
            part->bytes = part->bytes / 2 / TSR_ARENA_PAGE * TSR_ARENA_PAGE;
    }
    return result;
}

/* On several GPUs, of which none has room for all of it, and in pieces on the host. */
static CUresult back_in_parts(struct tsr_extent *first, uint32_t peers)
{
    uint64_t left = first->bytes;
    struct tsr_extent *part = first, *made = NULL;
    CUresult result = CUDA_SUCCESS;
    while (left && part && result == CUDA_SUCCESS) {
        result = back_part(part, left, peers);
        if (result != CUDA_SUCCESS)
            break;
        if (made)
            made->next = part;
        made = part;
        left -= part->bytes;
        part = left ? calloc(1, sizeof *part) : NULL;
        if (part)
            *part = (struct tsr_extent){.address = made->address + made->bytes, .block = first->block};
    }
    if (!left)
        return CUDA_SUCCESS;
    if (part != first)
        free(part);
    if (made) {
        drop_rest(first);
        drop(first);
    }
    return CUDA_ERROR_OUT_OF_MEMORY;
}

static bool is_on_several(const struct tsr_extent *first)
{
    for (const struct tsr_extent *part = first; part; part = part->next)
        if (part->owner != first->owner)
            return true;
    return false;
}

static CUresult back_somewhere(struct tsr_extent *extent, uint32_t peers)
{
    struct tsr_policy *policy = tsr_session()->policy;
    if (!tsr_owners_are_on())
        return back(extent, peers);
    CUresult result = back_in_pool(extent, peers);
    if (result == CUDA_ERROR_OUT_OF_MEMORY && tsr_owners_room().free >= extent->bytes) {
        uint64_t bytes = extent->bytes;
        result = back_in_parts(extent, peers);
        if (result != CUDA_SUCCESS)
            extent->bytes = bytes;
        else if (is_on_several(extent))
            __atomic_fetch_add(&policy->pool_split, 1, __ATOMIC_RELAXED);
    }
    return result;
}

CUresult tsr_arena_map(uint64_t bytes, uint32_t peers, struct tsr_extent **out)
{
    CUresult result = reserve();
    if (result != CUDA_SUCCESS)
        return result;
    if (bytes > TSR_ARENA_BYTES)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct tsr_extent *extent = calloc(1, sizeof *extent);
    struct tsr_block *block =
        extent ? tsr_blocks_take(&space, TSR_BLOCKS_FREE, bytes + tsr_bounds_guard_bytes(), TSR_ARENA_PAGE) : NULL;
    if (!block) {
        free(extent);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    block->owner = extent;
    *extent = (struct tsr_extent){.address = tsr_block_address(block), .bytes = bytes, .block = block};
    result = back_somewhere(extent, peers);
    if (result != CUDA_SUCCESS) {
        tsr_blocks_give(&space, block, TSR_BLOCKS_FREE);
        free(extent);
        return result;
    }
    *out = extent;
    return CUDA_SUCCESS;
}

void tsr_arena_unmap(struct tsr_extent *extent)
{
    uint64_t bytes = tsr_arena_bytes(extent);
    drop_rest(extent);
    drop(extent);
    tsr_bounds_unmapped(extent->address, bytes);
    if (plan.follows)
        tsr_heat_clear(extent->address, extent->bytes);
    tsr_blocks_give(&space, extent->block, TSR_BLOCKS_FREE);
    free(extent);
}

uint64_t tsr_arena_bytes(const struct tsr_extent *extent)
{
    uint64_t bytes = 0;
    for (; extent; extent = extent->next)
        bytes += extent->bytes;
    return bytes;
}

struct tsr_extent *tsr_arena_find(CUdeviceptr address)
{
    const struct tsr_block *block = tsr_blocks_find(&space, address);
    struct tsr_extent *extent = block ? block->owner : NULL;
    while (extent && extent->next && address >= extent->next->address)
        extent = extent->next;
    return extent && address - extent->address < extent->bytes ? extent : NULL;
}

void tsr_arena_each(void (*visit)(struct tsr_extent *extent, void *argument), void *argument)
{
    for (struct tsr_block *block = space.lowest; block;) {
        CUdeviceptr address = tsr_block_address(block);
        struct tsr_extent *extent = block->owner;
        for (struct tsr_extent *next = extent ? extent->next : NULL; next; next = next->next)
            visit(next, argument);
        if (extent)
            visit(extent, argument);
        block = tsr_blocks_find(&space, address)->next; /* the extent may be gone, and its block part of another */
    }
}

void tsr_arena_forget(void)
{
    tsr_backing_forget();
    tsr_bounds_forget();
    tsr_heat_stop();
    tsr_owners_forget();
    plan = (struct tsr_residency_plan){0};
    space = (struct tsr_blocks){0};
    arena = 0;
    tsr_address_forget();
}
