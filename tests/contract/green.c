/* Green contexts: a share of the multiprocessors of a device. */
#include "contract.h"

GROUP(green, use_primary)

TEST(multiprocessors_are_a_resource)
{
    CUdevResource all, mine;
    CUcontext context = NULL;
    memset(&all, 0, sizeof(all));
    memset(&mine, 0, sizeof(mine));
    NEED_OK(cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
    EQ(all.type, CU_DEV_RESOURCE_TYPE_SM);
    EQ(all.sm.smCount, device_attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
    OK(cuCtxGetCurrent(&context));
    OK(cuCtxGetDevResource(context, &mine, CU_DEV_RESOURCE_TYPE_SM));
    EQ(mine.sm.smCount, all.sm.smCount);
    EXPECT_SURE(cuDeviceGetDevResource(99, &all, CU_DEV_RESOURCE_TYPE_SM), CUDA_ERROR_INVALID_DEVICE);
    EXPECT_SURE(cuDeviceGetDevResource(0, NULL, CU_DEV_RESOURCE_TYPE_SM), CUDA_ERROR_INVALID_VALUE);
}

TEST(split_and_used)
{
    CUdevResource all, part[2], rest, read;
    CUdevResourceDesc desc = NULL;
    CUgreenCtx green = NULL, owner = NULL;
    CUcontext context = NULL, of_stream = NULL;
    CUstream stream = NULL;
    unsigned groups = 1;
    uint32_t value = 9, words = 64;
    CUdeviceptr a = device_words(64, 0);
    void *arguments[] = {&a, &value, &words};
    memset(&read, 0, sizeof(read));
    NEED_OK(cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
    SKIP_UNLESS(all.sm.smCount >= 32, "too few multiprocessors to split");
    NEED_OK(cuDevSmResourceSplitByCount(part, &groups, &all, &rest, 0, 16));
    EQ(groups, 1);
    EQ(part[0].sm.smCount, 16);
    EQ(rest.sm.smCount, all.sm.smCount - 16);
    NEED_OK(cuDevResourceGenerateDesc(&desc, part, 1));
    NEED_OK(cuGreenCtxCreate(&green, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM));
    OK(cuGreenCtxGetDevResource(green, &read, CU_DEV_RESOURCE_TYPE_SM));
    EQ(read.sm.smCount, 16);
    OK(cuCtxFromGreenCtx(&context, green));
    TRUE(context != NULL);
    EXPECT_SURE(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_DEFAULT, 0), CUDA_ERROR_INVALID_VALUE);
    NEED_OK(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0));
    OK(cuStreamGetGreenCtx(stream, &owner));
    TRUE(owner == green);
    OK(cuStreamGetCtx_v2(stream, &of_stream, &owner));
    TRUE(owner == green);
    OK(cuCtxPushCurrent(context));
    CUmodule module = NULL;
    CUfunction fill = NULL;
    OK(cuModuleLoadData(&module, contract_ptx));
    OK(cuModuleGetFunction(&fill, module, "fill"));
    OK(cuLaunchKernel(fill, 2, 1, 1, 32, 1, 1, 0, stream, arguments, NULL));
    OK(cuStreamSynchronize(stream));
    TRUE(device_holds(a, 64, 9));
    OK(cuStreamDestroy(stream));
    OK(cuCtxPopCurrent(NULL));
    OK(cuGreenCtxDestroy(green));
    OK(cuMemFree(a));
}

TEST(several_equal_parts)
{
    CUdevResource all, parts[8], rest;
    unsigned possible = 0, groups = 2;
    NEED_OK(cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
    SKIP_UNLESS(all.sm.smCount >= 32, "too few multiprocessors to split");
    OK(cuDevSmResourceSplitByCount(NULL, &possible, &all, NULL, 0, 16));
    TRUE(possible >= 2);
    OK(cuDevSmResourceSplitByCount(parts, &groups, &all, &rest, 0, 16));
    EQ(groups, 2);
    EQ(parts[0].sm.smCount, parts[1].sm.smCount);
    TRUE(parts[0].sm.smCount >= 16);
}

TEST(small_parts_on_demand)
{
    CUdevResource all, parts[3], rest;
    unsigned possible = 0, groups = 3;
    NEED_OK(cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
    SKIP_UNLESS(all.sm.smCount >= 32, "too few multiprocessors to split");
    OK(cuDevSmResourceSplitByCount(NULL, &possible, &all, NULL, 0, 2));
    TRUE(possible >= 3 && possible <= all.sm.smCount / 2);
    OK(cuDevSmResourceSplitByCount(parts, &groups, &all, &rest, 0, 2));
    EQ(groups, 3);
    TRUE(parts[0].sm.smCount >= 2);
    EQ(rest.sm.smCount, all.sm.smCount - 3 * parts[0].sm.smCount);
}

TEST(creation_arguments_are_checked)
{
    CUdevResource all;
    CUdevResourceDesc desc = NULL;
    CUgreenCtx green = NULL;
    NEED_OK(cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
    NEED_OK(cuDevResourceGenerateDesc(&desc, &all, 1));
    EXPECT_SURE(cuGreenCtxCreate(&green, desc, 0, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuGreenCtxCreate(NULL, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM), CUDA_ERROR_INVALID_VALUE);
}
