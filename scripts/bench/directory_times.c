/*
 * What a use costs the directory of copies (interpose/memory/directory.h), in ns, by the number of cells:
 *
 *     gcc -O2 -D_GNU_SOURCE -Iinterpose -Iinterpose/include scripts/bench/directory_times.c interpose/memory/directory*.c \
 *         interpose/base/vec.c -o /tmp/directory_times && /tmp/directory_times
 */
#include "memory/directory.h"

#include <stdio.h>
#include <time.h>

#define TENSOR 4096u
#define USES 2000000u

static uint64_t needs;

static void pull(void *context, const struct tsr_pull *of)
{
    (void)context;
    needs += of->end;
}

static void wait_for(void *context, uint64_t ticket)
{
    (void)context;
    needs += ticket;
}

static const struct tsr_directory_listener listener = {.pull = pull, .wait = wait_for};

static double now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return 1e9 * (double)time.tv_sec + (double)time.tv_nsec;
}

/* reads: of what is there; writes: on one GPU; ping-pong: each use finds the bytes on the other one. */
static double measure(struct tsr_directory *directory, unsigned tensors, bool writes, bool pulls, unsigned copies)
{
    double start = now_ns();
    for (uint64_t i = 0; i < USES; i++) {
        uint64_t first = i * 7919 % tensors * TENSOR;
        struct tsr_use use = {.first = first,
                              .end = first + TENSOR,
                              .ticket = i + 1,
                              .copy = (uint8_t)(i / tensors % copies),
                              .pulls = pulls,
                              .writes = writes};
        tsr_directory_apply(directory, &use, &listener);
    }
    return (now_ns() - start) / USES;
}

int main(void)
{
    printf("%8s %8s %12s %12s %12s\n", "tensors", "read", "overwritten", "ping-pong", "bytes");
    for (unsigned tensors = 1; tensors <= 1024; tensors *= 4) {
        struct tsr_directory directory;
        if (!tsr_directory_start(&directory, (uint64_t)tensors * TENSOR, 3))
            return 1;
        double overwritten = measure(&directory, tensors, true, false, 1),
               ping_pong = measure(&directory, tensors, true, true, 2);
        uint64_t bytes = tsr_directory_memory(&directory);
        double reads = measure(&directory, tensors, false, true, 1);
        printf("%8u %8.1f %12.1f %12.1f %12llu\n", tensors, reads, overwritten, ping_pong, (unsigned long long)bytes);
        tsr_directory_fini(&directory);
    }
    return needs == 0;
}
