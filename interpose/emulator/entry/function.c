/* Functions: attributes, names, parameters. A CUkernel is accepted where the driver accepts one: it stands for its function in the current context. */
#include "guard.h"

#include "../context/handles.h"
#include "function_attribute.h"
#include "loaded.h"

/* The function of a handle; a CUkernel needs a current context. */
static CUresult find(const void *handle, struct tsr_loaded_entry **out)
{
    struct tsr_context *context;
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(handle, CUDA_ERROR_INVALID_HANDLE);
    struct tsr_loaded_entry *entry = tsr_handle_find(tsr_handle_table(), TSR_KIND_FUNCTION, handle);
    if (entry) {
        *out = entry;
        return CUDA_SUCCESS;
    }
    TSR_REQUIRE(tsr_handle_kind(tsr_handle_table(), handle) == TSR_KIND_KERNEL, CUDA_ERROR_INVALID_HANDLE);
    TSR_TRY(tsr_context_current(&context));
    return tsr_entry_resolve(context, handle, out);
}

CUresult CUDAAPI cuFuncGetAttribute(int *pi, CUfunction_attribute attrib, CUfunction hfunc)
{
    struct tsr_loaded_entry *entry;
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(pi, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(find(hfunc, &entry));
    return tsr_function_attribute_get(entry->function, tsr_module_code(entry->module), tsr_entry_settings(entry),
                                      tsr_context_desc(tsr_module_context(entry->module)), attrib, pi);
}

CUresult CUDAAPI cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value)
{
    struct tsr_loaded_entry *entry;
    TSR_TRY(find(hfunc, &entry));
    return tsr_function_attribute_set(entry->function, tsr_entry_settings(entry),
                                      tsr_context_desc(tsr_module_context(entry->module)), attrib, value);
}

CUresult CUDAAPI cuFuncGetName(const char **name, CUfunction hfunc)
{
    struct tsr_loaded_entry *entry;
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(name && hfunc, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(find(hfunc, &entry));
    *name = entry->function->name;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuFuncGetModule(CUmodule *hmod, CUfunction hfunc)
{
    struct tsr_loaded_entry *entry;
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(hmod, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(find(hfunc, &entry));
    *hmod = tsr_module_handle(entry->module);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuFuncGetParamInfo(CUfunction func, size_t paramIndex, size_t *paramOffset, size_t *paramSize)
{
    struct tsr_loaded_entry *entry;
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(paramOffset, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(find(func, &entry));
    return tsr_function_param(entry->function, paramIndex, paramOffset, paramSize);
}

/* Everything is loaded with its module. */
CUresult CUDAAPI cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction function)
{
    struct tsr_loaded_entry *entry;
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(state, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(find(function, &entry));
    *state = CU_FUNCTION_LOADING_STATE_LOADED;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuFuncLoad(CUfunction function)
{
    struct tsr_loaded_entry *entry;
    return find(function, &entry);
}

CUresult CUDAAPI cuFuncSetCacheConfig(CUfunction hfunc, CUfunc_cache config)
{
    struct tsr_loaded_entry *entry;
    TSR_TRY(find(hfunc, &entry));
    TSR_REQUIRE((int)config >= 0 && config <= CU_FUNC_CACHE_PREFER_EQUAL, CUDA_ERROR_INVALID_VALUE);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuFuncSetSharedMemConfig(CUfunction hfunc, CUsharedconfig config)
{
    struct tsr_loaded_entry *entry;
    TSR_TRY(find(hfunc, &entry));
    TSR_REQUIRE((int)config >= 0 && config <= CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE, CUDA_ERROR_INVALID_VALUE);
    return CUDA_SUCCESS;
}
