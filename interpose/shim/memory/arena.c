/* See arena.h. */
#include "shim/memory/arena.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tessera/lane.h>

#include "base/blocks.h"
#include "base/log.h"
#include "shim/order/executors.h"
#include "shim/memory/home_only.h"
#include "shim/entry/real.h"
#include "shim/launch/session.h"

#define SPAN (TSR_ARENA_BYTES + TSR_RESERVE_BYTES) /* the arena, and what the application reserves itself */
#define PAGES (SPAN / TSR_ARENA_PAGE)
_Static_assert(TSR_RESERVE_ADDRESS == TSR_ARENA_ADDRESS + TSR_ARENA_BYTES, "one table has the pages of both");

static struct tsr_blocks space;           /* who has which addresses; owner of a block in use: its extent */
static CUdeviceptr arena;                 /* 0: not reserved yet */
static uint64_t mapped_pages[PAGES / 64]; /* atomic words; bit n: page n is mapped everywhere */
static bool any_marked;                   /* memory lock */

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
    arena = address;
    return CUDA_SUCCESS;
}

void tsr_arena_mark(CUdeviceptr address, uint64_t bytes, bool mapped)
{
    uint64_t first = (address - TSR_ARENA_ADDRESS) / TSR_ARENA_PAGE;
    any_marked = true;
    for (uint64_t page = first; page < first + bytes / TSR_ARENA_PAGE; page++)
        if (mapped)
            __atomic_fetch_or(&mapped_pages[page / 64], 1ull << page % 64, __ATOMIC_RELEASE);
        else
            __atomic_fetch_and(&mapped_pages[page / 64], ~(1ull << page % 64), __ATOMIC_RELEASE);
}

bool tsr_arena_holds(CUdeviceptr address, uint64_t bytes)
{
    uint64_t offset = address - TSR_ARENA_ADDRESS;
    if (offset >= SPAN || bytes > SPAN - offset)
        return false;
    uint64_t last = bytes ? (offset + bytes - 1) / TSR_ARENA_PAGE : offset / TSR_ARENA_PAGE;
    for (uint64_t page = offset / TSR_ARENA_PAGE; page <= last; page++)
        if (!(__atomic_load_n(&mapped_pages[page / 64], __ATOMIC_ACQUIRE) >> page % 64 & 1))
            return false;
    return true;
}

/* All executors or none; then the memory is the home GPU's alone. */
static void share(struct tsr_extent *extent)
{
    int descriptor = -1;
    struct tsr_message map = {.kind = TSR_MESSAGE_MAP,
                              .address = extent->address,
                              .bytes = extent->bytes,
                              .detail = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    struct tsr_message unmap = {.kind = TSR_MESSAGE_UNMAP, .address = extent->address, .bytes = extent->bytes};
    CUresult result =
        tsr_real.cuMemExportToShareableHandle(&descriptor, extent->memory, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    if (result == CUDA_SUCCESS)
        result = tsr_executors_ask(&map, descriptor, &unmap);
    if (descriptor >= 0)
        close(descriptor);
    extent->shared = result == CUDA_SUCCESS;
    if (extent->shared) {
        tsr_arena_mark(extent->address, extent->bytes, true);
        return;
    }
    tsr_warn("memory of %llu bytes cannot be shared with the executors (error %d); launches that use it stay home",
             (unsigned long long)extent->bytes, (int)result);
    tsr_home_only_add(extent->address, extent->bytes, TSR_REASON_MEMORY_NOT_SHARED);
}

CUresult tsr_arena_grant(const struct tsr_extent *extent, CUdevice device, CUmemAccess_flags flags)
{
    CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}, .flags = flags};
    return tsr_real.cuMemSetAccess(extent->address, extent->bytes, &access, 1);
}

static CUresult map_home(struct tsr_extent *extent, CUdevice home, uint32_t peers)
{
    CUmemAllocationProp properties = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = home},
    };
    int rdma = 0; /* ordinary memory can do it where the GPU can */
    tsr_real.cuDeviceGetAttribute(&rdma, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, home);
    properties.allocFlags.gpuDirectRDMACapable = rdma != 0;
    CUresult result = tsr_real.cuMemCreate(&extent->memory, extent->bytes, &properties, 0);
    if (result != CUDA_SUCCESS)
        return result;
    result = tsr_real.cuMemMap(extent->address, extent->bytes, 0, extent->memory, 0);
    if (result != CUDA_SUCCESS)
        goto release;
    result = tsr_arena_grant(extent, home, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    for (CUdevice device = 0; peers >> device && result == CUDA_SUCCESS; device++)
        if (peers >> device & 1)
            result = tsr_arena_grant(extent, device, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    if (result == CUDA_SUCCESS)
        return CUDA_SUCCESS;
    tsr_real.cuMemUnmap(extent->address, extent->bytes);
release:
    tsr_real.cuMemRelease(extent->memory);
    return result;
}

CUresult tsr_arena_map(uint64_t bytes, uint32_t peers, struct tsr_extent **out)
{
    CUresult result = reserve();
    if (result != CUDA_SUCCESS)
        return result;
    struct tsr_extent *extent = calloc(1, sizeof *extent);
    struct tsr_block *block = extent ? tsr_blocks_take(&space, TSR_BLOCKS_FREE, bytes, TSR_ARENA_PAGE) : NULL;
    if (!block) {
        free(extent);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    block->owner = extent;
    *extent = (struct tsr_extent){.address = tsr_block_address(block), .bytes = bytes, .block = block};
    result = map_home(extent, (CUdevice)tsr_session()->policy->home, peers);
    if (result != CUDA_SUCCESS) {
        tsr_blocks_give(&space, block, TSR_BLOCKS_FREE);
        free(extent);
        return result;
    }
    share(extent);
    *out = extent;
    return CUDA_SUCCESS;
}

void tsr_arena_unmap(struct tsr_extent *extent)
{
    if (extent->shared) {
        struct tsr_message message = {.kind = TSR_MESSAGE_UNMAP, .address = extent->address, .bytes = extent->bytes};
        tsr_arena_mark(extent->address, extent->bytes, false);
        tsr_executors_tell(&message);
    } else {
        tsr_home_only_remove(extent->address);
    }
    tsr_real.cuMemUnmap(extent->address, extent->bytes);
    tsr_real.cuMemRelease(extent->memory);
    tsr_blocks_give(&space, extent->block, TSR_BLOCKS_FREE);
    free(extent);
}

struct tsr_extent *tsr_arena_find(CUdeviceptr address)
{
    const struct tsr_block *block = tsr_blocks_find(&space, address);
    return block ? block->owner : NULL;
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
    space = (struct tsr_blocks){0};
    arena = 0;
    if (any_marked) /* else the table is left untouched, and costs no memory */
        memset(mapped_pages, 0, sizeof mapped_pages);
    any_marked = false;
}
