// cudaDeviceReset: everything afterwards starts afresh, variables with their first values, on each thread, also after a kernel's fault.
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "check.h"

__device__ int counter = 5;
__managed__ int shared_counter = 7;

__global__ void count(int *out)
{
    *out = counter++;
}
__global__ void count_shared()
{
    shared_counter++;
}
__global__ void write_to(int *address)
{
    *address = 1;
}

static int counted()
{
    int *data = device_array<int>(1);
    count<<<1, 1>>>(data);
    CUDA(cudaDeviceSynchronize());
    int result = download(data, 1)[0];
    return result;
}

static void from_the_beginning()
{
    cudaStream_t stream;
    cudaEvent_t event;
    EXPECT(counted() == 5);
    EXPECT(counted() == 6);
    count_shared<<<1, 1>>>();
    CUDA(cudaDeviceSynchronize());
    EXPECT(shared_counter == 8);
    CUDA(cudaStreamCreate(&stream));
    CUDA(cudaEventCreate(&event));
    CUDA(cudaEventRecord(event, stream));
    CUDA(cudaStreamSynchronize(stream));
}

static int after_a_fault()
{
    write_to<<<1, 1>>>((int *)0x123456789000);
    EXPECT(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
    CUDA(cudaDeviceReset());
    cudaGetLastError();
    from_the_beginning();
    return finish();
}

int main()
{
    pid_t child = fork();
    if (child == 0)
        _exit(after_a_fault());
    int status = -1, device = -1;
    waitpid(child, &status, 0);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);

    CUDA(cudaDeviceReset()); // before anything else
    for (int round = 0; round < 3; round++) {
        from_the_beginning();
        CUDA(cudaDeviceReset());
        CUDA(cudaGetDevice(&device));
        EXPECT(device == 0);
    }
    CUDA(cudaDeviceReset()); // twice in a row

    from_the_beginning();
    std::thread([] { CUDA(cudaDeviceReset()); }).join();
    from_the_beginning(); // although another thread did it
    std::thread([] { EXPECT(counted() == 7); }).join();
    return finish();
}
