/*
 * What a launch costs the thread that makes it where GPUs are chosen for it, for requests like a Llama's: placed_trace LAYERS SETS
 * REQUESTS BETWEEN. Requests one after another in one stream: each a chain of 14 launches per layer with three to six pointers and two
 * to five numbers, over the layers' weights, which all share, and one of SETS sets of buffers, by turns. Before each launch the program
 * uses BETWEEN KiB of its own memory, as a framework would. The first request is waited for. Prints a line per request after two of each
 * set: nanoseconds of processor time of this thread per launch (with that use), then the median and the 99th percentile of its single
 * launches, in nanoseconds by the clock (without).
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <x86intrin.h>

#include <cuda.h>

#include "check.h"

#define BLOCK 32u
#define BYTES (BLOCK * sizeof(float))
#define WEIGHT_BYTES (256u << 10)
#define BUFFER_BYTES (16u << 10)
#define WEIGHTS 9u  /* of a layer */
#define BUFFERS 12u /* of a request, and in each layer two of its cache */
#define MOST_LAYERS 64u
#define MOST_VALUES 12u

/* Kernels by how many pointers they have: the first is written, or the first two; all but the first are read. */
static const char head[] = ".version 7.0\n.target sm_70\n.address_size 64\n";
enum kind { NORM, PRODUCT, TWIST, MIX, KINDS };
static const struct {
    const char *name;
    unsigned pointers, numbers, writes;
} kinds[KINDS] = {{"norm", 3, 2, 1}, {"product", 4, 5, 1}, {"twist", 5, 3, 2}, {"mix", 6, 4, 1}};

struct step {
    enum kind kind;
    unsigned pointers[6]; /* below 100: of the request's buffers; from 100 on: weights; from 200 on: the cache */
};

enum { X, Y, Q, K, V, A, G, U, S, COS, SIN, MASK };
static const struct step steps[] = {
    {NORM, {Y, X, 100}},
    {PRODUCT, {Q, Y, 101, MASK}},
    {PRODUCT, {K, Y, 102, MASK}},
    {PRODUCT, {V, Y, 103, MASK}},
    {TWIST, {Q, K, COS, SIN, Y}},
    {NORM, {200, K, MASK}},
    {NORM, {201, V, MASK}},
    {MIX, {A, Q, 200, 201, MASK, COS}},
    {PRODUCT, {S, A, 104, X}},
    {NORM, {Y, S, 105}},
    {PRODUCT, {G, Y, 106, MASK}},
    {PRODUCT, {U, Y, 107, MASK}},
    {NORM, {A, G, U}},
    {PRODUCT, {X, A, 108, S}},
};
#define STEPS (sizeof steps / sizeof steps[0])

static CUfunction functions[KINDS];
static CUdeviceptr weights[MOST_LAYERS][WEIGHTS];
static CUstream stream;

struct request {
    CUdeviceptr buffers[BUFFERS], cache[MOST_LAYERS][2];
};

static void load(void)
{
    char text[16384];
    size_t at = (size_t)snprintf(text, sizeof text, "%s", head);
    CUmodule module;
#define ADD(...) at += (size_t)snprintf(text + at, sizeof text - at, __VA_ARGS__)
    for (unsigned i = 0; i < KINDS; i++) {
        ADD(".visible .entry %s(", kinds[i].name);
        for (unsigned p = 0; p < kinds[i].pointers; p++)
            ADD(".param .u64 p%u, ", p);
        for (unsigned n = 0; n < kinds[i].numbers; n++)
            ADD(".param .u32 n%u%s", n, n + 1 < kinds[i].numbers ? ", " : ")\n{\n");
        ADD("  .reg .pred %%p; .reg .b32 %%r<6>; .reg .b64 %%d<20>; .reg .f32 %%f<9>;\n"
            "  ld.param.u32 %%r1, [n0]; mov.u32 %%r2, %%ctaid.x; mov.u32 %%r3, %%ntid.x; mov.u32 %%r4, %%tid.x;\n"
            "  mad.lo.u32 %%r5, %%r2, %%r3, %%r4; setp.ge.u32 %%p, %%r5, %%r1; @%%p ret; mul.wide.u32 %%d1, %%r5, 4;\n"
            "  mov.f32 %%f1, 0f00000000;\n");
        for (unsigned p = 0; p < kinds[i].pointers; p++)
            ADD("  ld.param.u64 %%d%u, [p%u]; add.u64 %%d%u, %%d%u, %%d1;\n", p + 2, p, p + 2, p + 2);
        for (unsigned p = 1; p < kinds[i].pointers; p++)
            ADD("  ld.global.f32 %%f2, [%%d%u]; add.f32 %%f1, %%f1, %%f2;\n", p + 2);
        for (unsigned p = 0; p < kinds[i].writes; p++)
            ADD("  st.global.f32 [%%d%u], %%f1;\n", p + 2);
        ADD("  ret;\n}\n");
    }
    CHECK(cuModuleLoadData(&module, text));
    for (unsigned i = 0; i < KINDS; i++)
        CHECK(cuModuleGetFunction(&functions[i], module, kinds[i].name));
}

static CUdeviceptr made(size_t bytes)
{
    CUdeviceptr memory;
    CHECK(cuMemAlloc(&memory, bytes));
    CHECK(cuMemsetD8(memory, 0, BYTES));
    return memory;
}

static CUdeviceptr *find(struct request *request, unsigned layer, unsigned pointer)
{
    return pointer < 100   ? &request->buffers[pointer]
           : pointer < 200 ? &weights[layer][pointer - 100]
                           : &request->cache[layer][pointer - 200];
}

static __attribute__((noinline)) void launch(struct request *request, unsigned layer, const struct step *step)
{
    static unsigned numbers[] = {BLOCK, 1, 2, 3, 4};
    void *values[MOST_VALUES];
    unsigned count = 0;
    for (unsigned p = 0; p < kinds[step->kind].pointers; p++)
        values[count++] = find(request, layer, step->pointers[p]);
    for (unsigned n = 0; n < kinds[step->kind].numbers; n++)
        values[count++] = &numbers[n];
    CHECK(cuLaunchKernel(functions[step->kind], 1, 1, 1, BLOCK, 1, 1, 0, stream, values, NULL));
}

static double clock_ns(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static __attribute__((noinline)) void use(uint8_t *memory, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += 64)
        memory[i]++;
}

static int compare(const void *a, const void *b)
{
    uint64_t first = *(const uint64_t *)a, second = *(const uint64_t *)b;
    return (first > second) - (first < second);
}

int main(int count, char **words)
{
    unsigned layers = count == 5 ? (unsigned)atoi(words[1]) : 0, sets = count == 5 ? (unsigned)atoi(words[2]) : 0;
    size_t between = count == 5 ? (size_t)atoi(words[4]) << 10 : 0;
    if (!layers || layers > MOST_LAYERS || !sets)
        return 2;
    CUcontext context;
    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    load();
    for (unsigned layer = 0; layer < layers; layer++)
        for (unsigned w = 0; w < WEIGHTS; w++)
            weights[layer][w] = made(WEIGHT_BYTES);
    struct request *all = calloc(sets, sizeof *all);
    for (unsigned i = 0; i < sets; i++) {
        for (unsigned b = 0; b < BUFFERS; b++)
            all[i].buffers[b] = made(BUFFER_BYTES);
        for (unsigned layer = 0; layer < 2 * layers; layer++)
            all[i].cache[layer / 2][layer % 2] = made(BUFFER_BYTES);
    }
    unsigned total = layers * STEPS, requests = (unsigned)atoi(words[3]);
    uint64_t *ticks = calloc(total, sizeof *ticks);
    uint8_t *own = calloc(1, between + 1);
    for (unsigned i = 0; i < requests; i++) {
        double began = clock_ns(CLOCK_THREAD_CPUTIME_ID), clock_began = clock_ns(CLOCK_MONOTONIC);
        uint64_t ticks_began = __rdtsc();
        for (unsigned n = 0; n < total; n++) {
            use(own, between);
            uint64_t before = __rdtsc();
            launch(&all[i % sets], n / STEPS, &steps[n % STEPS]);
            ticks[n] = __rdtsc() - before;
        }
        double tick_ns = (clock_ns(CLOCK_MONOTONIC) - clock_began) / (double)(__rdtsc() - ticks_began);
        double taken = (clock_ns(CLOCK_THREAD_CPUTIME_ID) - began) / total;
        qsort(ticks, total, sizeof *ticks, compare);
        if (i >= 2 * sets)
            printf("%.1f %.1f %.1f\n", taken, (double)ticks[total / 2] * tick_ns,
                   (double)ticks[total - 1 - total / 100] * tick_ns);
        if (!i)
            CHECK(cuStreamSynchronize(stream));
    }
    CHECK(cuCtxSynchronize());
    return 0;
}
