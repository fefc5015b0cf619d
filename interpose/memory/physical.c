/* See physical.h. */
#include "memory/physical.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/vec.h"
#include "driver/real.h"
#include "memory/allocation.h"
#include "memory/owners.h"

struct tsr_physical {
    uint64_t handles;  /* that the application has to release */
    uint64_t mappings; /* of it */
    CUmemAllocationHandleType types;
    int descriptor; /* -1: ask the driver for one */
    bool offered;   /* another process has it, or may get it */
    uint32_t owner; /* of a pool: rank; else TSR_OWNERS_NONE */
    uint64_t bytes; /* of a pool */
};

struct handle {
    CUmemGenericAllocationHandle value;
    struct tsr_physical *physical;
};

static TSR_VEC(
    struct handle) handles; /* memory lock; sorted; a tsr_map would keep a place for every handle that there ever was */

/* Index of the first handle that is not below. */
static size_t index_of(CUmemGenericAllocationHandle value)
{
    size_t low = 0, high = handles.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (handles.data[middle].value < value)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct tsr_physical *tsr_physical_find_locked(CUmemGenericAllocationHandle value)
{
    size_t at = index_of(value);
    return at < handles.count && handles.data[at].value == value ? handles.data[at].physical : NULL;
}

static void forget_handle(CUmemGenericAllocationHandle value)
{
    size_t at = index_of(value);
    if (at < handles.count && handles.data[at].value == value) {
        memmove(handles.data + at, handles.data + at + 1, (handles.count - at - 1) * sizeof handles.data[0]);
        handles.count--;
    }
}

static bool note_handle(CUmemGenericAllocationHandle value, struct tsr_physical *physical)
{
    forget_handle(value);
    size_t at = index_of(value);
    struct handle handle = {value, physical};
    if (!tsr_vec_push(&handles, handle))
        return false;
    memmove(handles.data + at + 1, handles.data + at, (handles.count - 1 - at) * sizeof handle);
    handles.data[at] = handle;
    return true;
}

static void put_locked(struct tsr_physical *physical)
{
    if (physical->handles || physical->mappings)
        return;
    if (physical->owner != TSR_OWNERS_NONE)
        tsr_owners_remove(physical->owner, physical->bytes);
    if (physical->descriptor >= 0)
        close(physical->descriptor);
    free(physical);
}

void tsr_physical_offered(CUmemGenericAllocationHandle handle)
{
    tsr_memory_lock();
    struct tsr_physical *physical = tsr_physical_find_locked(handle);
    if (physical)
        physical->offered = true;
    tsr_memory_unlock();
}

void tsr_physical_created(CUmemGenericAllocationHandle handle, CUmemAllocationHandleType types, int descriptor)
{
    struct tsr_physical *physical = calloc(1, sizeof *physical);
    if (!physical)
        return;
    int copy = descriptor >= 0 ? fcntl(descriptor, F_DUPFD_CLOEXEC, 0) : -1;
    *physical = (struct tsr_physical){.types = types, .descriptor = copy, .owner = TSR_OWNERS_NONE};
    tsr_memory_lock();
    if (note_handle(handle, physical))
        physical->handles = 1;
    else
        put_locked(physical);
    tsr_memory_unlock();
}

void tsr_physical_owned_locked(CUmemGenericAllocationHandle handle, uint32_t rank, uint64_t bytes)
{
    struct tsr_physical *physical = tsr_physical_find_locked(handle);
    if (!physical)
        return;
    physical->owner = rank;
    physical->bytes = bytes;
    tsr_owners_add(rank, bytes);
}

uint32_t tsr_physical_owner_locked(const struct tsr_physical *physical)
{
    return physical ? physical->owner : TSR_OWNERS_NONE;
}

void tsr_physical_released_locked(CUmemGenericAllocationHandle handle)
{
    struct tsr_physical *physical = tsr_physical_find_locked(handle);
    if (physical && --physical->handles == 0) {
        forget_handle(handle);
        put_locked(physical);
    }
}

void tsr_physical_retain_locked(struct tsr_physical *physical, CUmemGenericAllocationHandle handle)
{
    if (physical && note_handle(handle, physical))
        physical->handles++;
}

void tsr_physical_mapped_locked(struct tsr_physical *physical)
{
    if (physical)
        physical->mappings++;
}

void tsr_physical_unmapped_locked(struct tsr_physical *physical)
{
    if (!physical)
        return;
    physical->mappings--;
    put_locked(physical);
}

bool tsr_physical_is_private_locked(const struct tsr_physical *physical)
{
    return physical && physical->mappings == 1 && !physical->offered;
}

bool tsr_physical_types_locked(const struct tsr_physical *physical, CUmemAllocationHandleType *types)
{
    if (physical)
        *types = physical->types;
    return physical != NULL;
}

bool tsr_physical_types_of(CUmemGenericAllocationHandle handle, CUmemAllocationHandleType *types)
{
    tsr_memory_lock();
    bool known = tsr_physical_types_locked(tsr_physical_find_locked(handle), types);
    tsr_memory_unlock();
    return known;
}

int tsr_physical_share_locked(const struct tsr_physical *physical, CUmemGenericAllocationHandle handle)
{
    int descriptor = -1;
    if (physical && physical->descriptor >= 0)
        return fcntl(physical->descriptor, F_DUPFD_CLOEXEC, 0);
    CUresult result = tsr_real.cuMemExportToShareableHandle(&descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    return result == CUDA_SUCCESS ? descriptor : -1;
}

void tsr_physical_forget(void)
{
    tsr_vec_clear(&handles);
}
