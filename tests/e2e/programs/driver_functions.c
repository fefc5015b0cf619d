/* Driver API: functions found in every way, attributes set before and after launches, modules that come and go, variables that are read. */
#include "driver_check.h"

/* store(out): *out = NUMBER; big(out): through 64 KiB of dynamic shared memory; look_up(out, i): *out = table[i]; scaled(out): *out = factor */
#define MODULE(number)                                                                                                         \
    ".version 8.0\n.target sm_80\n.address_size 64\n"                                                                          \
    ".extern .shared .align 16 .b8 room[];\n"                                                                                  \
    ".global .align 4 .u32 table[4] = {10, 20, 30, 40};\n"                                                                     \
    ".visible .const .align 4 .u32 factor = 7;\n"                                                                              \
    ".visible .entry store(.param .u64 out) { .reg .b64 %p; .reg .b32 %v;\n"                                                   \
    " ld.param.u64 %p, [out]; mov.u32 %v, " #number "; st.global.u32 [%p], %v; ret; }\n"                                       \
    ".visible .entry big(.param .u64 out) { .reg .b64 %p, %s; .reg .b32 %v;\n"                                                 \
    " ld.param.u64 %p, [out]; mov.u64 %s, room; mov.u32 %v, " #number ";\n"                                                    \
    " st.shared.u32 [%s+65000], %v; ld.shared.u32 %v, [%s+65000]; st.global.u32 [%p], %v; ret; }\n"                            \
    ".visible .entry look_up(.param .u64 out, .param .u32 i) { .reg .b64 %p, %q, %t; .reg .b32 %v;\n"                              \
    " ld.param.u64 %p, [out]; ld.param.u32 %v, [i]; mul.wide.u32 %t, %v, 4; mov.u64 %q, table; add.s64 %t, %t, %q;\n"          \
    " ld.global.u32 %v, [%t]; st.global.u32 [%p], %v; ret; }\n"                                        \
    ".visible .entry scaled(.param .u64 out) { .reg .b64 %p; .reg .b32 %v;\n"                                                  \
    " ld.param.u64 %p, [out]; ld.const.u32 %v, [factor]; st.global.u32 [%p], %v; ret; }\n"

static const char *const images[] = {MODULE(1), MODULE(2), MODULE(3)};
static CUdeviceptr out;

static void *handle_of(CUkernel kernel)
{
    return kernel;
}

/* What the function stores. */
static unsigned result_of(void *function, unsigned shared_bytes, void **more)
{
    unsigned got = 0;
    void *parameters[] = {&out, more ? more[0] : NULL};
    CU(cuMemsetD32(out, 0, 1));
    CU(cuLaunchKernel((CUfunction)function, 1, 1, 1, 1, 1, 1, shared_bytes, NULL, parameters, NULL));
    CU(cuMemcpyDtoH(&got, out, sizeof(got)));
    return got;
}

static void check_attributes(void)
{
    const unsigned bytes = 65536;
    for (int before = 0; before < 2; before++) {
        CUmodule module;
        CU(cuModuleLoadData(&module, images[0]));
        CUfunction big = get_function(module, "big");
        void *parameters[] = {&out};
        if (!before)
            EXPECT_STATUS(cuLaunchKernel(big, 1, 1, 1, 1, 1, 1, bytes, NULL, parameters, NULL), CUDA_ERROR_INVALID_VALUE);
        CU(cuFuncSetCacheConfig(big, CU_FUNC_CACHE_PREFER_SHARED));
        CU(cuFuncSetAttribute(big, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)bytes));
        EXPECT(result_of(big, bytes, NULL) == 1);
        CU(cuFuncSetAttribute(big, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 50));
        CU(cuFuncSetAttribute(big, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)bytes + 4096));
        EXPECT(result_of(big, bytes + 4096, NULL) == 1);
        CU(cuFuncSetAttribute(big, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)bytes));
        EXPECT_STATUS(cuLaunchKernel(big, 1, 1, 1, 1, 1, 1, bytes + 4096, NULL, parameters, NULL), CUDA_ERROR_INVALID_VALUE);
        EXPECT(result_of(big, bytes, NULL) == 1);
        CU(cuModuleUnload(module));
    }
}

/* Handles of what has gone may be given out again. */
static void check_reloading(CUdevice device)
{
    for (unsigned i = 0; i < 12; i++) {
        CUmodule module;
        CU(cuModuleLoadData(&module, images[i % 3]));
        EXPECT(result_of(get_function(module, "store"), 0, NULL) == i % 3 + 1);
        CU(cuModuleUnload(module));
    }
    for (unsigned i = 0; i < 3; i++) {
        CUcontext own;
        CUmodule module;
        CUdeviceptr kept = out;
        CU(cuCtxCreate(&own, NULL, 0, device));
        CU(cuMemAlloc(&out, 64));
        CU(cuModuleLoadData(&module, images[i]));
        EXPECT(result_of(get_function(module, "store"), 0, NULL) == i + 1);
        out = kept;
        CU(cuCtxDestroy(own));
    }
}

static void check_files(void)
{
    char path[4096];
    CUmodule module;
    CUfunction functions[4];
    snprintf(path, sizeof(path), "/tmp/driver_functions.XXXXXX");
    int file = mkstemp(path);
    EXPECT(file >= 0 && write(file, images[1], strlen(images[1])) == (ssize_t)strlen(images[1]));
    close(file);
    CU(cuModuleLoad(&module, path));
    EXPECT(result_of(get_function(module, "store"), 0, NULL) == 2);
    CU(cuModuleEnumerateFunctions(functions, 4, module));
    for (int i = 0; i < 4; i++) {
        const char *name;
        CU(cuFuncGetName(&name, functions[i]));
        if (strcmp(name, "scaled") == 0)
            EXPECT(result_of(functions[i], 0, NULL) == 7);
    }
    CU(cuModuleUnload(module));
    CUlibrary library;
    CUkernel kernel;
    CU(cuLibraryLoadFromFile(&library, path, NULL, NULL, 0, NULL, NULL, 0));
    CU(cuLibraryGetKernel(&kernel, library, "store"));
    EXPECT(result_of(handle_of(kernel), 0, NULL) == 2);
    CU(cuLibraryUnload(library));
    unlink(path);
}

static void check_library(CUdevice device)
{
    CUlibrary library;
    CUkernel kernels[4], kernel;
    CUmodule module;
    CUfunction function;
    CU(cuLibraryLoadData(&library, images[2], NULL, NULL, 0, NULL, NULL, 0));
    CU(cuLibraryEnumerateKernels(kernels, 4, library));
    for (int i = 0; i < 4; i++) {
        const char *name;
        CU(cuKernelGetName(&name, kernels[i]));
        if (strcmp(name, "store") == 0)
            EXPECT(result_of(handle_of(kernels[i]), 0, NULL) == 3);
    }
    CU(cuLibraryGetModule(&module, library));
    EXPECT(result_of(get_function(module, "store"), 0, NULL) == 3);
    CU(cuLibraryGetKernel(&kernel, library, "big"));
    CU(cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 65536, kernel, device));
    EXPECT(result_of(handle_of(kernel), 65536, NULL) == 3);
    CU(cuKernelGetFunction(&function, kernel));
    EXPECT(result_of(function, 65536, NULL) == 3);
    CU(cuLibraryUnload(library));
}

static void check_variables(void)
{
    CUmodule module;
    CUdeviceptr factor, table;
    size_t bytes;
    CU(cuModuleLoadData(&module, images[0]));
    CUfunction look_up = get_function(module, "look_up"), scaled = get_function(module, "scaled");
    for (unsigned i = 0; i < 4; i++)
        EXPECT(result_of(look_up, 0, (void *[]){&i}) == 10 * (i + 1));
    EXPECT(result_of(scaled, 0, NULL) == 7);
    CU(cuModuleGetGlobal(&factor, &bytes, module, "factor"));
    for (unsigned value = 100; value < 103; value++) {
        CU(cuMemcpyHtoD(factor, &value, sizeof(value)));
        EXPECT(result_of(scaled, 0, NULL) == value);
        EXPECT(result_of(look_up, 0, (void *[]){&(unsigned){2}}) == 30);
    }
    CU(cuModuleGetGlobal(&table, &bytes, module, "table"));
    CU(cuMemsetD32(table, 99, 4));
    EXPECT(result_of(look_up, 0, (void *[]){&(unsigned){1}}) == 99);
    CU(cuModuleUnload(module));
}

static void check_both_forms(void)
{
    CUmodule module;
    size_t size = sizeof(out);
    void *parameters[] = {&out};
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &out, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
    CU(cuModuleLoadData(&module, images[0]));
    CUfunction store = get_function(module, "store");
    EXPECT_STATUS(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, extra), CUDA_ERROR_INVALID_VALUE);
    CU(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra));
    CU(cuCtxSynchronize());
    CU(cuModuleUnload(module));
}

int main(void)
{
    CUdevice device;
    start(&device);
    CU(cuMemAlloc(&out, 64));
    check_attributes();
    check_reloading(device);
    check_files();
    check_library(device);
    check_variables();
    check_both_forms();
    CU(cuMemFree(out));
    CU(cuDevicePrimaryCtxRelease(device));
    return finish();
}
