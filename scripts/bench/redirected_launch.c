/*
 * What a launch costs the application's thread: gcc -O2 redirected_launch.c -lcuda; run it under a policy that sends k_away to
 * another GPU. Bursts of launches, each timed as a whole; prints the median and the least ns per launch for k_home and k_away.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cuda.h>

#define BURSTS 41

static const char ptx[] = ".version 7.8\n.target sm_80\n.address_size 64\n"
                          ".visible .entry k_home(.param .u64 a, .param .u64 b, .param .u32 n) { ret; }\n"
                          ".visible .entry k_away(.param .u64 a, .param .u64 b, .param .u32 n) { ret; }\n";

static double now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return left < right ? -1 : left > right;
}

static void check(CUresult result, const char *what)
{
    if (result == CUDA_SUCCESS)
        return;
    fprintf(stderr, "%s: %d\n", what, result);
    exit(1);
}

static void measure(CUmodule module, const char *name, CUstream stream, CUdeviceptr memory, unsigned launches)
{
    CUfunction function;
    double ns[BURSTS];
    unsigned n = 1;
    void *params[] = {&memory, &memory, &n};
    check(cuModuleGetFunction(&function, module, name), name);
    for (unsigned burst = 0; burst < BURSTS; burst++) {
        check(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, params, NULL), "first launch");
        double start = now_ns();
        for (unsigned i = 0; i < launches; i++)
            check(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, params, NULL), "launch");
        ns[burst] = (now_ns() - start) / launches;
        check(cuStreamSynchronize(stream), "synchronize");
    }
    qsort(ns, BURSTS, sizeof ns[0], by_value);
    printf("%s: median %.0f ns, least %.0f ns per launch\n", name, ns[BURSTS / 2], ns[0]);
}

int main(int count, char **values)
{
    unsigned launches = count > 1 ? (unsigned)atoi(values[1]) : 500;
    CUdevice device;
    CUcontext context;
    CUmodule module;
    CUstream stream;
    CUdeviceptr memory;
    check(cuInit(0), "cuInit");
    check(cuDeviceGet(&device, 0), "device");
    check(cuDevicePrimaryCtxRetain(&context, device), "context");
    check(cuCtxSetCurrent(context), "context");
    check(cuMemAlloc(&memory, 4096), "memory");
    check(cuModuleLoadData(&module, ptx), "module");
    check(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "stream");
    measure(module, "k_home", stream, memory, launches);
    measure(module, "k_away", stream, memory, launches);
    measure(module, "k_away", CU_STREAM_LEGACY, memory, launches);
    return 0;
}
