/* More streams than a lane has slots, all with work elsewhere at once; some are destroyed with it. Says "right" or what is wrong. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda.h>

#include "kernels.h"

#define STREAMS 1300u
#define WORDS 64u
#define BYTES (STREAMS * WORDS * 4)

static void check(CUresult result, const char *what)
{
    if (result == CUDA_SUCCESS)
        return;
    printf("%s: error %d\n", what, result);
    exit(3);
}

static uint32_t expected[STREAMS][WORDS], found[STREAMS][WORDS];

static void mix(uint32_t *to, uint32_t salt)
{
    for (uint32_t i = 0; i < WORDS; i++)
        to[i] = to[i] * 3 + salt + i;
}

int main(void)
{
    CUcontext context;
    CUmodule module;
    CUfunction function;
    CUdeviceptr memory, zeros;
    static CUstream streams[STREAMS];
    check(cuInit(0), "cuInit");
    check(cuDevicePrimaryCtxRetain(&context, 0), "context");
    check(cuCtxSetCurrent(context), "context");
    check(cuModuleLoadData(&module, home_ptx), "module");
    check(cuModuleGetFunction(&function, module, "k_one"), "function");
    check(cuMemAlloc(&memory, BYTES), "memory");
    check(cuMemAlloc(&zeros, WORDS * 4), "memory");
    check(cuMemsetD8(memory, 0, BYTES), "memset");
    check(cuMemsetD8(zeros, 0, WORDS * 4), "memset");
    check(cuCtxSynchronize(), "synchronize");
    for (unsigned i = 0; i < STREAMS; i++)
        check(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING), "stream");
    for (uint32_t round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < STREAMS; i++) {
            CUdeviceptr to = memory + i * WORDS * 4;
            uint32_t salt = round * STREAMS + i, spin = 5;
            void *params[] = {&to, &zeros, &salt, &spin};
            check(cuLaunchKernel(function, 1, 1, 1, WORDS, 1, 1, 0, streams[i], params, NULL), "launch");
            mix(expected[i], salt);
        }
        for (unsigned i = round; i < STREAMS; i += 5) {
            check(cuStreamDestroy(streams[i]), "destroy");
            check(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING), "stream");
        }
        check(cuCtxSynchronize(), "synchronize");
    }
    check(cuMemcpyDtoH(found, memory, BYTES), "copy");
    printf("%s\n", memcmp(found, expected, BYTES) == 0 ? "right" : "WRONG");
    return memcmp(found, expected, BYTES) != 0;
}
