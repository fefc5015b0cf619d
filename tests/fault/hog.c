/*
 * hog DEVICE AFTER_MS HOLD_MS: after a while takes all memory that is left on a GPU, and for so long whatever others give back; then gives it back.
 * Says on standard error how much that was. Exit code 0, or 3 at a CUDA error that is not lack of memory.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cuda.h>

#define PIECES 4096u
#define FIRST_BYTES (1ull << 40)
#define LAST_BYTES (2ull << 20)

static void check(CUresult result)
{
    if (result == CUDA_SUCCESS)
        return;
    fprintf(stderr, "hog: error %d\n", result);
    exit(3);
}

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void pause_for(long ms)
{
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

/* Takes what there is in pieces of that size. */
static size_t take(size_t bytes, CUdeviceptr *pieces, unsigned *taken)
{
    size_t sum = 0;
    CUresult result = CUDA_SUCCESS;
    while (*taken < PIECES && (result = cuMemAlloc(&pieces[*taken], bytes)) == CUDA_SUCCESS) {
        sum += bytes;
        ++*taken;
    }
    if (result != CUDA_ERROR_OUT_OF_MEMORY)
        check(result);
    return sum;
}

int main(int count, char **values)
{
    static CUdeviceptr pieces[PIECES];
    unsigned taken = 0;
    size_t sum = 0;
    CUcontext context;
    if (count != 4)
        return 2;
    check(cuInit(0));
    check(cuDevicePrimaryCtxRetain(&context, atoi(values[1])));
    check(cuCtxSetCurrent(context));
    pause_for(atol(values[2]));
    for (size_t bytes = FIRST_BYTES; bytes >= LAST_BYTES; bytes /= 2)
        sum += take(bytes, pieces, &taken);
    fprintf(stderr, "hog: holds %zu MiB\n", sum >> 20);
    for (uint64_t end = now_ms() + (uint64_t)atol(values[3]); now_ms() < end; pause_for(1))
        take(LAST_BYTES, pieces, &taken);
    while (taken)
        check(cuMemFree(pieces[--taken]));
    return 0;
}
