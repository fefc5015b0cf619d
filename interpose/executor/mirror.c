/* See mirror.h. */
#include "executor/mirror.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/map.h"
#include "base/os.h"
#include "base/vec.h"
#include "carry/carry.h"
#include "globals/globals.h"
#include "executor/graphs.h"
#include "executor/memory.h"
#include "executor/share.h"

struct module {
    CUmodule module;
    CUlibrary library; /* set instead when it was loaded as one */
    void *image;
    uint64_t bytes;
    struct tsr_globals *globals; /* NULL: not scanned yet */
    TSR_VEC(uint32_t) functions; /* ids */
};

struct tsr_mirror {
    struct tsr_memory *memory;
    uint32_t arch;            /* of the GPU, for example 90 */
    struct tsr_map modules;   /* by id: struct module */
    struct tsr_map functions; /* by id: struct tsr_carry_function, followed by its offsets */
    struct tsr_map graphs;    /* by id: struct tsr_mirrored_graph */
    CUstream streams[TSR_LANE_STREAMS];
};

CUresult tsr_mirror_create(CUdevice device, struct tsr_mirror **out)
{
    struct tsr_mirror *mirror = calloc(1, sizeof *mirror);
    if (!mirror)
        return CUDA_ERROR_OUT_OF_MEMORY;
    int major = 0, minor = 0;
    cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
    cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
    mirror->arch = (uint32_t)(10 * major + minor);
    CUresult result = tsr_memory_create(device, mirror->streams, &mirror->memory);
    if (result != CUDA_SUCCESS) {
        free(mirror);
        return result;
    }
    *out = mirror;
    return CUDA_SUCCESS;
}

static CUresult drop(struct module *module)
{
    tsr_vec_fini(&module->functions);
    CUresult result = module->library ? cuLibraryUnload(module->library) : cuModuleUnload(module->module);
    munmap(module->image, module->bytes);
    tsr_share_give(module->bytes);
    tsr_globals_destroy(module->globals);
    free(module);
    return result;
}

static CUresult load(struct tsr_mirror *mirror, const struct tsr_message *message, int descriptor)
{
    bool stays = tsr_os_is_sealed(descriptor, F_SEAL_SHRINK | F_SEAL_WRITE, message->bytes);
    if (!stays || !message->bytes || !message->id || tsr_map_find(&mirror->modules, message->id))
        return CUDA_ERROR_INVALID_VALUE;
    struct module *module = calloc(1, sizeof *module);
    if (!module)
        return CUDA_ERROR_OUT_OF_MEMORY;
    module->bytes = message->bytes;
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    if (!tsr_share_take(module->bytes)) /* its code takes about as much memory on the GPU */
        goto forget;
    module->image = mmap(NULL, message->bytes, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (module->image == MAP_FAILED)
        goto give_back;
    result = message->detail ? cuLibraryLoadData(&module->library, module->image, NULL, NULL, 0, NULL, NULL, 0)
                             : cuModuleLoadData(&module->module, module->image);
    if (result != CUDA_SUCCESS)
        goto unmap;
    if (tsr_map_set(&mirror->modules, message->id, module))
        return CUDA_SUCCESS;
    drop(module);
    return CUDA_ERROR_OUT_OF_MEMORY;
unmap:
    munmap(module->image, module->bytes);
give_back:
    tsr_share_give(module->bytes);
forget:
    free(module);
    return result;
}

static CUresult unload(struct tsr_mirror *mirror, uint32_t id)
{
    struct module *module = tsr_map_remove(&mirror->modules, id);
    for (size_t i = 0; module && i < module->functions.count; i++)
        free(tsr_map_remove(&mirror->functions, module->functions.data[i]));
    return module ? drop(module) : CUDA_ERROR_INVALID_HANDLE;
}

/* NULL: out of memory. */
static const struct tsr_globals *globals_of(const struct tsr_mirror *mirror, struct module *module)
{
    if (!module->globals)
        module->globals = tsr_globals_read(module->image, module->bytes, mirror->arch);
    return module->globals;
}

/* NULL: out of memory, or the driver gives no layout. */
static struct tsr_carry_function *describe(CUfunction function)
{
    size_t offsets[TSR_CARRY_PARAMETERS], size, end = 0;
    uint32_t count = 0;
    CUresult result = CUDA_SUCCESS;
    while (count < TSR_CARRY_PARAMETERS &&
           (result = cuFuncGetParamInfo(function, count, &offsets[count], &size)) == CUDA_SUCCESS)
        end = offsets[count++] + size;
    bool known =
        result == CUDA_SUCCESS || result == CUDA_ERROR_INVALID_VALUE; /* the driver's answer for the index after the last one */
    struct tsr_carry_function *made = known ? malloc(sizeof *made + count * sizeof offsets[0]) : NULL;
    if (!made)
        return NULL;
    *made = (struct tsr_carry_function){.function = function,
                                        .bytes = count < TSR_CARRY_PARAMETERS ? end : 0,
                                        .count = count,
                                        .offsets = memcpy(made + 1, offsets, count * sizeof offsets[0])};
    return made;
}

static CUresult find_function(const struct module *module, const char *name, CUfunction *function)
{
    CUkernel kernel;
    if (!module->library)
        return cuModuleGetFunction(function, module->module, name);
    CUresult result = cuLibraryGetKernel(&kernel, module->library, name);
    return result == CUDA_SUCCESS ? cuKernelGetFunction(function, kernel) : result;
}

/* False: out of memory. */
static bool keep_function(struct tsr_mirror *mirror, struct module *module, uint32_t id, CUfunction function)
{
    if (tsr_map_find(&mirror->functions, id)) /* requested before */
        return true;
    struct tsr_carry_function *made = describe(function);
    if (made && tsr_vec_push(&module->functions, id) && tsr_map_set(&mirror->functions, id, made))
        return true;
    free(made);
    return false;
}

static CUresult add_function(struct tsr_mirror *mirror, const struct tsr_message *message, struct tsr_reply *reply)
{
    struct module *module = tsr_map_find(&mirror->modules, message->parent);
    CUfunction function;
    if (!module || !message->id)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult result = find_function(module, message->text, &function);
    if (result == CUDA_SUCCESS)
        result = cuFuncLoad(function); /* or its first launch does, which may have to wait for what the GPU does */
    if (result != CUDA_SUCCESS)
        return result;
    const struct tsr_globals *globals = globals_of(mirror, module);
    if (!globals || !keep_function(mirror, module, message->id, function))
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct tsr_references references = tsr_globals_function(globals, message->text);
    reply->flags = references.flags;
    reply->variables = references.variables;
    return CUDA_SUCCESS;
}

static CUresult look_for_variable(const struct tsr_mirror *mirror, const struct tsr_message *message, struct tsr_reply *reply)
{
    struct module *module = tsr_map_find(&mirror->modules, message->parent);
    const struct tsr_globals *globals = module ? globals_of(mirror, module) : NULL;
    if (!globals)
        return module ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_HANDLE;
    reply->flags = tsr_globals_leads_to(globals, message->text) ? TSR_GLOBALS_STATE : 0;
    return CUDA_SUCCESS;
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

static CUresult add_graph(struct tsr_mirror *mirror, const struct tsr_message *message, int descriptor)
{
    struct tsr_mirrored_graph *graph;
    if (!message->id || tsr_map_find(&mirror->graphs, message->id))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = tsr_mirrored_graph_create(mirror, message, descriptor, &graph);
    if (result == CUDA_SUCCESS && !tsr_map_set(&mirror->graphs, message->id, graph)) {
        tsr_mirrored_graph_destroy(graph);
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    return result;
}

static CUresult change_graph(struct tsr_mirror *mirror, const struct tsr_message *message, int descriptor)
{
    struct tsr_mirrored_graph *graph = message->id ? tsr_map_find(&mirror->graphs, message->id) : NULL;
    return graph ? tsr_mirrored_graph_set(graph, mirror, message, descriptor) : CUDA_ERROR_INVALID_HANDLE;
}

static CUresult drop_graph(struct tsr_mirror *mirror, uint32_t id)
{
    struct tsr_mirrored_graph *graph = id ? tsr_map_remove(&mirror->graphs, id) : NULL;
    if (!graph)
        return CUDA_ERROR_INVALID_HANDLE;
    tsr_mirrored_graph_destroy(graph);
    return CUDA_SUCCESS;
}

static CUresult apply(struct tsr_mirror *mirror, const struct tsr_message *message, int descriptor, struct tsr_reply *reply)
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
    case TSR_MESSAGE_BOUNDS:
        return tsr_memory_apply(mirror->memory, message, descriptor);
    case TSR_MESSAGE_MODULE:
        return load(mirror, message, descriptor);
    case TSR_MESSAGE_UNLOAD:
        return unload(mirror, message->id);
    case TSR_MESSAGE_FUNCTION:
        return add_function(mirror, message, reply);
    case TSR_MESSAGE_VARIABLE:
        return look_for_variable(mirror, message, reply);
    case TSR_MESSAGE_ATTRIBUTE: {
        const struct tsr_carry_function *of = tsr_mirror_function(mirror, message->id);
        if (!of)
            return CUDA_ERROR_INVALID_HANDLE;
        return message->detail == TSR_ATTRIBUTE_CACHE
                   ? cuFuncSetCacheConfig(of->function, (CUfunc_cache)message->value)
                   : cuFuncSetAttribute(of->function, (CUfunction_attribute)message->detail, message->value);
    }
    case TSR_MESSAGE_LIMIT:
        return cuCtxSetLimit((CUlimit)message->detail, message->bytes);
    case TSR_MESSAGE_STREAM:
        return add_stream(mirror, message);
    case TSR_MESSAGE_GRAPH:
        return add_graph(mirror, message, descriptor);
    case TSR_MESSAGE_GRAPH_SET:
        return change_graph(mirror, message, descriptor);
    case TSR_MESSAGE_GRAPH_DROP:
        return drop_graph(mirror, message->id);
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

void tsr_mirror_apply(struct tsr_mirror *mirror, const struct tsr_message *message, int descriptor, struct tsr_reply *reply)
{
    reply->result = (int32_t)apply(mirror, message, descriptor, reply);
}

const struct tsr_carry_function *tsr_mirror_function(const struct tsr_mirror *mirror, uint32_t id)
{
    return id ? tsr_map_find(&mirror->functions, id) : NULL;
}

CUstream tsr_mirror_stream(const struct tsr_mirror *mirror, uint32_t slot)
{
    return slot < TSR_LANE_STREAMS ? __atomic_load_n(&mirror->streams[slot], __ATOMIC_ACQUIRE) : NULL;
}

CUresult tsr_mirror_launch(const struct tsr_mirror *mirror, uint32_t id, CUstream stream)
{
    const struct tsr_mirrored_graph *graph = id ? tsr_map_find(&mirror->graphs, id) : NULL;
    return graph ? tsr_mirrored_graph_launch(graph, stream) : CUDA_ERROR_INVALID_HANDLE;
}

static void drop_any_graph(uint64_t id, void *value, void *argument)
{
    (void)id, (void)argument;
    tsr_mirrored_graph_destroy(value);
}

static void drop_module(uint64_t id, void *value, void *argument)
{
    (void)id, (void)argument;
    drop(value);
}

static void drop_function(uint64_t id, void *value, void *argument)
{
    (void)id, (void)argument;
    free(value);
}

void tsr_mirror_destroy(struct tsr_mirror *mirror)
{
    cuCtxSynchronize();
    for (uint32_t i = 0; i < TSR_LANE_STREAMS; i++)
        if (mirror->streams[i])
            cuStreamDestroy(mirror->streams[i]);
    tsr_map_each(&mirror->graphs, drop_any_graph, NULL);
    tsr_map_each(&mirror->modules, drop_module, NULL);
    tsr_map_each(&mirror->functions, drop_function, NULL);
    tsr_memory_destroy(mirror->memory);
    tsr_map_fini(&mirror->modules);
    tsr_map_fini(&mirror->functions);
    tsr_map_fini(&mirror->graphs);
    free(mirror);
}
