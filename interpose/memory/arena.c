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
    result = back(extent, peers);
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
    tsr_backing_drop(extent);
    if (plan.follows)
        tsr_heat_clear(extent->address, extent->bytes);
    tsr_blocks_give(&space, extent->block, TSR_BLOCKS_FREE);
    free(extent);
}

struct tsr_extent *tsr_arena_find(CUdeviceptr address)
{
    const struct tsr_block *block = tsr_blocks_find(&space, address);
    struct tsr_extent *extent = block ? block->owner : NULL;
    return extent && address - extent->address < extent->bytes ? extent : NULL;
}

void tsr_arena_each(void (*visit)(struct tsr_extent *extent, void *argument), void *argument)
{
    for (struct tsr_block *block = space.lowest; block;) {
        CUdeviceptr address = tsr_block_address(block);
        if (block->owner)
            visit(block->owner, argument);
        block = tsr_blocks_find(&space, address)->next; /* the extent may be gone, and its block part of another */
    }
}

void tsr_arena_forget(void)
{
    tsr_backing_forget();
    tsr_bounds_forget();
    tsr_heat_stop();
    plan = (struct tsr_residency_plan){0};
    space = (struct tsr_blocks){0};
    arena = 0;
    tsr_address_forget();
}
