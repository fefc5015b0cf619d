// Host memory that kernels reach: allocated mapped, allocated portable, registered; device addresses and attributes.
#include <unistd.h>

#include "check.h"

__global__ void square(const int *in, int *out, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        out[i] = in[i] * in[i];
}

int main()
{
    const int count = 4096;
    std::vector<int> want(count);
    for (int i = 0; i < count; i++)
        want[i] = (i - 2000) * (i - 2000);
    int *in, *device_in, *out = device_array<int>(count);
    CUDA(cudaHostAlloc((void **)&in, count * sizeof(int), cudaHostAllocMapped | cudaHostAllocPortable));
    for (int i = 0; i < count; i++)
        in[i] = i - 2000;
    CUDA(cudaHostGetDevicePointer((void **)&device_in, in, 0));
    unsigned flags = 0;
    CUDA(cudaHostGetFlags(&flags, in));
    EXPECT((flags & cudaHostAllocMapped) != 0);
    square<<<count / 128, 128>>>(device_in, out, count);
    CUDA(cudaGetLastError());
    expect_equal("mapped input", download(out, count), want);

    long page = sysconf(_SC_PAGESIZE);
    int *registered = nullptr, *device_registered;
    if (posix_memalign((void **)&registered, page, count * sizeof(int)) != 0)
        return 2;
    CUDA(cudaHostRegister(registered, count * sizeof(int), cudaHostRegisterMapped));
    EXPECT_STATUS(cudaHostRegister(registered, count * sizeof(int), 0), cudaErrorHostMemoryAlreadyRegistered);
    cudaGetLastError();
    CUDA(cudaHostGetDevicePointer((void **)&device_registered, registered, 0));
    square<<<count / 128, 128>>>(device_in, device_registered, count);
    CUDA(cudaDeviceSynchronize());
    expect_equal("registered output", std::vector<int>(registered, registered + count), want);

    cudaPointerAttributes attributes;
    CUDA(cudaPointerGetAttributes(&attributes, in));
    EXPECT(attributes.type == cudaMemoryTypeHost && attributes.hostPointer == in);
    CUDA(cudaPointerGetAttributes(&attributes, out));
    EXPECT(attributes.type == cudaMemoryTypeDevice && attributes.device == 0);
    CUDA(cudaPointerGetAttributes(&attributes, &flags));
    EXPECT(attributes.type == cudaMemoryTypeUnregistered);
    CUDA(cudaHostUnregister(registered));
    EXPECT_STATUS(cudaHostUnregister(registered), cudaErrorHostMemoryNotRegistered);
    cudaGetLastError();
    free(registered);
    CUDA(cudaFreeHost(in));
    return finish();
}
