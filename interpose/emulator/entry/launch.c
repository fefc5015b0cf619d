/* See launch.h; and the launching entry points themselves. */
#include "launch.h"

#include <stdlib.h>
#include <string.h>

#include "guard.h"
#include "loaded.h"

#define MAX_BLOCK_THREADS 1024u
#define PORTABLE_CLUSTER 8u
#define LARGEST_CLUSTER 16u

struct shape {
    uint32_t cluster[3];
    bool cooperative, programmatic;
    int priority;
    uint32_t dynamic_limit;
};

static uint64_t product(const uint32_t v[3])
{
    return (uint64_t)v[0] * v[1] * v[2];
}

static CUresult read_attribute(const CUlaunchAttribute *attribute, struct shape *shape)
{
    const CUlaunchAttributeValue *value = &attribute->value;
    switch ((int)attribute->id) {
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
        shape->cooperative |= value->cooperative != 0;
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
        shape->cluster[0] = value->clusterDim.x;
        shape->cluster[1] = value->clusterDim.y;
        shape->cluster[2] = value->clusterDim.z;
        TSR_REQUIRE(product(shape->cluster), CUDA_ERROR_INVALID_VALUE);
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
        shape->priority = value->priority;
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
        shape->programmatic = value->programmaticStreamSerializationAllowed != 0;
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_IGNORE:
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
    case CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING:
        return CUDA_SUCCESS; /* hints about speed */
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
    case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
    case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
        return CUDA_ERROR_NOT_SUPPORTED;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

static CUresult check_dimensions(const struct tsr_emulated_launch *launch)
{
    const uint32_t *grid = launch->grid, *block = launch->block;
    TSR_REQUIRE(product(grid) && grid[0] <= 0x7fffffffu && grid[1] <= 65535 && grid[2] <= 65535, CUDA_ERROR_INVALID_VALUE);
    TSR_REQUIRE(product(block) && block[0] <= 1024 && block[1] <= 1024 && block[2] <= 64, CUDA_ERROR_INVALID_VALUE);
    TSR_REQUIRE(product(block) <= MAX_BLOCK_THREADS, CUDA_ERROR_INVALID_VALUE);
    return CUDA_SUCCESS;
}

/* What the function itself demands of its blocks. */
static CUresult check_function(const struct tsr_function *function, const struct tsr_device_desc *desc, const uint32_t block[3])
{
    uint64_t threads = product(block), bound = product(function->max_threads);
    if (product(function->required_threads))
        TSR_REQUIRE(memcmp(function->required_threads, block, sizeof function->required_threads) == 0,
                    CUDA_ERROR_INVALID_VALUE);
    TSR_REQUIRE(!bound || threads <= bound, CUDA_ERROR_INVALID_VALUE);
    TSR_REQUIRE((uint64_t)function->registers * ((threads + 31) / 32 * 32) <= desc->registers_per_sm,
                CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    return CUDA_SUCCESS;
}

static CUresult check_shared(struct tsr_loaded_entry *entry, const struct tsr_device_desc *desc, uint32_t dynamic_bytes)
{
    const struct tsr_function *function = entry->function;
    int set = __atomic_load_n(&tsr_entry_settings(entry)->dynamic_shared_bytes, __ATOMIC_RELAXED);
    uint64_t plain = desc->shared_per_block_bytes;
    uint64_t whole = (uint64_t)function->shared_static_bytes + dynamic_bytes;
    TSR_REQUIRE(whole <= plain || (set >= 0 && dynamic_bytes <= (uint32_t)set && whole <= desc->shared_per_block_optin_bytes),
                CUDA_ERROR_INVALID_VALUE);
    return CUDA_SUCCESS;
}

static CUresult check_cluster(struct tsr_loaded_entry *entry, const struct tsr_device_desc *desc, const uint32_t grid[3],
                              struct shape *shape)
{
    struct tsr_function_settings *settings = tsr_entry_settings(entry);
    if (!product(shape->cluster))
        for (int i = 0; i < 3; i++) {
            int set = __atomic_load_n(&settings->cluster[i], __ATOMIC_RELAXED);
            shape->cluster[i] = set > 0 ? (uint32_t)set : 1;
        }
    uint64_t blocks = product(shape->cluster);
    if (blocks == 1)
        return CUDA_SUCCESS;
    TSR_REQUIRE(desc->compute_major >= 9, CUDA_ERROR_INVALID_VALUE);
    bool large = __atomic_load_n(&settings->non_portable_cluster, __ATOMIC_RELAXED) != 0;
    TSR_REQUIRE(blocks <= (large ? LARGEST_CLUSTER : PORTABLE_CLUSTER), CUDA_ERROR_INVALID_CLUSTER_SIZE);
    for (int i = 0; i < 3; i++)
        TSR_REQUIRE(grid[i] % shape->cluster[i] == 0, CUDA_ERROR_INVALID_VALUE);
    return CUDA_SUCCESS;
}

static CUresult check_cooperative(struct tsr_context *context, const struct tsr_function *function,
                                  const struct tsr_emulated_launch *launch)
{
    uint64_t resident = tsr_exec_resident_blocks(tsr_context_desc(context), function, (uint32_t)product(launch->block),
                                                 launch->shared_dynamic_bytes);
    TSR_REQUIRE(product(launch->grid) <= resident * tsr_context_sm_count(context), CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
    return CUDA_SUCCESS;
}

static CUresult check_all(struct tsr_context *context, struct tsr_loaded_entry *entry, const struct tsr_emulated_launch *launch,
                          struct shape *shape)
{
    const struct tsr_device_desc *desc = tsr_context_desc(context);
    TSR_TRY(check_dimensions(launch));
    TSR_REQUIRE(!launch->attribute_count || launch->attributes, CUDA_ERROR_INVALID_VALUE);
    for (uint32_t i = 0; i < launch->attribute_count; i++)
        TSR_TRY(read_attribute(&launch->attributes[i], shape));
    TSR_TRY(check_function(entry->function, desc, launch->block));
    TSR_TRY(check_shared(entry, desc, launch->shared_dynamic_bytes));
    TSR_TRY(check_cluster(entry, desc, launch->grid, shape));
    return shape->cooperative ? check_cooperative(context, entry->function, launch) : CUDA_SUCCESS;
}

static CUresult copy_extra(const struct tsr_function *function, void **extra, uint8_t *bytes)
{
    const void *buffer = NULL;
    const size_t *size = NULL;
    for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
        if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = extra[1];
        else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE)
            size = extra[1];
        else
            return CUDA_ERROR_INVALID_VALUE;
    }
    TSR_REQUIRE(size && (buffer || !*size), CUDA_ERROR_INVALID_VALUE);
    TSR_REQUIRE(*size >= function->param_bytes, CUDA_ERROR_INVALID_VALUE);
    memcpy(bytes, buffer, function->param_bytes);
    return CUDA_SUCCESS;
}

static CUresult copy_params(const struct tsr_function *function, const struct tsr_emulated_launch *launch, uint8_t *bytes)
{
    TSR_REQUIRE(!launch->params || !launch->extra, CUDA_ERROR_INVALID_VALUE);
    if (!function->param_count)
        return CUDA_SUCCESS;
    if (launch->extra)
        return copy_extra(function, launch->extra, bytes);
    TSR_REQUIRE(launch->params, CUDA_ERROR_INVALID_VALUE);
    for (uint32_t i = 0; i < function->param_count; i++) {
        TSR_REQUIRE(launch->params[i], CUDA_ERROR_INVALID_VALUE);
        memcpy(bytes + function->params[i].offset, launch->params[i], function->params[i].bytes);
    }
    return CUDA_SUCCESS;
}

static void owner_retain(void *owner)
{
    tsr_module_ref(owner);
}

static void owner_release(void *owner)
{
    tsr_module_unref(owner);
}

CUresult tsr_emulated_launch_prepare(struct tsr_context *context, const struct tsr_emulated_launch *launch,
                                     struct tsr_work *work)
{
    struct tsr_loaded_entry *entry;
    struct shape shape = {.cooperative = launch->cooperative};
    TSR_TRY(tsr_entry_resolve(context, launch->function, &entry));
    TSR_TRY(check_all(context, entry, launch, &shape));
    const struct tsr_function *function = entry->function;
    uint8_t *bytes = calloc(1, function->param_bytes + 16);
    TSR_REQUIRE(bytes, CUDA_ERROR_OUT_OF_MEMORY);
    CUresult result = copy_params(function, launch, bytes);
    if (result != CUDA_SUCCESS) {
        free(bytes);
        return result;
    }
    *work = (struct tsr_work){.kind = TSR_WORK_KERNEL, .context = context};
    work->kernel.desc = (struct tsr_grid_desc){
        .code = tsr_module_code(entry->module),
        .function = function,
        .shared_dynamic_bytes = launch->shared_dynamic_bytes,
        .params = bytes,
        .cooperative = shape.cooperative,
        .device = tsr_emulated_context_device(context),
        .sm_count = tsr_context_sm_count(context),
        .device_desc = tsr_context_desc(context),
        .space = tsr_space_instance(),
    };
    memcpy(work->kernel.desc.grid, launch->grid, sizeof launch->grid);
    memcpy(work->kernel.desc.block, launch->block, sizeof launch->block);
    memcpy(work->kernel.desc.cluster, shape.cluster, sizeof shape.cluster);
    work->kernel.param_bytes = bytes;
    tsr_module_ref(entry->module);
    work->kernel.function_owner = entry->module;
    work->kernel.retain = owner_retain;
    work->kernel.release = owner_release;
    work->kernel.handle = launch->function;
    work->kernel.priority = shape.priority;
    work->kernel.programmatic = shape.programmatic;
    return CUDA_SUCCESS;
}

static CUresult submit(CUstream handle, const struct tsr_emulated_launch *launch)
{
    struct tsr_emulated_stream *stream;
    struct tsr_work work;
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(launch->function, CUDA_ERROR_INVALID_HANDLE);
    TSR_TRY(tsr_stream_get(tsr_driver_stream(handle), &stream));
    CUresult result = tsr_emulated_launch_prepare(tsr_stream_context(stream), launch, &work);
    if (result == CUDA_SUCCESS)
        result = tsr_stream_submit(stream, &work);
    tsr_stream_put(stream);
    return result;
}

CUresult CUDAAPI cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,
                                unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ,
                                unsigned int sharedMemBytes, CUstream hStream, void **kernelParams, void **extra)
{
    struct tsr_emulated_launch launch = {
        .function = f,
        .grid = {gridDimX, gridDimY, gridDimZ},
        .block = {blockDimX, blockDimY, blockDimZ},
        .shared_dynamic_bytes = sharedMemBytes,
        .params = kernelParams,
        .extra = extra,
    };
    return submit(hStream, &launch);
}

CUresult CUDAAPI cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **kernelParams, void **extra)
{
    TSR_REQUIRE(config, CUDA_ERROR_INVALID_VALUE);
    struct tsr_emulated_launch launch = {
        .function = f,
        .grid = {config->gridDimX, config->gridDimY, config->gridDimZ},
        .block = {config->blockDimX, config->blockDimY, config->blockDimZ},
        .shared_dynamic_bytes = config->sharedMemBytes,
        .params = kernelParams,
        .extra = extra,
        .attributes = config->attrs,
        .attribute_count = config->numAttrs,
    };
    return submit(config->hStream, &launch);
}

CUresult CUDAAPI cuLaunchCooperativeKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,
                                           unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ,
                                           unsigned int sharedMemBytes, CUstream hStream, void **kernelParams)
{
    struct tsr_emulated_launch launch = {
        .function = f,
        .grid = {gridDimX, gridDimY, gridDimZ},
        .block = {blockDimX, blockDimY, blockDimZ},
        .shared_dynamic_bytes = sharedMemBytes,
        .params = kernelParams,
        .cooperative = true,
    };
    return submit(hStream, &launch);
}
