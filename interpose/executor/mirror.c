/* See mirror.h. Ids are small and dense, so tables are arrays; they grow under the lock and old ones stay until the mirror goes. */
#include "executor/mirror.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/map.h"

struct module {
    CUmodule module;
    CUlibrary library; /* set instead when it was loaded as one */
    void *image;
    uint64_t bytes;
};

struct tsr_mirror {
    CUdevice device;
    CUdeviceptr arena;
    struct tsr_map mappings;  /* by address: struct mapping */
    struct tsr_map modules;   /* by id: struct module */
    struct tsr_map functions; /* by id: CUfunction */
    CUstream streams[TSR_LANE_STREAMS];
};

struct mapping {
    CUmemGenericAllocationHandle memory;
    uint64_t bytes;
};

CUresult tsr_mirror_create(CUdevice device, struct tsr_mirror **out)
{
    struct tsr_mirror *mirror = calloc(1, sizeof *mirror);
    if (!mirror)
        return CUDA_ERROR_OUT_OF_MEMORY;
    mirror->device = device;
    CUresult result = cuMemAddressReserve(&mirror->arena, TSR_ARENA_BYTES, 2 << 20, TSR_ARENA_ADDRESS, 0);
    if (result == CUDA_SUCCESS && mirror->arena != TSR_ARENA_ADDRESS) {
        cuMemAddressFree(mirror->arena, TSR_ARENA_BYTES);
        result = CUDA_ERROR_NOT_SUPPORTED;
    }
    if (result != CUDA_SUCCESS) {
        free(mirror);
        return result;
    }
    *out = mirror;
    return CUDA_SUCCESS;
}

static CUresult map(struct tsr_mirror *mirror, const struct tsr_message *message, int descriptor)
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
    CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = mirror->device},
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    result = cuMemSetAccess(message->address, message->bytes, &access, 1);
    if (result == CUDA_SUCCESS && !tsr_map_set(&mirror->mappings, message->address, mapping))
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

static CUresult unmap(struct tsr_mirror *mirror, uint64_t address)
{
    struct mapping *mapping = tsr_map_remove(&mirror->mappings, address);
    if (!mapping)
        return CUDA_ERROR_INVALID_VALUE;
    cuCtxSynchronize();
    CUresult result = cuMemUnmap(address, mapping->bytes);
    cuMemRelease(mapping->memory);
    free(mapping);
    return result;
}

static CUresult load(struct tsr_mirror *mirror, const struct tsr_message *message, int descriptor)
{
    struct module *module = calloc(1, sizeof *module);
    if (!module)
        return CUDA_ERROR_OUT_OF_MEMORY;
    module->bytes = message->bytes;
    module->image = mmap(NULL, message->bytes, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (module->image == MAP_FAILED) {
        free(module);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUresult result = message->detail ? cuLibraryLoadData(&module->library, module->image, NULL, NULL, 0, NULL, NULL, 0)
                                      : cuModuleLoadData(&module->module, module->image);
    if (result == CUDA_SUCCESS && tsr_map_set(&mirror->modules, message->id, module))
        return CUDA_SUCCESS;
    munmap(module->image, module->bytes);
    free(module);
    return result == CUDA_SUCCESS ? CUDA_ERROR_OUT_OF_MEMORY : result;
}

static CUresult unload(struct tsr_mirror *mirror, uint32_t id)
{
    struct module *module = tsr_map_remove(&mirror->modules, id);
    if (!module)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult result = module->library ? cuLibraryUnload(module->library) : cuModuleUnload(module->module);
    munmap(module->image, module->bytes);
    free(module);
    return result;
}

static CUresult add_function(struct tsr_mirror *mirror, const struct tsr_message *message)
{
    struct module *module = tsr_map_find(&mirror->modules, message->parent);
    if (!module)
        return CUDA_ERROR_INVALID_HANDLE;
    CUfunction function = NULL;
    CUkernel kernel;
    CUresult result;
    if (module->library) {
        result = cuLibraryGetKernel(&kernel, module->library, message->text);
        if (result == CUDA_SUCCESS)
            result = cuKernelGetFunction(&function, kernel);
    } else {
        result = cuModuleGetFunction(&function, module->module, message->text);
    }
    if (result == CUDA_SUCCESS && !tsr_map_set(&mirror->functions, message->id, function))
        result = CUDA_ERROR_OUT_OF_MEMORY;
    return result;
}

static CUresult add_stream(struct tsr_mirror *mirror, const struct tsr_message *message)
{
    if (message->id >= TSR_LANE_STREAMS || mirror->streams[message->id])
        return CUDA_ERROR_INVALID_VALUE;
    CUstream stream;
    CUresult result = cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, message->detail);
    if (result == CUDA_SUCCESS)
        __atomic_store_n(&mirror->streams[message->id], stream, __ATOMIC_RELEASE);
    return result;
}

CUresult tsr_mirror_apply(struct tsr_mirror *mirror, const struct tsr_message *message, int descriptor)
{
    switch (message->kind) {
    case TSR_MESSAGE_MAP:
        return map(mirror, message, descriptor);
    case TSR_MESSAGE_UNMAP:
        return unmap(mirror, message->address);
    case TSR_MESSAGE_MODULE:
        return load(mirror, message, descriptor);
    case TSR_MESSAGE_UNLOAD:
        return unload(mirror, message->id);
    case TSR_MESSAGE_FUNCTION:
        return add_function(mirror, message);
    case TSR_MESSAGE_ATTRIBUTE: {
        CUfunction function = tsr_mirror_function(mirror, message->id);
        return function ? cuFuncSetAttribute(function, (CUfunction_attribute)message->detail, message->value)
                        : CUDA_ERROR_INVALID_HANDLE;
    }
    case TSR_MESSAGE_STREAM:
        return add_stream(mirror, message);
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

CUfunction tsr_mirror_function(const struct tsr_mirror *mirror, uint32_t id)
{
    return id ? tsr_map_find(&mirror->functions, id) : NULL;
}

CUstream tsr_mirror_stream(const struct tsr_mirror *mirror, uint32_t slot)
{
    return slot < TSR_LANE_STREAMS ? __atomic_load_n(&mirror->streams[slot], __ATOMIC_ACQUIRE) : NULL;
}

static void drop_mapping(uint64_t address, void *value, void *argument)
{
    struct mapping *mapping = value;
    (void)argument;
    cuMemUnmap(address, mapping->bytes);
    cuMemRelease(mapping->memory);
    free(mapping);
}

static void drop_module(uint64_t id, void *value, void *argument)
{
    struct module *module = value;
    (void)id, (void)argument;
    if (module->library)
        cuLibraryUnload(module->library);
    else
        cuModuleUnload(module->module);
    munmap(module->image, module->bytes);
    free(module);
}

void tsr_mirror_destroy(struct tsr_mirror *mirror)
{
    cuCtxSynchronize();
    for (uint32_t i = 0; i < TSR_LANE_STREAMS; i++)
        if (mirror->streams[i])
            cuStreamDestroy(mirror->streams[i]);
    tsr_map_each(&mirror->modules, drop_module, NULL);
    tsr_map_each(&mirror->mappings, drop_mapping, NULL);
    tsr_map_fini(&mirror->modules);
    tsr_map_fini(&mirror->mappings);
    tsr_map_fini(&mirror->functions);
    cuMemAddressFree(mirror->arena, TSR_ARENA_BYTES);
    free(mirror);
}
