/* See function_attribute.h. */
#include "guard.h"

#include "function_attribute.h"

#define REGISTER_UNIT 256u /* registers are given to warps in units of this many */

static int load(const int *field)
{
    return __atomic_load_n(field, __ATOMIC_RELAXED);
}

int tsr_function_max_threads(const struct tsr_function *function, const struct tsr_device_desc *desc)
{
    uint32_t limit = 1024, bound = function->max_threads[0] * function->max_threads[1] * function->max_threads[2];
    uint32_t per_warp = (function->registers * 32 + REGISTER_UNIT - 1) / REGISTER_UNIT * REGISTER_UNIT;
    if (bound && bound < limit)
        limit = bound;
    if (per_warp && desc->registers_per_sm / per_warp * 32 < limit)
        limit = desc->registers_per_sm / per_warp * 32;
    return (int)limit;
}

static int constant_bytes(const struct tsr_ptx_code *code)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < code->variable_count; i++)
        if (code->variables[i].space == TSR_SPACE_CONST)
            bytes += code->variables[i].bytes;
    return (int)bytes;
}

static int dynamic_limit(const struct tsr_function *function, const struct tsr_function_settings *settings,
                         const struct tsr_device_desc *desc)
{
    int set = load(&settings->dynamic_shared_bytes);
    int left = (int)desc->shared_per_block_bytes - (int)function->shared_static_bytes;
    return set >= 0 ? set : left > 0 ? left : 0;
}

CUresult tsr_function_attribute_get(const struct tsr_function *function, const struct tsr_ptx_code *code,
                                    const struct tsr_function_settings *settings, const struct tsr_device_desc *desc,
                                    CUfunction_attribute attribute, int *value)
{
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *value = tsr_function_max_threads(function, desc);
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
        *value = (int)function->shared_static_bytes;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
        *value = constant_bytes(code);
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
        *value = (int)function->local_bytes;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
        *value = (int)function->registers;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
        *value = (int)code->target;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
        *value = (int)(desc->compute_major * 10 + desc->compute_minor);
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA:
        *value = 0;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        *value = dynamic_limit(function, settings, desc);
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        *value = load(&settings->carveout);
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET:
        *value = function->explicit_cluster;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
        *value = load(&settings->cluster[attribute - CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH]);
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
        *value = load(&settings->non_portable_cluster);
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
        *value = load(&settings->cluster_policy);
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult tsr_function_attribute_set(const struct tsr_function *function, struct tsr_function_settings *settings,
                                    const struct tsr_device_desc *desc, CUfunction_attribute attribute, int value)
{
    int *field;
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        TSR_REQUIRE(value >= 0, CUDA_ERROR_INVALID_VALUE);
        TSR_REQUIRE((uint64_t)value + function->shared_static_bytes <= desc->shared_per_block_optin_bytes,
                    CUDA_ERROR_INVALID_VALUE);
        field = &settings->dynamic_shared_bytes;
        break;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        TSR_REQUIRE(value >= -1 && value <= 100, CUDA_ERROR_INVALID_VALUE);
        field = &settings->carveout;
        break;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
        TSR_REQUIRE(value >= 0 && !function->cluster[0], CUDA_ERROR_INVALID_VALUE);
        field = &settings->cluster[attribute - CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH];
        break;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
        TSR_REQUIRE(value == 0 || value == 1, CUDA_ERROR_INVALID_VALUE);
        field = &settings->non_portable_cluster;
        break;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
        TSR_REQUIRE(value >= 0 && value <= CU_CLUSTER_SCHEDULING_POLICY_LOAD_BALANCING, CUDA_ERROR_INVALID_VALUE);
        field = &settings->cluster_policy;
        break;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
    __atomic_store_n(field, value, __ATOMIC_RELAXED);
    return CUDA_SUCCESS;
}

CUresult tsr_function_param(const struct tsr_function *function, size_t index, size_t *offset, size_t *size)
{
    TSR_REQUIRE(index < function->param_count, CUDA_ERROR_INVALID_VALUE);
    *offset = function->params[index].offset;
    if (size)
        *size = function->params[index].bytes;
    return CUDA_SUCCESS;
}
