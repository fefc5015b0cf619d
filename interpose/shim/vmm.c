/* See vmm.h. */
#include "shim/vmm.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <tessera/lane.h>

#include "base/blocks.h"
#include "base/log.h"
#include "base/map.h"
#include "shim/allocation.h"
#include "shim/arena.h"
#include "shim/executors.h"
#include "shim/home_only.h"
#include "shim/real.h"

struct physical {
    uint64_t handles;  /* that the application has to release */
    uint64_t mappings; /* of it */
    CUmemAllocationHandleType types;
    int descriptor; /* -1: ask the driver for one */
};

struct reservation {
    uint64_t bytes;
    bool shared; /* all executors have it */
};

struct mapping {
    struct physical *physical; /* NULL: of a handle that is not known */
    bool shared;               /* all executors have it */
};

/* All under the memory lock. */
static struct tsr_blocks window;       /* addresses for reservations that may be anywhere */
static struct tsr_blocks reserved;     /* a chunk and block in use per reservation; owner: struct reservation */
static struct tsr_blocks mapped;       /* likewise; owner: struct mapping */
static struct tsr_map physical_memory; /* struct physical by handle */

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

CUdeviceptr tsr_vmm_place(uint64_t bytes, uint64_t alignment)
{
    if (bytes > TSR_RESERVE_BYTES || alignment > TSR_RESERVE_BYTES || (alignment & (alignment - 1)))
        return 0;
    tsr_memory_lock();
    if (!window.lowest)
        tsr_blocks_add(&window, TSR_RESERVE_ADDRESS, TSR_RESERVE_BYTES);
    uint64_t unit = alignment > TSR_ARENA_PAGE ? alignment : TSR_ARENA_PAGE;
    struct tsr_block *block = tsr_blocks_take(&window, TSR_BLOCKS_FREE, bytes, unit);
    CUdeviceptr address = block ? tsr_block_address(block) : 0;
    tsr_memory_unlock();
    return address;
}

static void place_back_locked(CUdeviceptr address)
{
    struct tsr_block *block = tsr_blocks_find(&window, address);
    if (block && tsr_block_address(block) == address && block->set == TSR_BLOCKS_USED)
        tsr_blocks_give(&window, block, TSR_BLOCKS_FREE);
}

void tsr_vmm_place_back(CUdeviceptr address)
{
    tsr_memory_lock();
    place_back_locked(address);
    tsr_memory_unlock();
}

void tsr_vmm_reserved(CUdeviceptr address, uint64_t bytes)
{
    struct tsr_message message = {.kind = TSR_MESSAGE_RESERVE, .address = address, .bytes = bytes};
    struct tsr_message undo = {.kind = TSR_MESSAGE_UNRESERVE, .address = address, .bytes = bytes};
    tsr_memory_lock();
    struct tsr_block *block = note(&reserved, address, bytes, sizeof(struct reservation));
    bool shared = block && tsr_executors_ask(&message, -1, &undo) == CUDA_SUCCESS;
    if (block)
        *(struct reservation *)block->owner = (struct reservation){bytes, shared};
    if (!shared) {
        tsr_warn("the application's address range 0x%llx cannot be had in the executors; launches that use it stay home",
                 (unsigned long long)address);
        tsr_home_only_add(address, bytes, TSR_REASON_MEMORY_NOT_SHARED);
    }
    tsr_memory_unlock();
}

void tsr_vmm_freed(CUdeviceptr address)
{
    tsr_memory_lock();
    struct tsr_block *block = tsr_blocks_find(&reserved, address);
    if (block && tsr_block_address(block) == address) {
        const struct reservation *reservation = block->owner;
        struct tsr_message message = {.kind = TSR_MESSAGE_UNRESERVE, .address = address, .bytes = reservation->bytes};
        if (reservation->shared)
            tsr_executors_tell(&message);
        forget(&reserved, block);
    }
    tsr_home_only_remove(address);
    place_back_locked(address);
    tsr_memory_unlock();
}

/* A descriptor of the memory; -1: it cannot be shared. The caller closes it. */
static int descriptor_of(const struct physical *physical, CUmemGenericAllocationHandle handle)
{
    int descriptor = -1;
    if (physical && physical->descriptor >= 0)
        return fcntl(physical->descriptor, F_DUPFD_CLOEXEC, 0);
    CUresult result = tsr_real.cuMemExportToShareableHandle(&descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    return result == CUDA_SUCCESS ? descriptor : -1;
}

static bool share(CUdeviceptr address, uint64_t bytes, int descriptor)
{
    struct tsr_message message = {
        .kind = TSR_MESSAGE_MAP, .address = address, .bytes = bytes, .detail = CU_MEM_ACCESS_FLAGS_PROT_NONE};
    struct tsr_message undo = {.kind = TSR_MESSAGE_UNMAP, .address = address, .bytes = bytes};
    return descriptor >= 0 && tsr_executors_ask(&message, descriptor, &undo) == CUDA_SUCCESS;
}

void tsr_vmm_mapped(CUdeviceptr address, uint64_t bytes, CUmemGenericAllocationHandle handle)
{
    tsr_memory_lock();
    const struct tsr_block *range = tsr_blocks_find(&reserved, address);
    const struct reservation *reservation = range ? range->owner : NULL;
    struct tsr_block *block = note(&mapped, address, bytes, sizeof(struct mapping));
    struct physical *physical = tsr_map_find(&physical_memory, handle);
    bool shareable = block && reservation && reservation->shared, shared = false;
    if (shareable) {
        int descriptor = descriptor_of(physical, handle);
        shared = share(address, bytes, descriptor);
        if (descriptor >= 0)
            close(descriptor);
    }
    if (block)
        *(struct mapping *)block->owner = (struct mapping){physical, shared};
    if (block && physical)
        physical->mappings++;
    if (!shared && (!reservation || reservation->shared))
        tsr_home_only_add(address, bytes, TSR_REASON_MEMORY_NOT_SHARED);
    tsr_memory_unlock();
}

static void put_locked(struct physical *physical)
{
    if (!physical || physical->handles || physical->mappings)
        return;
    if (physical->descriptor >= 0)
        close(physical->descriptor);
    free(physical);
}

static void unmap_locked(struct tsr_block *block)
{
    CUdeviceptr address = tsr_block_address(block);
    const struct mapping *mapping = block->owner;
    struct physical *physical = mapping->physical;
    struct tsr_message message = {.kind = TSR_MESSAGE_UNMAP, .address = address, .bytes = tsr_block_bytes(block)};
    if (mapping->shared)
        tsr_executors_tell(&message);
    else
        tsr_home_only_remove(address);
    forget(&mapped, block);
    if (physical) {
        physical->mappings--;
        put_locked(physical);
    }
}

/* The mapping that begins at or holds the address; NULL: none. */
static struct tsr_block *mapping_at(CUdeviceptr address)
{
    return tsr_blocks_find(&mapped, address);
}

void tsr_vmm_unmapped(CUdeviceptr address, uint64_t bytes)
{
    tsr_memory_lock();
    for (CUdeviceptr at = address, next; at < address + bytes; at = next) {
        struct tsr_block *block = mapping_at(at);
        next = block ? tsr_block_address(block) + tsr_block_bytes(block) : at + TSR_ARENA_PAGE;
        if (block)
            unmap_locked(block);
    }
    tsr_memory_unlock();
}

static void access_locked(struct tsr_block *block, CUdeviceptr address, uint64_t bytes, CUmemAccess_flags flags)
{
    struct mapping *mapping = block->owner;
    struct tsr_message message = {.kind = TSR_MESSAGE_ACCESS, .address = address, .bytes = bytes, .detail = (int32_t)flags};
    if (!mapping->shared || tsr_executors_ask(&message, -1, NULL) == CUDA_SUCCESS)
        return;
    struct tsr_message unmap = {
        .kind = TSR_MESSAGE_UNMAP, .address = tsr_block_address(block), .bytes = tsr_block_bytes(block)};
    tsr_executors_tell(&unmap);
    mapping->shared = false;
    tsr_home_only_add(tsr_block_address(block), tsr_block_bytes(block), TSR_REASON_MEMORY_NOT_SHARED);
}

void tsr_vmm_access(CUdeviceptr address, uint64_t bytes, CUmemAccess_flags flags)
{
    tsr_memory_lock();
    for (CUdeviceptr at = address, end = address + bytes, next; at < end; at = next) {
        struct tsr_block *block = mapping_at(at);
        next = block ? tsr_block_address(block) + tsr_block_bytes(block) : at + TSR_ARENA_PAGE;
        next = next < end ? next : end;
        if (block)
            access_locked(block, at, next - at, flags);
    }
    tsr_memory_unlock();
}

void tsr_vmm_created(CUmemGenericAllocationHandle handle, CUmemAllocationHandleType types, int descriptor)
{
    struct physical *physical = calloc(1, sizeof *physical);
    if (!physical)
        return;
    int copy = descriptor >= 0 ? fcntl(descriptor, F_DUPFD_CLOEXEC, 0) : -1;
    *physical = (struct physical){.handles = 1, .types = types, .descriptor = copy};
    tsr_memory_lock();
    bool noted = tsr_map_set(&physical_memory, handle, physical);
    tsr_memory_unlock();
    if (noted)
        return;
    if (copy >= 0)
        close(copy);
    free(physical);
}

void tsr_vmm_released(CUmemGenericAllocationHandle handle)
{
    tsr_memory_lock();
    struct physical *physical = tsr_map_find(&physical_memory, handle);
    if (physical && --physical->handles == 0) {
        tsr_map_remove(&physical_memory, handle);
        put_locked(physical);
    }
    tsr_memory_unlock();
}

void tsr_vmm_retained(CUmemGenericAllocationHandle handle, CUdeviceptr address)
{
    tsr_memory_lock();
    const struct tsr_block *block = mapping_at(address);
    struct physical *physical = block ? ((struct mapping *)block->owner)->physical : NULL;
    if (physical && tsr_map_set(&physical_memory, handle, physical))
        physical->handles++;
    tsr_memory_unlock();
}

bool tsr_vmm_types_of(CUmemGenericAllocationHandle handle, CUmemAllocationHandleType *types)
{
    tsr_memory_lock();
    const struct physical *physical = tsr_map_find(&physical_memory, handle);
    if (physical)
        *types = physical->types;
    tsr_memory_unlock();
    return physical != NULL;
}

bool tsr_vmm_types_at(CUdeviceptr address, CUmemAllocationHandleType *types)
{
    tsr_memory_lock();
    const struct tsr_block *block = mapping_at(address);
    const struct physical *physical = block ? ((struct mapping *)block->owner)->physical : NULL;
    if (physical)
        *types = physical->types;
    tsr_memory_unlock();
    return physical != NULL;
}

void tsr_vmm_forget(void)
{
    window = reserved = mapped = (struct tsr_blocks){0};
    physical_memory = (struct tsr_map){0};
}
