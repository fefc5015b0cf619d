/* See alloc.h: ordinary device memory, host memory, managed memory. */
#include "alloc.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/os.h"

#include "heap.h"

#define ALL_DEVICES 0xffffu
#define HOST_PAGE 4096ull

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void tsr_allocations_lock(void)
{
    pthread_mutex_lock(&lock);
}

void tsr_allocations_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

struct tsr_emulated_allocation *tsr_allocation_create(struct tsr_context *context, uint32_t device)
{
    struct tsr_emulated_allocation *allocation = calloc(1, sizeof *allocation);
    if (!allocation)
        return NULL;
    allocation->context = context = context ? tsr_context_root(context) : NULL;
    allocation->device = device;
    allocation->descriptor = -1;
    allocation->preferred_location = allocation->last_prefetch = CU_DEVICE_INVALID;
    if (context)
        tsr_context_ref(context);
    return allocation;
}

void tsr_allocation_destroy(struct tsr_emulated_allocation *allocation)
{
    if (allocation->context)
        tsr_context_unref(allocation->context);
    free(allocation);
}

static bool of_context(const struct tsr_range *range, const struct tsr_context *context)
{
    const struct tsr_emulated_allocation *allocation = range->owner;
    if (range->kind != TSR_RANGE_PLAIN && range->kind != TSR_RANGE_HOST && range->kind != TSR_RANGE_MANAGED &&
        range->kind != TSR_RANGE_IPC)
        return false;
    return allocation && allocation->context == context;
}

/* The context ends: so does its memory. Other parts (modules, pools, VMM) end theirs themselves. */
static void release_of_context(struct tsr_context *context, void *unused)
{
    (void)unused;
    struct tsr_range range, now;
    for (uint64_t from = 0; tsr_space_next(tsr_space_instance(), from, &range); from = range.base + 1) {
        pthread_mutex_lock(&lock); /* under it, an owner lives as long as its range can be found */
        bool mine = tsr_space_lookup(tsr_space_instance(), range.base, &now) && of_context(&now, context);
        pthread_mutex_unlock(&lock);
        if (mine)
            tsr_memory_release(range.base, range.kind);
    }
}

bool tsr_memory_attach(struct tsr_context *context)
{
    context = tsr_context_root(context);
    return tsr_context_slot_set(context, TSR_SLOT_MEMORY, context, release_of_context) != NULL;
}

/* Publishes the range with a fresh allocation record. */
static CUresult publish(struct tsr_context *context, struct tsr_range *range, unsigned flags, bool registered,
                        uint64_t user_base)
{
    struct tsr_emulated_allocation *allocation = tsr_allocation_create(context, range->location);
    if (!allocation)
        return CUDA_ERROR_OUT_OF_MEMORY;
    allocation->flags = flags;
    allocation->registered = registered;
    allocation->user_base = user_base;
    range->owner = allocation;
    tsr_memory_attach(context);
    CUresult result = tsr_space_add(tsr_space_instance(), range);
    if (result != CUDA_SUCCESS)
        tsr_allocation_destroy(allocation);
    return result;
}

CUresult tsr_memory_alloc(struct tsr_context *context, uint64_t bytes, enum tsr_range_kind kind, uint64_t *address)
{
    uint32_t device = tsr_emulated_context_device(context);
    uint64_t base;
    CUresult result = tsr_device_heap_alloc(device, bytes, &base);
    if (result != CUDA_SUCCESS)
        return result;
    struct tsr_range range = {
        .base = base,
        .bytes = (bytes + TSR_HEAP_UNIT - 1) / TSR_HEAP_UNIT * TSR_HEAP_UNIT,
        .location = device,
        .readable = tsr_peer_mask(device),
        .writable = tsr_peer_mask(device),
        .kind = kind,
        .requested_bytes = bytes,
    };
    result = publish(context, &range, 0, false, base);
    if (result != CUDA_SUCCESS) {
        tsr_device_heap_free(device, base, bytes);
        return result;
    }
    *address = base;
    return CUDA_SUCCESS;
}

static CUresult alloc_shared(struct tsr_context *context, uint64_t bytes, enum tsr_range_kind kind, unsigned flags,
                             uint64_t *address)
{
    if (bytes > 1ull << 46)
        return CUDA_ERROR_OUT_OF_MEMORY;
    uint64_t whole = (bytes + HOST_PAGE - 1) / HOST_PAGE * HOST_PAGE;
    void *base = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct tsr_range range = {
        .base = (uint64_t)(uintptr_t)base,
        .bytes = whole,
        .location = TSR_LOCATION_HOST,
        .readable = ALL_DEVICES,
        .writable = ALL_DEVICES,
        .kind = kind,
        .requested_bytes = bytes,
    };
    CUresult result = publish(context, &range, flags, false, range.base);
    if (result != CUDA_SUCCESS) {
        munmap(base, whole);
        return result;
    }
    *address = range.base;
    return CUDA_SUCCESS;
}

CUresult tsr_memory_alloc_host(struct tsr_context *context, uint64_t bytes, unsigned flags, uint64_t *address)
{
    return alloc_shared(context, bytes, TSR_RANGE_HOST, flags, address);
}

CUresult tsr_memory_alloc_managed(struct tsr_context *context, uint64_t bytes, unsigned flags, uint64_t *address)
{
    return alloc_shared(context, bytes, TSR_RANGE_MANAGED, flags, address);
}

/* Whether every page is mapped in this process. */
static bool mapped(uint64_t begin, uint64_t bytes)
{
    unsigned char resident[1024];
    for (uint64_t done = 0; done < bytes; done += sizeof resident * HOST_PAGE) {
        uint64_t part = bytes - done < sizeof resident * HOST_PAGE ? bytes - done : sizeof resident * HOST_PAGE;
        if (mincore((void *)(uintptr_t)(begin + done), part, resident) != 0)
            return false;
    }
    return true;
}

CUresult tsr_memory_register(struct tsr_context *context, uint64_t address, uint64_t bytes, unsigned flags)
{
    if (address + bytes < address || address + bytes > 1ull << 47)
        return CUDA_ERROR_INVALID_VALUE;
    uint64_t begin = address / HOST_PAGE * HOST_PAGE, end = (address + bytes + HOST_PAGE - 1) / HOST_PAGE * HOST_PAGE;
    if (!mapped(begin, end - begin))
        return CUDA_ERROR_INVALID_VALUE;
    struct tsr_range range = {
        .base = begin,
        .bytes = end - begin,
        .location = TSR_LOCATION_HOST,
        .readable = ALL_DEVICES,
        .writable = flags & CU_MEMHOSTREGISTER_READ_ONLY ? 0 : ALL_DEVICES,
        .kind = TSR_RANGE_HOST,
        .requested_bytes = bytes,
    };
    CUresult result = publish(context, &range, flags, true, address);
    return result == CUDA_ERROR_INVALID_VALUE ? CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED : result;
}

static void memory_end(const struct tsr_range *range, const struct tsr_emulated_allocation *allocation)
{
    void *base = (void *)(uintptr_t)range->base;
    switch (range->kind) {
    case TSR_RANGE_HOST:
    case TSR_RANGE_MANAGED:
        if (!allocation->registered)
            munmap(base, range->bytes);
        break;
    case TSR_RANGE_IPC:
        munmap((void *)(uintptr_t)(range->base / HOST_PAGE * HOST_PAGE), allocation->mapped_bytes);
        break;
    default:
        tsr_device_heap_free(range->location, range->base, range->requested_bytes);
    }
}

bool tsr_memory_release(uint64_t base, enum tsr_range_kind kind)
{
    struct tsr_range range;
    if (!tsr_space_lookup(tsr_space_instance(), base, &range) || range.base != base || range.kind != kind)
        return false;
    if (!tsr_space_remove(tsr_space_instance(), base))
        return false;
    memory_end(&range, range.owner);
    pthread_mutex_lock(&lock);
    tsr_allocation_destroy(range.owner);
    pthread_mutex_unlock(&lock);
    return true;
}

bool tsr_emulated_allocation_find(uint64_t address, struct tsr_range *range, struct tsr_emulated_allocation *allocation)
{
    pthread_mutex_lock(&lock);
    bool found = tsr_space_lookup(tsr_space_instance(), address, range) && range->owner;
    if (found)
        *allocation = *(const struct tsr_emulated_allocation *)range->owner;
    pthread_mutex_unlock(&lock);
    return found;
}

bool tsr_allocation_change(uint64_t address, void (*change)(struct tsr_emulated_allocation *allocation, void *argument),
                           void *argument)
{
    struct tsr_range range;
    pthread_mutex_lock(&lock);
    bool found = tsr_space_lookup(tsr_space_instance(), address, &range) && range.owner;
    if (found)
        change(range.owner, argument);
    pthread_mutex_unlock(&lock);
    return found;
}
