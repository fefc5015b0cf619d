/*
 * What a launch costs the thread that makes it where GPUs are chosen for it: placed PTX CHAINS LAUNCHES. Chains of launches one after another in
 * one stream, each over its own buffer, as requests are; the first is waited for. Prints a line per further chain: nanoseconds of processor
 * time of this thread per launch.
 */
#include <stdlib.h>

#include "start.h"

#define ELEMENTS 1024u
#define BYTES (ELEMENTS * sizeof(float))
#define BLOCK 32u

int main(int count, char **values)
{
    if (count != 4)
        return 2;
    unsigned chains = (unsigned)atoi(values[2]), launches = (unsigned)atoi(values[3]), n = BLOCK;
    CUstream stream;
    CUmodule module;
    CUfunction function;
    CUdeviceptr shared, *buffers = calloc(chains, sizeof *buffers);
    start_context();
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuModuleLoad(&module, values[1]));
    CHECK(cuModuleGetFunction(&function, module, "step"));
    CHECK(cuMemAlloc(&shared, BYTES));
    CHECK(cuMemsetD8(shared, 0, BYTES));
    for (unsigned i = 0; i < chains; i++) {
        CHECK(cuMemAlloc(&buffers[i], BYTES));
        CHECK(cuMemsetD8(buffers[i], 0, BYTES));
    }
    for (unsigned i = 0; i < chains; i++) {
        void *params[] = {&buffers[i], &buffers[i], &shared, &n};
        double begin = clock_ns(CLOCK_THREAD_CPUTIME_ID);
        for (unsigned k = 0; k < launches; k++)
            CHECK(cuLaunchKernel(function, 1, 1, 1, BLOCK, 1, 1, 0, stream, params, NULL));
        double end = clock_ns(CLOCK_THREAD_CPUTIME_ID);
        if (i)
            printf("%.1f\n", (end - begin) / launches);
        else
            CHECK(cuStreamSynchronize(stream));
    }
    CHECK(cuCtxSynchronize());
    return 0;
}
