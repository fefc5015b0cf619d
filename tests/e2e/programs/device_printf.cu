// printf from kernels: formats, strings, 64-bit and floating-point arguments, the return value, order within a thread.
//
// The text goes through the process' standard output, which the program points at a pipe while the kernels run.
#include <unistd.h>

#include "check.h"

__global__ void speak(const char *unused, int *returned)
{
    if (threadIdx.x == 1) {
        returned[0] = printf("thread %d of %u: %s %c\n", threadIdx.x, blockDim.x, "text", 'x');
        returned[1] = printf("%5d|%-5d|%05d|%+d|%x|%#X|%o\n", 42, 42, 42, 42, 48879, 48879, 8);
        printf("%lld %llu %.3f %10.2e %g %%\n", -1234567890123ll, 18446744073709551615ull, 3.14159, 12345.678, 0.5f);
        printf("%p %s\n", (void *)0x1234, "end");
    }
    if (threadIdx.x >= 2)
        printf("lane %d\n", threadIdx.x);
    returned[2] = printf("");
}

int main()
{
    int *returned = device_array<int>(3), ends[2];
    if (pipe(ends) != 0)
        return 2;
    fflush(stdout);
    int kept = dup(1);
    dup2(ends[1], 1);
    speak<<<1, 4>>>(nullptr, returned);
    cudaError_t status = cudaDeviceSynchronize();
    fflush(stdout);
    dup2(kept, 1);
    close(ends[1]);
    CUDA(status);
    std::string text;
    char buffer[4096];
    for (ssize_t count; (count = read(ends[0], buffer, sizeof(buffer))) > 0;)
        text.append(buffer, count);
    const char *lines[] = {"thread 1 of 4: text x\n", "   42|42   |00042|+42|beef|0XBEEF|10\n",
                           "-1234567890123 18446744073709551615 3.142   1.23e+04 0.5 %\n", "0x1234 end\n"};
    size_t position = 0, total = strlen("lane 2\nlane 3\n");
    for (const char *line : lines) {
        size_t found = text.find(line, position);
        EXPECT(found != std::string::npos);
        if (found == std::string::npos)
            fprintf(stderr, "missing \"%s\" in:\n%s\n", line, text.c_str());
        else
            position = found + strlen(line);
        total += strlen(line);
    }
    EXPECT(text.find("lane 2\n") != std::string::npos && text.find("lane 3\n") != std::string::npos);
    EXPECT(text.size() == total);
    expect_equal("returned argument counts", download(returned, 3), std::vector<int>{4, 7, 0});
    return finish();
}
