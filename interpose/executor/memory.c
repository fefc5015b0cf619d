/* See memory.h. */
#include "executor/memory.h"

#include <stdlib.h>

#include "base/map.h"

struct mapping {
    CUmemGenericAllocationHandle memory;
    uint64_t bytes;
};

struct tsr_memory {
    CUdevice device;
    CUdeviceptr arena;
    struct tsr_map mappings; /* by address: struct mapping */
};

CUresult tsr_memory_create(CUdevice device, struct tsr_memory **out)
{
    struct tsr_memory *memory = calloc(1, sizeof *memory);
    if (!memory)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memory->device = device;
    CUresult result = cuMemAddressReserve(&memory->arena, TSR_ARENA_BYTES, 2 << 20, TSR_ARENA_ADDRESS, 0);
    if (result == CUDA_SUCCESS && memory->arena != TSR_ARENA_ADDRESS) {
        cuMemAddressFree(memory->arena, TSR_ARENA_BYTES);
        result = CUDA_ERROR_NOT_SUPPORTED;
    }
    if (result != CUDA_SUCCESS) {
        free(memory);
        return result;
    }
    *out = memory;
    return CUDA_SUCCESS;
}

static CUresult map(struct tsr_memory *memory, const struct tsr_message *message, int descriptor)
{
    struct mapping *mapping = calloc(1, sizeof *mapping);
    if (!mapping)
        return CUDA_ERROR_OUT_OF_MEMORY;
    mapping->bytes = message->bytes;
    CUresult result = cuMemImportFromShareableHandle(&mapping->memory, (void *)(intptr_t)descriptor,
                                                     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    if (result != CUDA_SUCCESS)
        goto drop;
    result = cuMemMap(message->address, message->bytes, 0, mapping->memory, 0);
    if (result != CUDA_SUCCESS)
        goto release;
    CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = memory->device},
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    result = cuMemSetAccess(message->address, message->bytes, &access, 1);
    if (result == CUDA_SUCCESS && !tsr_map_set(&memory->mappings, message->address, mapping))
        result = CUDA_ERROR_OUT_OF_MEMORY;
    if (result == CUDA_SUCCESS)
        return CUDA_SUCCESS;
    cuMemUnmap(message->address, message->bytes);
release:
    cuMemRelease(mapping->memory);
drop:
    free(mapping);
    return result;
}

static CUresult unmap(struct tsr_memory *memory, uint64_t address)
{
    struct mapping *mapping = tsr_map_remove(&memory->mappings, address);
    if (!mapping)
        return CUDA_ERROR_INVALID_VALUE;
    cuCtxSynchronize();
    CUresult result = cuMemUnmap(address, mapping->bytes);
    cuMemRelease(mapping->memory);
    free(mapping);
    return result;
}

CUresult tsr_memory_apply(struct tsr_memory *memory, const struct tsr_message *message, int descriptor)
{
    switch (message->kind) {
    case TSR_MESSAGE_MAP:
        return map(memory, message, descriptor);
    case TSR_MESSAGE_UNMAP:
        return unmap(memory, message->address);
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

static void drop(uint64_t address, void *value, void *argument)
{
    struct mapping *mapping = value;
    (void)argument;
    cuMemUnmap(address, mapping->bytes);
    cuMemRelease(mapping->memory);
    free(mapping);
}

void tsr_memory_destroy(struct tsr_memory *memory)
{
    tsr_map_each(&memory->mappings, drop, NULL);
    tsr_map_fini(&memory->mappings);
    cuMemAddressFree(memory->arena, TSR_ARENA_BYTES);
    free(memory);
}
