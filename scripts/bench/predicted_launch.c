/*
 * What it costs the calling thread to find a launch's ranges before it; for scripts/bench/predicted_launch.
 *
 *     predicted_launch IMAGE FUNCTION TEMPLATE BATCHES LAUNCHES
 *
 * FUNCTION takes three pointers and a count. A line per pair of batches: nanoseconds per launch alone, and with its ranges; who goes first
 * alternates. Each launch has other pointers than the one before it, and one of eight counts.
 */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <tessera/access.h>
#include <time.h>

#include "check.h"

#define BUFFERS 64u
#define BYTES (1u << 16)
#define THREADS 256u

struct arguments {
    CUdeviceptr pointers[3];
    unsigned count;
};

static CUfunction function;
static CUdeviceptr buffers[BUFFERS];
static struct tsr_access *template;
static char scratch[TSR_ACCESS_SCRATCH_BYTES] __attribute__((aligned(64)));
static struct tsr_access_range ranges[64];

static char *read_file(const char *path, size_t *size)
{
    static char data[1 << 20];
    FILE *file = fopen(path, "rb");
    if (!file)
        exit(2);
    *size = fread(data, 1, sizeof data - 1, file);
    fclose(file);
    data[*size] = 0;
    return data;
}

static void start(const char *image, const char *name, const char *flat)
{
    size_t size;
    CUcontext context;
    CUmodule module;
    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuModuleLoadData(&module, read_file(image, &size)));
    CHECK(cuModuleGetFunction(&function, module, name));
    for (unsigned i = 0; i < BUFFERS; i++)
        CHECK(cuMemAlloc(&buffers[i], BYTES));
    const char *bytes = read_file(flat, &size);
    template = tsr_access_create(bytes, size, TSR_ACCESS_MEMO_ENTRIES);
    CHECK(!template);
}

static void find_ranges(const struct arguments *arguments, unsigned blocks)
{
    struct tsr_access_launch launch = {.grid = {blocks, 1, 1},
                                       .block = {THREADS, 1, 1},
                                       .parameter_bytes = 3 * sizeof arguments->pointers[0] + sizeof arguments->count,
                                       .parameters = arguments};
    struct tsr_access_result result = {.ranges = ranges, .capacity = 64};
    tsr_access_evaluate(template, &launch, scratch, sizeof scratch, &result);
    CHECK(result.level == TSR_LEVEL_UNKNOWN || result.count != 3);
}

static double timed(unsigned launches, int with_ranges)
{
    struct timespec before, after;
    clock_gettime(CLOCK_MONOTONIC, &before);
    for (unsigned i = 0; i < launches; i++) {
        unsigned blocks = 1 + i % 8;
        struct arguments arguments = {.count = blocks * THREADS - 1};
        void *values[4];
        for (unsigned n = 0; n < 3; n++) {
            arguments.pointers[n] = buffers[(3 * i + n) % BUFFERS];
            values[n] = &arguments.pointers[n];
        }
        values[3] = &arguments.count;
        if (with_ranges)
            find_ranges(&arguments, blocks);
        CHECK(cuLaunchKernel(function, blocks, 1, 1, THREADS, 1, 1, 0, NULL, values, NULL));
    }
    clock_gettime(CLOCK_MONOTONIC, &after);
    CHECK(cuCtxSynchronize());
    return ((double)(after.tv_sec - before.tv_sec) * 1e9 + (double)(after.tv_nsec - before.tv_nsec)) / launches;
}

int main(int argc, char **argv)
{
    if (argc != 6)
        return 2;
    start(argv[1], argv[2], argv[3]);
    unsigned batches = (unsigned)atoi(argv[4]), launches = (unsigned)atoi(argv[5]);
    double times[2];
    for (int way = 0; way < 2; way++)
        timed(launches, way);
    for (unsigned batch = 0; batch < batches; batch++) {
        for (unsigned turn = 0; turn < 2; turn++)
            times[(batch + turn) % 2] = timed(launches, (int)((batch + turn) % 2));
        printf("%.1f %.1f\n", times[0], times[1]);
    }
    return 0;
}
