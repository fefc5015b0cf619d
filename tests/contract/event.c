/* Events: state, timing, order. */
#include "contract.h"

GROUP(event, use_primary)

TEST(unrecorded_is_complete)
{
    CUevent event = NULL;
    NEED_OK(cuEventCreate(&event, CU_EVENT_DEFAULT));
    OK(cuEventQuery(event));
    OK(cuEventSynchronize(event));
    OK(cuEventDestroy(event));
}

TEST(creation_arguments_are_checked)
{
    CUevent event = NULL;
    EXPECT_SURE(cuEventCreate(&event, 0x10), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuEventCreate(NULL, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuEventQuery(NULL), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_SURE(cuEventSynchronize(NULL), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_SURE(cuEventRecord(NULL, NULL), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_SURE(cuEventDestroy(NULL), CUDA_ERROR_INVALID_HANDLE);
}

TEST(pending_until_reached)
{
    struct gate gate;
    CUevent event = NULL;
    CUstream stream = NULL;
    NEED_OK(cuEventCreate(&event, CU_EVENT_DEFAULT));
    NEED_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    if (gate_close(&gate, stream)) {
        OK(cuEventRecord(event, stream));
        EXPECT_SURE(cuEventQuery(event), CUDA_ERROR_NOT_READY);
        gate_open(&gate);
        OK(cuEventSynchronize(event));
        OK(cuEventQuery(event));
    }
    gate_free(&gate);
    OK(cuEventDestroy(event));
    OK(cuStreamDestroy(stream));
}

TEST(elapsed_time)
{
    CUevent start = NULL, end = NULL;
    CUdeviceptr a = 0;
    float milliseconds = -1, reverse = 1;
    NEED_OK(cuEventCreate(&start, CU_EVENT_DEFAULT));
    NEED_OK(cuEventCreate(&end, CU_EVENT_DEFAULT));
    NEED_OK(cuMemAlloc(&a, 64 << 20));
    OK(cuEventRecord(start, NULL));
    OK(cuMemsetD32Async(a, 1, 16 << 20, NULL));
    OK(cuEventRecord(end, NULL));
    OK(cuEventSynchronize(end));
    OK(cuEventElapsedTime(&milliseconds, start, end));
    TRUE(milliseconds > 0 && milliseconds < 1000);
    OK(cuEventElapsedTime(&reverse, end, start));
    TRUE(reverse <= 0);
    OK(cuMemFree(a));
    OK(cuEventDestroy(start));
    OK(cuEventDestroy(end));
}

TEST(elapsed_time_needs_timed_and_recorded_events)
{
    CUevent timed = NULL, untimed = NULL, unrecorded = NULL;
    float milliseconds = 0;
    NEED_OK(cuEventCreate(&timed, CU_EVENT_DEFAULT));
    NEED_OK(cuEventCreate(&unrecorded, CU_EVENT_DEFAULT));
    NEED_OK(cuEventCreate(&untimed, CU_EVENT_DISABLE_TIMING));
    OK(cuEventRecord(timed, NULL));
    OK(cuEventRecord(untimed, NULL));
    OK(cuCtxSynchronize());
    EXPECT_SURE(cuEventElapsedTime(&milliseconds, timed, untimed), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_SURE(cuEventElapsedTime(&milliseconds, timed, unrecorded), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_SURE(cuEventElapsedTime(&milliseconds, unrecorded, timed), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_SURE(cuEventElapsedTime(NULL, timed, timed), CUDA_ERROR_INVALID_HANDLE);
    OK(cuEventElapsedTime(&milliseconds, timed, timed));
    TRUE(milliseconds == 0);
    OK(cuEventDestroy(timed));
    OK(cuEventDestroy(untimed));
    OK(cuEventDestroy(unrecorded));
}

TEST(elapsed_time_of_pending_events)
{
    struct gate gate;
    CUevent start = NULL, end = NULL;
    CUstream stream = NULL;
    float milliseconds = 0;
    NEED_OK(cuEventCreate(&start, CU_EVENT_DEFAULT));
    NEED_OK(cuEventCreate(&end, CU_EVENT_DEFAULT));
    NEED_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuEventRecord(start, stream));
    if (gate_close(&gate, stream)) {
        OK(cuEventRecord(end, stream));
        EXPECT_SURE(cuEventElapsedTime(&milliseconds, start, end), CUDA_ERROR_NOT_READY);
        gate_open(&gate);
        OK(cuStreamSynchronize(stream));
        OK(cuEventElapsedTime(&milliseconds, start, end));
    }
    gate_free(&gate);
    OK(cuEventDestroy(start));
    OK(cuEventDestroy(end));
    OK(cuStreamDestroy(stream));
}

TEST(recorded_again)
{
    struct gate gate;
    CUevent event = NULL;
    CUstream stream = NULL;
    NEED_OK(cuEventCreate(&event, CU_EVENT_BLOCKING_SYNC));
    NEED_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuEventRecord(event, stream));
    OK(cuEventSynchronize(event));
    if (gate_close(&gate, stream)) {
        OK(cuEventRecord(event, stream));
        EXPECT_SURE(cuEventQuery(event), CUDA_ERROR_NOT_READY);
        gate_open(&gate);
        OK(cuEventSynchronize(event));
    }
    gate_free(&gate);
    OK(cuEventDestroy(event));
    OK(cuStreamDestroy(stream));
}

TEST(recorded_with_flags)
{
    CUevent event = NULL;
    NEED_OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    OK(cuEventRecordWithFlags(event, NULL, CU_EVENT_RECORD_DEFAULT));
    OK(cuEventSynchronize(event));
    EXPECT_SURE(cuEventRecordWithFlags(event, NULL, 8), CUDA_ERROR_INVALID_VALUE);
    OK(cuEventDestroy(event));
}

TEST(destroyed_while_pending)
{
    struct gate gate;
    CUevent event = NULL;
    CUstream stream = NULL;
    NEED_OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    NEED_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    if (gate_close(&gate, stream)) {
        OK(cuEventRecord(event, stream));
        OK(cuEventDestroy(event));
        gate_open(&gate);
        OK(cuStreamSynchronize(stream));
    }
    gate_free(&gate);
    OK(cuStreamDestroy(stream));
}
