// Two devices: copies between them, peer access from a kernel, an event of one awaited by the other, per-device state.
// devices: 2
#include "check.h"

__global__ void add_one(const int *in, int *out, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        out[i] = in[i] + 1;
}

int main()
{
    const int count = 5000, blocks = (count + 255) / 256;
    int devices = 0, current = -1;
    CUDA(cudaGetDeviceCount(&devices));
    EXPECT(devices >= 2);
    EXPECT_STATUS(cudaSetDevice(devices), cudaErrorInvalidDevice);
    cudaGetLastError();
    std::vector<int> in(count), want(count);
    for (int i = 0; i < count; i++)
        in[i] = i * 5;
    int *first = upload(in);
    cudaStream_t first_stream, second_stream;
    CUDA(cudaStreamCreateWithFlags(&first_stream, cudaStreamNonBlocking));
    CUDA(cudaSetDevice(1));
    CUDA(cudaGetDevice(&current));
    EXPECT(current == 1);
    int *second = device_array<int>(count);
    CUDA(cudaStreamCreateWithFlags(&second_stream, cudaStreamNonBlocking));
    cudaPointerAttributes attributes;
    CUDA(cudaPointerGetAttributes(&attributes, first));
    EXPECT(attributes.device == 0);
    CUDA(cudaPointerGetAttributes(&attributes, second));
    EXPECT(attributes.device == 1);

    // Device 0 increments, device 1 waits for it, copies, increments again.
    cudaEvent_t ready;
    CUDA(cudaSetDevice(0));
    CUDA(cudaEventCreateWithFlags(&ready, cudaEventDisableTiming));
    add_one<<<blocks, 256, 0, first_stream>>>(first, first, count);
    CUDA(cudaEventRecord(ready, first_stream));
    CUDA(cudaSetDevice(1));
    CUDA(cudaStreamWaitEvent(second_stream, ready, 0));
    CUDA(cudaMemcpyPeerAsync(second, 1, first, 0, count * sizeof(int), second_stream));
    add_one<<<blocks, 256, 0, second_stream>>>(second, second, count);
    CUDA(cudaStreamSynchronize(second_stream));
    for (int i = 0; i < count; i++)
        want[i] = in[i] + 2;
    expect_equal("copied between devices", download(second, count), want);

    int access = 0;
    CUDA(cudaDeviceCanAccessPeer(&access, 1, 0));
    if (access) {
        CUDA(cudaDeviceEnablePeerAccess(0, 0));
        EXPECT_STATUS(cudaDeviceEnablePeerAccess(0, 0), cudaErrorPeerAccessAlreadyEnabled);
        cudaGetLastError();
        add_one<<<blocks, 256, 0, second_stream>>>(first, second, count);
        CUDA(cudaStreamSynchronize(second_stream));
        expect_equal("read by the other device", download(second, count), want);
        CUDA(cudaDeviceDisablePeerAccess(0));
    }
    CUDA(cudaMemcpy(second, first, count * sizeof(int), cudaMemcpyDefault));
    for (int i = 0; i < count; i++)
        want[i] = in[i] + 1;
    expect_equal("default copy between devices", download(second, count), want);
    return finish();
}
