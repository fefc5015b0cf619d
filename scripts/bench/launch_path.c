/*
 * What a launch costs the threads that make it: launch_path KERNEL STREAM THREADS BURSTS LAUNCHES. KERNEL: k_home or k_away, which
 * a policy sends to another GPU, or none: instead of each launch, arithmetic of about its length, which threads share nothing in; STREAM:
 * free (one per thread) or legacy (one for all). Prints a line per burst: nanoseconds of the
 * burst, of all threads together, over the launches of one thread.
 */
#include <stdint.h>
#include <string.h>

#include "bursts.h"

static const char ptx[] = ".version 7.8\n.target sm_80\n.address_size 64\n"
                          ".visible .entry k_home(.param .u64 a, .param .u64 b, .param .u32 n) { ret; }\n"
                          ".visible .entry k_away(.param .u64 a, .param .u64 b, .param .u32 n) { ret; }\n";

#define STEPS 64u /* a multiplication after the other, some three cycles each */

static CUfunction function;
static CUdeviceptr memory;

static void calculate(unsigned count)
{
    uint64_t number = count;
    for (unsigned i = 0; i < count * STEPS; i++) {
        number = number * 6364136223846793005ull + 1442695040888963407ull;
        __asm__ volatile("" : "+r"(number));
    }
}

static void launch(struct launcher *self, unsigned count)
{
    if (!function) {
        calculate(count);
        return;
    }
    unsigned n = 1;
    void *params[] = {&memory, &memory, &n};
    for (unsigned i = 0; i < count; i++)
        CHECK(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, self->stream, params, NULL));
}

int main(int count, char **values)
{
    CUmodule module;
    if (count != 6 || (threads = (unsigned)atoi(values[3])) == 0 || threads > MOST_THREADS)
        return 2;
    bursts = (unsigned)atoi(values[4]);
    launches = (unsigned)atoi(values[5]);
    context = start_context();
    CHECK(cuMemAlloc(&memory, 4096));
    CHECK(cuModuleLoadData(&module, ptx));
    if (strcmp(values[1], "none") != 0)
        CHECK(cuModuleGetFunction(&function, module, values[1]));
    for (unsigned i = 0; i < threads; i++) {
        all[i].stream = CU_STREAM_LEGACY;
        if (strcmp(values[2], "free") == 0)
            CHECK(cuStreamCreate(&all[i].stream, CU_STREAM_NON_BLOCKING));
    }
    run_all();
    return 0;
}
