/* Libraries and kernels: code that is not bound to a context. */
#include "contract.h"

GROUP(library, use_init)

static CUlibrary load(void)
{
    CUlibrary library = NULL;
    OK(cuLibraryLoadData(&library, contract_ptx, NULL, NULL, 0, NULL, NULL, 0));
    return library;
}

TEST(loaded_without_a_context)
{
    CUlibrary library = load();
    CUkernel kernel = NULL;
    const char *name = NULL;
    unsigned kernels = 0;
    CUlibrary owner = NULL;
    if (!library)
        return;
    OK(cuLibraryGetKernel(&kernel, library, "fill"));
    OK(cuKernelGetName(&name, kernel));
    TEXT(name, "fill");
    OK(cuKernelGetLibrary(&owner, kernel));
    TRUE(owner == library);
    OK(cuLibraryGetKernelCount(&kernels, library));
    EQ(kernels, 15);
    EXPECT_SURE(cuLibraryGetKernel(&kernel, library, "nothing"), CUDA_ERROR_NOT_FOUND);
    EXPECT_SURE(cuLibraryGetKernel(NULL, library, "fill"), CUDA_ERROR_INVALID_VALUE);
    OK(cuLibraryUnload(library));
}

TEST(kernels_are_enumerated)
{
    CUlibrary library = load();
    CUkernel kernels[15] = {0}, fill = NULL;
    int found = 0;
    OK(cuLibraryGetKernel(&fill, library, "fill"));
    OK(cuLibraryEnumerateKernels(kernels, 15, library));
    for (int i = 0; i < 15; i++)
        found += kernels[i] == fill;
    EQ(found, 1);
    OK(cuLibraryUnload(library));
}

TEST(kernel_attributes)
{
    CUlibrary library = load();
    CUkernel bounded = NULL, params = NULL;
    int value = 0;
    size_t offset = 0, size = 0;
    OK(cuLibraryGetKernel(&bounded, library, "bounded"));
    OK(cuLibraryGetKernel(&params, library, "params"));
    OK(cuKernelGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, bounded, 0));
    EQ(value, 64);
    OK(cuKernelGetAttribute(&value, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, bounded, 0));
    EQ(value, 512);
    OK(cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 60000, bounded, 0));
    OK(cuKernelGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, bounded, 0));
    EQ(value, 60000);
    OK(cuKernelSetCacheConfig(bounded, CU_FUNC_CACHE_PREFER_L1, 0));
    EXPECT_SURE(cuKernelGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, bounded, 99), CUDA_ERROR_INVALID_DEVICE);
    EXPECT_SURE(cuKernelGetAttribute(&value, (CUfunction_attribute)99, bounded, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuKernelGetParamInfo(params, 6, &offset, &size), CUDA_ERROR_INVALID_CONTEXT);
    OK(cuLibraryUnload(library));
}

TEST(becomes_a_module_in_a_context)
{
    CUlibrary library = load();
    CUcontext context = NULL;
    CUmodule module = NULL, again = NULL;
    CUkernel fill = NULL, params = NULL;
    CUfunction function = NULL, same = NULL;
    CUdeviceptr table = 0;
    size_t size = 0, offset = 0;
    OK(cuLibraryGetKernel(&fill, library, "fill"));
    EXPECT_SURE(cuKernelGetFunction(&function, fill), CUDA_ERROR_INVALID_CONTEXT);
    NEED_OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    OK(cuLibraryGetModule(&module, library));
    OK(cuLibraryGetModule(&again, library));
    TRUE(module == again);
    OK(cuKernelGetFunction(&function, fill));
    OK(cuKernelGetFunction(&same, fill));
    TRUE(function == same && function != NULL);
    OK(cuLibraryGetGlobal(&table, &size, library, "table"));
    EQ(size, 16);
    OK(cuLibraryGetKernel(&params, library, "params"));
    OK(cuKernelGetParamInfo(params, 6, &offset, &size));
    EQ(offset, 32);
    EQ(size, 24);
    EXPECT_SURE(cuKernelGetParamInfo(params, 7, &offset, &size), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuLibraryGetGlobal(&table, &size, library, "nothing"), CUDA_ERROR_NOT_FOUND);
    EXPECT_SURE(cuLibraryGetManaged(&table, &size, library, "table"), CUDA_ERROR_NOT_FOUND);
    OK(cuLibraryUnload(library));
    OK(cuCtxSetCurrent(NULL));
    OK(cuDevicePrimaryCtxRelease(0));
}

TEST(kernel_is_launched_as_a_function)
{
    CUlibrary library = load();
    CUcontext context = NULL;
    CUkernel fill = NULL;
    CUfunction function = NULL;
    uint32_t value = 6, words = 100;
    NEED_OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    OK(cuLibraryGetKernel(&fill, library, "fill"));
    CUdeviceptr a = device_words(128, 0);
    void *arguments[] = {&a, &value, &words};
    OK(cuLaunchKernel((CUfunction)fill, 4, 1, 1, 32, 1, 1, 0, NULL, arguments, NULL));
    OK(cuCtxSynchronize());
    TRUE(device_holds(a, 100, 6));
    TRUE(device_holds(a + 400, 28, 0));
    OK(cuKernelGetFunction(&function, fill));
    value = 7;
    OK(cuLaunchKernel(function, 4, 1, 1, 32, 1, 1, 0, NULL, arguments, NULL));
    OK(cuCtxSynchronize());
    TRUE(device_holds(a, 100, 7));
    OK(cuMemFree(a));
    OK(cuLibraryUnload(library));
    OK(cuCtxSetCurrent(NULL));
    OK(cuDevicePrimaryCtxRelease(0));
}

TEST(loading_arguments_are_checked)
{
    CUlibrary library = NULL;
    EXPECT_SURE(cuLibraryLoadData(NULL, contract_ptx, NULL, NULL, 0, NULL, NULL, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuLibraryLoadData(&library, NULL, NULL, NULL, 0, NULL, NULL, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuLibraryLoadFromFile(&library, "/nowhere/at/all.cubin", NULL, NULL, 0, NULL, NULL, 0),
                CUDA_ERROR_FILE_NOT_FOUND);
    EXPECT_SURE(cuLibraryUnload(NULL), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_SURE(cuLibraryGetKernel((CUkernel *)&library, NULL, "fill"), CUDA_ERROR_INVALID_HANDLE);
}
