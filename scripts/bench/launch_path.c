/*
 * What a launch costs the threads that make it: launch_path KERNEL STREAM THREADS BURSTS LAUNCHES. KERNEL: k_home or k_away, which
 * a policy sends to another GPU; STREAM: free (one per thread) or legacy (one for all). Prints a line per burst: nanoseconds of the
 * burst, of all threads together, over the launches of one thread.
 */
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cuda.h>

#include "check.h"

#define MOST_THREADS 64u

static const char ptx[] = ".version 7.8\n.target sm_80\n.address_size 64\n"
                          ".visible .entry k_home(.param .u64 a, .param .u64 b, .param .u32 n) { ret; }\n"
                          ".visible .entry k_away(.param .u64 a, .param .u64 b, .param .u32 n) { ret; }\n";

static unsigned threads, bursts, launches;
static CUcontext context;
static CUfunction function;
static CUdeviceptr memory;
static pthread_barrier_t barrier;
static unsigned arrived; /* atomic; threads, over all bursts */

struct launcher {
    pthread_t thread;
    CUstream stream;
    double begin_ns, end_ns;
} __attribute__((aligned(64)));

static struct launcher all[MOST_THREADS];

static double now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static void launch(struct launcher *self, unsigned count)
{
    unsigned n = 1;
    void *params[] = {&memory, &memory, &n};
    for (unsigned i = 0; i < count; i++)
        CHECK(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, self->stream, params, NULL));
}

static void report(void)
{
    double begin = all[0].begin_ns, end = all[0].end_ns;
    for (unsigned i = 1; i < threads; i++) {
        begin = all[i].begin_ns < begin ? all[i].begin_ns : begin;
        end = all[i].end_ns > end ? all[i].end_ns : end;
    }
    printf("%.1f\n", (end - begin) / launches);
}

/* Nobody sleeps here, since waking takes longer than a burst. */
static void begin_together(unsigned burst)
{
    __atomic_fetch_add(&arrived, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&arrived, __ATOMIC_ACQUIRE) < threads * (burst + 1))
        sched_yield();
}

static void *run(void *argument)
{
    struct launcher *self = argument;
    CHECK(cuCtxSetCurrent(context));
    for (unsigned burst = 0; burst < bursts; burst++) {
        launch(self, 1);
        begin_together(burst);
        self->begin_ns = now_ns();
        launch(self, launches);
        self->end_ns = now_ns();
        CHECK(cuStreamSynchronize(self->stream));
        pthread_barrier_wait(&barrier);
        if (self == all)
            report();
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

int main(int count, char **values)
{
    CUdevice device;
    CUmodule module;
    if (count != 6 || (threads = (unsigned)atoi(values[3])) == 0 || threads > MOST_THREADS)
        return 2;
    bursts = (unsigned)atoi(values[4]);
    launches = (unsigned)atoi(values[5]);
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuMemAlloc(&memory, 4096));
    CHECK(cuModuleLoadData(&module, ptx));
    CHECK(cuModuleGetFunction(&function, module, values[1]));
    pthread_barrier_init(&barrier, NULL, threads);
    for (unsigned i = 0; i < threads; i++) {
        all[i].stream = CU_STREAM_LEGACY;
        if (strcmp(values[2], "free") == 0)
            CHECK(cuStreamCreate(&all[i].stream, CU_STREAM_NON_BLOCKING));
        CHECK(pthread_create(&all[i].thread, NULL, run, &all[i]));
    }
    for (unsigned i = 0; i < threads; i++)
        pthread_join(all[i].thread, NULL);
    return 0;
}
