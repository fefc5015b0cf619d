/* See lane_reader.h. */
#include "executor/lane_reader.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/os.h"

#define SPINS_BEFORE_SLEEP 2000
#define SLEEP_NS 100000000ull /* bound on a sleep whose wake-up was lost or that must see `stop` */
#define WATCH_NS 2000000ull   /* between looks at work under way: nobody else would notice that it has failed */

struct tsr_lane_reader {
    struct tsr_lane *lane;
    bool busy[TSR_LANE_STREAMS]; /* thread; has been given work that was not seen to be complete */
    uint64_t bytes;
    struct tsr_mirror *mirror;
    CUcontext context;
    pthread_t thread;
    int stop; /* atomic */
};

static void fail(struct tsr_lane_reader *reader, CUresult error)
{
    const char *name = "?";
    cuGetErrorName(error, &name);
    fprintf(stderr, "tessera-executor: %s; the application is told\n", name);
    /* In this order: whoever passes a fence that is opened here finds the error. */
    __atomic_store_n(&reader->lane->dead, (uint32_t)error, __ATOMIC_RELEASE);
    for (uint32_t i = 0; i < TSR_LANE_STREAMS; i++)
        __atomic_store_n(&reader->lane->away[i], UINT64_MAX / 2, __ATOMIC_RELEASE);
}

static CUresult launch(const struct tsr_lane_reader *reader, const struct tsr_lane_record *record, CUstream stream)
{
    CUfunction function = tsr_mirror_function(reader->mirror, record->function);
    if (!function)
        return CUDA_ERROR_INVALID_HANDLE;
    size_t bytes = record->param_bytes;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, (void *)(record + 1), CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                     CU_LAUNCH_PARAM_END};
    return cuLaunchKernel(function, record->grid[0], record->grid[1], record->grid[2], record->block[0], record->block[1],
                          record->block[2], record->shared_bytes, stream, NULL, extra);
}

static CUresult carry_out(struct tsr_lane_reader *reader, const struct tsr_lane_record *record)
{
    if (record->kind == TSR_LANE_SKIP)
        return CUDA_SUCCESS;
    CUstream stream = tsr_mirror_stream(reader->mirror, record->stream);
    if (!stream)
        return CUDA_ERROR_INVALID_HANDLE;
    reader->busy[record->stream] = true;
    CUdeviceptr home = (CUdeviceptr)(uintptr_t)&reader->lane->home[record->stream];
    CUdeviceptr away = (CUdeviceptr)(uintptr_t)&reader->lane->away[record->stream];
    switch (record->kind) {
    case TSR_LANE_LAUNCH:
        return launch(reader, record, stream);
    case TSR_LANE_WAIT:
        return cuStreamWaitValue64(stream, home, record->value, CU_STREAM_WAIT_VALUE_GEQ);
    case TSR_LANE_SIGNAL:
        return cuStreamWriteValue64(stream, away, record->value, CU_STREAM_WRITE_VALUE_DEFAULT);
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

/* A launch fails after the driver has taken it, and then what stands behind it in the stream never runs. True: all work is complete. */
static bool watch(struct tsr_lane_reader *reader)
{
    bool idle = true;
    for (uint32_t i = 0; i < TSR_LANE_STREAMS; i++) {
        if (!reader->busy[i])
            continue;
        CUresult result = cuStreamQuery(tsr_mirror_stream(reader->mirror, i));
        if (result == CUDA_ERROR_NOT_READY) {
            idle = false;
            continue;
        }
        reader->busy[i] = false;
        if (result != CUDA_SUCCESS && !reader->lane->dead)
            fail(reader, result);
    }
    return idle;
}

static void wait_for_records(struct tsr_lane_reader *reader, uint64_t head)
{
    struct tsr_lane *lane = reader->lane;
    for (int i = 0; i < SPINS_BEFORE_SLEEP; i++) {
        if (__atomic_load_n(&lane->tail, __ATOMIC_ACQUIRE) != head)
            return;
        __builtin_ia32_pause();
    }
    __atomic_store_n(&lane->sleeping, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&lane->tail, __ATOMIC_SEQ_CST) == head)
        tsr_os_futex_wait(&lane->sleeping, 1, watch(reader) ? SLEEP_NS : WATCH_NS, true);
    __atomic_store_n(&lane->sleeping, 0, __ATOMIC_SEQ_CST);
}

static void *run(void *argument)
{
    struct tsr_lane_reader *reader = argument;
    struct tsr_lane *lane = reader->lane;
    uint64_t head = 0;
    cuCtxSetCurrent(reader->context);
    while (!__atomic_load_n(&reader->stop, __ATOMIC_ACQUIRE)) {
        if (__atomic_load_n(&lane->tail, __ATOMIC_ACQUIRE) == head) {
            wait_for_records(reader, head);
            continue;
        }
        const struct tsr_lane_record *record = (const struct tsr_lane_record *)(lane->records + (head & (TSR_LANE_BYTES - 1)));
        uint32_t bytes = record->bytes;
        if (!lane->dead) {
            CUresult result = bytes ? carry_out(reader, record) : CUDA_ERROR_INVALID_VALUE;
            if (result != CUDA_SUCCESS)
                fail(reader, result);
        }
        if (!bytes)
            break;
        head += bytes;
        __atomic_store_n(&lane->head, head, __ATOMIC_RELEASE);
    }
    return NULL;
}

CUresult tsr_lane_reader_start(const struct tsr_message *hello, int descriptor, struct tsr_mirror *mirror, CUcontext context,
                               struct tsr_lane_reader **out)
{
    struct tsr_lane_reader *reader = calloc(1, sizeof *reader);
    if (!reader)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = CUDA_ERROR_MAP_FAILED;
    *reader = (struct tsr_lane_reader){.bytes = hello->bytes, .mirror = mirror, .context = context};
    reader->lane = tsr_os_map((void *)(uintptr_t)hello->address, hello->bytes, PROT_READ | PROT_WRITE, descriptor, 0);
    if (!reader->lane)
        goto drop;
    result = cuMemHostRegister(reader->lane, hello->bytes, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
    if (result != CUDA_SUCCESS)
        goto unmap;
    if (tsr_os_thread_start(&reader->thread, "tessera-lane", run, reader)) {
        *out = reader;
        return CUDA_SUCCESS;
    }
    result = CUDA_ERROR_OUT_OF_MEMORY;
    cuMemHostUnregister(reader->lane);
unmap:
    tsr_os_unmap(reader->lane, hello->bytes);
drop:
    free(reader);
    return result;
}

void tsr_lane_reader_stop(struct tsr_lane_reader *reader)
{
    /* The application is gone: whatever still waits for its fences must not keep this process. */
    for (uint32_t i = 0; i < TSR_LANE_STREAMS; i++)
        __atomic_store_n(&reader->lane->home[i], UINT64_MAX / 2, __ATOMIC_RELEASE);
    __atomic_store_n(&reader->stop, 1, __ATOMIC_RELEASE);
    tsr_os_futex_wake(&reader->lane->sleeping, 1, true);
    pthread_join(reader->thread, NULL);
    cuCtxSynchronize();
    cuMemHostUnregister(reader->lane);
    tsr_os_unmap(reader->lane, reader->bytes);
    free(reader);
}
