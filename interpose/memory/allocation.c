/* See allocation.h. */
#include "memory/allocation.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "memory/address_map.h"
#include "memory/arena.h"
#include "memory/backing.h"
#include "memory/bounds.h"

#define UNIT 512ull
#define FIRST_ID (1ull << 40) /* the driver numbers its own from 1 */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t allocated; /* lock; allocations so far */

void tsr_memory_lock(void)
{
    pthread_mutex_lock(&lock);
}

void tsr_memory_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

void tsr_allocation_forget(void)
{
    pthread_mutex_init(&lock, NULL);
}

static uint64_t round_up(uint64_t bytes, uint64_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

static CUresult add_chunk(struct tsr_heap *heap, uint64_t bytes)
{
    struct tsr_extent *extent;
    if (heap->most_bytes && (bytes > heap->most_bytes || heap->mapped_bytes > heap->most_bytes - bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = tsr_arena_map(bytes, heap->peers, &extent);
    if (result != CUDA_SUCCESS)
        return result;
    if (!tsr_blocks_add(&heap->blocks, extent->address, bytes + tsr_bounds_gap_bytes())) { /* the last one's gap is a guard's */
        tsr_arena_unmap(extent);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    for (struct tsr_extent *each = extent; each; each = each->next)
        each->heap = heap;
    heap->mapped_bytes += bytes;
    return CUDA_SUCCESS;
}

CUresult tsr_heap_grow(struct tsr_heap *heap, uint64_t bytes)
{
    if (bytes > UINT64_MAX - heap->chunk_bytes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    uint64_t generous = round_up(bytes, heap->chunk_bytes), least = round_up(bytes, TSR_ARENA_PAGE);
    CUresult result = add_chunk(heap, generous);
    return result == CUDA_ERROR_OUT_OF_MEMORY && least < generous ? add_chunk(heap, least) : result;
}

static void drop_chunk(struct tsr_heap *heap, struct tsr_block *idle)
{
    struct tsr_extent *extent = tsr_arena_find(tsr_block_address(idle));
    tsr_blocks_remove(&heap->blocks, idle);
    heap->mapped_bytes -= tsr_arena_bytes(extent);
    tsr_arena_unmap(extent);
}

void tsr_heap_trim(struct tsr_heap *heap, uint64_t keep_bytes)
{
    for (struct tsr_block *block = heap->blocks.lowest, *next; block && heap->mapped_bytes > keep_bytes; block = next) {
        next = block->next;
        if (tsr_blocks_idle(block))
            drop_chunk(heap, block);
    }
}

uint64_t tsr_heap_idle_bytes(const struct tsr_heap *heap)
{
    uint64_t bytes = 0;
    for (struct tsr_block *block = heap->blocks.lowest; block; block = block->next)
        bytes += tsr_blocks_idle(block) ? tsr_block_bytes(block) - tsr_bounds_gap_bytes() : 0;
    return bytes;
}

struct grant {
    struct tsr_heap *heap;
    CUdevice device;
    CUmemAccess_flags flags;
    CUresult result;
};

static void grant_one(struct tsr_extent *extent, void *argument)
{
    struct grant *grant = argument;
    bool meant = extent->heap == grant->heap && (extent->heap || extent->allocation);
    CUresult result = meant ? tsr_backing_grant(extent, grant->device, grant->flags) : CUDA_SUCCESS;
    if (result != CUDA_SUCCESS)
        grant->result = result;
}

CUresult tsr_heap_grant(struct tsr_heap *heap, CUdevice device, CUmemAccess_flags flags)
{
    struct grant grant = {heap, device, flags, CUDA_SUCCESS};
    tsr_arena_each(grant_one, &grant);
    if (heap && grant.result == CUDA_SUCCESS) {
        uint32_t bit = 1u << device;
        heap->peers = flags == CU_MEM_ACCESS_FLAGS_PROT_NONE ? heap->peers & ~bit : heap->peers | bit;
    }
    return grant.result;
}

static struct tsr_allocation *create(size_t bytes, CUcontext context)
{
    struct tsr_allocation *allocation = calloc(1, sizeof *allocation);
    if (allocation)
        *allocation = (struct tsr_allocation){.bytes = bytes, .context = context, .id = FIRST_ID + allocated++};
    return allocation;
}

struct tsr_allocation *tsr_allocation_take(struct tsr_heap *heap, uint64_t set, size_t bytes, CUcontext context)
{
    if (bytes > UINT64_MAX - UNIT)
        return NULL;
    struct tsr_block *block = tsr_blocks_take(&heap->blocks, set, round_up(bytes, UNIT) + tsr_bounds_gap_bytes(), UNIT);
    bool usable = block && (set == TSR_BLOCKS_FREE || tsr_bounds_reuse(tsr_block_address(block), bytes));
    struct tsr_allocation *allocation = usable ? create(bytes, context) : NULL;
    if (!allocation) {
        if (block)
            tsr_blocks_give(&heap->blocks, block, set);
        return NULL;
    }
    block->owner = allocation;
    allocation->address = tsr_block_address(block);
    allocation->heap = heap;
    allocation->block = block;
    allocation->extent = tsr_arena_find(allocation->address);
    tsr_bounds_add(allocation->address, bytes);
    tsr_address_add(allocation->address, bytes, true);
    return allocation;
}

CUresult tsr_allocation_map(size_t bytes, uint32_t peers, CUcontext context, struct tsr_allocation **out)
{
    if (bytes > UINT64_MAX - TSR_ARENA_PAGE)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct tsr_allocation *allocation = create(bytes, context);
    if (!allocation)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = tsr_arena_map(round_up(bytes, TSR_ARENA_PAGE), peers, &allocation->extent);
    if (result != CUDA_SUCCESS) {
        free(allocation);
        return result;
    }
    allocation->address = allocation->extent->address;
    for (struct tsr_extent *each = allocation->extent; each; each = each->next)
        each->allocation = allocation;
    tsr_bounds_add(allocation->address, bytes);
    tsr_address_add(allocation->address, bytes, false);
    *out = allocation;
    return CUDA_SUCCESS;
}

/* One empty chunk is kept, so that a program that allocates and frees in turn does not map and unmap. */
static void keep_one_spare(struct tsr_heap *heap, struct tsr_block *given)
{
    struct tsr_block *idle = tsr_blocks_idle(given);
    if (heap->pool || !idle)
        return;
    struct tsr_block *spare = heap->spare ? tsr_blocks_find(&heap->blocks, heap->spare) : NULL;
    bool another = spare && spare != idle && tsr_blocks_idle(spare);
    heap->spare = tsr_block_address(idle);
    if (another)
        drop_chunk(heap, spare);
}

void tsr_allocation_hide(struct tsr_allocation *allocation)
{
    allocation->doomed = true;
    tsr_address_remove(allocation->address, allocation->heap != NULL);
}

void tsr_allocation_give(struct tsr_allocation *allocation, uint64_t set)
{
    if (!allocation->doomed)
        tsr_address_remove(allocation->address, allocation->heap != NULL);
    if (set == TSR_BLOCKS_FREE)
        tsr_bounds_remove(allocation->address);
    if (allocation->heap)
        keep_one_spare(allocation->heap, tsr_blocks_give(&allocation->heap->blocks, allocation->block, set));
    else
        tsr_arena_unmap(allocation->extent);
    free(allocation);
}

struct tsr_allocation *tsr_allocation_find(CUdeviceptr address)
{
    struct tsr_extent *extent = tsr_arena_find(address);
    if (!extent)
        return NULL;
    struct tsr_allocation *allocation = extent->allocation;
    if (extent->heap) {
        const struct tsr_block *block = tsr_blocks_find(&extent->heap->blocks, address);
        allocation = block ? block->owner : NULL;
    }
    return allocation && !allocation->doomed && address - allocation->address < allocation->bytes ? allocation : NULL;
}

struct each {
    void (*visit)(struct tsr_allocation *allocation, void *argument);
    void *argument;
};

static void visit_extent(struct tsr_extent *extent, void *argument)
{
    const struct each *each = argument;
    if (extent->allocation) {
        if (extent->allocation->extent == extent)
            each->visit(extent->allocation, each->argument);
        return;
    }
    bool first = tsr_block_address(extent->block) == extent->address; /* of a chunk that lies on several GPUs */
    CUdeviceptr end = extent->address + tsr_arena_bytes(extent);
    for (CUdeviceptr at = extent->address; first && extent->heap && at < end;) {
        const struct tsr_block *block = tsr_blocks_find(&extent->heap->blocks, at);
        at = tsr_block_address(block) + tsr_block_bytes(block);
        if (block->owner)
            each->visit(block->owner, each->argument);
    }
}

void tsr_allocation_each(void (*visit)(struct tsr_allocation *allocation, void *argument), void *argument)
{
    struct each each = {visit, argument};
    tsr_arena_each(visit_extent, &each);
}
