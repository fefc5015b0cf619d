/* Primary and created contexts, the stack of each thread, limits. */
#include "contract.h"

#include <pthread.h>

GROUP(context, use_init)

TEST(none_at_the_start)
{
    CUcontext context = (CUcontext)1;
    CUdevice device;
    CUdeviceptr memory;
    CUstream stream;
    CUevent event;
    CUmodule module;
    OK(cuCtxGetCurrent(&context));
    TRUE(context == NULL);
    EXPECT_SURE(cuCtxGetDevice(&device), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_SURE(cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_SURE(cuCtxPopCurrent(&context), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_SURE(cuMemAlloc(&memory, 16), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_SURE(cuStreamCreate(&stream, 0), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_SURE(cuEventCreate(&event, 0), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_SURE(cuModuleLoadData(&module, contract_ptx), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_SURE(cuCtxGetCurrent(NULL), CUDA_ERROR_INVALID_VALUE);
}

TEST(primary_is_counted)
{
    unsigned flags = 99;
    int active = -1;
    CUcontext first = NULL, second = NULL;
    OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
    EQ(active, 0);
    EQ(flags, 0);
    NEED_OK(cuDevicePrimaryCtxRetain(&first, 0));
    OK(cuDevicePrimaryCtxRetain(&second, 0));
    TRUE(first == second && first != NULL);
    OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
    EQ(active, 1);
    OK(cuDevicePrimaryCtxRelease(0));
    OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
    EQ(active, 1);
    OK(cuDevicePrimaryCtxRelease(0));
    OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
    EQ(active, 0);
    EXPECT_SURE(cuDevicePrimaryCtxRelease(0), CUDA_ERROR_INVALID_CONTEXT);
}

TEST(primary_arguments_are_checked)
{
    CUcontext context;
    unsigned flags;
    int active;
    EXPECT_SURE(cuDevicePrimaryCtxRetain(NULL, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuDevicePrimaryCtxRetain(&context, 99), CUDA_ERROR_INVALID_DEVICE);
    EXPECT_SURE(cuDevicePrimaryCtxGetState(99, &flags, &active), CUDA_ERROR_INVALID_DEVICE);
    EXPECT_SURE(cuDevicePrimaryCtxSetFlags(0, 0x1000), CUDA_ERROR_INVALID_VALUE);
}

TEST(primary_flags_are_kept)
{
    unsigned flags = 0;
    int active = -1;
    OK(cuDevicePrimaryCtxSetFlags(0, CU_CTX_SCHED_BLOCKING_SYNC));
    OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
    EQ(flags & CU_CTX_SCHED_MASK, CU_CTX_SCHED_BLOCKING_SYNC);
    OK(cuDevicePrimaryCtxSetFlags(0, 0));
}

TEST(primary_is_made_current)
{
    CUcontext context = NULL, current = NULL;
    CUdevice device = -1;
    unsigned long long id = 0;
    unsigned version = 0;
    NEED_OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxGetCurrent(&current));
    TRUE(current == NULL);
    OK(cuCtxSetCurrent(context));
    OK(cuCtxGetCurrent(&current));
    TRUE(current == context);
    OK(cuCtxGetDevice(&device));
    EQ(device, 0);
    EXPECT_SURE(cuCtxGetDevice(NULL), CUDA_ERROR_INVALID_VALUE);
    OK(cuCtxGetId(context, &id));
    OK(cuCtxGetApiVersion(context, &version));
    TRUE(version >= 3010);
    OK(cuCtxSynchronize());
    OK(cuCtxSetCurrent(NULL));
    OK(cuCtxGetCurrent(&current));
    TRUE(current == NULL);
    OK(cuDevicePrimaryCtxRelease(0));
}

TEST(primary_cannot_be_destroyed)
{
    CUcontext context = NULL;
    NEED_OK(cuDevicePrimaryCtxRetain(&context, 0));
    EXPECT_SURE(cuCtxDestroy(context), CUDA_ERROR_INVALID_CONTEXT);
    OK(cuDevicePrimaryCtxRelease(0));
}

TEST(primary_memory_goes_with_the_last_release)
{
    CUcontext context = NULL;
    CUdeviceptr memory = 0;
    NEED_OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    OK(cuMemAlloc(&memory, 1 << 20));
    OK(cuDevicePrimaryCtxRelease(0));
    NEED_OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    EXPECT_SURE(cuMemFree(memory), CUDA_ERROR_INVALID_VALUE);
    OK(cuCtxSetCurrent(NULL));
    OK(cuDevicePrimaryCtxRelease(0));
}

TEST(created_one_is_current_until_popped)
{
    CUcontext created = NULL, current = NULL, popped = NULL;
    NEED_OK(cuCtxCreate(&created, NULL, CU_CTX_SCHED_SPIN, 0));
    OK(cuCtxGetCurrent(&current));
    TRUE(current == created);
    OK(cuCtxPopCurrent(&popped));
    TRUE(popped == created);
    OK(cuCtxGetCurrent(&current));
    TRUE(current == NULL);
    OK(cuCtxPushCurrent(created));
    OK(cuCtxGetCurrent(&current));
    TRUE(current == created);
    OK(cuCtxDestroy(created));
    OK(cuCtxGetCurrent(&current));
    TRUE(current == NULL);
}

TEST(stack_of_contexts)
{
    CUcontext a = NULL, b = NULL, current = NULL, popped = NULL;
    NEED_OK(cuCtxCreate(&a, NULL, 0, 0));
    NEED_OK(cuCtxCreate(&b, NULL, 0, 0));
    TRUE(a != b);
    OK(cuCtxGetCurrent(&current));
    TRUE(current == b);
    OK(cuCtxPushCurrent(a));
    OK(cuCtxPopCurrent(&popped));
    TRUE(popped == a);
    OK(cuCtxPopCurrent(&popped));
    TRUE(popped == b);
    OK(cuCtxGetCurrent(&current));
    TRUE(current == a);
    OK(cuCtxSetCurrent(b));
    OK(cuCtxPopCurrent(NULL));
    OK(cuCtxGetCurrent(&current));
    TRUE(current == NULL);
    OK(cuCtxDestroy(b));
    OK(cuCtxDestroy(a));
}

TEST(contexts_do_not_share_modules)
{
    CUcontext a = NULL, b = NULL;
    CUmodule in_a = NULL, in_b = NULL;
    CUfunction function = NULL;
    NEED_OK(cuCtxCreate(&a, NULL, 0, 0));
    OK(cuModuleLoadData(&in_a, contract_ptx));
    NEED_OK(cuCtxCreate(&b, NULL, 0, 0));
    OK(cuModuleLoadData(&in_b, contract_ptx));
    TRUE(in_a != in_b);
    OK(cuModuleGetFunction(&function, in_b, "empty"));
    OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    OK(cuCtxSynchronize());
    OK(cuCtxDestroy(b));
    OK(cuCtxDestroy(a));
}

TEST(creation_arguments_are_checked)
{
    CUcontext context = NULL;
    EXPECT_SURE(cuCtxCreate(NULL, NULL, 0, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuCtxCreate(&context, NULL, 0, 99), CUDA_ERROR_INVALID_DEVICE);
    EXPECT_SURE(cuCtxCreate(&context, NULL, 0x10000, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuCtxDestroy(NULL), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuCtxPushCurrent(NULL), CUDA_ERROR_INVALID_VALUE);
}

TEST(flags_are_kept)
{
    CUcontext context = NULL;
    unsigned flags = 0;
    NEED_OK(cuCtxCreate(&context, NULL, CU_CTX_SCHED_YIELD, 0));
    OK(cuCtxGetFlags(&flags));
    EQ(flags & CU_CTX_SCHED_MASK, CU_CTX_SCHED_YIELD);
    EXPECT_SURE(cuCtxGetFlags(NULL), CUDA_ERROR_INVALID_VALUE);
    OK(cuCtxDestroy(context));
}

TEST(limits)
{
    CUcontext context = NULL;
    size_t value = 0;
    NEED_OK(cuCtxCreate(&context, NULL, 0, 0));
    OK(cuCtxGetLimit(&value, CU_LIMIT_STACK_SIZE));
    EQ(value, 1024);
    OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096));
    OK(cuCtxGetLimit(&value, CU_LIMIT_STACK_SIZE));
    EQ(value, 4096);
    OK(cuCtxGetLimit(&value, CU_LIMIT_MALLOC_HEAP_SIZE));
    EQ(value, 8388608);
    OK(cuCtxGetLimit(&value, CU_LIMIT_PRINTF_FIFO_SIZE));
    TRUE(value >= 1 << 20);
    EXPECT_SURE(cuCtxGetLimit(&value, (CUlimit)99), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuCtxSetLimit((CUlimit)99, 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuCtxGetLimit(NULL, CU_LIMIT_STACK_SIZE), CUDA_ERROR_INVALID_VALUE);
    OK(cuCtxDestroy(context));
}

TEST(cache_configuration_is_kept)
{
    CUcontext context = NULL;
    CUfunc_cache config = CU_FUNC_CACHE_PREFER_EQUAL;
    NEED_OK(cuCtxCreate(&context, NULL, 0, 0));
    OK(cuCtxGetCacheConfig(&config));
    EQ(config, CU_FUNC_CACHE_PREFER_NONE);
    OK(cuCtxSetCacheConfig(CU_FUNC_CACHE_PREFER_L1));
    OK(cuCtxDestroy(context));
}

TEST(priorities_range)
{
    CUcontext context = NULL;
    int least = 99, greatest = 99;
    NEED_OK(cuCtxCreate(&context, NULL, 0, 0));
    OK(cuCtxGetStreamPriorityRange(&least, &greatest));
    EQ(least, 0);
    TRUE(greatest < 0);
    OK(cuCtxGetStreamPriorityRange(NULL, NULL));
    OK(cuCtxDestroy(context));
}

static void *look(void *out)
{
    cuCtxGetCurrent(out);
    return NULL;
}

TEST(each_thread_has_its_own)
{
    CUcontext context = NULL, there = (CUcontext)1;
    pthread_t thread;
    NEED_OK(cuCtxCreate(&context, NULL, 0, 0));
    EQ(pthread_create(&thread, NULL, look, &there), 0);
    pthread_join(thread, NULL);
    TRUE(there == NULL);
    OK(cuCtxDestroy(context));
}

TEST(identifiers_differ)
{
    CUcontext a = NULL, b = NULL;
    unsigned long long first = 0, second = 0;
    NEED_OK(cuCtxCreate(&a, NULL, 0, 0));
    NEED_OK(cuCtxCreate(&b, NULL, 0, 0));
    OK(cuCtxGetId(a, &first));
    OK(cuCtxGetId(NULL, &second));
    TRUE(first != second);
    OK(cuCtxDestroy(b));
    OK(cuCtxDestroy(a));
}
