/* Driver API: stream write and wait values, batches of them, per-thread default streams, contexts per thread. */
#include <pthread.h>

#include "driver_check.h"

enum { COUNT = 2000, THREADS = 3 };

static CUmodule module;
static CUcontext context;

static void fill(CUdeviceptr out, int value, int count, CUstream stream)
{
    void *parameters[] = {&out, &value, &count};
    CU(cuLaunchKernel(get_function(module, "fill"), 2, 1, 1, 64, 1, 1, 0, stream, parameters, NULL));
}

/*
 * The waiting stream is submitted first; values written by the other one let it pass step by step. The copy goes to pinned
 * memory: one to pageable memory would hold this thread until the stream has passed.
 */
static void check_values(void)
{
    CUstream waiter, writer;
    CUdeviceptr flags, data;
    int *got;
    const size_t bytes = COUNT * sizeof(*got);
    CU(cuMemAllocHost((void **)&got, bytes));
    CU(cuStreamCreate(&waiter, CU_STREAM_NON_BLOCKING));
    CU(cuStreamCreate(&writer, CU_STREAM_NON_BLOCKING));
    CU(cuMemAlloc(&flags, 64));
    CU(cuMemAlloc(&data, bytes));
    CU(cuMemsetD8(flags, 0, 64));
    fill(data, 0, COUNT, writer); /* a first launch loads the kernel, which may wait for everything on the GPU */
    CU(cuStreamSynchronize(writer));
    CU(cuStreamWaitValue32(waiter, flags, 5, CU_STREAM_WAIT_VALUE_EQ));
    CU(cuMemcpyDtoHAsync(got, data, bytes, waiter));
    CU(cuStreamWriteValue32(waiter, flags + 4, 6, CU_STREAM_WRITE_VALUE_DEFAULT));
    fill(data, 300, COUNT, writer);
    CU(cuStreamWriteValue32(writer, flags, 5, CU_STREAM_WRITE_VALUE_DEFAULT));
    CU(cuStreamWaitValue32(writer, flags + 4, 6, CU_STREAM_WAIT_VALUE_GEQ));
    fill(data, 400, COUNT, writer);
    CU(cuStreamSynchronize(waiter));
    EXPECT(got[0] == 300 && got[COUNT - 1] == 300 + COUNT - 1);
    CU(cuStreamSynchronize(writer));
    CU(cuMemcpyDtoH(got, data, bytes));
    EXPECT(got[0] == 400 && got[COUNT - 1] == 400 + COUNT - 1);

    CUstreamBatchMemOpParams operations[3];
    memset(operations, 0, sizeof(operations));
    operations[0].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_64;
    operations[0].waitValue.address = flags + 16;
    operations[0].waitValue.value64 = 1ull << 40;
    operations[0].waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;
    operations[1].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
    operations[1].writeValue.address = flags + 24;
    operations[1].writeValue.value64 = 0x123456789abcull;
    operations[2].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    operations[2].writeValue.address = flags + 32;
    operations[2].writeValue.value = 99;
    CU(cuStreamBatchMemOp(waiter, 3, operations, 0));
    EXPECT_STATUS(cuStreamQuery(waiter), CUDA_ERROR_NOT_READY);
    CU(cuStreamWriteValue64(writer, flags + 16, (1ull << 40) + 3, CU_STREAM_WRITE_VALUE_DEFAULT));
    CU(cuStreamSynchronize(waiter));
    unsigned long long words[3];
    CU(cuMemcpyDtoH(words, flags + 16, sizeof(words)));
    EXPECT(words[0] == (1ull << 40) + 3 && words[1] == 0x123456789abcull && (unsigned)words[2] == 99);
    CU(cuStreamDestroy(waiter));
    CU(cuStreamDestroy(writer));
    CU(cuMemFree(flags));
    CU(cuMemFree(data));
    CU(cuMemFreeHost(got));
}

static void *worker(void *argument)
{
    int number = (int)(size_t)argument, got[COUNT];
    CUdeviceptr data;
    CUcontext current = context;
    CU(cuCtxGetCurrent(&current));
    if (current != NULL)
        return "a new thread has a current context";
    CU(cuCtxSetCurrent(context));
    CU(cuMemAlloc(&data, sizeof(got)));
    for (int round = 0; round < 5; round++) {
        fill(data, number * 1000 + round, COUNT, CU_STREAM_PER_THREAD);
        CU(cuMemcpyDtoHAsync(got, data, sizeof(got), CU_STREAM_PER_THREAD));
        CU(cuStreamSynchronize(CU_STREAM_PER_THREAD));
        for (int i = 0; i < COUNT; i++)
            if (got[i] != number * 1000 + round + i)
                return "wrong data";
    }
    CU(cuMemFree(data));
    return NULL;
}

int main(void)
{
    CUdevice device;
    module = start(&device);
    CU(cuCtxGetCurrent(&context));
    check_values();
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, worker, (void *)i);
    for (int i = 0; i < THREADS; i++) {
        void *problem = "not joined";
        pthread_join(threads[i], &problem);
        if (problem)
            fprintf(stderr, "thread %d: %s\n", i, (const char *)problem);
        EXPECT(problem == NULL);
    }

    /* A created context is its own world: a stack of contexts, memory freed with it. */
    CUcontext own, popped;
    CUdeviceptr memory;
    CU(cuCtxCreate(&own, NULL, 0, device));
    CU(cuMemAlloc(&memory, 1024));
    CU(cuCtxPopCurrent(&popped));
    EXPECT(popped == own);
    CU(cuCtxGetCurrent(&popped));
    EXPECT(popped == context);
    CU(cuCtxDestroy(own));
    EXPECT_STATUS(cuMemFree(memory), CUDA_ERROR_INVALID_VALUE);
    return finish();
}
