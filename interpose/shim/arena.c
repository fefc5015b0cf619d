/* See arena.h. One lock: allocation is not a hot path here; programs that care keep their own cache of memory. */
#include "shim/arena.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include <tessera/lane.h>

#include "base/log.h"
#include "base/map.h"
#include "shim/lane_client.h"
#include "shim/real.h"
#include "shim/session.h"

#define PAGE (2ull << 20)
#define SMALLEST 512ull
#define CLASSES 12 /* 512 bytes to 1 MiB */

struct free_block {
    struct free_block *next;
    CUdeviceptr address;
};

struct extent { /* a hole in the arena, or one physical allocation */
    struct extent *next;
    CUdeviceptr address;
    uint64_t bytes;
    CUmemGenericAllocationHandle memory;
};

struct allocation {
    CUdeviceptr address;
    size_t bytes; /* as asked for */
    int class;    /* -1: an extent of its own */
    struct extent *extent;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards everything below */
static CUdeviceptr arena;                                /* 0: not reserved yet */
static struct extent *holes;                             /* sorted by address, never adjacent */
static struct free_block *free_blocks[CLASSES];
static struct tsr_map allocations; /* by address */

static CUresult reserve_locked(void)
{
    if (arena)
        return CUDA_SUCCESS;
    CUdeviceptr address = 0;
    CUresult result = tsr_real.cuMemAddressReserve(&address, TSR_ARENA_BYTES, PAGE, TSR_ARENA_ADDRESS, 0);
    if (result != CUDA_SUCCESS)
        return result;
    struct extent *whole = calloc(1, sizeof *whole);
    if (address != TSR_ARENA_ADDRESS || !whole) {
        tsr_error("the arena's address range is taken; all memory stays home");
        tsr_real.cuMemAddressFree(address, TSR_ARENA_BYTES);
        free(whole);
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    *whole = (struct extent){.address = address, .bytes = TSR_ARENA_BYTES};
    holes = whole;
    arena = address;
    return CUDA_SUCCESS;
}

static struct extent *take_hole_locked(uint64_t bytes)
{
    struct extent *taken = calloc(1, sizeof *taken);
    struct extent **link = &holes;
    while (*link && (*link)->bytes < bytes)
        link = &(*link)->next;
    if (!taken || !*link) {
        free(taken);
        return NULL;
    }
    *taken = (struct extent){.address = (*link)->address, .bytes = bytes};
    (*link)->address += bytes;
    (*link)->bytes -= bytes;
    if ((*link)->bytes == 0) {
        struct extent *used = *link;
        *link = used->next;
        free(used);
    }
    return taken;
}

static void give_hole_locked(struct extent *hole)
{
    struct extent **link = &holes;
    while (*link && (*link)->address < hole->address)
        link = &(*link)->next;
    hole->next = *link;
    *link = hole;
    struct extent *previous = NULL;
    for (struct extent *at = holes; at;) {
        struct extent *next = at->next;
        if (previous && previous->address + previous->bytes == at->address) {
            previous->bytes += at->bytes;
            previous->next = next;
            free(at);
        } else {
            previous = at;
        }
        at = next;
    }
}

static CUresult tell_executors(uint32_t kind, const struct extent *extent, int descriptor)
{
    const struct tsr_session *session = tsr_session();
    CUresult result = CUDA_SUCCESS;
    for (uint32_t i = 0; i < session->lane_count && result == CUDA_SUCCESS; i++) {
        struct tsr_message message = {.kind = kind, .address = extent->address, .bytes = extent->bytes};
        result = tsr_lane_ask(session->lanes[i], &message, descriptor);
    }
    return result;
}

static CUresult map_home(struct extent *extent, const CUmemAllocationProp *properties)
{
    CUresult result = tsr_real.cuMemCreate(&extent->memory, extent->bytes, properties, 0);
    if (result != CUDA_SUCCESS)
        return result;
    result = tsr_real.cuMemMap(extent->address, extent->bytes, 0, extent->memory, 0);
    if (result != CUDA_SUCCESS)
        goto release;
    CUmemAccessDesc access = {.location = properties->location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    result = tsr_real.cuMemSetAccess(extent->address, extent->bytes, &access, 1);
    if (result == CUDA_SUCCESS)
        return CUDA_SUCCESS;
    tsr_real.cuMemUnmap(extent->address, extent->bytes);
release:
    tsr_real.cuMemRelease(extent->memory);
    return result;
}

static void unmap_home(struct extent *extent)
{
    tsr_real.cuMemUnmap(extent->address, extent->bytes);
    tsr_real.cuMemRelease(extent->memory);
}

static CUresult create_extent_locked(uint64_t bytes, struct extent **out)
{
    CUdevice device;
    CUresult result = tsr_real.cuCtxGetDevice(&device);
    if (result != CUDA_SUCCESS || (result = reserve_locked()) != CUDA_SUCCESS)
        return result;
    struct extent *extent = take_hole_locked(bytes);
    if (!extent)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUmemAllocationProp properties = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
    };
    int descriptor = -1;
    result = map_home(extent, &properties);
    if (result != CUDA_SUCCESS)
        goto give_back;
    result = tsr_real.cuMemExportToShareableHandle(&descriptor, extent->memory, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    if (result == CUDA_SUCCESS)
        result = tell_executors(TSR_MESSAGE_MAP, extent, descriptor);
    if (descriptor >= 0)
        close(descriptor);
    if (result == CUDA_SUCCESS) {
        *out = extent;
        return CUDA_SUCCESS;
    }
    unmap_home(extent);
give_back:
    give_hole_locked(extent);
    return result;
}

static CUresult refill_locked(int class)
{
    struct extent *extent;
    CUresult result = create_extent_locked(PAGE, &extent);
    uint64_t step = SMALLEST << class;
    for (uint64_t offset = PAGE; result == CUDA_SUCCESS && offset >= step; offset -= step) {
        struct free_block *block = malloc(sizeof *block);
        if (!block)
            return free_blocks[class] ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
        *block = (struct free_block){free_blocks[class], extent->address + offset - step};
        free_blocks[class] = block;
    }
    return result;
}

static CUresult take_small_locked(int class, CUdeviceptr *address)
{
    CUresult result = free_blocks[class] ? CUDA_SUCCESS : refill_locked(class);
    if (result != CUDA_SUCCESS)
        return result;
    struct free_block *block = free_blocks[class];
    *address = block->address;
    free_blocks[class] = block->next;
    free(block);
    return CUDA_SUCCESS;
}

static int class_of(size_t bytes)
{
    for (int class = 0; class < CLASSES; class++)
        if (bytes <= SMALLEST << class)
            return class;
    return -1;
}

CUresult tsr_arena_alloc(size_t bytes, CUdeviceptr *address)
{
    struct allocation *allocation = calloc(1, sizeof *allocation);
    if (!allocation)
        return CUDA_ERROR_OUT_OF_MEMORY;
    allocation->bytes = bytes;
    allocation->class = class_of(bytes);
    pthread_mutex_lock(&lock);
    CUresult result;
    if (allocation->class >= 0) {
        result = take_small_locked(allocation->class, &allocation->address);
    } else {
        result = create_extent_locked((bytes + PAGE - 1) / PAGE * PAGE, &allocation->extent);
        if (result == CUDA_SUCCESS)
            allocation->address = allocation->extent->address;
    }
    if (result == CUDA_SUCCESS)
        tsr_map_set(&allocations, allocation->address, allocation);
    pthread_mutex_unlock(&lock);
    if (result == CUDA_SUCCESS)
        *address = allocation->address;
    else
        free(allocation);
    return result;
}

bool tsr_arena_free(CUdeviceptr address)
{
    struct allocation *allocation = address ? tsr_map_remove(&allocations, address) : NULL;
    if (!allocation)
        return false;
    pthread_mutex_lock(&lock);
    if (allocation->class >= 0) {
        struct free_block *block = malloc(sizeof *block);
        if (block) {
            *block = (struct free_block){free_blocks[allocation->class], address};
            free_blocks[allocation->class] = block;
        }
    } else {
        tell_executors(TSR_MESSAGE_UNMAP, allocation->extent, -1);
        unmap_home(allocation->extent);
        give_hole_locked(allocation->extent);
    }
    pthread_mutex_unlock(&lock);
    free(allocation);
    return true;
}

struct search {
    CUdeviceptr address;
    const struct allocation *found;
};

static void match(uint64_t key, void *value, void *argument)
{
    struct search *search = argument;
    const struct allocation *allocation = value;
    if (search->address >= key && search->address < key + allocation->bytes)
        search->found = allocation;
}

bool tsr_arena_find(CUdeviceptr address, CUdeviceptr *base, size_t *bytes)
{
    if (address < TSR_ARENA_ADDRESS || address >= TSR_ARENA_ADDRESS + TSR_ARENA_BYTES)
        return false;
    struct search search = {.address = address};
    tsr_map_each(&allocations, match, &search);
    if (!search.found)
        return false;
    *base = search.found->address;
    *bytes = search.found->bytes;
    return true;
}
