/*
 * Times the kernels of clock_kernels.cu, copies and a pipeline over two devices by events, on whatever driver is loaded:
 *
 *     clock_host MODULE.ptx REPEATS
 *
 * One line per measurement: class, name, bytes moved (0: not the point), best duration in nanoseconds. Everything is called
 * through the driver API, so the same program measures hardware and the emulated machine.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#define FUNCTIONS(X)                                                                                                           \
    X(cuInit) X(cuDeviceGetCount) X(cuDevicePrimaryCtxRetain) X(cuCtxSetCurrent) X(cuModuleLoadData) X(cuModuleGetFunction)    \
    X(cuMemAlloc_v2) X(cuMemFree_v2) X(cuMemHostAlloc) X(cuMemFreeHost) X(cuMemsetD32_v2) X(cuMemsetD8Async) X(cuMemcpyHtoD_v2)   \
    X(cuMemcpyHtoDAsync_v2) X(cuMemcpyDtoHAsync_v2) X(cuMemcpyDtoDAsync_v2) X(cuMemcpyPeerAsync) X(cuLaunchKernel)             \
    X(cuStreamCreate) X(cuStreamSynchronize) X(cuStreamWaitEvent) X(cuEventCreate) X(cuEventRecord) X(cuEventSynchronize)      \
    X(cuEventElapsedTime) X(cuCtxSynchronize) X(cuCtxEnablePeerAccess) X(cuGetErrorName)

#define DECLARE(name) static __typeof__(&name) call_##name;
FUNCTIONS(DECLARE)

static void check(CUresult result, const char *what)
{
    const char *name = "?";
    if (result == CUDA_SUCCESS)
        return;
    call_cuGetErrorName(result, &name);
    fprintf(stderr, "%s: %s\n", what, name);
    exit(1);
}
#define DO(name, ...) check(call_##name(__VA_ARGS__), #name)

static void load_driver(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
#define LOAD(name)                                                                                                             \
    if (!(*(void **)(void *)&call_##name = dlsym(library, #name))) {                                                           \
        fprintf(stderr, "no " #name "\n");                                                                                     \
        exit(1);                                                                                                               \
    }
    FUNCTIONS(LOAD)
}

struct kernel_bench {
    const char *class, *name;
    unsigned n, blocks, threads;
    uint64_t floats; /* of each array */
    uint64_t bytes;  /* moved to and from memory */
    int chain;       /* the input is a chain of that many words */
};

#define M (1u << 20)
static const struct kernel_bench benches[] = {
    {"memory", "copy", 32 * M, 32 * M / 4 / 256, 256, 32 * M, 256ull * M, 0},
    {"memory", "copy_scalar", 32 * M, 32 * M / 256, 256, 32 * M, 256ull * M, 0},
    {"memory", "triad", 64 * M, 64 * M / 8 / 256, 256, 64 * M, 384ull * M, 0},
    {"memory", "fill", 64 * M, 64 * M / 4 / 256, 256, 64 * M, 256ull * M, 0},
    {"memory", "reduce", 64 * M, 1056, 256, 64 * M, 256ull * M, 0},
    {"memory", "transpose", 32 * M, 32 * M / 1024, 256, 32 * M, 256ull * M, 0},
    {"memory", "softmax", 32 * M, 32 * M / 1024, 256, 32 * M, 256ull * M, 0},
    {"memory", "strided", 128 * M, 128 * M / 32 / 256, 256, 128 * M, 0, 0},
    {"launch", "empty", 0, 1, 32, M, 0, 0},
    {"issue", "fma", 512, 528, 256, M, 0, 0},
    {"issue", "int", 512, 528, 256, M, 0, 0},
    {"issue", "special", 256, 528, 256, M, 0, 0},
    {"issue", "double", 256, 528, 256, M, 0, 0},
    {"shared", "shared", 256, 264, 256, M, 0, 0},
    {"latency", "chase_small", 20000, 1, 32, M, 0, 1024},
    {"latency", "chase_large", 20000, 1, 1, 64 * M, 0, 64 * M},
    {"issue", "gemm", 512, 1024, 256, M, 0, 0},
};

static CUmodule module;
static CUstream stream;
static CUevent begin, end;
static int repeats;

static CUfunction function_of(CUmodule from, const char *name)
{
    CUfunction function;
    char full[64];
    int length = 0;
    while (name[length] && strncmp(name + length, "_small", 6) != 0 && strncmp(name + length, "_large", 6) != 0)
        length++;
    snprintf(full, sizeof full, "bench_%.*s", length, name);
    DO(cuModuleGetFunction, &function, from, full);
    return function;
}

/* Best of the repeats after one run that is not counted. */
static void report(const char *class, const char *name, uint64_t bytes, void (*enqueue)(void *), void *argument)
{
    float best = 0;
    for (int i = 0; i <= repeats; i++) {
        float ms;
        DO(cuEventRecord, begin, stream);
        enqueue(argument);
        DO(cuEventRecord, end, stream);
        DO(cuEventSynchronize, end);
        DO(cuEventElapsedTime, &ms, begin, end);
        if (i == 1 || (i > 1 && ms < best))
            best = ms;
    }
    printf("%s %s %llu %.0f\n", class, name, (unsigned long long)bytes, best * 1e6);
    fflush(stdout);
}

struct launch {
    CUfunction function;
    CUstream stream;
    unsigned blocks, threads, n;
    CUdeviceptr out, in;
};

static void launch(void *argument)
{
    struct launch *launch = argument;
    void *params[] = {&launch->out, &launch->in, &launch->n};
    DO(cuLaunchKernel, launch->function, launch->blocks, 1, 1, launch->threads, 1, 1, 0, launch->stream, params, NULL);
}

/* A cycle through all words in an order that no prefetcher guesses: a full-period linear congruential sequence. */
static void fill_chain(CUdeviceptr in, unsigned words)
{
    unsigned *chain = malloc((size_t)words * 4);
    for (unsigned i = 0; i < words; i++)
        chain[i] = (i * 1664525u + 1013904223u) & (words - 1);
    DO(cuMemcpyHtoD_v2, in, chain, (size_t)words * 4);
    free(chain);
}

static void bench_kernels(void)
{
    for (unsigned i = 0; i < sizeof benches / sizeof benches[0]; i++) {
        const struct kernel_bench *bench = &benches[i];
        struct launch what = {function_of(module, bench->name), stream, bench->blocks, bench->threads, bench->n, 0, 0};
        DO(cuMemAlloc_v2, &what.in, bench->floats * 4);
        DO(cuMemAlloc_v2, &what.out, bench->floats * 4);
        DO(cuMemsetD32_v2, what.in, 0x3f000000, bench->floats);
        if (bench->chain)
            fill_chain(what.in, (unsigned)bench->chain);
        DO(cuCtxSynchronize);
        report(bench->class, bench->name, bench->bytes, launch, &what);
        DO(cuMemFree_v2, what.in);
        DO(cuMemFree_v2, what.out);
    }
}

#define COPY_BYTES (64ull << 20)
static CUdeviceptr first, second;
static void *host;

static void host_to_device(void *unused)
{
    (void)unused;
    DO(cuMemcpyHtoDAsync_v2, first, host, COPY_BYTES, stream);
}
static void device_to_host(void *unused)
{
    (void)unused;
    DO(cuMemcpyDtoHAsync_v2, host, first, COPY_BYTES, stream);
}
static void device_to_device(void *unused)
{
    (void)unused;
    DO(cuMemcpyDtoDAsync_v2, first, second, COPY_BYTES, stream);
}
static void set_memory(void *unused)
{
    (void)unused;
    DO(cuMemsetD8Async, first, 1, COPY_BYTES, stream);
}

static void bench_copies(void)
{
    DO(cuMemAlloc_v2, &first, COPY_BYTES);
    DO(cuMemAlloc_v2, &second, COPY_BYTES);
    DO(cuMemHostAlloc, &host, COPY_BYTES, 0);
    report("copy", "host_to_device", COPY_BYTES, host_to_device, NULL);
    report("copy", "device_to_host", COPY_BYTES, device_to_host, NULL);
    report("memory", "device_to_device", 2 * COPY_BYTES, device_to_device, NULL);
    report("memory", "memset", COPY_BYTES, set_memory, NULL);
    DO(cuMemFreeHost, host);
}

/* Stages on two devices: device 0 works, its result is copied, device 1 works on it. */
#define BATCHES 8
#define STAGE_STEPS 10000
static CUcontext contexts[2];
static CUdeviceptr there;
static struct launch stages[2];
static CUevent produced[BATCHES], consumed[BATCHES];
static int overlapped;

static void peer_copy(void *unused)
{
    (void)unused;
    DO(cuMemcpyPeerAsync, there, contexts[1], first, contexts[0], COPY_BYTES, stream);
}

static void pipeline(void *unused)
{
    (void)unused;
    for (int i = 0; i < BATCHES; i++) {
        DO(cuCtxSetCurrent, contexts[0]);
        if (!overlapped && i)
            DO(cuStreamWaitEvent, stream, consumed[i - 1], 0);
        launch(&stages[0]);
        DO(cuMemcpyPeerAsync, there, contexts[1], first, contexts[0], COPY_BYTES / 16, stream);
        DO(cuEventRecord, produced[i], stream);
        DO(cuCtxSetCurrent, contexts[1]);
        DO(cuStreamWaitEvent, stages[1].stream, produced[i], 0);
        launch(&stages[1]);
        DO(cuEventRecord, consumed[i], stages[1].stream);
    }
    DO(cuCtxSetCurrent, contexts[0]);
    DO(cuStreamWaitEvent, stream, consumed[BATCHES - 1], 0);
}

static void stage_make(int device, const void *text)
{
    struct launch *stage = &stages[device];
    CUmodule loaded;
    DO(cuCtxSetCurrent, contexts[device]);
    DO(cuModuleLoadData, &loaded, text);
    *stage = (struct launch){function_of(loaded, "chase"), stream, 1, 32, STAGE_STEPS, 0, 0};
    DO(cuMemAlloc_v2, &stage->in, 4096);
    DO(cuMemAlloc_v2, &stage->out, 4096);
    fill_chain(stage->in, 1024);
    if (device)
        DO(cuStreamCreate, &stage->stream, CU_STREAM_NON_BLOCKING);
}

static void bench_pipeline(const void *text)
{
    for (int device = 0; device < 2; device++) {
        DO(cuCtxSetCurrent, contexts[device]);
        call_cuCtxEnablePeerAccess(contexts[1 - device], 0); /* where it is possible */
        stage_make(device, text);
        for (int i = 0; i < BATCHES; i++)
            DO(cuEventCreate, device ? &consumed[i] : &produced[i], CU_EVENT_DISABLE_TIMING);
        if (device)
            DO(cuMemAlloc_v2, &there, COPY_BYTES);
    }
    DO(cuCtxSetCurrent, contexts[0]);
    report("copy", "device_to_peer", COPY_BYTES, peer_copy, NULL);
    report("pipeline", "one_after_the_other", 0, pipeline, NULL);
    overlapped = 1;
    report("pipeline", "overlapped", 0, pipeline, NULL);
}

static char *read_text(const char *path)
{
    FILE *file = fopen(path, "rb");
    char *text = calloc(1, 4u << 20);
    if (!file || !text || !fread(text, 1, (4u << 20) - 1, file)) {
        fprintf(stderr, "cannot read %s\n", path);
        exit(1);
    }
    fclose(file);
    return text;
}

int main(int argc, char **argv)
{
    int devices;
    if (argc != 3)
        return 2;
    char *text = read_text(argv[1]);
    repeats = atoi(argv[2]) > 0 ? atoi(argv[2]) : 1;
    load_driver();
    DO(cuInit, 0);
    DO(cuDeviceGetCount, &devices);
    for (int device = 0; device < devices && device < 2; device++)
        DO(cuDevicePrimaryCtxRetain, &contexts[device], device);
    DO(cuCtxSetCurrent, contexts[0]);
    DO(cuModuleLoadData, &module, text);
    DO(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    DO(cuEventCreate, &begin, 0);
    DO(cuEventCreate, &end, 0);
    bench_kernels();
    bench_copies();
    if (devices > 1)
        bench_pipeline(text);
    free(text);
    return 0;
}
