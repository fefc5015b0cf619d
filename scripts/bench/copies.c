/*
 * What a launch costs the threads that make it, by what it touches: copies PTX KERNEL BUFFERS THREADS BURSTS LAUNCHES. KERNEL: k_home, or k_away,
 * which a policy sends to another GPU; BUFFERS: repeated (the same at each launch), or changing. Each thread has a stream and buffers of its
 * own, and all read one more. Before the first burst both kernels have run. Prints a line per burst: nanoseconds of the burst, of all
 * threads together, over the launches of one thread.
 */
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include <cuda.h>

#include "check.h"

#define MOST_THREADS 64u
#define BUFFERS 64u
#define ELEMENTS 1024u
#define BYTES (ELEMENTS * sizeof(float))
#define BLOCK 32u

static unsigned threads, bursts, launches;
static bool changing;
static CUcontext context;
static CUfunction function;
static CUdeviceptr shared;
static pthread_barrier_t barrier;
static unsigned arrived; /* atomic; threads, over all bursts */

struct launcher {
    pthread_t thread;
    CUstream stream;
    CUdeviceptr buffers;
    unsigned next;
    double begin_ns, end_ns;
} __attribute__((aligned(64)));

static struct launcher all[MOST_THREADS];

static double now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

/* Each reads what the one before it wrote, and what all read. */
static void launch(struct launcher *self, CUfunction kernel, unsigned count)
{
    unsigned n = BLOCK;
    for (unsigned i = 0; i < count; i++, self->next += changing) {
        CUdeviceptr in = self->buffers + self->next % BUFFERS * BYTES, out = self->buffers + (self->next + 1) % BUFFERS * BYTES;
        void *params[] = {&out, &in, &shared, &n};
        CHECK(cuLaunchKernel(kernel, 1, 1, 1, BLOCK, 1, 1, 0, self->stream, params, NULL));
    }
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
        launch(self, function, 1);
        begin_together(burst);
        self->begin_ns = now_ns();
        launch(self, function, launches);
        self->end_ns = now_ns();
        CHECK(cuStreamSynchronize(self->stream));
        pthread_barrier_wait(&barrier);
        if (self == all)
            report();
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

static void load(const char *ptx, const char *kernel, CUfunction *away)
{
    CUmodule module;
    CHECK(cuModuleLoad(&module, ptx));
    CHECK(cuModuleGetFunction(&function, module, kernel));
    CHECK(cuModuleGetFunction(away, module, "k_away"));
}

int main(int count, char **values)
{
    CUdevice device;
    CUfunction away;
    if (count != 7 || (threads = (unsigned)atoi(values[4])) == 0 || threads > MOST_THREADS)
        return 2;
    changing = strcmp(values[3], "changing") == 0;
    bursts = (unsigned)atoi(values[5]);
    launches = (unsigned)atoi(values[6]);
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuMemAlloc(&shared, BYTES));
    CHECK(cuMemsetD8(shared, 0, BYTES));
    load(values[1], values[2], &away);
    pthread_barrier_init(&barrier, NULL, threads);
    for (unsigned i = 0; i < threads; i++) {
        CHECK(cuMemAlloc(&all[i].buffers, BUFFERS * BYTES));
        CHECK(cuMemsetD8(all[i].buffers, 0, BUFFERS * BYTES));
        CHECK(cuStreamCreate(&all[i].stream, CU_STREAM_NON_BLOCKING));
        launch(&all[i], away, 1);
        CHECK(cuStreamSynchronize(all[i].stream));
    }
    for (unsigned i = 0; i < threads; i++)
        CHECK(pthread_create(&all[i].thread, NULL, run, &all[i]));
    for (unsigned i = 0; i < threads; i++)
        pthread_join(all[i].thread, NULL);
    return 0;
}
