/*
 * worker ROUNDS [wait|count|churn]: launches that depend on each other, some of them on another GPU by policy, in two streams, checked after each
 * round. Says "started" after the first one and, with `wait`, goes on when standard input has a line; then its own work is complete.
 * With `count`, each round also has a launch that uses variables of its module; with `churn`, memory of 2 MiB and streams that last for a round. Says "right" when all rounds were (exit 0), and on standard error how long the slowest took, "error N" at the first CUDA error (3), "WRONG" at a wrong word (4).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cuda.h>

#include "../model/kernels.h"

#define WORDS 64u
#define LAUNCHES 12u

static uint32_t expected[2][WORDS], found[WORDS];

/* Each thread adds the step to the counter. */
static const char count_ptx[] = ".version 7.8\n.target sm_80\n.address_size 64\n"
                                ".visible .global .u32 counter;\n.visible .const .u32 step = 1;\n"
                                ".visible .entry count() { .reg .b32 %r<3>; ld.const.u32 %r1, [step];\n"
                                " atom.global.add.u32 %r2, [counter], %r1; ret; }\n";

static void check(CUresult result)
{
    if (result == CUDA_SUCCESS)
        return;
    printf("error %d\n", result);
    fflush(stdout);
    _Exit(3);
}

static void mix(uint32_t *to, const uint32_t *from, uint32_t salt)
{
    for (uint32_t i = 0; i < WORDS; i++)
        to[i] = to[i] * 3 + from[(i + 1) % WORDS] * 5 + salt + i;
}

static CUfunction counts;
static CUdeviceptr counter, step;

static void prepare_counts(void)
{
    CUmodule module;
    check(cuModuleLoadData(&module, count_ptx));
    check(cuModuleGetFunction(&counts, module, "count"));
    check(cuModuleGetGlobal(&counter, NULL, module, "counter"));
    check(cuModuleGetGlobal(&step, NULL, module, "step"));
}

/* Whether the counter is right after that many rounds and one more, each of which had a step of its number. */
static int count_round(uint32_t round)
{
    static uint32_t sum;
    uint32_t seen;
    check(cuMemcpyHtoD(step, &round, sizeof round));
    check(cuLaunchKernel(counts, 1, 1, 1, WORDS, 1, 1, 0, NULL, NULL, NULL));
    check(cuMemcpyDtoH(&seen, counter, sizeof seen));
    sum += WORDS * round;
    return seen == sum;
}

/* Other memory and another stream in the place of one of them. */
static void churn(unsigned round, CUdeviceptr memory[2], CUstream streams[2])
{
    unsigned i = round % 2;
    check(cuMemFree(memory[i]));
    check(cuMemAlloc(&memory[i], 2 << 20));
    check(cuMemcpyHtoD(memory[i], expected[i], sizeof found));
    check(cuStreamDestroy(streams[i]));
    check(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
}

static uint64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

int main(int count, char **values)
{
    unsigned rounds = count > 1 ? (unsigned)atoi(values[1]) : 100;
    int may_wait = count > 2 && strcmp(values[2], "wait") == 0, may_count = count > 2 && strcmp(values[2], "count") == 0,
        may_churn = count > 2 && strcmp(values[2], "churn") == 0;
    CUcontext context;
    CUmodule module;
    CUfunction functions[2];
    CUstream streams[2];
    CUdeviceptr memory[2];
    CUevent event;
    check(cuInit(0));
    check(cuDevicePrimaryCtxRetain(&context, 0));
    check(cuCtxSetCurrent(context));
    check(cuModuleLoadData(&module, home_ptx));
    check(cuModuleGetFunction(&functions[0], module, "k_home"));
    check(cuModuleGetFunction(&functions[1], module, "k_one"));
    check(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    if (may_count)
        prepare_counts();
    for (unsigned i = 0; i < 2; i++) {
        check(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
        check(cuMemAlloc(&memory[i], sizeof found));
        check(cuMemcpyHtoD(memory[i], expected[i], sizeof found));
    }
    uint64_t slowest_us = 0;
    for (unsigned round = 0; round < rounds; round++) {
        uint64_t began_us = now_us();
        for (uint32_t i = 0; i < LAUNCHES; i++) {
            uint32_t spin = 200, to = i / 3 % 2, from = 1 - to, salt = round + i;
            void *params[] = {&memory[to], &memory[from], &salt, &spin};
            check(cuStreamWaitEvent(streams[i % 2], event, 0));
            check(cuLaunchKernel(functions[i % 3 != 0], 1, 1, 1, WORDS, 1, 1, 0, streams[i % 2], params, NULL));
            check(cuEventRecord(event, streams[i % 2]));
            mix(expected[to], expected[from], salt);
        }
        for (unsigned i = 0; i < 2; i++) {
            check(cuStreamSynchronize(streams[i]));
            check(cuMemcpyDtoH(found, memory[i], sizeof found));
            if (memcmp(found, expected[i], sizeof found) != 0) {
                printf("WRONG\n");
                return 4;
            }
        }
        if (may_count && !count_round(round + 1)) {
            printf("WRONG\n");
            return 4;
        }
        if (may_churn)
            churn(round, memory, streams);
        uint64_t took_us = now_us() - began_us;
        if (round && took_us > slowest_us) /* the first one compiles */
            slowest_us = took_us;
        if (round == 0) {
            printf("started\n");
            fflush(stdout);
            if (may_wait)
                getchar();
        }
    }
    fprintf(stderr, "slowest round %lu us\n", (unsigned long)slowest_us);
    printf("right\n");
    return 0;
}
