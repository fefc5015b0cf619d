/*
 * What a launch costs the threads that make it, by what it touches: copies PTX KERNEL BUFFERS THREADS BURSTS LAUNCHES. KERNEL: k_home, or k_away,
 * which a policy sends to another GPU; BUFFERS: repeated (the same at each launch), or changing. Each thread has a stream and buffers of its
 * own, and all read one more. Before the first burst both kernels have run. Prints a line per burst: nanoseconds of the burst, of all
 * threads together, over the launches of one thread.
 */
#include <stdbool.h>
#include <string.h>

#include "bursts.h"

#define BUFFERS 64u
#define ELEMENTS 1024u
#define BYTES (ELEMENTS * sizeof(float))
#define BLOCK 32u

static bool changing;
static CUfunction function; /* at first k_away, then the one that is timed */
static CUdeviceptr shared;

static struct {
    CUdeviceptr buffers;
    unsigned next;
} __attribute__((aligned(64))) own[MOST_THREADS]; /* by launcher */

/* Each reads what the one before it wrote, and what all read. */
static void launch(struct launcher *self, unsigned count)
{
    unsigned n = BLOCK, *next = &own[self - all].next;
    CUdeviceptr buffers = own[self - all].buffers;
    for (unsigned i = 0; i < count; i++, *next += changing) {
        CUdeviceptr in = buffers + *next % BUFFERS * BYTES, out = buffers + (*next + 1) % BUFFERS * BYTES;
        void *params[] = {&out, &in, &shared, &n};
        CHECK(cuLaunchKernel(function, 1, 1, 1, BLOCK, 1, 1, 0, self->stream, params, NULL));
    }
}

int main(int count, char **values)
{
    CUmodule module;
    if (count != 7 || (threads = (unsigned)atoi(values[4])) == 0 || threads > MOST_THREADS)
        return 2;
    changing = strcmp(values[3], "changing") == 0;
    bursts = (unsigned)atoi(values[5]);
    launches = (unsigned)atoi(values[6]);
    context = start_context();
    CHECK(cuMemAlloc(&shared, BYTES));
    CHECK(cuMemsetD8(shared, 0, BYTES));
    CHECK(cuModuleLoad(&module, values[1]));
    CHECK(cuModuleGetFunction(&function, module, "k_away"));
    for (unsigned i = 0; i < threads; i++) {
        CHECK(cuMemAlloc(&own[i].buffers, BUFFERS * BYTES));
        CHECK(cuMemsetD8(own[i].buffers, 0, BUFFERS * BYTES));
        CHECK(cuStreamCreate(&all[i].stream, CU_STREAM_NON_BLOCKING));
        launch(&all[i], 1);
        CHECK(cuStreamSynchronize(all[i].stream));
    }
    CHECK(cuModuleGetFunction(&function, module, values[2]));
    run_all();
    return 0;
}
