/*
 * launches free|blocking: two threads with a stream and memory each launch a few times, and then once more, one after the other, between
 * step_begin() and step_end(), for a debugger that looks at each instruction.
 */
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cuda.h>

#define THREADS 2
#define BYTES (8u << 20) /* pages of its own */

static const char ptx[] = ".version 7.8\n.target sm_80\n.address_size 64\n"
                          ".visible .entry k_away(.param .u64 a, .param .u64 b, .param .u32 n) { ret; }\n";

struct launcher {
    CUstream stream;
    CUdeviceptr memory;
};

static CUcontext context;
static CUfunction function;
static struct launcher launchers[THREADS];
static sem_t stepped;

static void check(CUresult result)
{
    if (result == CUDA_SUCCESS)
        return;
    printf("error %d\n", result);
    exit(3);
}

__attribute__((noinline)) void step_begin(void)
{
    __asm__ volatile("");
}

__attribute__((noinline)) void step_end(void)
{
    __asm__ volatile("");
}

static void launch(const struct launcher *self)
{
    unsigned n = 1;
    void *params[] = {(void *)(uintptr_t)&self->memory, (void *)(uintptr_t)&self->memory, &n};
    check(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, self->stream, params, NULL));
}

static void *run(void *argument)
{
    check(cuCtxSetCurrent(context));
    for (unsigned i = 0; i < 5; i++)
        launch(argument);
    step_begin();
    launch(argument);
    step_end();
    sem_post(&stepped);
    pause(); /* so that nobody is given its memory */
    return NULL;
}

int main(int count, char **values)
{
    CUdevice device;
    CUmodule module;
    bool free = count == 2 && strcmp(values[1], "free") == 0;
    sem_init(&stepped, 0, 0);
    check(cuInit(0));
    check(cuDeviceGet(&device, 0));
    check(cuDevicePrimaryCtxRetain(&context, device));
    check(cuCtxSetCurrent(context));
    check(cuModuleLoadData(&module, ptx));
    check(cuModuleGetFunction(&function, module, "k_away"));
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_t thread;
        check(cuMemAlloc(&launchers[i].memory, BYTES));
        check(cuStreamCreate(&launchers[i].stream, free ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT));
        pthread_create(&thread, NULL, run, &launchers[i]);
        sem_wait(&stepped);
    }
    return 0;
}
