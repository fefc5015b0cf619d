/* Modules, functions, globals, the linker. */
#include "contract.h"

#include <unistd.h>

GROUP(module, use_primary)

#define HEAD ".version 7.8\n.target sm_80\n.address_size 64\n"

TEST(loaded_and_unloaded)
{
    CUmodule module = NULL, second = NULL;
    CUfunction function = NULL;
    NEED_OK(cuModuleLoadData(&module, contract_ptx));
    OK(cuModuleGetFunction(&function, module, "fill"));
    TRUE(function != NULL);
    NEED_OK(cuModuleLoadData(&second, contract_ptx));
    TRUE(module != second);
    OK(cuModuleUnload(second));
    OK(cuModuleUnload(module));
}

TEST(missing_names)
{
    CUfunction function = NULL;
    CUdeviceptr address = 0;
    size_t size = 0;
    CUmodule module = contract_module();
    EXPECT_SURE(cuModuleGetFunction(&function, module, "nothing"), CUDA_ERROR_NOT_FOUND);
    EXPECT_SURE(cuModuleGetGlobal(&address, &size, module, "nothing"), CUDA_ERROR_NOT_FOUND);
    EXPECT_SURE(cuModuleGetFunction(&function, module, NULL), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuModuleGetFunction(NULL, module, "fill"), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuModuleGetFunction(&function, module, "counter"), CUDA_ERROR_NOT_FOUND);
}

TEST(broken_ptx_is_explained)
{
    static const char broken[] =
        HEAD ".visible .entry bad() {\n .reg .b32 %r<2>;\n mov.u32 %r1, %nothing;\n frobnicate.u32 %r1;\n ret; }\n";
    char log[4096] = "";
    CUmodule module = NULL;
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, (void *)(uintptr_t)sizeof(log)};
    EXPECT_SURE(cuModuleLoadDataEx(&module, broken, 2, options, values), CUDA_ERROR_INVALID_PTX);
    TRUE(strlen(log) > 0);
    TRUE(strstr(log, "line") != NULL);
    TRUE((uintptr_t)values[1] <= sizeof(log));
    EXPECT_SURE(cuModuleLoadData(&module, broken), CUDA_ERROR_INVALID_PTX);
}

TEST(options_are_taken)
{
    char info[1024] = "";
    CUmodule module = NULL;
    float wall = -1;
    CUjit_option options[] = {CU_JIT_MAX_REGISTERS,      CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
                              CU_JIT_OPTIMIZATION_LEVEL, CU_JIT_LOG_VERBOSE,     CU_JIT_WALL_TIME};
    void *values[] = {(void *)64, info, (void *)(uintptr_t)sizeof(info), (void *)3, (void *)1, NULL};
    NEED_OK(cuModuleLoadDataEx(&module, contract_ptx, 6, options, values));
    memcpy(&wall, &values[5], sizeof(wall));
    TRUE(wall >= 0);
    OK(cuModuleUnload(module));
}

TEST(what_is_no_module_is_refused)
{
    CUmodule module = NULL;
    static const char zeros[256];
    EXPECT_SURE(cuModuleLoadData(&module, NULL), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuModuleLoadData(NULL, contract_ptx), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuModuleLoadData(&module, zeros), CUDA_ERROR_INVALID_IMAGE);
    EXPECT_SURE(cuModuleLoadData(&module, "this is no module"), CUDA_ERROR_INVALID_IMAGE);
    EXPECT_SURE(cuModuleLoad(&module, "/nowhere/at/all.ptx"), CUDA_ERROR_FILE_NOT_FOUND);
}

TEST(newer_ptx_is_refused)
{
    CUmodule module = NULL;
    EXPECT_SURE(cuModuleLoadData(&module, ".version 99.0\n.target sm_80\n.address_size 64\n.visible .entry e() { ret; }\n"),
                CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
    EXPECT_SURE(cuModuleLoadData(&module, ".version 8.0\n.target sm_999\n.address_size 64\n.visible .entry e() { ret; }\n"),
                CUDA_ERROR_INVALID_PTX);
}

TEST(ptx_for_newer_devices_is_refused)
{
    CUmodule module = NULL;
    SKIP_UNLESS(device_attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) < 12, "no newer architecture is known");
    EXPECT_SURE(cuModuleLoadData(&module, ".version 8.8\n.target sm_121\n.address_size 64\n.visible .entry e() { ret; }\n"),
                CUDA_ERROR_INVALID_PTX);
    EXPECT_SURE(cuModuleLoadData(&module, ".version 8.8\n.target sm_103a\n.address_size 64\n.visible .entry e() { ret; }\n"),
                CUDA_ERROR_INVALID_PTX);
    EXPECT_SURE(cuModuleLoadData(&module, ".version 8.8\n.target sm_90a\n.address_size 64\n.visible .entry e() { ret; }\n"),
                device_attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) == 9 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_PTX);
}

TEST(loaded_from_a_file)
{
    char path[] = "/tmp/contract-XXXXXX";
    int file = mkstemp(path);
    CUmodule module = NULL;
    TRUE(file >= 0 && write(file, contract_ptx, strlen(contract_ptx)) == (ssize_t)strlen(contract_ptx));
    close(file);
    if (OK(cuModuleLoad(&module, path)))
        OK(cuModuleUnload(module));
    unlink(path);
}

TEST(functions_are_counted)
{
    unsigned functions = 0;
    CUfunction found[64];
    CUmodule owner = NULL;
    const char *name = NULL;
    CUmodule module = contract_module();
    OK(cuModuleGetFunctionCount(&functions, module));
    EQ(functions, 15);
    if (functions == 0 || functions > 64)
        return;
    OK(cuModuleEnumerateFunctions(found, functions, module));
    OK(cuFuncGetModule(&owner, found[0]));
    TRUE(owner == module);
    OK(cuFuncGetName(&name, contract_kernel("reverse")));
    TEXT(name, "reverse");
}

static int function_attribute(CUfunction function, CUfunction_attribute attribute)
{
    int value = -1;
    OK(cuFuncGetAttribute(&value, attribute, function));
    return value;
}

TEST(function_attributes)
{
    CUfunction bounded = contract_kernel("bounded"), fill = contract_kernel("fill");
    int value = 0;
    EQ(function_attribute(fill, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK), 1024);
    EQ(function_attribute(bounded, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK), 64);
    EQ(function_attribute(bounded, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES), 512);
    EQ(function_attribute(fill, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES), 0);
    EQ(function_attribute(fill, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES), 0);
    TRUE(function_attribute(contract_kernel("say"), CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES) >= 48);
    TRUE(function_attribute(fill, CU_FUNC_ATTRIBUTE_NUM_REGS) > 0);
    EQ(function_attribute(fill, CU_FUNC_ATTRIBUTE_PTX_VERSION), 80);
    EQ(function_attribute(fill, CU_FUNC_ATTRIBUTE_BINARY_VERSION),
       device_attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) * 10 +
           device_attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
    EQ(function_attribute(fill, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES), 49152);
    EQ(function_attribute(bounded, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES), 49152 - 512);
    EQ(function_attribute(fill, CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET), 0);
    EXPECT_SURE(cuFuncGetAttribute(&value, (CUfunction_attribute)99, fill), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuFuncGetAttribute(NULL, CU_FUNC_ATTRIBUTE_NUM_REGS, fill), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, NULL), CUDA_ERROR_INVALID_HANDLE);
}

TEST(function_attributes_are_set)
{
    CUfunction reverse = contract_kernel("reverse");
    int limit = device_attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
    OK(cuFuncSetAttribute(reverse, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, limit));
    EQ(function_attribute(reverse, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES), limit);
    EXPECT_SURE(cuFuncSetAttribute(reverse, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, limit + 1),
                CUDA_ERROR_INVALID_VALUE);
    OK(cuFuncSetAttribute(reverse, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 50));
    EQ(function_attribute(reverse, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT), 50);
    EXPECT_SURE(cuFuncSetAttribute(reverse, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 101), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuFuncSetAttribute(reverse, CU_FUNC_ATTRIBUTE_NUM_REGS, 1), CUDA_ERROR_INVALID_VALUE);
    OK(cuFuncSetCacheConfig(reverse, CU_FUNC_CACHE_PREFER_SHARED));
    OK(cuFuncSetAttribute(reverse, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 49152));
}

TEST(parameters_are_described)
{
    static const size_t offsets[] = {0, 8, 10, 12, 16, 24, 32}, sizes[] = {8, 1, 2, 4, 8, 8, 24};
    CUfunction params = contract_kernel("params");
    size_t offset = 99, size = 99;
    for (size_t i = 0; i < 7; i++) {
        OK(cuFuncGetParamInfo(params, i, &offset, &size));
        EQ(offset, offsets[i]);
        EQ(size, sizes[i]);
    }
    EXPECT_SURE(cuFuncGetParamInfo(params, 7, &offset, &size), CUDA_ERROR_INVALID_VALUE);
    OK(cuFuncGetParamInfo(params, 1, &offset, NULL));
    EXPECT_SURE(cuFuncGetParamInfo(params, 0, NULL, &size), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuFuncGetParamInfo(contract_kernel("empty"), 0, &offset, &size), CUDA_ERROR_INVALID_VALUE);
}

TEST(names_need_a_function)
{
    const char *name = "before";
    EXPECT_SURE(cuFuncGetName(&name, NULL), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuFuncGetName(NULL, contract_kernel("fill")), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuKernelGetName(&name, NULL), CUDA_ERROR_INVALID_VALUE);
}

TEST(functions_are_loaded)
{
    CUfunction fill = contract_kernel("fill");
    CUfunctionLoadingState state = CU_FUNCTION_LOADING_STATE_UNLOADED;
    CUmoduleLoadingMode mode = 0;
    OK(cuFuncLoad(fill));
    OK(cuFuncIsLoaded(&state, fill));
    EQ(state, CU_FUNCTION_LOADING_STATE_LOADED);
    OK(cuModuleGetLoadingMode(&mode));
    TRUE(mode == CU_MODULE_EAGER_LOADING || mode == CU_MODULE_LAZY_LOADING);
}

TEST(globals_have_their_first_values)
{
    CUdeviceptr counter = 0, table = 0, constants = 0;
    size_t size = 0;
    uint32_t read[4] = {0}, first[] = {10, 20, 30, 40};
    CUmodule module = NULL;
    NEED_OK(cuModuleLoadData(&module, contract_ptx));
    OK(cuModuleGetGlobal(&counter, &size, module, "counter"));
    EQ(size, 4);
    OK(cuMemcpyDtoH(read, counter, 4));
    EQ(read[0], 7);
    OK(cuModuleGetGlobal(&table, &size, module, "table"));
    EQ(size, 16);
    OK(cuMemcpyDtoH(read, table, 16));
    BYTES(read, first, 16);
    OK(cuModuleGetGlobal(&constants, &size, module, "constants"));
    EQ(size, 16);
    OK(cuModuleGetGlobal(NULL, &size, module, "table"));
    OK(cuModuleGetGlobal(&table, NULL, module, "table"));
    OK(cuModuleUnload(module));
}

TEST(globals_are_seen_by_kernels)
{
    CUmodule module = NULL, other = NULL;
    CUfunction globals = NULL;
    CUdeviceptr counter = 0, constants = 0, out = device_words(4, 0);
    size_t size = 0;
    uint32_t read[3] = {0}, fresh[] = {5, 6, 7, 8}, word = 100;
    void *arguments[] = {&out};
    NEED_OK(cuModuleLoadData(&module, contract_ptx));
    NEED_OK(cuModuleLoadData(&other, contract_ptx));
    OK(cuModuleGetFunction(&globals, module, "globals"));
    OK(cuModuleGetGlobal(&counter, &size, module, "counter"));
    OK(cuModuleGetGlobal(&constants, &size, module, "constants"));
    OK(cuMemcpyHtoD(counter, &word, 4));
    OK(cuMemcpyHtoD(constants, fresh, 16));
    OK(cuLaunchKernel(globals, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL));
    OK(cuMemcpyDtoH(read, out, 12));
    EQ(read[0], 100);
    EQ(read[1], 30);
    EQ(read[2], 8);
    OK(cuMemcpyDtoH(&word, counter, 4));
    EQ(word, 101);
    OK(cuModuleGetGlobal(&counter, &size, other, "counter"));
    OK(cuMemcpyDtoH(&word, counter, 4));
    EQ(word, 7);
    OK(cuModuleUnload(other));
    OK(cuModuleUnload(module));
    OK(cuMemFree(out));
}

TEST(linked)
{
    static const char caller[] =
        HEAD ".extern .func (.param .b32 r) twice(.param .b32 x);\n"
             ".visible .entry use(.param .u64 out) {\n .reg .b32 %r<2>; .reg .b64 %d<2>; .param .b32 a; .param .b32 b;\n"
             " st.param.b32 [a], 21; call.uni (b), twice, (a); ld.param.b32 %r1, [b];\n"
             " ld.param.u64 %d1, [out]; st.global.u32 [%d1], %r1; ret; }\n";
    static const char callee[] = HEAD ".visible .func (.param .b32 r) twice(.param .b32 x) {\n .reg .b32 %r<3>;\n"
                                      " ld.param.b32 %r1, [x]; add.u32 %r2, %r1, %r1; st.param.b32 [r], %r2; ret; }\n";
    CUlinkState state = NULL;
    CUmodule module = NULL;
    CUfunction use = NULL;
    void *image = NULL;
    size_t size = 0;
    CUdeviceptr out = device_words(1, 0);
    void *arguments[] = {&out};
    NEED_OK(cuLinkCreate(0, NULL, NULL, &state));
    OK(cuLinkAddData(state, CU_JIT_INPUT_PTX, (void *)(uintptr_t)caller, sizeof(caller), "caller", 0, NULL, NULL));
    OK(cuLinkAddData(state, CU_JIT_INPUT_PTX, (void *)(uintptr_t)callee, sizeof(callee), "callee", 0, NULL, NULL));
    NEED_OK(cuLinkComplete(state, &image, &size));
    TRUE(size > 0);
    NEED_OK(cuModuleLoadData(&module, image));
    OK(cuLinkDestroy(state));
    OK(cuModuleGetFunction(&use, module, "use"));
    OK(cuLaunchKernel(use, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL));
    TRUE(device_holds(out, 1, 42));
    OK(cuModuleUnload(module));
    OK(cuMemFree(out));
}
