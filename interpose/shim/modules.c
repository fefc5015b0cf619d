/* The wrappers of module and library functions: they note what passes; the application gets the driver's own handles. */
#include "record/definitions.h"
#include "lane/functions.h"
#include "launch/evaluators.h"
#include "object/module_image.h"
#include "object/session.h"
#include "image/extent.h"
#include "order/order.h"
#include "memory/memory.h"
#include "memory/constants.h"
#include "memory/room.h"
#include "driver/real.h"
#include "record/recorder.h"
#include "shim/deferred.h"

static void record(uint64_t start, enum tsr_row row, CUresult result, const void *handle, const void *image)
{
    struct tsr_record *made = tsr_record_begin(start, row, TSR_RECORD_MODULE, result);
    if (!made)
        return;
    made->u.module.handle = (uintptr_t)handle;
    made->u.module.bytes = result == CUDA_SUCCESS && image ? tsr_image_bytes(tsr_image_unwrap(image)) : 0;
    tsr_record_commit(made);
}

/* image or path is NULL. `caller`: an address in the code that loads it. */
static __attribute__((noinline)) CUresult loaded(uint64_t start, enum tsr_row row, CUresult result, void *const *handle,
                                                 const void *image, const char *path, bool library, const void *caller)
{
    struct tsr_module_record *module = result == CUDA_SUCCESS ? tsr_module_note(*handle, library) : NULL;
    if (module && image)
        tsr_module_keep(module, image);
    else if (module && path)
        tsr_module_keep_file(module, path);
    if (module && tsr_has_role(TSR_DEFINING))
        tsr_module_define(module, image, path ? path : "", caller);
    record(start, row, result, result == CUDA_SUCCESS ? *handle : NULL, image);
    return result;
}

static __attribute__((noinline)) CUresult unload(enum tsr_row row, void *handle, CUresult (*real)(void *))
{
    uint64_t start = tsr_record_start();
    CUresult result = tsr_order_join_all();
    if (result == CUDA_SUCCESS) {
        tsr_module_forget(handle);
        result = real(handle);
    }
    record(start, row, result, handle, NULL);
    return result;
}

static CUresult unload_module(void *handle)
{
    return tsr_real.cuModuleUnload(handle);
}

static CUresult unload_library(void *handle)
{
    return tsr_real.cuLibraryUnload(handle);
}

static void note(const void *handle, const void *owner, const char *name, bool kernel)
{
    tsr_function_note(handle, owner, name, kernel);
    tsr_evaluators_expect(handle);
}

static __attribute__((noinline)) CUresult found(enum tsr_row row, CUresult result, void *const *handle, const void *owner,
                                                const char *name, bool kernel)
{
    if (result == CUDA_SUCCESS)
        note(*handle, owner, name, kernel);
    tsr_record_failure(row, result);
    return result;
}

static __attribute__((noinline)) CUresult got_variable(enum tsr_row row, CUresult result, const void *owner, const char *name,
                                                       CUdeviceptr *address)
{
    struct tsr_module_record *module = result == CUDA_SUCCESS && tsr_session() ? tsr_module_find(owner) : NULL;
    if (module && name && address && tsr_constant_share(module, name, address))
        return result;
    if (module)
        tsr_module_hold(module, name);
    if (result == CUDA_SUCCESS)
        tsr_memory_variable(address);
    tsr_record_failure(row, result);
    return result;
}

TSR_ENGAGED(cuModuleGetGlobal_v2)(CUdeviceptr *dptr, size_t *bytes, CUmodule hmod, const char *name)
{
    return got_variable(TSR_ROW_cuModuleGetGlobal_v2, tsr_real.cuModuleGetGlobal_v2(dptr, bytes, hmod, name), hmod, name, dptr);
}

TSR_ENGAGED(cuLibraryGetGlobal)(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name)
{
    return got_variable(TSR_ROW_cuLibraryGetGlobal, tsr_real.cuLibraryGetGlobal(dptr, bytes, library, name), library, name,
                        dptr);
}

TSR_ENGAGED(cuLibraryGetManaged)(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name)
{
    return got_variable(TSR_ROW_cuLibraryGetManaged, tsr_real.cuLibraryGetManaged(dptr, bytes, library, name), library, name,
                        dptr);
}

/* Code and variables find room that copies of memory have taken. */
#define LOAD(result, call)                                                                                                     \
    do {                                                                                                                       \
        struct tsr_room room = {.device = TSR_ROOM_CURRENT};                                                                   \
        do                                                                                                                     \
            (result) = tsr_real.call;                                                                                          \
        while (tsr_room_is_made(&room, result));                                                                               \
    } while (0)

TSR_ENGAGED(cuModuleLoad)(CUmodule *module, const char *fname)
{
    uint64_t start = tsr_record_start();
    CUresult result = tsr_order_state();
    if (result == CUDA_SUCCESS)
        LOAD(result, cuModuleLoad(module, fname));
    return loaded(start, TSR_ROW_cuModuleLoad, result, (void *const *)module, NULL, fname, false, __builtin_return_address(0));
}

TSR_ENGAGED(cuModuleLoadData)(CUmodule *module, const void *image)
{
    uint64_t start = tsr_record_start();
    CUresult result = tsr_order_state();
    if (result == CUDA_SUCCESS)
        LOAD(result, cuModuleLoadData(module, image));
    return loaded(start, TSR_ROW_cuModuleLoadData, result, (void *const *)module, image, NULL, false,
                  __builtin_return_address(0));
}

TSR_ENGAGED(cuModuleLoadDataEx)(CUmodule *module, const void *image, unsigned int numOptions, CUjit_option *options,
                                void **optionValues)
{
    uint64_t start = tsr_record_start();
    CUresult result = tsr_order_state();
    if (result == CUDA_SUCCESS)
        LOAD(result, cuModuleLoadDataEx(module, image, numOptions, options, optionValues));
    return loaded(start, TSR_ROW_cuModuleLoadDataEx, result, (void *const *)module, image, NULL, false,
                  __builtin_return_address(0));
}

TSR_ENGAGED(cuModuleLoadFatBinary)(CUmodule *module, const void *fatCubin)
{
    uint64_t start = tsr_record_start();
    CUresult result = tsr_order_state();
    if (result == CUDA_SUCCESS)
        LOAD(result, cuModuleLoadFatBinary(module, fatCubin));
    return loaded(start, TSR_ROW_cuModuleLoadFatBinary, result, (void *const *)module, fatCubin, NULL, false,
                  __builtin_return_address(0));
}

TSR_ENGAGED(cuModuleUnload)(CUmodule hmod)
{
    return unload(TSR_ROW_cuModuleUnload, hmod, unload_module);
}

TSR_ENGAGED(cuModuleGetFunction)(CUfunction *hfunc, CUmodule hmod, const char *name)
{
    CUresult result = tsr_real.cuModuleGetFunction(hfunc, hmod, name);
    return found(TSR_ROW_cuModuleGetFunction, result, (void *const *)hfunc, hmod, name, false);
}

TSR_ENGAGED(cuLibraryLoadData)(CUlibrary *library, const void *code, CUjit_option *jitOptions, void **jitOptionsValues,
                               unsigned int numJitOptions, CUlibraryOption *libraryOptions, void **libraryOptionValues,
                               unsigned int numLibraryOptions)
{
    uint64_t start = tsr_record_start();
    CUresult result;
    LOAD(result, cuLibraryLoadData(library, code, jitOptions, jitOptionsValues, numJitOptions, libraryOptions,
                                   libraryOptionValues, numLibraryOptions));
    return loaded(start, TSR_ROW_cuLibraryLoadData, result, (void *const *)library, code, NULL, true,
                  __builtin_return_address(0));
}

TSR_ENGAGED(cuLibraryLoadFromFile)(CUlibrary *library, const char *fileName, CUjit_option *jitOptions, void **jitOptionsValues,
                                   unsigned int numJitOptions, CUlibraryOption *libraryOptions, void **libraryOptionValues,
                                   unsigned int numLibraryOptions)
{
    uint64_t start = tsr_record_start();
    CUresult result;
    LOAD(result, cuLibraryLoadFromFile(library, fileName, jitOptions, jitOptionsValues, numJitOptions, libraryOptions,
                                       libraryOptionValues, numLibraryOptions));
    return loaded(start, TSR_ROW_cuLibraryLoadFromFile, result, (void *const *)library, NULL, fileName, true,
                  __builtin_return_address(0));
}

TSR_ENGAGED(cuLibraryUnload)(CUlibrary library)
{
    return unload(TSR_ROW_cuLibraryUnload, library, unload_library);
}

TSR_ENGAGED(cuLibraryGetKernel)(CUkernel *pKernel, CUlibrary library, const char *name)
{
    CUresult result = tsr_real.cuLibraryGetKernel(pKernel, library, name);
    return found(TSR_ROW_cuLibraryGetKernel, result, (void *const *)pKernel, library, name, true);
}

TSR_ENGAGED(cuLibraryEnumerateKernels)(CUkernel *kernels, unsigned int numKernels, CUlibrary lib)
{
    CUresult result = tsr_real.cuLibraryEnumerateKernels(kernels, numKernels, lib);
    unsigned count = 0;
    if (result != CUDA_SUCCESS || tsr_idle() || tsr_real.cuLibraryGetKernelCount(&count, lib) != CUDA_SUCCESS)
        return result;
    for (unsigned i = 0; i < count && i < numKernels; i++) {
        const char *name;
        if (tsr_real.cuKernelGetName(&name, kernels[i]) == CUDA_SUCCESS)
            note(kernels[i], lib, name, true);
    }
    return result;
}

TSR_ENGAGED(cuModuleEnumerateFunctions)(CUfunction *functions, unsigned int numFunctions, CUmodule mod)
{
    CUresult result = tsr_real.cuModuleEnumerateFunctions(functions, numFunctions, mod);
    unsigned count = 0;
    if (result != CUDA_SUCCESS || tsr_idle() || tsr_real.cuModuleGetFunctionCount(&count, mod) != CUDA_SUCCESS)
        return result;
    for (unsigned i = 0; i < count && i < numFunctions; i++) {
        const char *name;
        if (tsr_real.cuFuncGetName(&name, functions[i]) == CUDA_SUCCESS)
            note(functions[i], mod, name, false);
    }
    return result;
}

TSR_ENGAGED(cuLibraryGetModule)(CUmodule *pMod, CUlibrary library)
{
    CUresult result = tsr_real.cuLibraryGetModule(pMod, library);
    if (result == CUDA_SUCCESS)
        tsr_module_alias(*pMod, library);
    tsr_record_failure(TSR_ROW_cuLibraryGetModule, result);
    return result;
}

TSR_ENGAGED(cuKernelGetFunction)(CUfunction *function, CUkernel kernel)
{
    CUresult result = tsr_real.cuKernelGetFunction(function, kernel);
    if (result == CUDA_SUCCESS)
        tsr_function_alias(*function, kernel);
    tsr_record_failure(TSR_ROW_cuKernelGetFunction, result);
    return result;
}

/* A launch that the driver would take before, it takes with the new value, too. */
static bool allows_as_much(CUfunction_attribute attribute, int before, int value)
{
    bool is_most = attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES ||
                   attribute == CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED;
    return value == before || (is_most && value > before) || attribute == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT;
}

/* Other threads' launches, given before, run with what was set then. asked: whether *before is known. */
static CUresult await_launches(const void *function, CUresult asked, CUfunction_attribute attribute, const int *before,
                               int value)
{
    const struct tsr_function_record *known = tsr_function_find(function);
    if (!known || (asked == CUDA_SUCCESS && allows_as_much(attribute, *before, value)))
        return CUDA_SUCCESS;
    return tsr_deferred_await_launches(known);
}

TSR_ENGAGED(cuFuncSetAttribute)(CUfunction hfunc, CUfunction_attribute attrib, int value)
{
    int before = 0;
    CUresult result = CUDA_SUCCESS;
    if (tsr_deferred_is_on())
        result = await_launches(hfunc, tsr_real.cuFuncGetAttribute(&before, attrib, hfunc), attrib, &before, value);
    if (result == CUDA_SUCCESS)
        result = tsr_real.cuFuncSetAttribute(hfunc, attrib, value);
    tsr_record_failure(TSR_ROW_cuFuncSetAttribute, result);
    return result == CUDA_SUCCESS ? tsr_function_set_attribute(hfunc, attrib, value) : result;
}

TSR_ENGAGED(cuKernelSetAttribute)(CUfunction_attribute attrib, int val, CUkernel kernel, CUdevice dev)
{
    int before = 0;
    CUresult result = CUDA_SUCCESS;
    if (tsr_deferred_is_on())
        result = await_launches(kernel, tsr_real.cuKernelGetAttribute(&before, attrib, kernel, dev), attrib, &before, val);
    if (result == CUDA_SUCCESS)
        result = tsr_real.cuKernelSetAttribute(attrib, val, kernel, dev);
    tsr_record_failure(TSR_ROW_cuKernelSetAttribute, result);
    return result == CUDA_SUCCESS ? tsr_function_set_attribute(kernel, attrib, val) : result;
}
