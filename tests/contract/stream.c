/* Streams: kinds, order, priorities, callbacks, the two default streams. */
#include "contract.h"

#include <pthread.h>

GROUP(stream, use_primary)

TEST(created_with_flags)
{
    CUstream blocking = NULL, free_running = NULL;
    unsigned flags = 9;
    NEED_OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    NEED_OK(cuStreamCreate(&free_running, CU_STREAM_NON_BLOCKING));
    OK(cuStreamGetFlags(blocking, &flags));
    EQ(flags, CU_STREAM_DEFAULT);
    OK(cuStreamGetFlags(free_running, &flags));
    EQ(flags, CU_STREAM_NON_BLOCKING);
    EXPECT_SURE(cuStreamCreate(&blocking, 8), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuStreamCreate(NULL, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuStreamGetFlags(free_running, NULL), CUDA_ERROR_INVALID_VALUE);
    OK(cuStreamQuery(free_running));
    OK(cuStreamSynchronize(free_running));
    OK(cuStreamDestroy(free_running));
}

TEST(priorities_are_clamped)
{
    CUstream stream = NULL;
    int least = 0, greatest = 0, priority = 99;
    OK(cuCtxGetStreamPriorityRange(&least, &greatest));
    NEED_OK(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, greatest));
    OK(cuStreamGetPriority(stream, &priority));
    EQ(priority, greatest);
    OK(cuStreamDestroy(stream));
    NEED_OK(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, greatest - 100));
    OK(cuStreamGetPriority(stream, &priority));
    EQ(priority, greatest);
    OK(cuStreamDestroy(stream));
    NEED_OK(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 100));
    OK(cuStreamGetPriority(stream, &priority));
    EQ(priority, least);
    OK(cuStreamDestroy(stream));
    OK(cuStreamGetPriority(NULL, &priority));
    EQ(priority, 0);
}

TEST(identifiers_differ)
{
    CUstream stream = NULL;
    unsigned long long a = 0, legacy = 0, per_thread = 0, null = 0;
    NEED_OK(cuStreamCreate(&stream, 0));
    OK(cuStreamGetId(stream, &a));
    OK(cuStreamGetId(CU_STREAM_LEGACY, &legacy));
    OK(cuStreamGetId(CU_STREAM_PER_THREAD, &per_thread));
    OK(cuStreamGetId(NULL, &null));
    TRUE(a != legacy && a != per_thread && legacy != per_thread);
    EQ(null, legacy);
    OK(cuStreamDestroy(stream));
}

TEST(belongs_to_a_context_and_device)
{
    CUstream stream = NULL;
    CUcontext context = NULL, current = NULL;
    CUdevice device = -1;
    NEED_OK(cuStreamCreate(&stream, 0));
    OK(cuCtxGetCurrent(&current));
    OK(cuStreamGetCtx(stream, &context));
    TRUE(context == current);
    OK(cuStreamGetCtx(NULL, &context));
    TRUE(context == current);
    OK(cuStreamGetDevice(stream, &device));
    EQ(device, 0);
    OK(cuStreamDestroy(stream));
}

TEST(busy_until_its_work_is_done)
{
    struct gate gate;
    CUstream stream = NULL;
    NEED_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    if (gate_close(&gate, stream)) {
        EXPECT_SURE(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
        gate_open(&gate);
        OK(cuStreamSynchronize(stream));
        OK(cuStreamQuery(stream));
    }
    gate_free(&gate);
    OK(cuStreamDestroy(stream));
}

TEST(non_blocking_stream_ignores_the_legacy_one)
{
    struct gate gate;
    CUstream stream = NULL;
    CUdeviceptr a = device_words(64, 0);
    NEED_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuCtxSynchronize());
    if (gate_close(&gate, CU_STREAM_LEGACY)) {
        OK(cuMemsetD32Async(a, 1, 64, stream));
        OK(cuStreamSynchronize(stream));
        EXPECT_SURE(cuStreamQuery(CU_STREAM_LEGACY), CUDA_ERROR_NOT_READY);
        gate_open(&gate);
        OK(cuCtxSynchronize());
    }
    TRUE(device_holds(a, 64, 1));
    gate_free(&gate);
    OK(cuStreamDestroy(stream));
    OK(cuMemFree(a));
}

TEST(blocking_stream_waits_for_the_legacy_one)
{
    struct gate gate;
    CUstream stream = NULL;
    CUdeviceptr a = device_words(64, 0);
    NEED_OK(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    OK(cuCtxSynchronize());
    if (gate_close(&gate, CU_STREAM_LEGACY)) {
        OK(cuMemsetD32Async(a, 1, 64, stream));
        EXPECT_SURE(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
        gate_open(&gate);
        OK(cuStreamSynchronize(stream));
    }
    TRUE(device_holds(a, 64, 1));
    gate_free(&gate);
    OK(cuStreamDestroy(stream));
    OK(cuMemFree(a));
}

TEST(legacy_stream_waits_for_blocking_ones)
{
    struct gate gate;
    CUstream stream = NULL;
    CUdeviceptr a = device_words(64, 0);
    NEED_OK(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    OK(cuCtxSynchronize());
    if (gate_close(&gate, stream)) {
        OK(cuMemsetD32Async(a, 1, 64, CU_STREAM_LEGACY));
        EXPECT_SURE(cuStreamQuery(CU_STREAM_LEGACY), CUDA_ERROR_NOT_READY);
        gate_open(&gate);
        OK(cuStreamSynchronize(CU_STREAM_LEGACY));
    }
    gate_free(&gate);
    OK(cuStreamDestroy(stream));
    OK(cuMemFree(a));
}

TEST(per_thread_stream_is_its_own)
{
    CUdeviceptr a = device_words(64, 0);
    OK(cuMemsetD32Async(a, 4, 64, CU_STREAM_PER_THREAD));
    OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    OK(cuStreamQuery(CU_STREAM_PER_THREAD));
    TRUE(device_holds(a, 64, 4));
    OK(cuMemFree(a));
}

static void *per_thread_id(void *out)
{
    CUcontext context = NULL;
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    OK(cuStreamGetId(CU_STREAM_PER_THREAD, out));
    OK(cuDevicePrimaryCtxRelease(0));
    return NULL;
}

TEST(per_thread_stream_differs_between_threads)
{
    unsigned long long here = 0, there = 0;
    pthread_t thread;
    OK(cuStreamGetId(CU_STREAM_PER_THREAD, &here));
    EQ(pthread_create(&thread, NULL, per_thread_id, &there), 0);
    pthread_join(thread, NULL);
    TRUE(here != there);
}

struct steps {
    int order[4];
    int count;
    CUresult status;
    CUstream stream;
};

static void CUDA_CB first_step(void *data)
{
    struct steps *steps = data;
    steps->order[steps->count++] = 1;
}

static void CUDA_CB second_step(CUstream stream, CUresult status, void *data)
{
    struct steps *steps = data;
    steps->stream = stream;
    steps->status = status;
    steps->order[steps->count++] = 2;
}

TEST(host_functions_run_in_order)
{
    struct steps steps = {.status = CUDA_ERROR_UNKNOWN};
    CUstream stream = NULL;
    NEED_OK(cuStreamCreate(&stream, 0));
    OK(cuLaunchHostFunc(stream, first_step, &steps));
    OK(cuStreamAddCallback(stream, second_step, &steps, 0));
    OK(cuLaunchHostFunc(stream, first_step, &steps));
    OK(cuStreamSynchronize(stream));
    EQ(steps.count, 3);
    EQ(steps.order[0], 1);
    EQ(steps.order[1], 2);
    EQ(steps.order[2], 1);
    TRUE(steps.stream == stream);
    EQ(steps.status, CUDA_SUCCESS);
    EXPECT_SURE(cuLaunchHostFunc(stream, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuStreamAddCallback(stream, NULL, NULL, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuStreamAddCallback(stream, second_step, NULL, 1), CUDA_ERROR_INVALID_VALUE);
    OK(cuStreamDestroy(stream));
}

static void CUDA_CB write_word(void *data)
{
    __atomic_store_n((uint32_t *)data, 5u, __ATOMIC_RELEASE);
}

TEST(host_function_sees_earlier_work)
{
    CUdeviceptr a = device_words(16, 0);
    uint32_t *host = NULL, flag = 0;
    CUstream stream = NULL;
    NEED_OK(cuMemAllocHost((void **)&host, 64));
    NEED_OK(cuStreamCreate(&stream, 0));
    OK(cuMemsetD32Async(a, 33, 16, stream));
    OK(cuMemcpyDtoHAsync(host, a, 64, stream));
    OK(cuLaunchHostFunc(stream, write_word, &flag));
    OK(cuStreamSynchronize(stream));
    EQ(flag, 5);
    EQ(host[15], 33);
    OK(cuStreamDestroy(stream));
    OK(cuMemFreeHost(host));
    OK(cuMemFree(a));
}

TEST(waits_for_an_event_of_another_stream)
{
    struct gate gate;
    CUstream first = NULL, second = NULL;
    CUevent event = NULL;
    CUdeviceptr a = device_words(64, 0);
    NEED_OK(cuStreamCreate(&first, CU_STREAM_NON_BLOCKING));
    NEED_OK(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
    NEED_OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    OK(cuCtxSynchronize());
    OK(cuStreamWaitEvent(second, event, 0));
    OK(cuStreamSynchronize(second));
    if (gate_close(&gate, first)) {
        OK(cuMemsetD32Async(a, 8, 64, first));
        OK(cuEventRecord(event, first));
        OK(cuStreamWaitEvent(second, event, 0));
        OK(cuMemsetD32Async(a, 9, 32, second));
        EXPECT_SURE(cuStreamQuery(second), CUDA_ERROR_NOT_READY);
        gate_open(&gate);
        OK(cuStreamSynchronize(second));
    }
    TRUE(device_holds(a, 32, 9));
    TRUE(device_holds(a + 128, 32, 8));
    EXPECT_SURE(cuStreamWaitEvent(second, event, 8), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuStreamWaitEvent(second, NULL, 0), CUDA_ERROR_INVALID_HANDLE);
    gate_free(&gate);
    OK(cuEventDestroy(event));
    OK(cuStreamDestroy(first));
    OK(cuStreamDestroy(second));
    OK(cuMemFree(a));
}

TEST(destroyed_with_work_in_it)
{
    struct gate gate;
    CUstream stream = NULL;
    CUdeviceptr a = device_words(64, 0);
    NEED_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuCtxSynchronize());
    if (gate_close(&gate, stream)) {
        OK(cuMemsetD32Async(a, 6, 64, stream));
        OK(cuStreamDestroy(stream));
        gate_open(&gate);
        OK(cuCtxSynchronize());
        TRUE(device_holds(a, 64, 6));
    }
    gate_free(&gate);
    OK(cuMemFree(a));
}

TEST(attributes)
{
    CUstream a = NULL, b = NULL;
    CUstreamAttrValue value;
    memset(&value, 0, sizeof(value));
    NEED_OK(cuStreamCreate(&a, 0));
    NEED_OK(cuStreamCreate(&b, 0));
    value.syncPolicy = CU_SYNC_POLICY_BLOCKING_SYNC;
    OK(cuStreamSetAttribute(a, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value));
    OK(cuStreamCopyAttributes(b, a));
    memset(&value, 0, sizeof(value));
    OK(cuStreamGetAttribute(b, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value));
    EQ(value.syncPolicy, CU_SYNC_POLICY_BLOCKING_SYNC);
    OK(cuStreamDestroy(a));
    OK(cuStreamDestroy(b));
}

TEST(attaches_managed_memory)
{
    CUdeviceptr a = 0;
    CUstream stream = NULL;
    NEED_OK(cuMemAllocManaged(&a, 4096, CU_MEM_ATTACH_HOST));
    NEED_OK(cuStreamCreate(&stream, 0));
    OK(cuStreamAttachMemAsync(stream, a, 0, CU_MEM_ATTACH_SINGLE));
    OK(cuStreamSynchronize(stream));
    OK(cuStreamDestroy(stream));
    OK(cuMemFree(a));
}

TEST(not_capturing_by_itself)
{
    CUstream stream = NULL;
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
    NEED_OK(cuStreamCreate(&stream, 0));
    OK(cuStreamIsCapturing(stream, &status));
    EQ(status, CU_STREAM_CAPTURE_STATUS_NONE);
    OK(cuStreamDestroy(stream));
}
