/*
 * What one cuLaunchKernel costs the calling thread: of the libcuda.so.1 that the loader gives (the front), against the same function of
 * the driver behind it, reached by its address.
 *
 *     launch_host count LAUNCHES
 *     launch_host pairs BATCHES LAUNCHES DRIVER OFFSET
 *
 * count: instructions per launch of the front, single-stepped in a child process. pairs: a line per pair of batches, nanoseconds per
 * launch of the front and of DRIVER, whose cuLaunchKernel lies at OFFSET in the file's address space; who goes first alternates.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

typedef CUresult launch_function(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream,
                                 void **, void **);

static const char image[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                            ".visible .entry empty(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d)\n{\n  ret;\n}\n";

static CUfunction function;
static CUresult (*synchronize)(void);
static launch_function *front;

#define FIND(name) ((__typeof__(&name))dlsym(library, #name))

static void start(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    CUcontext context;
    CUmodule module;
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        exit(2);
    }
    CHECK(FIND(cuInit)(0));
    CHECK(FIND(cuDevicePrimaryCtxRetain)(&context, 0));
    CHECK(FIND(cuCtxSetCurrent)(context));
    CHECK(FIND(cuModuleLoadData)(&module, image));
    CHECK(FIND(cuModuleGetFunction)(&function, module, "empty"));
    synchronize = FIND(cuCtxSynchronize);
    front = FIND(cuLaunchKernel);
}

static void launch(launch_function *how, unsigned count)
{
    CUdeviceptr values[4] = {1, 2, 3, 4};
    void *parameters[] = {&values[0], &values[1], &values[2], &values[3]};
    for (unsigned i = 0; i < count; i++)
        CHECK(how(function, 1, 1, 1, 32, 1, 1, 0, NULL, parameters, NULL));
}

static double timed(launch_function *how, unsigned count)
{
    struct timespec before, after;
    clock_gettime(CLOCK_MONOTONIC, &before);
    launch(how, count);
    clock_gettime(CLOCK_MONOTONIC, &after);
    CHECK(synchronize());
    return ((double)(after.tv_sec - before.tv_sec) * 1e9 + (double)(after.tv_nsec - before.tv_nsec)) / count;
}

static int pairs(unsigned batches, unsigned count, const char *driver, const char *offset)
{
    start();
    struct link_map *map = dlopen(driver, RTLD_NOW);
    if (!map) {
        fprintf(stderr, "%s\n", dlerror());
        return 2;
    }
    launch_function *direct = (launch_function *)(map->l_addr + strtoul(offset, NULL, 0));
    timed(front, count);
    timed(direct, count);
    for (unsigned i = 0; i < batches; i++) {
        double direct_first = i % 2 ? timed(direct, count) : 0;
        double through = timed(front, count);
        printf("%.3f %.3f\n", through, i % 2 ? direct_first : timed(direct, count));
    }
    return 0;
}

/* Steps the child from its first breakpoint to its second. */
static long steps(pid_t child)
{
    int status;
    siginfo_t signal;
    if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status))
        return -1;
    for (long count = 0;; count++) {
        if (ptrace(PTRACE_SINGLESTEP, child, NULL, NULL) || waitpid(child, &status, 0) != child || !WIFSTOPPED(status))
            return -1;
        if (ptrace(PTRACE_GETSIGINFO, child, NULL, &signal) || signal.si_signo != SIGTRAP)
            return -1;
        if (signal.si_code == SI_KERNEL)
            return count;
    }
}

static int count(unsigned launches)
{
    pid_t child = fork();
    if (child == 0) {
        start();
        launch(front, 100);
        CHECK(ptrace(PTRACE_TRACEME, 0, NULL, NULL));
        __asm__ volatile("int3");
        launch(front, launches);
        __asm__ volatile("int3");
        _exit(0);
    }
    long counted = steps(child);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    printf("%.2f\n", (double)counted / launches);
    return counted < 0;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "count") == 0)
        return count((unsigned)atoi(argv[2]));
    if (argc == 6 && strcmp(argv[1], "pairs") == 0)
        return pairs((unsigned)atoi(argv[2]), (unsigned)atoi(argv[3]), argv[4], argv[5]);
    fputs("usage: launch_host count LAUNCHES | pairs BATCHES LAUNCHES DRIVER OFFSET\n", stderr);
    return 2;
}
