/* Stream memory operations: write and wait for values, one by one and in batches. */
#include "contract.h"

GROUP(memop, use_primary)

TEST(values_are_written)
{
    CUdeviceptr a = device_words(16, 0);
    uint64_t read[8];
    OK(cuStreamWriteValue32(NULL, a, 0xabcdef01, CU_STREAM_WRITE_VALUE_DEFAULT));
    OK(cuStreamWriteValue64(NULL, a + 8, 0x1122334455667788, CU_STREAM_WRITE_VALUE_DEFAULT));
    OK(cuCtxSynchronize());
    OK(cuMemcpyDtoH(read, a, sizeof(read)));
    EQ(read[0], 0xabcdef01);
    EQ(read[1], 0x1122334455667788);
    OK(cuMemFree(a));
}

TEST(waits_end_at_once_when_true)
{
    CUdeviceptr a = device_words(16, 12);
    OK(cuStreamWaitValue32(NULL, a, 12, CU_STREAM_WAIT_VALUE_EQ));
    OK(cuStreamWaitValue32(NULL, a, 11, CU_STREAM_WAIT_VALUE_GEQ));
    OK(cuStreamWaitValue32(NULL, a, 4, CU_STREAM_WAIT_VALUE_AND));
    OK(cuStreamWaitValue32(NULL, a, 1, CU_STREAM_WAIT_VALUE_NOR));
    OK(cuStreamWaitValue64(NULL, a + 8, 0x0000000c0000000c, CU_STREAM_WAIT_VALUE_EQ));
    OK(cuStreamSynchronize(NULL));
    OK(cuMemFree(a));
}

TEST(greater_or_equal_wraps_around)
{
    CUdeviceptr a = device_words(16, 2);
    OK(cuStreamWaitValue32(NULL, a, 0xfffffff0, CU_STREAM_WAIT_VALUE_GEQ));
    OK(cuStreamSynchronize(NULL));
    OK(cuMemFree(a));
}

TEST(one_stream_releases_another)
{
    CUdeviceptr a = device_words(16, 0), b = device_words(16, 0);
    CUstream waiting = NULL, writing = NULL;
    NEED_OK(cuStreamCreate(&waiting, CU_STREAM_NON_BLOCKING));
    NEED_OK(cuStreamCreate(&writing, CU_STREAM_NON_BLOCKING));
    OK(cuCtxSynchronize());
    OK(cuStreamWaitValue32(waiting, a, 3, CU_STREAM_WAIT_VALUE_GEQ));
    OK(cuMemsetD32Async(b, 1, 16, waiting));
    EXPECT_SURE(cuStreamQuery(waiting), CUDA_ERROR_NOT_READY);
    OK(cuStreamWriteValue32(writing, a, 2, CU_STREAM_WRITE_VALUE_DEFAULT));
    OK(cuStreamSynchronize(writing));
    EXPECT_SURE(cuStreamQuery(waiting), CUDA_ERROR_NOT_READY);
    OK(cuStreamWriteValue32(writing, a, 3, CU_STREAM_WRITE_VALUE_DEFAULT));
    OK(cuStreamSynchronize(waiting));
    TRUE(device_holds(b, 16, 1));
    OK(cuStreamDestroy(waiting));
    OK(cuStreamDestroy(writing));
    OK(cuMemFree(a));
    OK(cuMemFree(b));
}

TEST(host_releases_a_stream)
{
    struct gate gate;
    CUstream stream = NULL;
    CUdeviceptr a = device_words(16, 0);
    NEED_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuCtxSynchronize());
    if (gate_close(&gate, stream)) {
        OK(cuStreamWriteValue32(stream, a, 1, CU_STREAM_WRITE_VALUE_DEFAULT));
        gate_open(&gate);
        OK(cuStreamSynchronize(stream));
        TRUE(device_holds(a, 1, 1));
    }
    gate_free(&gate);
    OK(cuStreamDestroy(stream));
    OK(cuMemFree(a));
}

TEST(batch)
{
    CUdeviceptr a = device_words(16, 0);
    CUstreamBatchMemOpParams steps[3];
    uint32_t read[4];
    memset(steps, 0, sizeof(steps));
    steps[0].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    steps[0].writeValue.address = a;
    steps[0].writeValue.value = 7;
    steps[1].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    steps[1].waitValue.address = a;
    steps[1].waitValue.value = 7;
    steps[1].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
    steps[2].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
    steps[2].writeValue.address = a + 8;
    steps[2].writeValue.value64 = 0x500000006;
    OK(cuStreamBatchMemOp(NULL, 3, steps, 0));
    OK(cuCtxSynchronize());
    OK(cuMemcpyDtoH(read, a, sizeof(read)));
    EQ(read[0], 7);
    EQ(read[2], 6);
    EQ(read[3], 5);
    EXPECT_SURE(cuStreamBatchMemOp(NULL, 3, steps, 1), CUDA_ERROR_INVALID_VALUE);
    OK(cuStreamBatchMemOp(NULL, 0, steps, 0));
    EXPECT_SURE(cuStreamBatchMemOp(NULL, 257, steps, 0), CUDA_ERROR_INVALID_VALUE);
    steps[1].operation = (CUstreamBatchMemOpType)77;
    EXPECT_SURE(cuStreamBatchMemOp(NULL, 3, steps, 0), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree(a));
}

TEST(arguments_are_checked)
{
    CUdeviceptr a = device_words(16, 0);
    EXPECT_SURE(cuStreamWriteValue32(NULL, a + 2, 1, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuStreamWriteValue64(NULL, a + 4, 1, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuStreamWaitValue32(NULL, a + 1, 1, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuStreamWriteValue32(NULL, a, 1, 0x80), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuStreamWaitValue32(NULL, a, 1, 0x80), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuStreamWriteValue32(NULL, 0, 1, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_SURE(cuStreamWriteValue32(NULL, a, 1, CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree(a));
}
