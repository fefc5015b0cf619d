/*
 * Stress of what lives in the application's process: threads, forks, objects and ends, many times. Knows nothing of Tessera; runs
 * under tessera-run in sanitized builds (scripts/lab stress).
 *
 *     stress KIND ITERATIONS
 */
#include "driver.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define AT_ONCE 4

static int stopping; /* atomic */
static pthread_barrier_t barrier;

static pthread_t start(void *(*run)(void *), void *argument)
{
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, run, argument) == 0);
    return thread;
}

/* threads: each launches without waiting for what it launched, and ends. */

static void *launch_and_end(void *memory)
{
    CUfunction function = driver_start();
    for (int i = 0; i < 3; i++)
        driver_launch(function, NULL, *(CUdeviceptr *)memory);
    return NULL;
}

static void threads(unsigned iterations)
{
    CUdeviceptr memory;
    unsigned first;
    pthread_t running[AT_ONCE];
    driver_start();
    CU(driver.cuMemAlloc_v2(&memory, 128));
    CU(driver.cuMemsetD32Async(memory, 0, 32, NULL));
    for (unsigned done = 0; done < iterations; done += AT_ONCE) {
        for (int i = 0; i < AT_ONCE; i++)
            running[i] = start(launch_and_end, &memory);
        for (int i = 0; i < AT_ONCE; i++)
            pthread_join(running[i], NULL);
    }
    CU(driver.cuMemcpyDtoH_v2(&first, memory, sizeof first));
    EXPECT(first == (iterations + AT_ONCE - 1) / AT_ONCE * AT_ONCE * 3);
    CU(driver.cuMemFree_v2(memory));
}

/* objects: streams, events, modules and contexts come and go while other threads launch. */

static void *launch_until_stopped(void *unused)
{
    (void)unused;
    CUfunction function = driver_start();
    while (!__atomic_load_n(&stopping, __ATOMIC_ACQUIRE))
        driver_check(function);
    return NULL;
}

static void *streams_and_events(void *iterations)
{
    CUfunction function = driver_start();
    CUdeviceptr memory;
    CU(driver.cuMemAlloc_v2(&memory, 128));
    for (unsigned i = 0; i < *(unsigned *)iterations; i++) {
        CUstream streams[2];
        CUevent event;
        CU(driver.cuStreamCreate(&streams[0], CU_STREAM_DEFAULT));
        CU(driver.cuStreamCreate(&streams[1], CU_STREAM_NON_BLOCKING));
        CU(driver.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
        driver_launch(function, streams[0], memory);
        CU(driver.cuEventRecord(event, streams[0]));
        CU(driver.cuStreamWaitEvent(streams[1], event, 0));
        driver_launch(function, streams[1], memory);
        CU(driver.cuEventDestroy_v2(event));
        CU(driver.cuStreamDestroy_v2(streams[0]));
        CU(driver.cuStreamDestroy_v2(streams[1]));
    }
    CU(driver.cuCtxSynchronize());
    CU(driver.cuMemFree_v2(memory));
    return NULL;
}

static void *modules(void *iterations)
{
    driver_start();
    for (unsigned i = 0; i < *(unsigned *)iterations; i++) {
        CUfunction function;
        CUmodule module = driver_module(&function);
        driver_check(function);
        CU(driver.cuModuleUnload(module));
    }
    return NULL;
}

static void *contexts(void *iterations)
{
    driver_start();
    for (unsigned i = 0; i < *(unsigned *)iterations; i++) {
        CUcontext context;
        CUfunction function;
        CU(driver.cuCtxCreate_v4(&context, NULL, 0, 0));
        driver_module(&function);
        driver_check(function);
        CU(driver.cuCtxDestroy_v2(context));
    }
    return NULL;
}

static void objects(unsigned iterations)
{
    driver_start();
    pthread_t launching[] = {start(launch_until_stopped, NULL), start(launch_until_stopped, NULL)};
    pthread_t making[] = {start(streams_and_events, &iterations), start(modules, &iterations), start(contexts, &iterations)};
    for (int i = 0; i < 3; i++)
        pthread_join(making[i], NULL);
    __atomic_store_n(&stopping, 1, __ATOMIC_RELEASE);
    for (int i = 0; i < 2; i++)
        pthread_join(launching[i], NULL);
}

/* Children */

static void await(pid_t child, int code)
{
    int status;
    EXPECT(child > 0);
    while (waitpid(child, &status, 0) < 0)
        EXPECT(errno == EINTR);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != code)
        fprintf(stderr, "a child ended with status %#x\n", (unsigned)status);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == code);
}

/* fork: while other threads launch; in the child the driver says that it is not initialised, and nothing hangs. */
static void forks(unsigned iterations)
{
    driver_start();
    pthread_t launching[] = {start(launch_until_stopped, NULL), start(launch_until_stopped, NULL)};
    for (unsigned i = 0; i < iterations; i++) {
        pid_t child = fork();
        if (child == 0) {
            int count;
            EXPECT(driver.cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED);
            EXPECT(driver.cuInit(0) == CUDA_ERROR_NOT_INITIALIZED);
            _exit(3);
        }
        await(child, 3);
    }
    __atomic_store_n(&stopping, 1, __ATOMIC_RELEASE);
    for (int i = 0; i < 2; i++)
        pthread_join(launching[i], NULL);
}

/* Runs `life` in a fresh process that may use the driver, again and again. */
static void lives(unsigned iterations, void (*life)(unsigned number))
{
    for (unsigned i = 0; i < iterations; i++) {
        pid_t child = fork();
        if (child == 0) {
            life(i);
            exit(4);
        }
        await(child, 4);
    }
}

static void launch_at_exit(void)
{
    CUresult result = driver.cuCtxSynchronize();
    EXPECT(result == CUDA_SUCCESS || result == CUDA_ERROR_DEINITIALIZED || result == CUDA_ERROR_INVALID_CONTEXT);
}

static void *launch_for_ever(void *unused)
{
    (void)unused;
    CUfunction function = driver_start();
    CUdeviceptr memory;
    CU(driver.cuMemAlloc_v2(&memory, 128));
    pthread_barrier_wait(&barrier);
    CUresult result = CUDA_SUCCESS;
    for (unsigned i = 0; result == CUDA_SUCCESS; i++) {
        void *parameters[] = {&memory};
        result =
            i % 16 ? driver.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, NULL, parameters, NULL) : driver.cuCtxSynchronize();
    }
    return NULL; /* the driver has shut down under the process' exit */
}

/* exit: with threads that launch, with handlers that call the driver, with work under way, in turn. */
static void end(unsigned number)
{
    CUdeviceptr memory;
    if (number % 4 == 1)
        atexit(launch_at_exit);
    CUfunction function = driver_start();
    if (number % 4 == 2)
        atexit(launch_at_exit);
    CU(driver.cuMemAlloc_v2(&memory, 128));
    driver_launch(function, NULL, memory);
    if (number % 4 == 3) {
        pthread_barrier_init(&barrier, NULL, 3);
        start(launch_for_ever, NULL);
        start(launch_for_ever, NULL);
        pthread_barrier_wait(&barrier); /* from then on they expect that the driver may shut down */
        driver_check(function);
    }
}

static void ends(unsigned iterations)
{
    lives(iterations, end);
}

/* init: the first calls of a process come from many threads at once. */

static void *initialise(void *unused)
{
    (void)unused;
    int count = 0;
    void *launch = NULL;
    CUdriverProcAddressQueryResult status;
    pthread_barrier_wait(&barrier);
    CU(driver.cuGetProcAddress_v2("cuLaunchKernel", &launch, 12000, 0, &status));
    EXPECT(launch == (void *)driver.cuLaunchKernel);
    CU(driver.cuInit(0));
    CU(driver.cuDeviceGetCount(&count));
    EXPECT(count == 2);
    driver_check(driver_start());
    return NULL;
}

static void race(unsigned number)
{
    pthread_t racing[6];
    (void)number;
    pthread_barrier_init(&barrier, NULL, 6);
    for (int i = 0; i < 6; i++)
        racing[i] = start(initialise, NULL);
    for (int i = 0; i < 6; i++)
        pthread_join(racing[i], NULL);
}

static void inits(unsigned iterations)
{
    lives(iterations, race);
}

/* reopen: the library is closed and opened again, and threads that used it end while it is closed. */

static pthread_barrier_t used, closed;

static void *use_then_outlive(void *unused)
{
    (void)unused;
    driver_check(driver_start());
    pthread_barrier_wait(&used);
    pthread_barrier_wait(&closed);
    return NULL;
}

static void reopen(unsigned iterations)
{
    pthread_barrier_init(&used, NULL, 2);
    pthread_barrier_init(&closed, NULL, 2);
    for (unsigned i = 0; i < iterations; i++) {
        pthread_t thread = start(use_then_outlive, NULL);
        pthread_barrier_wait(&used);
        driver_close();
        pthread_barrier_wait(&closed);
        pthread_join(thread, NULL);
        driver_open();
    }
}

static const struct kind {
    const char *name;
    void (*run)(unsigned iterations);
} kinds[] = {
    {"threads", threads}, {"objects", objects}, {"fork", forks}, {"exit", ends}, {"init", inits}, {"reopen", reopen},
};

int main(int count, char **arguments)
{
    for (unsigned i = 0; count == 3 && i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(arguments[1], kinds[i].name) == 0) {
            driver_open();
            puts("started");
            fflush(stdout);
            kinds[i].run((unsigned)strtoul(arguments[2], NULL, 10));
            puts("done");
            return 0;
        }
    fputs("usage: stress KIND ITERATIONS\n", stderr);
    return 2;
}
