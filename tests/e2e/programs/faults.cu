// What a faulting kernel leaves behind: each case runs in a child process, where the error must be the right one, must
// stick to the context, and must not reach the parent.
#include <cassert>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

__global__ void fail_assertion(int *data)
{
    assert(data == nullptr);
}
__global__ void trap_one_lane(int *data)
{
    if (threadIdx.x == 7)
        __trap();
    data[threadIdx.x] = 1;
}
__global__ void write_to(int *address)
{
    *address = 1;
}
__global__ void read_misaligned(const char *data, long long *out)
{
    *out = *(const long long *)(data + 4);
}

struct Case {
    const char *name;
    cudaError_t wanted;
    void (*launch)(int *data);
};

static const Case cases[] = {
    {"assertion", cudaErrorAssert, [](int *data) { fail_assertion<<<1, 1>>>(data); }},
    {"trap", cudaErrorLaunchFailure, [](int *data) { trap_one_lane<<<1, 32>>>(data); }},
    {"null pointer", cudaErrorIllegalAddress, [](int *) { write_to<<<1, 1>>>(nullptr); }},
    {"wild pointer", cudaErrorIllegalAddress, [](int *) { write_to<<<1, 1>>>((int *)0x123456789000); }},
    {"misaligned", cudaErrorMisalignedAddress, [](int *data) { read_misaligned<<<1, 1>>>((char *)data, (long long *)data); }},
};

static int run_case(const Case &fault)
{
    int *data = device_array<int>(64);
    fault.launch(data);
    cudaError_t first = cudaDeviceSynchronize(), second = cudaDeviceSynchronize(), last = cudaGetLastError();
    void *more = nullptr;
    cudaError_t allocation = cudaMalloc(&more, 16);
    bool right = first == fault.wanted && second == fault.wanted && last == fault.wanted && allocation == fault.wanted;
    if (!right)
        fprintf(stderr, "%s: %s, %s, %s, %s\n", fault.name, cudaGetErrorName(first), cudaGetErrorName(second),
                cudaGetErrorName(last), cudaGetErrorName(allocation));
    return right ? 0 : 1;
}

int main()
{
    for (const Case &fault : cases) {
        pid_t child = fork();
        if (child == 0)
            _exit(run_case(fault));
        int status = -1;
        waitpid(child, &status, 0);
        EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    int *data = device_array<int>(1);
    write_to<<<1, 1>>>(data);
    CUDA(cudaDeviceSynchronize());
    EXPECT(download(data, 1)[0] == 1);
    return finish();
}
