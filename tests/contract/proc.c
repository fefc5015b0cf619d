/* cuGetProcAddress: names, versions, flags, refusals. Every single answer is compared by tests/unit/test_proc_address.py. */
#include "contract.h"

#include <dlfcn.h>

GROUP(proc, use_nothing)

typedef CUresult (*old_proc_address)(const char *, void **, int, cuuint64_t);

static void *exported(const char *name)
{
    return dlsym(RTLD_DEFAULT, name);
}

static void *found(const char *name, int version, cuuint64_t flags)
{
    void *function = NULL;
    CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    OK(cuGetProcAddress(name, &function, version, flags, &status));
    EQ(status, function ? CU_GET_PROC_ADDRESS_SUCCESS : status);
    return function;
}

TEST(version_chooses_the_function)
{
    TRUE(found("cuMemAlloc", 2000, 0) == exported("cuMemAlloc"));
    TRUE(found("cuMemAlloc", 3020, 0) == exported("cuMemAlloc_v2"));
    TRUE(found("cuMemAlloc", 13000, 0) == exported("cuMemAlloc_v2"));
    TRUE(found("cuMemAlloc", 3010, 0) == exported("cuMemAlloc"));
    TRUE(found("cuCtxCreate", 11040, 0) == exported("cuCtxCreate_v3"));
    TRUE(found("cuGetProcAddress", 11030, 0) == exported("cuGetProcAddress"));
    TRUE(found("cuGetProcAddress", 12000, 0) == exported("cuGetProcAddress_v2"));
}

TEST(flag_chooses_the_default_stream)
{
    TRUE(found("cuLaunchKernel", 12000, CU_GET_PROC_ADDRESS_DEFAULT) == exported("cuLaunchKernel"));
    TRUE(found("cuLaunchKernel", 12000, CU_GET_PROC_ADDRESS_LEGACY_STREAM) == exported("cuLaunchKernel"));
    TRUE(found("cuLaunchKernel", 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) == exported("cuLaunchKernel_ptsz"));
    TRUE(found("cuMemcpyHtoD", 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) == exported("cuMemcpyHtoD_v2_ptds"));
    TRUE(found("cuInit", 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) == exported("cuInit"));
}

TEST(what_is_missing_is_told)
{
    void *function = (void *)1;
    CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
    OK(cuGetProcAddress("cuNothing", &function, 12000, 0, &status));
    TRUE(function == NULL);
    EQ(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    function = (void *)1;
    OK(cuGetProcAddress("cuMemAlloc_v2", &function, 12000, 0, &status));
    TRUE(function == NULL);
    EQ(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    function = (void *)1;
    OK(cuGetProcAddress("cuLaunchKernel", &function, 2000, 0, &status));
    TRUE(function == NULL);
    EQ(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    OK(cuGetProcAddress("cuLaunchKernel", &function, 4000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &status));
    TRUE(function == NULL);
    EQ(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
}

TEST(status_is_optional)
{
    void *function = NULL;
    OK(cuGetProcAddress("cuInit", &function, 12000, 0, NULL));
    TRUE(function == exported("cuInit"));
    OK(cuGetProcAddress("cuNothing", &function, 12000, 0, NULL));
    TRUE(function == NULL);
}

TEST(newer_than_the_driver_is_refused)
{
    void *function = (void *)1;
    int version = 0;
    CUdriverProcAddressQueryResult status = (CUdriverProcAddressQueryResult)77;
    OK(cuDriverGetVersion(&version));
    EXPECT_SURE(cuGetProcAddress("cuInit", &function, version + 10, 0, &status), CUDA_ERROR_INVALID_VALUE);
    TRUE(function == (void *)1);
    EQ(status, 77);
}

TEST(old_and_empty_questions)
{
    void *function = (void *)1;
    CUdriverProcAddressQueryResult status = (CUdriverProcAddressQueryResult)77;
    EXPECT_SURE(cuGetProcAddress("cuInit", &function, 0, 0, &status), CUDA_SUCCESS);
    EQ(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    TRUE(function == NULL);
    EXPECT_SURE(cuGetProcAddress("cuInit", &function, -1, 0, &status), CUDA_SUCCESS);
    EXPECT_SURE(cuGetProcAddress("cuInit", &function, 1000, 0, &status), CUDA_SUCCESS);
    EXPECT_SURE(cuGetProcAddress("", &function, 0, 0, &status), CUDA_SUCCESS);
    EQ(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    EXPECT_SURE(cuGetProcAddress("", &function, 12000, 0, &status), CUDA_SUCCESS);
}

TEST(flags_are_checked)
{
    void *function = (void *)1;
    CUdriverProcAddressQueryResult status = (CUdriverProcAddressQueryResult)77;
    EXPECT_SURE(cuGetProcAddress("cuInit", &function, 12000, 4, &status), CUDA_ERROR_INVALID_VALUE);
    OK(cuGetProcAddress("cuLaunchKernel", &function, 12000, 3, &status));
    TRUE(function == exported("cuLaunchKernel_ptsz"));
    EXPECT_SURE(cuGetProcAddress("cuInit", &function, 12000, 6, &status), CUDA_ERROR_INVALID_VALUE);
}

TEST(first_form_reports_an_error)
{
    old_proc_address query = (old_proc_address)exported("cuGetProcAddress");
    void *function = NULL;
    if (!TRUE(query != NULL))
        return;
    OK(query("cuInit", &function, 12000, 0));
    TRUE(function == exported("cuInit"));
    EXPECT_SURE(query("cuNothing", &function, 12000, 0), CUDA_ERROR_NOT_FOUND);
    EXPECT_SURE(query("cuLaunchKernel", &function, 2000, 0), CUDA_ERROR_NOT_FOUND);
    EXPECT_SURE(query("cuInit", &function, 99000, 0), CUDA_ERROR_INVALID_VALUE);
}

TEST(export_tables_need_arguments)
{
    const void *table = NULL;
    CUuuid nobody;
    memset(&nobody, 0x5a, sizeof(nobody));
    TRUE(cuGetExportTable(&table, &nobody) != CUDA_SUCCESS);
}
