/*
 * many_contexts ROUNDS: threads that launch, with waits between two streams, while contexts end around them. One thread retains and releases the
 * primary context, which others hold too, and makes and destroys contexts; of the others, half use the primary context, and half make and destroy one
 * each round. Each reads what it wrote alone, so that the results are known. Says "right", "WRONG" or which call failed.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda.h>

#include "kernels.h"

#define WORKERS 4u
#define STEPS 60u /* of a round */
#define WORDS 64u

static CUcontext primary;
static CUdevice device;
static unsigned rounds;
static uint32_t working; /* atomic */

static void check_at(CUresult result, int line)
{
    if (result == CUDA_SUCCESS)
        return;
    printf("line %d: error %d\n", line, result);
    fflush(stdout);
    _Exit(3);
}

#define CU(call) check_at(call, __LINE__)

/* A context's kernels, memory and streams. */
struct place {
    CUmodule module;
    CUfunction functions[2];
    CUstream streams[2];
    CUevent done[2];
    CUdeviceptr memory[2];
    uint32_t expected[2][WORDS];
};

static void open_place(struct place *place)
{
    static const char *const names[] = {"k_one", "k_two"};
    CU(cuModuleLoadData(&place->module, home_ptx));
    for (unsigned i = 0; i < 2; i++) {
        CU(cuModuleGetFunction(&place->functions[i], place->module, names[i]));
        CU(cuStreamCreate(&place->streams[i], CU_STREAM_NON_BLOCKING));
        CU(cuEventCreate(&place->done[i], CU_EVENT_DISABLE_TIMING));
        CU(cuMemAlloc(&place->memory[i], sizeof place->expected[i]));
        CU(cuMemsetD32Async(place->memory[i], i, WORDS, place->streams[i]));
        CU(cuStreamSynchronize(place->streams[i]));
        for (unsigned word = 0; word < WORDS; word++)
            place->expected[i][word] = i;
    }
}

static void close_place(const struct place *place)
{
    for (unsigned i = 0; i < 2; i++) {
        CU(cuMemFree(place->memory[i]));
        CU(cuEventDestroy(place->done[i]));
        CU(cuStreamDestroy(place->streams[i]));
    }
    CU(cuModuleUnload(place->module));
}

/* Each stream's kernel reads what the other one's wrote just before. */
static void step(struct place *place, uint32_t salt)
{
    uint32_t spin = salt % 50, one = salt & 1, other = 1 - one;
    void *params[] = {&place->memory[one], &place->memory[other], &salt, &spin};
    CU(cuStreamWaitEvent(place->streams[one], place->done[other], 0));
    CU(cuLaunchKernel(place->functions[salt / 2 % 2], 1, 1, 1, WORDS, 1, 1, 0, place->streams[one], params, NULL));
    CU(cuEventRecord(place->done[one], place->streams[one]));
    for (uint32_t i = 0; i < WORDS; i++)
        place->expected[one][i] = place->expected[one][i] * 3 + place->expected[other][(i + 1) % WORDS] * 5 + salt + i;
}

static void compare(const struct place *place)
{
    uint32_t found[WORDS];
    for (unsigned i = 0; i < 2; i++) {
        CU(cuStreamSynchronize(place->streams[i]));
        CU(cuMemcpyDtoH(found, place->memory[i], sizeof found));
        if (memcmp(found, place->expected[i], sizeof found) == 0)
            continue;
        printf("WRONG\n");
        fflush(stdout);
        _Exit(4);
    }
}

static void use(unsigned steps, uint32_t salt)
{
    struct place place;
    open_place(&place);
    for (unsigned i = 0; i < steps; i++)
        step(&place, salt + i * 7);
    compare(&place);
    close_place(&place);
}

static void use_new_context(unsigned steps, uint32_t salt)
{
    CUcontext context;
    CU(cuCtxCreate(&context, NULL, 0, device));
    use(steps, salt);
    CU(cuCtxDestroy(context));
}

static void *work(void *argument)
{
    unsigned number = (unsigned)(uintptr_t)argument;
    for (unsigned round = 0; round < rounds; round++) {
        CU(cuCtxSetCurrent(number % 2 ? primary : NULL));
        if (number % 2)
            use(STEPS, round * 100 + number);
        else
            use_new_context(STEPS, round * 100 + number);
    }
    __atomic_fetch_sub(&working, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

static void *end_contexts(void *unused)
{
    CUcontext retained;
    for (uint32_t i = 0; __atomic_load_n(&working, __ATOMIC_SEQ_CST); i++) {
        CU(cuDevicePrimaryCtxRetain(&retained, device));
        CU(cuDevicePrimaryCtxRelease(device));
        if (i % 8 == 0)
            use_new_context(4, i);
    }
    return unused;
}

int main(int count, char **values)
{
    pthread_t threads[WORKERS + 1];
    int active = 1;
    unsigned flags;
    if (count != 2)
        return 2;
    rounds = (unsigned)atoi(values[1]);
    working = WORKERS;
    CU(cuInit(0));
    CU(cuDeviceGet(&device, 0));
    CU(cuDevicePrimaryCtxRetain(&primary, device));
    for (uintptr_t i = 0; i < WORKERS; i++)
        pthread_create(&threads[i], NULL, work, (void *)i);
    pthread_create(&threads[WORKERS], NULL, end_contexts, NULL);
    for (unsigned i = 0; i <= WORKERS; i++)
        pthread_join(threads[i], NULL);
    CU(cuDevicePrimaryCtxRelease(device));
    CU(cuDevicePrimaryCtxGetState(device, &flags, &active));
    printf("%s\n", active ? "WRONG: the primary context has not ended" : "right");
    return active;
}
