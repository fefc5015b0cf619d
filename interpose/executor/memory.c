/*
 * See memory.h. Nothing here waits for the application's work without a limit: the application may hold it up until the call that the message comes from
 * has returned.
 */
#include "executor/memory.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <tessera/bounds.h>

#include "base/map.h"
#include "base/os.h"
#include "executor/share.h"

#define PAGE (2u << 20)
#define SPARE_PART 64u /* of a GPU, but not more than */
#define MOST_SPARE_BYTES (256u << 20)
#define IDLE_NS 1000000000ull      /* for memory that moves, on a busy machine */
#define FREED_NS 100000000ull /* for freed host memory where other memory is to be */
#define ENDS_NS 1000000ull /* streams take to end, once their last fence has been written */
#define IDLE_POLL_NS 20000ull

struct physical {
    CUmemGenericAllocationHandle handle;
    uint64_t charged_bytes; /* of what this executor may allocate */
    int32_t flags;          /* CUmemAccess_flags */
};

struct mapping {
    uint64_t bytes;
    bool moving; /* between MOVE and MOVED: */
    struct physical now, before;
};

struct tsr_memory {
    CUdevice device;
    CUstream *streams;           /* all that work is given to: TSR_LANE_STREAMS, NULL: none */
    struct tsr_map reservations; /* bytes by address; the arena is one */
    struct tsr_map mappings;     /* struct mapping by address */
    struct tsr_map host;         /* bytes by address */
    struct tsr_map freed_host;   /* the same; nothing uses it any more, but it is still registered */
    bool has_freed_host;
    struct tsr_bounds *bounds; /* of the application's allocations; NULL: all that is mapped may be accessed */
};

static CUresult reserve(struct tsr_memory *memory, uint64_t address, uint64_t bytes)
{
    CUdeviceptr got;
    CUresult result = cuMemAddressReserve(&got, bytes, PAGE, address, 0);
    if (result != CUDA_SUCCESS)
        return result;
    if (got != address)
        result = CUDA_ERROR_NOT_SUPPORTED;
    else if (!tsr_map_set(&memory->reservations, address, (void *)(uintptr_t)bytes))
        result = CUDA_ERROR_OUT_OF_MEMORY;
    if (result != CUDA_SUCCESS)
        cuMemAddressFree(got, bytes);
    return result;
}

static CUresult unreserve(struct tsr_memory *memory, uint64_t address)
{
    uint64_t bytes = (uint64_t)(uintptr_t)tsr_map_remove(&memory->reservations, address);
    return bytes ? cuMemAddressFree(address, bytes) : CUDA_ERROR_INVALID_VALUE;
}

CUresult tsr_memory_create(CUdevice device, CUstream *streams, struct tsr_memory **out)
{
    struct tsr_memory *memory = calloc(1, sizeof *memory);
    if (!memory)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memory->device = device;
    memory->streams = streams;
    CUresult result = reserve(memory, TSR_ARENA_ADDRESS, TSR_ARENA_BYTES);
    if (result != CUDA_SUCCESS) {
        free(memory);
        return result;
    }
    *out = memory;
    return CUDA_SUCCESS;
}

static bool is_idle(const struct tsr_memory *memory)
{
    for (uint32_t i = 0; i < TSR_LANE_STREAMS; i++)
        if (memory->streams[i] && cuStreamQuery(memory->streams[i]) == CUDA_ERROR_NOT_READY)
            return false;
    return true;
}

/* False: some work is held up, or takes long. */
static bool becomes_idle(const struct tsr_memory *memory, uint64_t within_ns)
{
    static const uint32_t never;
    uint64_t deadline = tsr_os_monotonic_ns() + within_ns;
    bool idle;
    while (!(idle = is_idle(memory)) && tsr_os_monotonic_ns() < deadline)
        tsr_os_futex_wait(&never, 0, IDLE_POLL_NS, false);
    return idle;
}

static CUresult set_access(const struct tsr_memory *memory, uint64_t address, uint64_t bytes, int32_t flags)
{
    CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = memory->device},
                              .flags = (CUmemAccess_flags)flags};
    return cuMemSetAccess(address, bytes, &access, 1);
}

/* What is left of a GPU to its driver, which may have to load code or need local memory for a launch. */
static bool is_enough_left(void)
{
    size_t free_bytes, total, spare;
    if (cuMemGetInfo(&free_bytes, &total) != CUDA_SUCCESS)
        return true;
    spare = total / SPARE_PART < MOST_SPARE_BYTES ? total / SPARE_PART : MOST_SPARE_BYTES;
    return free_bytes >= spare;
}

/* Memory that is on this executor's GPU, and has just been made, is part of what it may allocate. */
static CUresult take(const struct tsr_message *message, int descriptor, struct physical *out)
{
    bool is_own = (uint32_t)message->value == tsr_share_gpu() + 1;
    *out = (struct physical){.flags = message->detail, .charged_bytes = is_own ? message->bytes : 0};
    if (out->charged_bytes && !is_enough_left())
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (!tsr_share_take(out->charged_bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result =
        cuMemImportFromShareableHandle(&out->handle, (void *)(intptr_t)descriptor, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    if (result != CUDA_SUCCESS)
        tsr_share_give(out->charged_bytes);
    return result;
}

static void give(const struct physical *physical)
{
    cuMemRelease(physical->handle);
    tsr_share_give(physical->charged_bytes);
}

static CUresult show(const struct tsr_memory *memory, uint64_t address, uint64_t bytes, const struct physical *physical)
{
    CUresult result = cuMemMap(address, bytes, 0, physical->handle, 0);
    if (result != CUDA_SUCCESS)
        return result;
    if (physical->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE)
        result = set_access(memory, address, bytes, physical->flags);
    if (result != CUDA_SUCCESS)
        cuMemUnmap(address, bytes);
    return result;
}

static CUresult map(struct tsr_memory *memory, const struct tsr_message *message, int descriptor)
{
    if (descriptor < 0 || tsr_map_find(&memory->mappings, message->address))
        return CUDA_ERROR_INVALID_VALUE;
    struct mapping *mapping = calloc(1, sizeof *mapping);
    if (!mapping)
        return CUDA_ERROR_OUT_OF_MEMORY;
    mapping->bytes = message->bytes;
    CUresult result = take(message, descriptor, &mapping->now);
    if (result != CUDA_SUCCESS)
        goto drop;
    result = show(memory, message->address, message->bytes, &mapping->now);
    if (result != CUDA_SUCCESS)
        goto release;
    if (tsr_map_set(&memory->mappings, message->address, mapping))
        return CUDA_SUCCESS;
    result = CUDA_ERROR_OUT_OF_MEMORY;
    cuMemUnmap(message->address, message->bytes);
release:
    give(&mapping->now);
drop:
    free(mapping);
    return result;
}

/* The shim has waited for the work that uses it, as far as the driver would have. */
static CUresult unmap(struct tsr_memory *memory, uint64_t address)
{
    struct mapping *mapping = tsr_map_remove(&memory->mappings, address);
    if (!mapping)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = cuMemUnmap(address, mapping->bytes);
    give(&mapping->now);
    free(mapping);
    return result;
}

/* Other memory stands where mapping->now stood. Errors: then it still stands there, if the driver maps it again. */
static CUresult replace(const struct tsr_memory *memory, uint64_t address, const struct mapping *mapping,
                        const struct physical *other)
{
    CUresult result = cuMemUnmap(address, mapping->bytes);
    if (result == CUDA_SUCCESS && (result = show(memory, address, mapping->bytes, other)) != CUDA_SUCCESS)
        show(memory, address, mapping->bytes, &mapping->now);
    return result;
}

static CUresult move(struct tsr_memory *memory, const struct tsr_message *message, int descriptor)
{
    struct mapping *mapping = tsr_map_find(&memory->mappings, message->address);
    struct physical other;
    if (descriptor < 0 || !mapping || mapping->moving || mapping->bytes != message->bytes)
        return CUDA_ERROR_INVALID_VALUE;
    /* The shim moves memory in a quiet moment, and nothing is lost if it stays where it is. */
    if (!becomes_idle(memory, IDLE_NS))
        return CUDA_ERROR_NOT_READY;
    CUresult result = take(message, descriptor, &other);
    if (result != CUDA_SUCCESS)
        return result;
    result = replace(memory, message->address, mapping, &other);
    if (result != CUDA_SUCCESS) {
        give(&other);
        return result;
    }
    mapping->before = mapping->now;
    mapping->now = other;
    mapping->moving = true;
    return CUDA_SUCCESS;
}

static CUresult moved(struct tsr_memory *memory, uint64_t address, bool stays)
{
    struct mapping *mapping = tsr_map_find(&memory->mappings, address);
    if (!mapping || !mapping->moving)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = stays ? CUDA_SUCCESS : replace(memory, address, mapping, &mapping->before);
    if (result != CUDA_SUCCESS)
        return result;
    give(stays ? &mapping->before : &mapping->now);
    mapping->now = stays ? mapping->now : mapping->before;
    mapping->moving = false;
    return CUDA_SUCCESS;
}

static bool is_host(const struct tsr_message *message, int descriptor)
{
    uint64_t offset = message->address - TSR_HOST_ADDRESS;
    return message->bytes && offset < TSR_HOST_BYTES && message->bytes <= TSR_HOST_BYTES - offset &&
           tsr_os_is_sealed(descriptor, F_SEAL_SHRINK, message->bytes);
}

static void drop_host(uint64_t address, void *bytes, void *argument)
{
    (void)argument;
    cuMemHostUnregister((void *)(uintptr_t)address);
    tsr_os_unmap((void *)(uintptr_t)address, (uint64_t)(uintptr_t)bytes);
}

/* The driver waits for all work of the context before it unregisters memory. */
static void drop_freed_host(struct tsr_memory *memory)
{
    tsr_map_each(&memory->freed_host, drop_host, NULL);
    tsr_map_clear(&memory->freed_host);
    memory->has_freed_host = false;
}

struct range {
    uint64_t address, bytes;
    bool any, overlaps; /* memory that was freed */
};

static void compare(uint64_t address, void *bytes, void *argument)
{
    struct range *range = argument;
    range->any = true;
    range->overlaps |= address < range->address + range->bytes && range->address < address + (uint64_t)(uintptr_t)bytes;
}

/* False: memory that was freed there cannot be unregistered yet. */
static bool is_free(struct tsr_memory *memory, const struct tsr_message *message)
{
    struct range range = {.address = message->address, .bytes = message->bytes};
    tsr_map_each(&memory->freed_host, compare, &range);
    if (range.any && (range.overlaps ? becomes_idle(memory, FREED_NS) : is_idle(memory))) {
        drop_freed_host(memory);
        return true;
    }
    return !range.overlaps;
}

static CUresult add_host(struct tsr_memory *memory, const struct tsr_message *message, int descriptor)
{
    if (!is_host(message, descriptor))
        return CUDA_ERROR_INVALID_VALUE;
    if (!is_free(memory, message))
        return CUDA_ERROR_NOT_READY;
    void *host = tsr_os_map((void *)(uintptr_t)message->address, message->bytes, PROT_READ | PROT_WRITE, descriptor, 0);
    if (!host)
        return CUDA_ERROR_NOT_SUPPORTED;
    CUdeviceptr device = 0;
    CUresult result = cuMemHostRegister(host, message->bytes, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
    if (result != CUDA_SUCCESS)
        goto unmap;
    result = cuMemHostGetDevicePointer(&device, host, 0);
    if (result == CUDA_SUCCESS && device != message->address)
        result = CUDA_ERROR_NOT_SUPPORTED;
    if (result == CUDA_SUCCESS && !tsr_map_set(&memory->host, message->address, (void *)(uintptr_t)message->bytes))
        result = CUDA_ERROR_OUT_OF_MEMORY;
    if (result == CUDA_SUCCESS)
        return CUDA_SUCCESS;
    cuMemHostUnregister(host);
unmap:
    tsr_os_unmap(host, message->bytes);
    return result;
}

static CUresult remove_host(struct tsr_memory *memory, uint64_t address)
{
    uint64_t bytes = (uint64_t)(uintptr_t)tsr_map_remove(&memory->host, address);
    if (!bytes)
        return CUDA_ERROR_INVALID_VALUE;
    if (!tsr_map_set(&memory->freed_host, address, (void *)(uintptr_t)bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    memory->has_freed_host = true;
    if (becomes_idle(memory, ENDS_NS))
        drop_freed_host(memory);
    return CUDA_SUCCESS;
}

static void drop_bounds(struct tsr_memory *memory)
{
    const void *found = NULL;
    static const CUuuid id = TSR_BOUNDS_EXPORT;
    if (memory->bounds && cuGetExportTable(&found, &id) == CUDA_SUCCESS)
        ((const struct tsr_bounds_export *)found)->use(NULL);
    if (memory->bounds)
        tsr_os_unmap(memory->bounds, sizeof *memory->bounds);
    memory->bounds = NULL;
}

/* Only an emulated driver can check accesses with it. */
static CUresult set_bounds(struct tsr_memory *memory, const struct tsr_message *message, int descriptor)
{
    const void *found = NULL;
    static const CUuuid id = TSR_BOUNDS_EXPORT;
    drop_bounds(memory);
    if (descriptor < 0)
        return CUDA_SUCCESS;
    if (message->bytes != sizeof *memory->bounds || cuGetExportTable(&found, &id) != CUDA_SUCCESS)
        return CUDA_ERROR_NOT_SUPPORTED;
    const struct tsr_bounds_export *driver = found;
    memory->bounds = tsr_os_map(NULL, message->bytes, PROT_READ, descriptor, 0);
    if (!memory->bounds)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (driver->size != sizeof *driver || memory->bounds->version != TSR_BOUNDS_VERSION) {
        tsr_os_unmap(memory->bounds, sizeof *memory->bounds);
        memory->bounds = NULL;
        return CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
    }
    driver->use(memory->bounds);
    return CUDA_SUCCESS;
}

CUresult tsr_memory_apply(struct tsr_memory *memory, const struct tsr_message *message, int descriptor)
{
    if (memory->has_freed_host && is_idle(memory))
        drop_freed_host(memory);
    switch (message->kind) {
    case TSR_MESSAGE_MAP:
        return map(memory, message, descriptor);
    case TSR_MESSAGE_UNMAP:
        return unmap(memory, message->address);
    case TSR_MESSAGE_MOVE:
        return move(memory, message, descriptor);
    case TSR_MESSAGE_MOVED:
        return moved(memory, message->address, message->detail != 0);
    case TSR_MESSAGE_ACCESS:
        return set_access(memory, message->address, message->bytes, message->detail);
    case TSR_MESSAGE_RESERVE:
        return reserve(memory, message->address, message->bytes);
    case TSR_MESSAGE_UNRESERVE:
        return unreserve(memory, message->address);
    case TSR_MESSAGE_HOST:
        return add_host(memory, message, descriptor);
    case TSR_MESSAGE_HOST_FREE:
        return remove_host(memory, message->address);
    case TSR_MESSAGE_BOUNDS:
        return set_bounds(memory, message, descriptor);
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

static void drop_mapping(uint64_t address, void *value, void *argument)
{
    struct mapping *mapping = value;
    (void)argument;
    cuMemUnmap(address, mapping->bytes);
    give(&mapping->now);
    if (mapping->moving)
        give(&mapping->before);
    free(mapping);
}

static void drop_reservation(uint64_t address, void *bytes, void *argument)
{
    (void)argument;
    cuMemAddressFree(address, (uint64_t)(uintptr_t)bytes);
}

void tsr_memory_destroy(struct tsr_memory *memory)
{
    drop_bounds(memory);
    tsr_map_each(&memory->mappings, drop_mapping, NULL);
    tsr_map_each(&memory->reservations, drop_reservation, NULL);
    tsr_map_each(&memory->host, drop_host, NULL);
    drop_freed_host(memory);
    tsr_map_fini(&memory->mappings);
    tsr_map_fini(&memory->reservations);
    tsr_map_fini(&memory->host);
    tsr_map_fini(&memory->freed_host);
    free(memory);
}
