/* See vmm.h. */
#include "vmm.h"

#include <pthread.h>
#include <sys/mman.h>

#include "base/os.h"
#include "base/vec.h"

#include "alloc.h"

#define UNIT TSR_PHYSICAL_GRANULARITY
/* Where reservations without a hint go: the same on every run. */
#ifdef __SANITIZE_THREAD__ /* after the heaps, see heap.c */
#define SEARCH_BEGIN 0x7ec000000000ull
#define SEARCH_END 0x7ef000000000ull
#else
#define SEARCH_BEGIN 0x300000000000ull
#define SEARCH_END 0x500000000000ull
#endif

struct reservation {
    uint64_t base, bytes;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static TSR_VEC(struct reservation) reservations; /* lock; sorted by base */

static bool usable_hint(uint64_t hint, uint64_t bytes, uint64_t alignment)
{
#ifdef __SANITIZE_THREAD__
    if (hint < SEARCH_BEGIN)
        return false; /* trying would end the process */
#endif
    return hint && hint % alignment == 0 && hint + bytes <= 1ull << 47;
}

static void *pointer(uint64_t address)
{
    return (void *)(uintptr_t)address;
}

static bool aligned(uint64_t value)
{
    return value % UNIT == 0;
}

/* First fit between our own reservations; what else is mapped there is found out by trying. */
static uint64_t search_locked(uint64_t bytes, uint64_t alignment)
{
    uint64_t at = (SEARCH_BEGIN + alignment - 1) / alignment * alignment;
    for (size_t i = 0; i <= reservations.count; i++) {
        uint64_t next = i < reservations.count ? reservations.data[i].base : SEARCH_END;
        while (at < next && next - at >= bytes && at + bytes <= SEARCH_END) {
            if (tsr_os_reserve(pointer(at), bytes))
                return at;
            at += alignment;
        }
        if (i < reservations.count && next + reservations.data[i].bytes > at) {
            at = next + reservations.data[i].bytes;
            at = (at + alignment - 1) / alignment * alignment;
        }
    }
    return 0;
}

static bool insert_locked(uint64_t base, uint64_t bytes)
{
    if (!tsr_vec_push(&reservations, (struct reservation){base, bytes}))
        return false;
    size_t i = reservations.count - 1;
    for (; i && reservations.data[i - 1].base > base; i--)
        reservations.data[i] = reservations.data[i - 1];
    reservations.data[i] = (struct reservation){base, bytes};
    return true;
}

CUresult tsr_emulated_vmm_reserve(uint64_t bytes, uint64_t alignment, uint64_t hint, uint64_t *address)
{
    if (!bytes || !aligned(bytes) || (alignment & (alignment - 1)))
        return CUDA_ERROR_INVALID_VALUE;
    if (alignment < UNIT)
        alignment = UNIT;
    if (bytes > 1ull << 47 || alignment > 1ull << 46)
        return CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_lock(&lock);
    uint64_t base = 0;
    if (usable_hint(hint, bytes, alignment) && tsr_os_reserve(pointer(hint), bytes))
        base = hint;
    if (!base)
        base = search_locked(bytes, alignment);
    bool kept = base && insert_locked(base, bytes);
    if (base && !kept)
        tsr_os_unmap(pointer(base), bytes);
    pthread_mutex_unlock(&lock);
    if (!kept)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *address = base;
    return CUDA_SUCCESS;
}

CUresult tsr_emulated_vmm_free(uint64_t address, uint64_t bytes)
{
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < reservations.count; i++) {
        if (reservations.data[i].base != address || reservations.data[i].bytes != bytes)
            continue;
        if (tsr_space_overlaps(tsr_space_instance(), address, bytes))
            break;
        tsr_os_unmap(pointer(address), bytes);
        for (; i + 1 < reservations.count; i++)
            reservations.data[i] = reservations.data[i + 1];
        reservations.count--;
        result = CUDA_SUCCESS;
        break;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

static bool reserved_locked(uint64_t address, uint64_t bytes)
{
    for (size_t i = 0; i < reservations.count; i++) {
        const struct reservation *reservation = &reservations.data[i];
        uint64_t offset = address - reservation->base;
        if (offset < reservation->bytes)
            return bytes <= reservation->bytes - offset;
    }
    return false;
}

static CUresult map_locked(uint64_t address, uint64_t bytes, uint64_t offset, struct tsr_emulated_physical *physical)
{
    struct tsr_emulated_allocation *allocation = tsr_allocation_create(NULL, tsr_physical_device(physical));
    if (!allocation)
        return CUDA_ERROR_OUT_OF_MEMORY;
    allocation->detail = physical;
    allocation->flags = tsr_physical_handle_types(physical);
    allocation->user_base = address;
    allocation->descriptor = tsr_physical_descriptor(physical);
    allocation->descriptor_offset = offset;
    struct tsr_range range = {
        .base = address,
        .bytes = bytes,
        .location = tsr_physical_device(physical),
        .kind = TSR_RANGE_VMM,
        .requested_bytes = bytes,
        .owner = allocation,
    };
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    if (tsr_os_map_over(pointer(address), bytes, PROT_READ | PROT_WRITE, allocation->descriptor, offset)) {
        result = tsr_space_add(tsr_space_instance(), &range);
        if (result != CUDA_SUCCESS)
            tsr_os_unmap_to_reserved(pointer(address), bytes);
    }
    if (result != CUDA_SUCCESS)
        tsr_allocation_destroy(allocation);
    else
        tsr_physical_ref(physical);
    return result;
}

CUresult tsr_vmm_map(uint64_t address, uint64_t bytes, uint64_t offset, struct tsr_emulated_physical *physical)
{
    if (!bytes || !aligned(address) || !aligned(bytes) || !aligned(offset))
        return CUDA_ERROR_INVALID_VALUE;
    if (offset || bytes > tsr_physical_bytes(physical))
        return CUDA_ERROR_NOT_SUPPORTED; /* what driver 580 answers */
    pthread_mutex_lock(&lock);
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    if (reserved_locked(address, bytes) && !tsr_space_overlaps(tsr_space_instance(), address, bytes))
        result = map_locked(address, bytes, offset, physical);
    pthread_mutex_unlock(&lock);
    return result;
}

/* Whether [address, address + bytes) consists of whole mappings. */
static bool whole_mappings_locked(uint64_t address, uint64_t bytes)
{
    struct tsr_range range;
    uint64_t at = address, end = address + bytes;
    if (!bytes || end < address)
        return false;
    while (at < end) {
        if (!tsr_space_next(tsr_space_instance(), at, &range) || range.base != at || range.kind != TSR_RANGE_VMM)
            return false;
        at += range.bytes;
    }
    return at == end;
}

static void unmap_one_locked(const struct tsr_range *range)
{
    struct tsr_emulated_allocation *allocation = range->owner;
    tsr_space_remove(tsr_space_instance(), range->base);
    tsr_os_unmap_to_reserved(pointer(range->base), range->bytes);
    tsr_physical_unref(allocation->detail);
    tsr_allocations_lock();
    tsr_allocation_destroy(allocation);
    tsr_allocations_unlock();
}

/* Whether the edges of [address, address + bytes) cut no mapping. */
static bool cuts_nothing_locked(uint64_t address, uint64_t bytes)
{
    struct tsr_range range;
    if (tsr_space_lookup(tsr_space_instance(), address, &range) && range.base != address)
        return false;
    return !tsr_space_lookup(tsr_space_instance(), address + bytes, &range) || range.base == address + bytes;
}

/* Addresses that are reserved but not mapped may be unmapped too. */
CUresult tsr_vmm_unmap(uint64_t address, uint64_t bytes)
{
    struct tsr_range range;
    if (!bytes || !aligned(address) || !aligned(bytes))
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    bool whole = reserved_locked(address, bytes) && cuts_nothing_locked(address, bytes);
    for (uint64_t at = address;
         whole && at < address + bytes && tsr_space_next(tsr_space_instance(), at, &range) && range.base < address + bytes;
         at = range.base + range.bytes)
        unmap_one_locked(&range);
    pthread_mutex_unlock(&lock);
    return whole ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static void access_one(const struct tsr_range *range, uint32_t device, CUmemAccess_flags flags)
{
    uint16_t bit = (uint16_t)(1u << device);
    uint16_t readable = (uint16_t)(flags & CU_MEM_ACCESS_FLAGS_PROT_READ ? range->readable | bit : range->readable & ~bit);
    uint16_t writable =
        (uint16_t)(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? range->writable | bit : range->writable & ~bit);
    tsr_space_access_set(tsr_space_instance(), range->base, readable, writable);
}

CUresult tsr_vmm_access_set(uint64_t address, uint64_t bytes, uint32_t device, CUmemAccess_flags flags)
{
    struct tsr_range range;
    pthread_mutex_lock(&lock);
    bool whole = whole_mappings_locked(address, bytes);
    for (uint64_t at = address; whole && at < address + bytes && tsr_space_next(tsr_space_instance(), at, &range);
         at = range.base + range.bytes)
        access_one(&range, device, flags);
    pthread_mutex_unlock(&lock);
    return whole ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult tsr_vmm_access_get(uint64_t address, uint32_t device, unsigned long long *flags)
{
    struct tsr_range range;
    if (!tsr_space_lookup(tsr_space_instance(), address, &range) || range.kind != TSR_RANGE_VMM)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = range.writable >> device & 1   ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
             : range.readable >> device & 1 ? CU_MEM_ACCESS_FLAGS_PROT_READ
                                            : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return CUDA_SUCCESS;
}

struct tsr_emulated_physical *tsr_vmm_physical(uint64_t address)
{
    struct tsr_range range;
    struct tsr_emulated_physical *physical = NULL;
    pthread_mutex_lock(&lock);
    if (tsr_space_lookup(tsr_space_instance(), address, &range) && range.kind == TSR_RANGE_VMM) {
        physical = ((struct tsr_emulated_allocation *)range.owner)->detail;
        tsr_physical_ref(physical);
    }
    pthread_mutex_unlock(&lock);
    return physical;
}
