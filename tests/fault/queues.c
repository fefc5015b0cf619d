/*
 * queues LAUNCHES: one thread launches into a stream that waits for a word of memory, more than a driver takes before it lets the thread
 * wait. Another thread meanwhile has launches in a stream of its own, looks at each, sets an attribute of their
 * function, and in the end the word. Says "right" (exit 0), "error N" at a CUDA error (3), "WRONG" at a wrong word (4).
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda.h>

#define ROUNDS 40u

#define ADD(name)                                                                                                              \
    ".visible .entry " name "(.param .u64 to) {\n .reg .b32 %r<2>; .reg .b64 %rd<2>;\n ld.param.u64 %rd1, [to];\n"             \
    " ld.global.u32 %r1, [%rd1]; add.u32 %r1, %r1, 1; st.global.u32 [%rd1], %r1; ret; }\n"

static const char ptx[] = ".version 7.8\n.target sm_80\n.address_size 64\n" ADD("first") ADD("second");

static CUcontext context;
static CUfunction functions[2];
static CUdeviceptr sums; /* two words, each stream's */
static CUstream streams[2];
static unsigned launches, posted; /* posted: atomic */

static void end(int status, const char *what, int number)
{
    printf(number ? "%s %d\n" : "%s\n", what, number);
    fflush(stdout);
    _Exit(status);
}

static void check(CUresult result)
{
    if (result != CUDA_SUCCESS)
        end(3, "error", result);
}

static void launch(unsigned number)
{
    CUdeviceptr to = sums + number * sizeof(uint32_t);
    void *params[] = {&to};
    check(cuLaunchKernel(functions[number], 1, 1, 1, 1, 1, 1, 0, streams[number], params, NULL));
}

static void expect(unsigned number, uint32_t value)
{
    uint32_t found;
    check(cuStreamSynchronize(streams[number]));
    check(cuMemcpyDtoHAsync(&found, sums + number * sizeof found, sizeof found, streams[number]));
    check(cuStreamSynchronize(streams[number]));
    if (found != value)
        end(4, "WRONG", (int)found);
}

static void *fill(void *unused)
{
    check(cuCtxSetCurrent(context));
    for (unsigned i = 0; i < launches; i++) {
        launch(0);
        __atomic_store_n(&posted, i + 1, __ATOMIC_RELAXED);
    }
    return unused;
}

int main(int count, char **values)
{
    CUmodule module;
    pthread_t thread;
    uint32_t *word;
    CUdeviceptr address;
    launches = count > 1 ? (unsigned)atoi(values[1]) : 3000;
    check(cuInit(0));
    check(cuDevicePrimaryCtxRetain(&context, 0));
    check(cuCtxSetCurrent(context));
    check(cuModuleLoadData(&module, ptx));
    check(cuModuleGetFunction(&functions[0], module, "first"));
    check(cuModuleGetFunction(&functions[1], module, "second"));
    check(cuMemAlloc(&sums, 2 * sizeof(uint32_t)));
    check(cuMemsetD32(sums, 0, 2));
    check(cuMemHostAlloc((void **)&word, sizeof *word, CU_MEMHOSTALLOC_DEVICEMAP));
    check(cuMemHostGetDevicePointer(&address, word, 0));
    *word = 0;
    for (unsigned i = 0; i < 2; i++)
        check(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
    check(cuStreamWaitValue32(streams[0], address, 1, CU_STREAM_WAIT_VALUE_GEQ));
    pthread_create(&thread, NULL, fill, NULL);
    for (unsigned before = 0, now; (now = __atomic_load_n(&posted, __ATOMIC_RELAXED)) < launches / 3 && now < 800; before = now)
        if (now == before)
            check(cuStreamQuery(streams[1]));
    for (unsigned round = 1; round <= ROUNDS; round++) {
        launch(1);
        expect(1, round);
        check(cuFuncSetAttribute(functions[1], CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)(1024 * (round % 8 + 1))));
    }
    __atomic_store_n(word, 1, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    expect(0, launches);
    printf("right\n");
    return 0;
}
