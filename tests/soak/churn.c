/*
 * churn SECONDS [THREADS]: allocations of all kinds, streams, events, modules, graphs and threads come and go while kernels use them; what the
 * kernels wrote is checked before an allocation goes. Knows nothing of Tessera; scripts/lab soak runs it under a policy.
 * Ends with "right" (exit 0), "WRONG" (4), or the call that failed (3); says every ten seconds what it has done.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../model/kernels.h"
#include "memory.h"

#define WORDS 64u
#define PLACES 16u
#define MOST_THREADS 8u
#define REPORT_SECONDS 10
#define SOURCE_BYTES (2u << 20) /* too many to share memory with what is exported */

struct place {
    const struct memory_kind *kind; /* NULL: empty */
    struct memory memory;
    uint32_t expected[WORDS];
};

struct worker {
    uint64_t random;
    CUstream stream;
    struct place places[PLACES];
};

static CUcontext context;
static CUfunction functions[3];
static uint32_t source[WORDS];                  /* what kernels read beside the place they write */
static CUdeviceptr shared_source;               /* the same on the GPU */
static uint64_t launches, allocations, objects; /* atomic */
static bool stopping;                           /* atomic */

static uint32_t draw(struct worker *worker, uint32_t below)
{
    worker->random ^= worker->random << 13;
    worker->random ^= worker->random >> 7;
    worker->random ^= worker->random << 17;
    return (uint32_t)(worker->random >> 32) % below;
}

static void count(uint64_t *counter)
{
    __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

static void launch(struct worker *worker, CUfunction function, struct place *place, CUstream stream)
{
    uint32_t salt = draw(worker, 1000), spin = 0, words = draw(worker, 4) ? WORDS : 1 + draw(worker, WORDS);
    void *params[] = {&place->memory.address, &shared_source, &salt, &spin};
    CU(cuLaunchKernel(function, 1, 1, 1, words, 1, 1, 0, stream, params, NULL));
    for (uint32_t i = 0; i < words; i++)
        place->expected[i] = place->expected[i] * 3 + source[(i + 1) % WORDS] * 5 + salt + i;
    count(&launches);
}

static void check(const struct worker *worker, const struct place *place)
{
    uint32_t found[WORDS];
    CU(cuMemcpyDtoHAsync(found, place->memory.address, sizeof found, worker->stream)); /* another thread may be capturing */
    CU(cuStreamSynchronize(worker->stream));
    if (memcmp(found, place->expected, sizeof found) == 0)
        return;
    printf("WRONG: %s\n", place->kind->name);
    fflush(stdout);
    _Exit(4);
}

static void fill(struct worker *worker, struct place *place)
{
    place->kind = &memory_kinds[draw(worker, MEMORY_KINDS)];
    place->memory = (struct memory){.bytes = sizeof place->expected + draw(worker, (uint32_t)place->kind->most_bytes) / 4 * 4};
    place->kind->make(&place->memory, worker->stream);
    uint32_t first = draw(worker, 1000);
    CU(cuMemsetD32Async(place->memory.address, first, WORDS, worker->stream));
    for (uint32_t i = 0; i < WORDS; i++)
        place->expected[i] = first;
    count(&allocations);
}

static void empty(struct worker *worker, struct place *place)
{
    check(worker, place);
    place->kind->drop(&place->memory, worker->stream);
    place->kind = NULL;
}

/* What comes and goes besides memory. */

static void change_stream(struct worker *worker, struct place *place)
{
    CUevent event;
    CUstream old = worker->stream;
    int greatest;
    (void)place;
    CU(cuCtxGetStreamPriorityRange(NULL, &greatest));
    CU(cuStreamCreateWithPriority(&worker->stream, draw(worker, 2) ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT,
                                  draw(worker, 2) ? greatest : 0));
    CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CU(cuEventRecord(event, old));
    CU(cuStreamWaitEvent(worker->stream, event, 0));
    CU(cuEventDestroy(event));
    CU(cuStreamDestroy(old));
}

static void use_module(struct worker *worker, struct place *place)
{
    CUmodule module;
    CUfunction function;
    CU(cuModuleLoadData(&module, other_ptx));
    CU(cuModuleGetFunction(&function, module, "k_other"));
    launch(worker, function, place, worker->stream);
    CU(cuStreamSynchronize(worker->stream));
    CU(cuModuleUnload(module));
}

static void use_library(struct worker *worker, struct place *place)
{
    CUlibrary library;
    CUkernel kernel;
    CU(cuLibraryLoadData(&library, other_ptx, NULL, NULL, 0, NULL, NULL, 0));
    CU(cuLibraryGetKernel(&kernel, library, "k_other"));
    launch(worker, (CUfunction)kernel, place, worker->stream);
    CU(cuStreamSynchronize(worker->stream));
    CU(cuLibraryUnload(library));
}

static void use_graph(struct worker *worker, struct place *place)
{
    CUgraph graph;
    CUgraphExec executable;
    CU(cuStreamBeginCapture(worker->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    launch(worker, functions[1], place, worker->stream);
    CU(cuStreamEndCapture(worker->stream, &graph));
    CU(cuGraphInstantiate(&executable, graph, 0));
    CU(cuGraphLaunch(executable, worker->stream));
    CU(cuGraphExecDestroy(executable));
    CU(cuGraphDestroy(graph));
}

struct guest {
    struct worker *worker;
    struct place *place;
};

static void *launch_in_own_stream(void *argument)
{
    struct guest *guest = argument;
    CU(cuCtxSetCurrent(context));
    for (int i = 0; i < 3; i++)
        launch(guest->worker, functions[i], guest->place, CU_STREAM_PER_THREAD);
    CU(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    return NULL;
}

static void use_thread(struct worker *worker, struct place *place)
{
    pthread_t thread;
    struct guest guest = {worker, place};
    CU(cuStreamSynchronize(worker->stream));
    if (pthread_create(&thread, NULL, launch_in_own_stream, &guest) == 0)
        pthread_join(thread, NULL);
}

static void (*const uses[])(struct worker *worker, struct place *place) = {change_stream, use_module, use_library, use_graph,
                                                                           use_thread};

static void step(struct worker *worker)
{
    struct place *place = &worker->places[draw(worker, PLACES)];
    if (!place->kind)
        fill(worker, place);
    for (uint32_t i = draw(worker, 6); i > 0; i--)
        launch(worker, functions[draw(worker, 3)], place, worker->stream);
    if (draw(worker, 4) == 0) {
        uses[draw(worker, sizeof uses / sizeof uses[0])](worker, place);
        count(&objects);
    }
    if (draw(worker, 2) == 0)
        empty(worker, place);
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    CU(cuCtxSetCurrent(context));
    CU(cuStreamCreate(&worker->stream, CU_STREAM_NON_BLOCKING));
    while (!__atomic_load_n(&stopping, __ATOMIC_ACQUIRE))
        step(worker);
    for (uint32_t i = 0; i < PLACES; i++)
        if (worker->places[i].kind)
            empty(worker, &worker->places[i]);
    CU(cuStreamDestroy(worker->stream));
    return NULL;
}

static void report(void)
{
    printf("launches %lu allocations %lu objects %lu\n", (unsigned long)__atomic_load_n(&launches, __ATOMIC_RELAXED),
           (unsigned long)__atomic_load_n(&allocations, __ATOMIC_RELAXED),
           (unsigned long)__atomic_load_n(&objects, __ATOMIC_RELAXED));
    fflush(stdout);
}

static void prepare(void)
{
    static const char *const names[] = {"k_home", "k_one", "k_two"};
    CUmodule module;
    CU(cuInit(0));
    CU(cuDevicePrimaryCtxRetain(&context, 0));
    CU(cuCtxSetCurrent(context));
    CU(cuModuleLoadData(&module, home_ptx));
    for (unsigned i = 0; i < 3; i++)
        CU(cuModuleGetFunction(&functions[i], module, names[i]));
    for (uint32_t i = 0; i < WORDS; i++)
        source[i] = i * 7 + 1;
    CU(cuMemAlloc(&shared_source, SOURCE_BYTES));
    CU(cuMemcpyHtoD(shared_source, source, sizeof source));
}

int main(int argument_count, char **arguments)
{
    static struct worker workers[MOST_THREADS];
    pthread_t threads[MOST_THREADS];
    long seconds = argument_count > 1 ? atol(arguments[1]) : 10;
    unsigned wanted = argument_count > 2 ? (unsigned)atoi(arguments[2]) : 2, started = 0;
    prepare();
    for (; started < wanted && started < MOST_THREADS; started++) {
        workers[started].random = 0x9e3779b97f4a7c15u * (started + 1);
        if (pthread_create(&threads[started], NULL, work, &workers[started]) != 0)
            return 2;
    }
    for (long left = seconds; left > 0; left -= REPORT_SECONDS) {
        struct timespec pause = {.tv_sec = left < REPORT_SECONDS ? left : REPORT_SECONDS};
        nanosleep(&pause, NULL);
        report();
    }
    __atomic_store_n(&stopping, true, __ATOMIC_RELEASE);
    for (unsigned i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    printf("right\n");
    return 0;
}
