/* Libraries and kernels: code that is loaded once and used in any context. */
#include "guard.h"

#include <stdlib.h>

#include "../context/handles.h"
#include "../stream/work.h"
#include "file.h"
#include "function_attribute.h"
#include "loaded.h"
#include "settle.h"

static CUresult find_library(CUlibrary handle, struct tsr_library **out)
{
    TSR_TRY(tsr_driver_ready());
    *out = handle ? tsr_handle_find(tsr_handle_table(), TSR_KIND_LIBRARY, handle) : NULL;
    return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

static CUresult find_kernel(CUkernel handle, struct tsr_kernel **out)
{
    TSR_TRY(tsr_driver_ready());
    *out = handle ? tsr_handle_find(tsr_handle_table(), TSR_KIND_KERNEL, handle) : NULL;
    return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

static CUresult options_check(unsigned count, CUlibraryOption *options, void **values)
{
    TSR_REQUIRE(!count || (options && values), CUDA_ERROR_INVALID_VALUE);
    for (unsigned i = 0; i < count; i++)
        TSR_REQUIRE((int)options[i] >= 0 && options[i] < CU_LIBRARY_NUM_OPTIONS, CUDA_ERROR_INVALID_VALUE);
    return CUDA_SUCCESS;
}

static CUresult load(CUlibrary *out, const void *code, size_t size, unsigned jit_count, CUjit_option *jit_options,
                     void **jit_values)
{
    struct tsr_jit_log log;
    struct tsr_library *library;
    TSR_TRY(tsr_jit_parse(jit_count, jit_options, jit_values, &log));
    TSR_TRY(tsr_library_create(code, size, &log, &library));
    *out = tsr_library_handle(library);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jitOptions, void **jitOptionsValues,
                                   unsigned int numJitOptions, CUlibraryOption *libraryOptions, void **libraryOptionValues,
                                   unsigned int numLibraryOptions)
{
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(library && code, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(options_check(numLibraryOptions, libraryOptions, libraryOptionValues));
    return load(library, code, 0, numJitOptions, jitOptions, jitOptionsValues);
}

CUresult CUDAAPI cuLibraryLoadFromFile(CUlibrary *library, const char *fileName, CUjit_option *jitOptions,
                                       void **jitOptionsValues, unsigned int numJitOptions, CUlibraryOption *libraryOptions,
                                       void **libraryOptionValues, unsigned int numLibraryOptions)
{
    struct tsr_file file;
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(library && fileName, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(options_check(numLibraryOptions, libraryOptions, libraryOptionValues));
    TSR_TRY(tsr_file_read(fileName, &file));
    CUresult result = load(library, file.bytes, file.size, numJitOptions, jitOptions, jitOptionsValues);
    free(file.bytes);
    return result;
}

CUresult CUDAAPI cuLibraryUnload(CUlibrary library)
{
    struct tsr_library *found;
    struct tsr_context *context;
    TSR_TRY(find_library(library, &found));
    for (uint32_t i = 0; (context = tsr_library_context_at(found, i)) != NULL; i++)
        tsr_settle(context);
    return tsr_library_destroy(found);
}

CUresult CUDAAPI cuLibraryGetKernel(CUkernel *pKernel, CUlibrary library, const char *name)
{
    struct tsr_library *found;
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(pKernel && name, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(find_library(library, &found));
    struct tsr_kernel *kernel = tsr_library_kernel(found, name);
    TSR_REQUIRE(kernel, CUDA_ERROR_NOT_FOUND);
    *pKernel = kernel->handle;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLibraryGetKernelCount(unsigned int *count, CUlibrary lib)
{
    struct tsr_library *found;
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(count, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(find_library(lib, &found));
    *count = tsr_library_kernel_count(found);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLibraryEnumerateKernels(CUkernel *kernels, unsigned int numKernels, CUlibrary lib)
{
    struct tsr_library *found;
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(kernels && numKernels, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(find_library(lib, &found));
    for (unsigned i = 0; i < numKernels && tsr_library_kernel_at(found, i); i++)
        kernels[i] = tsr_library_kernel_at(found, i)->handle;
    return CUDA_SUCCESS;
}

static CUresult module_in_current(CUlibrary library, struct tsr_module **out)
{
    struct tsr_library *found;
    struct tsr_context *context;
    TSR_TRY(find_library(library, &found));
    TSR_TRY(tsr_context_current(&context));
    return tsr_library_module(found, context, out);
}

CUresult CUDAAPI cuLibraryGetModule(CUmodule *pMod, CUlibrary library)
{
    struct tsr_module *module;
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(pMod, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(module_in_current(library, &module));
    *pMod = tsr_module_handle(module);
    return CUDA_SUCCESS;
}

static CUresult get_variable(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name, bool managed)
{
    struct tsr_module *module;
    struct tsr_variable_place place;
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(name && (dptr || bytes), CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(module_in_current(library, &module));
    TSR_REQUIRE(tsr_module_variable(module, name, &place) && (!managed || place.variable->managed), CUDA_ERROR_NOT_FOUND);
    if (dptr)
        *dptr = place.address;
    if (bytes)
        *bytes = place.variable->bytes;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLibraryGetGlobal(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name)
{
    return get_variable(dptr, bytes, library, name, false);
}

CUresult CUDAAPI cuLibraryGetManaged(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name)
{
    return get_variable(dptr, bytes, library, name, true);
}

CUresult CUDAAPI cuKernelGetFunction(CUfunction *pFunc, CUkernel kernel)
{
    struct tsr_kernel *found;
    struct tsr_context *context;
    struct tsr_loaded_entry *entry;
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(pFunc, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(find_kernel(kernel, &found));
    TSR_TRY(tsr_context_current(&context));
    TSR_TRY(tsr_entry_resolve(context, kernel, &entry));
    *pFunc = entry->handle;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuKernelGetName(const char **name, CUkernel hfunc)
{
    struct tsr_kernel *found;
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(name && hfunc, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(find_kernel(hfunc, &found));
    *name = found->name;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuKernelGetLibrary(CUlibrary *pLib, CUkernel kernel)
{
    struct tsr_kernel *found;
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(pLib, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(find_kernel(kernel, &found));
    *pLib = tsr_library_handle(found->library);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuKernelGetParamInfo(CUkernel kernel, size_t paramIndex, size_t *paramOffset, size_t *paramSize)
{
    struct tsr_kernel *found;
    struct tsr_context *context;
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(paramOffset, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(find_kernel(kernel, &found));
    TSR_TRY(tsr_context_current(&context)); /* not needed here, but the driver wants one */
    return tsr_function_param(tsr_kernel_function(found), paramIndex, paramOffset, paramSize);
}

CUresult CUDAAPI cuKernelGetAttribute(int *pi, CUfunction_attribute attrib, CUkernel kernel, CUdevice dev)
{
    struct tsr_kernel *found;
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(pi, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(find_kernel(kernel, &found));
    TSR_TRY(tsr_device_check(dev));
    return tsr_function_attribute_get(tsr_kernel_function(found), tsr_library_code(found->library), &found->settings[dev],
                                      &tsr_machine_instance()->devices[dev], attrib, pi);
}

CUresult CUDAAPI cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel kernel, CUdevice dev)
{
    struct tsr_kernel *found;
    TSR_TRY(find_kernel(kernel, &found));
    TSR_TRY(tsr_device_check(dev));
    return tsr_function_attribute_set(tsr_kernel_function(found), &found->settings[dev], &tsr_machine_instance()->devices[dev],
                                      attrib, val);
}

CUresult CUDAAPI cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice dev)
{
    struct tsr_kernel *found;
    TSR_TRY(find_kernel(kernel, &found));
    TSR_TRY(tsr_device_check(dev));
    TSR_REQUIRE((int)config >= 0 && config <= CU_FUNC_CACHE_PREFER_EQUAL, CUDA_ERROR_INVALID_VALUE);
    return CUDA_SUCCESS;
}
