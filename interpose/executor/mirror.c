/* See mirror.h. Ids are small and dense, so tables are arrays; they grow under the lock and old ones stay until the mirror goes. */
#include "executor/mirror.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/map.h"
#include "executor/memory.h"
#include "executor/share.h"

struct module {
    CUmodule module;
    CUlibrary library; /* set instead when it was loaded as one */
    void *image;
    uint64_t bytes;
};

struct tsr_mirror {
    struct tsr_memory *memory;
    struct tsr_map modules;   /* by id: struct module */
    struct tsr_map functions; /* by id: CUfunction */
    CUstream streams[TSR_LANE_STREAMS];
};

CUresult tsr_mirror_create(CUdevice device, struct tsr_mirror **out)
{
    struct tsr_mirror *mirror = calloc(1, sizeof *mirror);
    if (!mirror)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = tsr_memory_create(device, &mirror->memory);
    if (result != CUDA_SUCCESS) {
        free(mirror);
        return result;
    }
    *out = mirror;
    return CUDA_SUCCESS;
}

static CUresult load(struct tsr_mirror *mirror, const struct tsr_message *message, int descriptor)
{
    struct module *module = calloc(1, sizeof *module);
    if (!module)
        return CUDA_ERROR_OUT_OF_MEMORY;
    module->bytes = message->bytes;
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    if (!tsr_share_take(module->bytes)) /* its code takes about as much on the GPU */
        goto drop;
    module->image = mmap(NULL, message->bytes, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (module->image == MAP_FAILED)
        goto give_back;
    result = message->detail ? cuLibraryLoadData(&module->library, module->image, NULL, NULL, 0, NULL, NULL, 0)
                             : cuModuleLoadData(&module->module, module->image);
    if (result == CUDA_SUCCESS && tsr_map_set(&mirror->modules, message->id, module))
        return CUDA_SUCCESS;
    munmap(module->image, module->bytes);
give_back:
    tsr_share_give(module->bytes);
drop:
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
    tsr_share_give(module->bytes);
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
    if (message->id >= TSR_LANE_STREAMS)
        return CUDA_ERROR_INVALID_VALUE;
    CUstream stream;
    CUresult result = cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, message->detail);
    if (result != CUDA_SUCCESS)
        return result;
    CUstream replaced = __atomic_exchange_n(&mirror->streams[message->id], stream, __ATOMIC_ACQ_REL);
    if (replaced)
        cuStreamDestroy(replaced);
    return CUDA_SUCCESS;
}

CUresult tsr_mirror_apply(struct tsr_mirror *mirror, const struct tsr_message *message, int descriptor)
{
    switch (message->kind) {
    case TSR_MESSAGE_MAP:
    case TSR_MESSAGE_UNMAP:
    case TSR_MESSAGE_MOVE:
    case TSR_MESSAGE_MOVED:
    case TSR_MESSAGE_ACCESS:
    case TSR_MESSAGE_RESERVE:
    case TSR_MESSAGE_UNRESERVE:
    case TSR_MESSAGE_HOST:
    case TSR_MESSAGE_HOST_FREE:
        return tsr_memory_apply(mirror->memory, message, descriptor);
    case TSR_MESSAGE_MODULE:
        return load(mirror, message, descriptor);
    case TSR_MESSAGE_UNLOAD:
        return unload(mirror, message->id);
    case TSR_MESSAGE_FUNCTION:
        return add_function(mirror, message);
    case TSR_MESSAGE_ATTRIBUTE: {
        CUfunction function = tsr_mirror_function(mirror, message->id);
        if (!function)
            return CUDA_ERROR_INVALID_HANDLE;
        return message->detail == TSR_ATTRIBUTE_CACHE
                   ? cuFuncSetCacheConfig(function, (CUfunc_cache)message->value)
                   : cuFuncSetAttribute(function, (CUfunction_attribute)message->detail, message->value);
    }
    case TSR_MESSAGE_LIMIT:
        return cuCtxSetLimit((CUlimit)message->detail, message->bytes);
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

static void drop_module(uint64_t id, void *value, void *argument)
{
    struct module *module = value;
    (void)id, (void)argument;
    if (module->library)
        cuLibraryUnload(module->library);
    else
        cuModuleUnload(module->module);
    munmap(module->image, module->bytes);
    tsr_share_give(module->bytes);
    free(module);
}

void tsr_mirror_destroy(struct tsr_mirror *mirror)
{
    cuCtxSynchronize();
    for (uint32_t i = 0; i < TSR_LANE_STREAMS; i++)
        if (mirror->streams[i])
            cuStreamDestroy(mirror->streams[i]);
    tsr_map_each(&mirror->modules, drop_module, NULL);
    tsr_memory_destroy(mirror->memory);
    tsr_map_fini(&mirror->modules);
    tsr_map_fini(&mirror->functions);
    free(mirror);
}
