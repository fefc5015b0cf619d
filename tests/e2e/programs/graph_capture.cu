// A graph captured from two streams, replayed, updated from a second capture, and capture states.
#include "check.h"

__global__ void multiply_add(float *data, float factor, float term, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        data[i] = data[i] * factor + term;
}

__global__ void add_into(const float *in, float *out, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        out[i] += in[i];
}

constexpr int COUNT = 1000;

static cudaGraph_t capture(cudaStream_t stream, cudaStream_t side, float *a, float *b, float *host, float term)
{
    cudaEvent_t fork, join;
    CUDA(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
    CUDA(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
    CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    cudaStreamCaptureStatus status;
    CUDA(cudaStreamIsCapturing(stream, &status));
    EXPECT(status == cudaStreamCaptureStatusActive);
    CUDA(cudaMemsetAsync(b, 0, COUNT * sizeof(float), stream));
    CUDA(cudaEventRecord(fork, stream));
    CUDA(cudaStreamWaitEvent(side, fork, 0));
    multiply_add<<<(COUNT + 127) / 128, 128, 0, stream>>>(a, 2.0f, 1.0f, COUNT);
    multiply_add<<<(COUNT + 127) / 128, 128, 0, side>>>(b, 1.0f, term, COUNT);
    CUDA(cudaEventRecord(join, side));
    CUDA(cudaStreamWaitEvent(stream, join, 0));
    add_into<<<(COUNT + 127) / 128, 128, 0, stream>>>(b, a, COUNT);
    CUDA(cudaMemcpyAsync(host, a, COUNT * sizeof(float), cudaMemcpyDeviceToHost, stream));
    cudaGraph_t graph;
    CUDA(cudaStreamEndCapture(stream, &graph));
    CUDA(cudaStreamIsCapturing(stream, &status));
    EXPECT(status == cudaStreamCaptureStatusNone);
    CUDA(cudaEventDestroy(fork));
    CUDA(cudaEventDestroy(join));
    return graph;
}

int main()
{
    std::vector<float> data(COUNT), want(COUNT);
    for (int i = 0; i < COUNT; i++)
        want[i] = data[i] = (float)(i % 17);
    float *a = upload(data), *b = device_array<float>(COUNT), *host = nullptr;
    CUDA(cudaMallocHost((void **)&host, COUNT * sizeof(float)));
    cudaStream_t stream, side;
    CUDA(cudaStreamCreate(&stream));
    CUDA(cudaStreamCreate(&side));
    cudaGraph_t graph = capture(stream, side, a, b, host, 3);
    expect_equal("nothing ran during capture", download(a, COUNT), data);
    size_t nodes = 0;
    CUDA(cudaGraphGetNodes(graph, nullptr, &nodes));
    EXPECT(nodes == 5);

    cudaGraphExec_t executable;
    CUDA(cudaGraphInstantiate(&executable, graph, 0));
    for (int launch = 0; launch < 3; launch++) {
        CUDA(cudaGraphLaunch(executable, stream));
        for (float &value : want)
            value = value * 2 + 1 + 3;
    }
    CUDA(cudaStreamSynchronize(stream));
    expect_equal("three launches", std::vector<float>(host, host + COUNT), want);

    cudaGraph_t changed = capture(stream, side, a, b, host, 5);
    cudaGraphExecUpdateResultInfo info = {};
    CUDA(cudaGraphExecUpdate(executable, changed, &info));
    EXPECT(info.result == cudaGraphExecUpdateSuccess);
    CUDA(cudaGraphLaunch(executable, stream));
    CUDA(cudaStreamSynchronize(stream));
    for (float &value : want)
        value = value * 2 + 1 + 5;
    expect_equal("after an update", std::vector<float>(host, host + COUNT), want);

    CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    EXPECT_STATUS(cudaStreamSynchronize(stream), cudaErrorStreamCaptureUnsupported);
    cudaGraph_t broken = nullptr;
    EXPECT_STATUS(cudaStreamEndCapture(stream, &broken), cudaErrorStreamCaptureInvalidated);
    EXPECT(broken == nullptr);
    cudaGetLastError();
    CUDA(cudaGraphExecDestroy(executable));
    CUDA(cudaGraphDestroy(graph));
    CUDA(cudaGraphDestroy(changed));
    CUDA(cudaFreeHost(host));
    return finish();
}
