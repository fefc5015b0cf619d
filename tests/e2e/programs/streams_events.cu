// Ordering: two non-blocking streams joined by events, the legacy default stream, queries, host functions, callbacks.
#include <atomic>

#include "check.h"

__global__ void fill(int *data, int value, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        data[i] = value + i;
}

__global__ void add_shifted(const int *in, int *out, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        out[i] += in[count - 1 - i];
}

static std::atomic<int> calls{0};
static int order_of_call[2];

static void CUDART_CB host_function(void *slot)
{
    *(int *)slot = ++calls;
}

static void CUDART_CB callback(cudaStream_t, cudaError_t status, void *slot)
{
    if (status == cudaSuccess)
        *(int *)slot = ++calls;
}

int main()
{
    const int count = 10000, rounds = 5, blocks = (count + 255) / 256;
    int least = 0, greatest = 0, priority = 1;
    CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    EXPECT(least == 0 && greatest < 0);
    cudaStream_t producer, consumer, blocking;
    CUDA(cudaStreamCreateWithPriority(&producer, cudaStreamNonBlocking, greatest));
    CUDA(cudaStreamCreateWithFlags(&consumer, cudaStreamNonBlocking));
    CUDA(cudaStreamCreate(&blocking));
    CUDA(cudaStreamGetPriority(producer, &priority));
    EXPECT(priority == greatest);
    unsigned flags = 0;
    CUDA(cudaStreamGetFlags(consumer, &flags));
    EXPECT(flags == cudaStreamNonBlocking);

    cudaEvent_t filled, added;
    CUDA(cudaEventCreateWithFlags(&filled, cudaEventDisableTiming));
    CUDA(cudaEventCreateWithFlags(&added, cudaEventDisableTiming));
    int *data = device_array<int>(count), *sum = device_array<int>(count);
    CUDA(cudaMemset(sum, 0, count * sizeof(int)));
    CUDA(cudaDeviceSynchronize());
    std::vector<int> want(count);
    for (int round = 0; round < rounds; round++) {
        fill<<<blocks, 256, 0, producer>>>(data, round * 100000, count);
        CUDA(cudaEventRecord(filled, producer));
        CUDA(cudaStreamWaitEvent(consumer, filled, 0));
        add_shifted<<<blocks, 256, 0, consumer>>>(data, sum, count);
        CUDA(cudaEventRecord(added, consumer));
        CUDA(cudaStreamWaitEvent(producer, added, 0));
        for (int i = 0; i < count; i++)
            want[i] += round * 100000 + count - 1 - i;
    }
    CUDA(cudaEventSynchronize(added));
    EXPECT_STATUS(cudaEventQuery(added), cudaSuccess);
    expect_equal("producer and consumer", download(sum, count), want);

    // A blocking stream and the legacy default stream wait for each other.
    fill<<<blocks, 256, 0, blocking>>>(data, 7, count);
    add_shifted<<<blocks, 256>>>(data, sum, count);
    fill<<<blocks, 256, 0, blocking>>>(data, 0, count);
    CUDA(cudaDeviceSynchronize());
    for (int i = 0; i < count; i++)
        want[i] += 7 + count - 1 - i;
    expect_equal("legacy default stream", download(sum, count), want);

    CUDA(cudaLaunchHostFunc(blocking, host_function, &order_of_call[0]));
    CUDA(cudaStreamAddCallback(blocking, callback, &order_of_call[1], 0));
    CUDA(cudaStreamSynchronize(blocking));
    EXPECT(order_of_call[0] == 1 && order_of_call[1] == 2);
    EXPECT_STATUS(cudaStreamQuery(blocking), cudaSuccess);
    CUDA(cudaEventDestroy(filled));
    CUDA(cudaEventDestroy(added));
    CUDA(cudaStreamDestroy(producer));
    CUDA(cudaStreamDestroy(consumer));
    CUDA(cudaStreamDestroy(blocking));
    return finish();
}
