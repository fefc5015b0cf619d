/* Driver API: stream-ordered memory from several threads, each with streams of its own: nobody's memory is given to another before the
   work that uses it is complete; counters, release threshold, trimming; streams that end; pools of host threads' default streams. */
#include <pthread.h>

#include "driver_check.h"

#define LITTLE ((size_t)64 << 20) /* what a driver may have taken for itself meanwhile */

enum { THREADS = 4, ROUNDS = 60, HELD = 8 };

static CUfunction fill_function;
static CUcontext context;
static CUmemoryPool pool;

static void fill(CUdeviceptr out, int value, int count, CUstream stream)
{
    void *parameters[] = {&out, &value, &count};
    CU(cuLaunchKernel(fill_function, 4, 1, 1, 64, 1, 1, 0, stream, parameters, NULL));
}

struct piece {
    CUdeviceptr address;
    int count, value;
};

static unsigned next(unsigned *seed, unsigned below)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 8) % below;
}

/* First and last word, read in stream order into page-locked memory. */
static void read_ends(const struct piece *piece, int *ends, CUstream stream)
{
    CU(cuMemcpyDtoHAsync(&ends[0], piece->address, sizeof(int), stream));
    CU(cuMemcpyDtoHAsync(&ends[1], piece->address + (size_t)(piece->count - 1) * sizeof(int), sizeof(int), stream));
}

struct worker {
    pthread_t thread;
    unsigned seed;
    int wrong;
};

static void *work(void *argument)
{
    struct worker *worker = argument;
    struct piece held[HELD] = {{0}};
    CUstream streams[2];
    CUevent event;
    int *ends;
    CU(cuCtxSetCurrent(context));
    CU(cuStreamCreate(&streams[0], CU_STREAM_NON_BLOCKING));
    CU(cuStreamCreate(&streams[1], CU_STREAM_NON_BLOCKING));
    CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CU(cuMemHostAlloc((void **)&ends, 2 * sizeof(int) * HELD, 0));
    for (int round = 0; round < ROUNDS; round++) {
        CUstream stream = streams[next(&worker->seed, 2)], other = stream == streams[0] ? streams[1] : streams[0];
        for (int i = 0; i < HELD; i++) {
            struct piece *piece = &held[i];
            piece->count = 1 + (int)next(&worker->seed, next(&worker->seed, 10) ? 3000 : 700000);
            piece->value = (int)next(&worker->seed, 1000000);
            CU(cuMemAllocFromPoolAsync(&piece->address, (size_t)piece->count * sizeof(int), pool, stream));
            fill(piece->address, piece->value, piece->count, stream);
        }
        /* Half is read and freed in the other stream, after an event. */
        CU(cuEventRecord(event, stream));
        CU(cuStreamWaitEvent(other, event, 0));
        for (int i = 0; i < HELD; i++) {
            CUstream at = i % 2 ? stream : other;
            read_ends(&held[i], ends + 2 * i, at);
            CU(cuMemFreeAsync(held[i].address, at));
        }
        CU(cuStreamSynchronize(stream));
        CU(cuStreamSynchronize(other));
        for (int i = 0; i < HELD; i++)
            worker->wrong += ends[2 * i] != held[i].value || ends[2 * i + 1] != held[i].value + held[i].count - 1;
    }
    CU(cuMemFreeHost(ends));
    CU(cuEventDestroy(event));
    CU(cuStreamDestroy(streams[0]));
    CU(cuStreamDestroy(streams[1]));
    return NULL;
}

static cuuint64_t counter(CUmemPool_attribute attribute)
{
    cuuint64_t value = 0;
    CU(cuMemPoolGetAttribute(pool, attribute, &value));
    return value;
}

static void threads(void)
{
    struct worker workers[THREADS] = {0};
    cuuint64_t threshold = UINT64_MAX;
    CU(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i].seed = i + 1;
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
            exit(2);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        EXPECT(workers[i].wrong == 0);
    }
    EXPECT(counter(CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == 0);
    EXPECT(counter(CU_MEMPOOL_ATTR_USED_MEM_HIGH) > 0);
    EXPECT(counter(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) > 0);
    EXPECT(counter(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) >= counter(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
    CU(cuCtxSynchronize());
    CU(cuMemPoolTrimTo(pool, 0));
    EXPECT(counter(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == 0);
}

/* Memory freed in a stream serves the same stream at once, and what is freed stays reserved up to the threshold. */
static void reuse(void)
{
    CUstream stream;
    CUdeviceptr first, second;
    cuuint64_t zero = 0;
    CU(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &zero));
    CU(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &zero));
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CU(cuMemAllocFromPoolAsync(&first, 50000, pool, stream));
    fill(first, 1, 12500, stream);
    EXPECT(counter(CU_MEMPOOL_ATTR_USED_MEM_CURRENT) >= 50000);
    CU(cuMemFreeAsync(first, stream));
    CU(cuMemAllocFromPoolAsync(&second, 50000, pool, stream));
    EXPECT(second == first);
    EXPECT(counter(CU_MEMPOOL_ATTR_USED_MEM_HIGH) == counter(CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
    fill(second, 9, 12500, stream);
    CU(cuMemFreeAsync(second, stream));
    CU(cuStreamSynchronize(stream));
    EXPECT(counter(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == 0);
    EXPECT_STATUS(cuMemFreeAsync(second, stream), CUDA_ERROR_INVALID_VALUE);

    /* The stream ends before its work is known to be complete. */
    CU(cuMemAllocFromPoolAsync(&first, 1 << 20, pool, stream));
    fill(first, 5, 1 << 18, stream);
    CU(cuMemFreeAsync(first, stream));
    CU(cuStreamDestroy(stream));
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CU(cuMemAllocFromPoolAsync(&second, 1 << 20, pool, stream));
    fill(second, 77, 1 << 18, stream);
    int ends[2];
    struct piece piece = {second, 1 << 18, 77};
    read_ends(&piece, ends, stream);
    CU(cuStreamSynchronize(stream));
    EXPECT(ends[0] == 77 && ends[1] == 77 + (1 << 18) - 1);
    CU(cuMemFree(second));
    CU(cuCtxSynchronize());
    EXPECT(counter(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == 0);
    CU(cuStreamDestroy(stream));
}

static void attributes(CUdevice device)
{
    CUdeviceptr address;
    CUmemoryPool told = NULL, default_pool;
    size_t bytes = 0;
    CU(cuDeviceGetDefaultMemPool(&default_pool, device));
    CU(cuMemAllocAsync(&address, 12345, NULL));
    CU(cuPointerGetAttribute(&told, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, address + 99));
    EXPECT(told == default_pool);
    CU(cuMemGetAddressRange(NULL, &bytes, address + 99));
    EXPECT(bytes == 12345);
    CU(cuMemFreeAsync(address, NULL));
    CU(cuDeviceSetMemPool(device, pool));
    CU(cuMemAllocAsync(&address, 12345, NULL));
    CU(cuPointerGetAttribute(&told, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, address));
    EXPECT(told == pool);
    fill(address, 4, 1000, NULL);
    /* A pool that is gone lets its memory live on. */
    CU(cuMemPoolDestroy(pool));
    int ends[2];
    struct piece piece = {address, 1000, 4};
    read_ends(&piece, ends, NULL);
    CU(cuStreamSynchronize(NULL));
    EXPECT(ends[0] == 4 && ends[1] == 1003);
    CU(cuMemFreeAsync(address, NULL));
    CU(cuCtxSynchronize());
    CU(cuDeviceGetMemPool(&told, device));
    EXPECT(told == default_pool);
}

int main(void)
{
    CUdevice device;
    size_t before, after, total;
    CUmodule module = start(&device);
    fill_function = get_function(module, "fill");
    CU(cuCtxGetCurrent(&context));
    CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
    CU(cuMemGetInfo(&before, &total));
    CU(cuMemPoolCreate(&pool, &properties));
    threads();
    reuse();
    attributes(device);
    CU(cuMemGetInfo(&after, &total));
    EXPECT(after + LITTLE >= before);
    return finish();
}
