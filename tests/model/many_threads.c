/*
 * many_threads STEPS SEED: threads that launch by turns in the same streams, each launch reading what another stream has written one step
 * before; events, and the step's end on the host, are all that orders them. Says "right" or what is wrong.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda.h>

#include "../waiting.h"
#include "kernels.h"

#define THREADS 8u
#define STREAMS 64u /* more than a lane has rings */
#define WORDS 64u
#define KERNELS 3u

static void check(CUresult result, const char *what)
{
    if (result == CUDA_SUCCESS)
        return;
    printf("%s: error %d\n", what, result);
    exit(3);
}

static unsigned steps, seed;
static CUcontext context;
static CUfunction functions[KERNELS];
static CUdeviceptr memory;
static CUstream streams[STREAMS];
static CUevent done[2][STREAMS]; /* by step % 2 */
static pthread_barrier_t step_end;
static unsigned launched[STREAMS]; /* atomic; at this step */
static uint32_t expected[2][STREAMS][WORDS], found[2][STREAMS][WORDS];

static uint32_t draw(unsigned step, unsigned stream, unsigned what)
{
    uint64_t z = (((uint64_t)seed * 1000 + step) * STREAMS + stream) * 16 + what + 1;
    z *= 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    return (uint32_t)(z >> 33);
}

/* What the stream reads at that step; at one step no two read the same. */
static unsigned source(unsigned step, unsigned stream)
{
    return (stream * (2 * draw(step, 0, 1) + 1) + draw(step, 0, 2)) % STREAMS;
}

static unsigned reader(unsigned step, unsigned stream)
{
    unsigned at = 0;
    while (source(step, at) != stream)
        at++;
    return at;
}

static unsigned launches_of(unsigned step, unsigned stream)
{
    return 1 + draw(step, stream, 3) % 6;
}

static CUdeviceptr place(unsigned step, unsigned stream)
{
    return memory + (CUdeviceptr)((step % 2 * STREAMS + stream) * WORDS * 4);
}

/* The stream's memory of two steps before is written anew: who read it one step before has done so. */
static void wait_for_others(unsigned step, unsigned stream)
{
    check(cuStreamWaitEvent(streams[stream], done[(step + 1) % 2][source(step, stream)], 0), "wait");
    check(cuStreamWaitEvent(streams[stream], done[(step + 1) % 2][reader(step - 1, stream)], 0), "wait");
}

static void launch(unsigned step, unsigned stream, unsigned number)
{
    CUdeviceptr to = place(step, stream), from = place(step + 1, source(step, stream));
    uint32_t salt = draw(step, stream, 4 + number), spin = salt % 40;
    void *params[] = {&to, &from, &salt, &spin};
    CUfunction function = functions[draw(step, stream, 10 + number / 3) % KERNELS];
    check(cuLaunchKernel(function, 1, 1, 1, WORDS, 1, 1, 0, streams[stream], params, NULL), "launch");
}

/* The thread's launches of the step: all threads go through the streams in the same order. */
static void go(unsigned step, unsigned thread, unsigned stream)
{
    for (unsigned i = (thread + 2 * THREADS - (stream + step) % THREADS) % THREADS; i < launches_of(step, stream);
         i += THREADS) {
        for (unsigned times = 0; __atomic_load_n(&launched[stream], __ATOMIC_ACQUIRE) != i; times++)
            wait_a_moment(times);
        if (step && i == 0)
            wait_for_others(step, stream);
        launch(step, stream, i);
        if (i + 1 == launches_of(step, stream))
            check(cuEventRecord(done[step % 2][stream], streams[stream]), "record");
        __atomic_store_n(&launched[stream], i + 1, __ATOMIC_RELEASE);
    }
}

static void *run(void *number)
{
    check(cuCtxSetCurrent(context), "context");
    for (unsigned step = 0; step < steps; step++) {
        for (unsigned stream = 0; stream < STREAMS; stream++)
            go(step, (unsigned)(uintptr_t)number, stream);
        if (pthread_barrier_wait(&step_end) == PTHREAD_BARRIER_SERIAL_THREAD)
            memset(launched, 0, sizeof launched);
        pthread_barrier_wait(&step_end);
    }
    return NULL;
}

static void mix(uint32_t *to, const uint32_t *from, uint32_t salt)
{
    for (uint32_t i = 0; i < WORDS; i++)
        to[i] = to[i] * 3 + from[(i + 1) % WORDS] * 5 + salt + i;
}

static void expect(void)
{
    for (unsigned step = 0; step < steps; step++)
        for (unsigned stream = 0; stream < STREAMS; stream++)
            for (unsigned i = 0; i < launches_of(step, stream); i++)
                mix(expected[step % 2][stream], expected[(step + 1) % 2][source(step, stream)], draw(step, stream, 4 + i));
}

static void prepare(void)
{
    static const char *const names[KERNELS] = {"k_home", "k_one", "k_two"};
    CUmodule module;
    check(cuInit(0), "cuInit");
    check(cuDevicePrimaryCtxRetain(&context, 0), "context");
    check(cuCtxSetCurrent(context), "context");
    check(cuModuleLoadData(&module, home_ptx), "module");
    for (unsigned i = 0; i < KERNELS; i++)
        check(cuModuleGetFunction(&functions[i], module, names[i]), "function");
    check(cuMemAlloc(&memory, sizeof found), "memory");
    check(cuMemsetD8(memory, 0, sizeof found), "memset");
    for (unsigned i = 0; i < STREAMS; i++) {
        check(cuStreamCreate(&streams[i], i % 4 == 3 ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING), "stream");
        check(cuEventCreate(&done[0][i], CU_EVENT_DISABLE_TIMING), "event");
        check(cuEventCreate(&done[1][i], CU_EVENT_DISABLE_TIMING), "event");
    }
    check(cuCtxSynchronize(), "synchronize");
}

int main(int count, char **values)
{
    pthread_t threads[THREADS];
    if (count != 3)
        return 2;
    steps = (unsigned)atoi(values[1]);
    seed = (unsigned)atoi(values[2]);
    prepare();
    pthread_barrier_init(&step_end, NULL, THREADS);
    for (uintptr_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, run, (void *)i);
    expect();
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    check(cuCtxSynchronize(), "synchronize");
    check(cuMemcpyDtoH(found, memory, sizeof found), "copy");
    bool right = memcmp(found, expected, sizeof found) == 0;
    printf("%s\n", right ? "right" : "WRONG");
    return !right;
}
