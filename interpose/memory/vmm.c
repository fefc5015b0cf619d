/* See vmm.h. */
#include "memory/vmm.h"

#include <stdlib.h>
#include <unistd.h>

#include <tessera/lane.h>

#include "base/blocks.h"
#include "base/log.h"
#include "memory/address_map.h"
#include "memory/allocation.h"
#include "memory/arena.h"
#include "lane/executors.h"
#include "memory/home_only.h"
#include "memory/pairs.h"
#include "memory/owners.h"
#include "memory/physical.h"
#include "driver/real.h"

struct mapping {
    struct tsr_physical *physical; /* NULL: of a handle that is not known */
    bool shared;                   /* all executors have it */
};

/* All under the memory lock. */
static struct tsr_blocks window; /* the application's parts of it are the blocks in use */
static bool no_window;           /* it could not be had */
static struct tsr_blocks mapped; /* a chunk and block in use per mapping; owner: struct mapping */

/* Notes a range as one block in use. */
static struct tsr_block *note(struct tsr_blocks *blocks, CUdeviceptr address, uint64_t bytes, size_t record_bytes)
{
    void *record = calloc(1, record_bytes);
    bool added = record && tsr_blocks_add(blocks, address, bytes);
    struct tsr_block *block = added ? tsr_blocks_take_at(blocks, address, bytes) : NULL;
    if (!block) {
        free(record);
        return NULL;
    }
    block->owner = record;
    return block;
}

static void forget(struct tsr_blocks *blocks, struct tsr_block *block)
{
    free(block->owner);
    tsr_blocks_remove(blocks, tsr_blocks_give(blocks, block, TSR_BLOCKS_FREE));
}

static bool in_window(CUdeviceptr address)
{
    return address - TSR_RESERVE_ADDRESS < TSR_RESERVE_BYTES;
}

static bool open_window_locked(void)
{
    struct tsr_message message = {.kind = TSR_MESSAGE_RESERVE, .address = TSR_RESERVE_ADDRESS, .bytes = TSR_RESERVE_BYTES};
    struct tsr_message undo = {.kind = TSR_MESSAGE_UNRESERVE, .address = TSR_RESERVE_ADDRESS, .bytes = TSR_RESERVE_BYTES};
    CUdeviceptr address = 0;
    if (window.lowest || no_window)
        return !no_window;
    no_window = true;
    if (tsr_real.cuMemAddressReserve(&address, TSR_RESERVE_BYTES, TSR_ARENA_PAGE, TSR_RESERVE_ADDRESS, 0) != CUDA_SUCCESS)
        return false;
    if (address == TSR_RESERVE_ADDRESS && tsr_executors_ask(&message, -1, &undo) == CUDA_SUCCESS &&
        tsr_blocks_add(&window, address, TSR_RESERVE_BYTES)) {
        no_window = false;
        return true;
    }
    tsr_warn("address space for the application's own reservations cannot be shared; launches that use them stay home");
    tsr_real.cuMemAddressFree(address, TSR_RESERVE_BYTES);
    return false;
}

CUresult tsr_vmm_reserve(uint64_t bytes, uint64_t alignment, CUdeviceptr hint, CUdeviceptr *address)
{
    if (bytes > TSR_RESERVE_BYTES || alignment > TSR_RESERVE_BYTES || (hint && !in_window(hint)))
        return CUDA_ERROR_NOT_SUPPORTED;
    uint64_t unit = alignment > TSR_ARENA_PAGE ? alignment : TSR_ARENA_PAGE;
    struct tsr_block *block = NULL;
    tsr_memory_lock();
    bool open = open_window_locked();
    if (open && hint && hint % unit == 0)
        block = tsr_blocks_take_at(&window, hint, bytes);
    if (open && !block)
        block = tsr_blocks_take(&window, TSR_BLOCKS_FREE, bytes, unit);
    if (block)
        *address = tsr_block_address(block);
    tsr_memory_unlock();
    return block ? CUDA_SUCCESS : open ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_NOT_SUPPORTED;
}

void tsr_vmm_reserved(CUdeviceptr address, uint64_t bytes)
{
    tsr_home_only_add(address, bytes, TSR_REASON_MEMORY_NOT_SHARED);
}

/* The part of the window that holds the address, or NULL. */
static struct tsr_block *part_locked(CUdeviceptr address)
{
    struct tsr_block *block = tsr_blocks_find(&window, address);
    return block && block->set == TSR_BLOCKS_USED ? block : NULL;
}

static bool is_any_mapped_locked(CUdeviceptr address, uint64_t bytes)
{
    const struct tsr_block *block = tsr_blocks_from(&mapped, address);
    return block && tsr_block_address(block) - address < bytes;
}

CUresult tsr_vmm_free(CUdeviceptr address, uint64_t bytes)
{
    if (!in_window(address))
        return CUDA_ERROR_NOT_SUPPORTED;
    tsr_memory_lock();
    struct tsr_block *part = part_locked(address);
    bool right =
        part && tsr_block_address(part) == address && tsr_block_bytes(part) == bytes && !is_any_mapped_locked(address, bytes);
    if (right)
        tsr_blocks_give(&window, part, TSR_BLOCKS_FREE);
    tsr_memory_unlock();
    return right ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

bool tsr_vmm_find(CUdeviceptr address, CUdeviceptr *base, uint64_t *bytes)
{
    if (!in_window(address))
        return false;
    tsr_memory_lock();
    const struct tsr_block *part = part_locked(address);
    *base = part ? tsr_block_address(part) : 0;
    *bytes = part ? tsr_block_bytes(part) : 0;
    tsr_memory_unlock();
    return true;
}

static bool share(CUdeviceptr address, uint64_t bytes, int descriptor)
{
    struct tsr_message message = {
        .kind = TSR_MESSAGE_MAP, .address = address, .bytes = bytes, .detail = CU_MEM_ACCESS_FLAGS_PROT_NONE};
    struct tsr_message undo = {.kind = TSR_MESSAGE_UNMAP, .address = address, .bytes = bytes};
    return descriptor >= 0 && tsr_pairs_may_share() && tsr_executors_ask(&message, descriptor, &undo) == CUDA_SUCCESS;
}

/* Whether the other mapping lies in the same reservation, with no gap between them. */
static bool continues(const struct tsr_block *part, const struct tsr_block *before, const struct tsr_block *after)
{
    CUdeviceptr begin = tsr_block_address(part), end = begin + tsr_block_bytes(part);
    return before && after && tsr_block_address(before) >= begin && tsr_block_address(after) < end &&
           tsr_block_address(before) + tsr_block_bytes(before) == tsr_block_address(after);
}

/* What a pointer into the window may reach: mappings of its reservation without a gap between them. */
static void publish_locked(const struct tsr_block *block)
{
    const struct tsr_block *part = in_window(tsr_block_address(block)) ? part_locked(tsr_block_address(block)) : NULL;
    if (part)
        tsr_address_join(tsr_block_address(block), tsr_block_bytes(block), continues(part, block->previous, block),
                         continues(part, block, block->next));
}

void tsr_vmm_mapped(CUdeviceptr address, uint64_t bytes, CUmemGenericAllocationHandle handle)
{
    tsr_memory_lock();
    struct tsr_block *block = note(&mapped, address, bytes, sizeof(struct mapping));
    struct tsr_physical *physical = tsr_physical_find_locked(handle);
    bool shared = false;
    if (block && in_window(address)) {
        int descriptor = tsr_physical_share_locked(physical, handle);
        shared = share(address, bytes, descriptor);
        if (descriptor >= 0)
            close(descriptor);
    }
    if (block) {
        *(struct mapping *)block->owner = (struct mapping){physical, shared};
        tsr_physical_mapped_locked(physical);
        tsr_owners_mark(address, bytes, tsr_physical_owner_locked(physical));
        publish_locked(block);
    }
    if (!shared && in_window(address))
        tsr_home_only_add(address, bytes, TSR_REASON_MEMORY_NOT_SHARED);
    tsr_memory_unlock();
}

static void unmap_locked(struct tsr_block *block)
{
    CUdeviceptr address = tsr_block_address(block);
    const struct mapping *mapping = block->owner;
    struct tsr_physical *physical = mapping->physical;
    struct tsr_message message = {.kind = TSR_MESSAGE_UNMAP, .address = address, .bytes = tsr_block_bytes(block)};
    if (in_window(address)) {
        tsr_arena_mark(address, tsr_block_bytes(block), false);
        tsr_address_cut(address, tsr_block_bytes(block));
    }
    if (mapping->shared)
        tsr_executors_tell(&message);
    else if (in_window(address))
        tsr_home_only_take(address);
    tsr_owners_mark(address, tsr_block_bytes(block), TSR_OWNERS_NONE);
    forget(&mapped, block);
    tsr_physical_unmapped_locked(physical);
}

void tsr_vmm_unmapped_locked(CUdeviceptr address, uint64_t bytes)
{
    for (struct tsr_block *block = tsr_blocks_from(&mapped, address), *next; block; block = next) {
        if (tsr_block_address(block) - address >= bytes)
            break;
        next = block->next;
        unmap_locked(block);
    }
}

static void access_locked(struct tsr_block *block, CUdeviceptr address, uint64_t bytes, CUmemAccess_flags flags)
{
    struct mapping *mapping = block->owner;
    struct tsr_message message = {.kind = TSR_MESSAGE_ACCESS, .address = address, .bytes = bytes, .detail = (int32_t)flags};
    if (!mapping->shared)
        return;
    tsr_arena_mark(address, bytes, false);
    if (tsr_executors_ask(&message, -1, NULL) == CUDA_SUCCESS) {
        if (tsr_arena_mark(address, bytes, flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE))
            return;
    }
    struct tsr_message unmap = {
        .kind = TSR_MESSAGE_UNMAP, .address = tsr_block_address(block), .bytes = tsr_block_bytes(block)};
    tsr_executors_tell(&unmap);
    mapping->shared = false;
    tsr_home_only_add(tsr_block_address(block), tsr_block_bytes(block), TSR_REASON_MEMORY_NOT_SHARED);
}

void tsr_vmm_access_locked(CUdeviceptr address, uint64_t bytes, CUmemAccess_flags flags)
{
    for (CUdeviceptr at = address, end = address + bytes; at < end;) {
        struct tsr_block *block = tsr_blocks_find(&mapped, at);
        if (!block)
            break;
        CUdeviceptr block_end = tsr_block_address(block) + tsr_block_bytes(block);
        access_locked(block, at, (block_end < end ? block_end : end) - at, flags);
        at = block_end;
    }
}

static struct tsr_physical *physical_at_locked(CUdeviceptr address)
{
    const struct tsr_block *block = tsr_blocks_find(&mapped, address);
    return block ? ((struct mapping *)block->owner)->physical : NULL;
}

void tsr_vmm_retained(CUmemGenericAllocationHandle handle, CUdeviceptr address)
{
    tsr_memory_lock();
    tsr_physical_retain_locked(physical_at_locked(address), handle);
    tsr_memory_unlock();
}

bool tsr_vmm_types_at(CUdeviceptr address, CUmemAllocationHandleType *types)
{
    tsr_memory_lock();
    bool known = tsr_physical_types_locked(physical_at_locked(address), types);
    tsr_memory_unlock();
    return known;
}

static bool is_private(const struct tsr_block *block)
{
    const struct mapping *mapping = block->owner;
    return mapping->shared && tsr_physical_is_private_locked(mapping->physical) &&
           tsr_block_address(block) % TSR_ARENA_PAGE == 0 && tsr_block_bytes(block) % TSR_ARENA_PAGE == 0;
}

void tsr_vmm_each_locked(void (*visit)(CUdeviceptr address, uint64_t bytes, void *argument), void *argument)
{
    for (const struct tsr_block *block = mapped.lowest; block; block = block->next) {
        CUdeviceptr at = tsr_block_address(block), end = at + tsr_block_bytes(block);
        while (is_private(block) && at < end) {
            CUdeviceptr first = at;
            while (at < end && tsr_arena_holds(at, TSR_ARENA_PAGE))
                at += TSR_ARENA_PAGE;
            if (at > first)
                visit(first, at - first, argument);
            else
                at += TSR_ARENA_PAGE;
        }
    }
}

void tsr_vmm_forget(void)
{
    window = mapped = (struct tsr_blocks){0};
    no_window = false;
}
