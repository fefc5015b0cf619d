/* Modules: loading, looking up, unloading. */
#include "guard.h"

#include <stdlib.h>

#include "../context/handles.h"
#include "../stream/work.h"
#include "file.h"
#include "loaded.h"
#include "settle.h"

static CUresult find(CUmodule handle, struct tsr_module **out)
{
    TSR_TRY(tsr_driver_ready());
    struct tsr_module *module = handle ? tsr_handle_find(tsr_handle_table(), TSR_KIND_MODULE, handle) : NULL;
    TSR_REQUIRE(module, CUDA_ERROR_INVALID_HANDLE);
    *out = module;
    return CUDA_SUCCESS;
}

static CUresult load(CUmodule *out, const void *image, size_t size, unsigned count, CUjit_option *options, void **values)
{
    struct tsr_context *context;
    struct tsr_module *module;
    struct tsr_jit_log log;
    TSR_TRY(tsr_context_current(&context));
    TSR_REQUIRE(out && image, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(tsr_jit_parse(count, options, values, &log));
    TSR_TRY(tsr_module_load(context, image, size, &log, &module));
    *out = tsr_module_handle(module);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuModuleLoadData(CUmodule *module, const void *image)
{
    return load(module, image, 0, 0, NULL, NULL);
}

CUresult CUDAAPI cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int numOptions, CUjit_option *options,
                                    void **optionValues)
{
    return load(module, image, 0, numOptions, options, optionValues);
}

CUresult CUDAAPI cuModuleLoadFatBinary(CUmodule *module, const void *fatCubin)
{
    return load(module, fatCubin, 0, 0, NULL, NULL);
}

CUresult CUDAAPI cuModuleLoad(CUmodule *module, const char *fname)
{
    struct tsr_context *context;
    struct tsr_file file;
    TSR_TRY(tsr_context_current(&context));
    TSR_REQUIRE(module && fname, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(tsr_file_read(fname, &file));
    CUresult result = load(module, file.bytes, file.size, 0, NULL, NULL);
    free(file.bytes);
    return result;
}

CUresult CUDAAPI cuModuleUnload(CUmodule hmod)
{
    struct tsr_module *module;
    TSR_TRY(find(hmod, &module));
    TSR_REQUIRE(!tsr_module_library(module), CUDA_ERROR_NOT_PERMITTED);
    struct tsr_context *context = tsr_module_context(module);
    CUresult result = tsr_settle(context);
    tsr_module_unload(module);
    return result;
}

CUresult CUDAAPI cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(mode, CUDA_ERROR_INVALID_VALUE);
    *mode = CU_MODULE_LAZY_LOADING;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuModuleGetFunction(CUfunction *hfunc, CUmodule hmod, const char *name)
{
    struct tsr_module *module;
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(hfunc && name, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(find(hmod, &module));
    struct tsr_loaded_entry *entry = tsr_module_entry(module, name);
    TSR_REQUIRE(entry, CUDA_ERROR_NOT_FOUND);
    *hfunc = entry->handle;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuModuleGetGlobal_v2(CUdeviceptr *dptr, size_t *bytes, CUmodule hmod, const char *name)
{
    struct tsr_module *module;
    struct tsr_variable_place place;
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(name && (dptr || bytes), CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(find(hmod, &module));
    TSR_REQUIRE(tsr_module_variable(module, name, &place), CUDA_ERROR_NOT_FOUND);
    if (dptr)
        *dptr = place.address;
    if (bytes)
        *bytes = place.variable->bytes;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuModuleGetFunctionCount(unsigned int *count, CUmodule mod)
{
    struct tsr_module *module;
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(count, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(find(mod, &module));
    unsigned found = 0;
    while (tsr_module_entry_at(module, found))
        found++;
    *count = found;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuModuleEnumerateFunctions(CUfunction *functions, unsigned int numFunctions, CUmodule mod)
{
    struct tsr_module *module;
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(functions && numFunctions, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(find(mod, &module));
    for (unsigned i = 0; i < numFunctions && tsr_module_entry_at(module, i); i++)
        functions[i] = tsr_module_entry_at(module, i)->handle;
    return CUDA_SUCCESS;
}
