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
    pthread_mutex_t watching;    /* held while streams are asked that no record refers to: they must not be replaced then */
    bool busy[TSR_LANE_STREAMS]; /* thread; has been given work that was not seen to be complete */
    uint64_t bytes;
    struct tsr_mirror *mirror;
    CUcontext context;
    pthread_t thread, pulse;
    int stop; /* atomic */
};

#define MOST_OPERATIONS 16u /* of one batch */
#define UNIT 64u
#define DRAIN_LOOK_NS 20000ull

static void fail(struct tsr_lane_reader *reader, CUresult error)
{
    const char *name = "?";
    cuGetErrorName(error, &name);
    fprintf(stderr, "tessera-executor: %s; the application is told\n", name);
    /* In this order: whoever passes a fence that is opened here finds the error. */
    uint32_t none = CUDA_SUCCESS;
    __atomic_compare_exchange_n(&reader->lane->dead, &none, (uint32_t)error, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    for (uint32_t i = 0; i < TSR_LANE_STREAMS; i++)
        __atomic_store_n(&reader->lane->away[i], TSR_LANE_OPEN, __ATOMIC_RELEASE);
}

/* In the form that every driver takes: one by one, if the block is the function's own. */
static CUresult launch(const struct tsr_lane_reader *reader, const struct tsr_lane_record *record, CUstream stream)
{
    const struct tsr_mirror_function *of = tsr_mirror_function(reader->mirror, record->function);
    if (!of)
        return CUDA_ERROR_INVALID_HANDLE;
    char *block = (char *)(record + 1);
    uint32_t attributes = (uint32_t)record->value;
    size_t bytes = record->value ? record->value >> 32 : record->param_bytes;
    bool known = of->bytes == bytes;
    void *params[TSR_MIRROR_PARAMETERS];
    for (uint32_t i = 0; known && i < of->count; i++)
        params[i] = block + of->offsets[i];
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, block, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
    CUlaunchConfig config = {.gridDimX = record->grid[0],
                             .gridDimY = record->grid[1],
                             .gridDimZ = record->grid[2],
                             .blockDimX = record->block[0],
                             .blockDimY = record->block[1],
                             .blockDimZ = record->block[2],
                             .sharedMemBytes = record->shared_bytes,
                             .hStream = stream,
                             .attrs = (CUlaunchAttribute *)(block + (bytes + 7) / 8 * 8),
                             .numAttrs = attributes};
    void **values = known && bytes ? params : NULL, **packed = known ? NULL : extra;
    if (attributes)
        return cuLaunchKernelEx(&config, of->function, values, packed);
    return cuLaunchKernel(of->function, record->grid[0], record->grid[1], record->grid[2], record->block[0], record->block[1],
                          record->block[2], record->shared_bytes, stream, values, packed);
}

/* What the driver has refused, for whoever reads the log. */
static void tell(const struct tsr_lane_reader *reader, const struct tsr_lane_record *record)
{
    static const char *const kinds[] = {"skip", "launch", "wait", "signal", "copy", "memset"};
    const struct tsr_mirror_function *of =
        record->kind == TSR_LANE_LAUNCH ? tsr_mirror_function(reader->mirror, record->function) : NULL;
    const char *name = "";
    if (of)
        cuFuncGetName(&name, of->function);
    fprintf(stderr, "tessera-executor: refused: %s %s", record->kind <= TSR_LANE_SET ? kinds[record->kind] : "?", name);
    if (record->kind == TSR_LANE_LAUNCH)
        fprintf(stderr, " grid %u,%u,%u block %u,%u,%u shared %u attributes %u parameters %u bytes, its own %zu in %u",
                record->grid[0], record->grid[1], record->grid[2], record->block[0], record->block[1], record->block[2],
                record->shared_bytes, (uint32_t)record->value, record->param_bytes, of ? of->bytes : 0, of ? of->count : 0);
    if (record->kind == TSR_LANE_COPY) {
        const struct tsr_lane_copy *what = (const struct tsr_lane_copy *)(record + 1);
        fprintf(stderr, " to %#lx from %#lx pitches %lu %lu width %lu height %lu", what->to, what->from, what->to_pitch,
                what->from_pitch, what->width, what->height);
    }
    if (record->kind == TSR_LANE_SET) {
        const struct tsr_lane_set *what = (const struct tsr_lane_set *)(record + 1);
        fprintf(stderr, " to %#lx pitch %lu width %lu height %lu of %u bytes", what->to, what->pitch, what->width, what->height,
                what->element);
    }
    fputc('\n', stderr);
}

static CUresult copy(const struct tsr_lane_copy *what, CUstream stream)
{
    if (what->height == 1)
        return cuMemcpyDtoDAsync(what->to, what->from, what->width, stream);
    CUDA_MEMCPY2D rows = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = what->from,
                          .srcPitch = what->from_pitch,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = what->to,
                          .dstPitch = what->to_pitch,
                          .WidthInBytes = what->width,
                          .Height = what->height};
    return cuMemcpy2DAsync(&rows, stream);
}

static CUresult set(const struct tsr_lane_set *what, CUstream stream)
{
    bool one = what->height == 1;
    switch (what->element) {
    case 1:
        return one ? cuMemsetD8Async(what->to, (unsigned char)what->value, what->width, stream)
                   : cuMemsetD2D8Async(what->to, what->pitch, (unsigned char)what->value, what->width, what->height, stream);
    case 2:
        return one ? cuMemsetD16Async(what->to, (unsigned short)what->value, what->width, stream)
                   : cuMemsetD2D16Async(what->to, what->pitch, (unsigned short)what->value, what->width, what->height, stream);
    default:
        return one ? cuMemsetD32Async(what->to, what->value, what->width, stream)
                   : cuMemsetD2D32Async(what->to, what->pitch, what->value, what->width, what->height, stream);
    }
}

static struct tsr_lane_record *record_at(const struct tsr_lane_reader *reader, uint64_t position)
{
    return (struct tsr_lane_record *)(reader->lane->records + (position & (TSR_LANE_BYTES - 1)));
}

static bool is_ready(const struct tsr_lane_reader *reader, uint64_t position)
{
    return __atomic_load_n(&record_at(reader, position)->stamp, __ATOMIC_SEQ_CST) == position + 1;
}

static bool is_operation(const struct tsr_lane_record *record)
{
    return record->kind == TSR_LANE_WAIT || record->kind == TSR_LANE_SIGNAL;
}

static CUstreamBatchMemOpParams operation_of(const struct tsr_lane *lane, const struct tsr_lane_record *record)
{
    CUstreamBatchMemOpParams operation = {0};
    if (record->kind == TSR_LANE_WAIT) {
        operation.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_64;
        operation.waitValue.address = (CUdeviceptr)(uintptr_t)&lane->home[record->stream];
        operation.waitValue.value64 = record->value;
        operation.waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;
    } else {
        operation.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
        operation.writeValue.address = (CUdeviceptr)(uintptr_t)&lane->away[record->stream];
        operation.writeValue.value64 = record->value;
    }
    return operation;
}

/* All waits and signals of one stream that stand behind each other, as one batch. end: behind the last of them. */
static CUresult operate(const struct tsr_lane_reader *reader, uint64_t position, CUstream stream, uint64_t *end)
{
    CUstreamBatchMemOpParams operations[MOST_OPERATIONS];
    const struct tsr_lane_record *first = record_at(reader, position);
    unsigned count = 0;
    do {
        const struct tsr_lane_record *record = record_at(reader, position);
        operations[count++] = operation_of(reader->lane, record);
        position += record->bytes;
    } while (count < MOST_OPERATIONS && is_ready(reader, position) && is_operation(record_at(reader, position)) &&
             record_at(reader, position)->stream == first->stream);
    *end = position;
    __atomic_store_n(&reader->lane->taken, position, __ATOMIC_SEQ_CST);
    return cuStreamBatchMemOp(stream, count, operations, 0);
}

static CUresult carry_out(struct tsr_lane_reader *reader, uint64_t position, uint64_t *end)
{
    const struct tsr_lane_record *record = record_at(reader, position);
    *end = position + record->bytes;
    if (record->kind == TSR_LANE_SKIP)
        return CUDA_SUCCESS;
    CUstream stream = tsr_mirror_stream(reader->mirror, record->stream);
    if (!stream)
        return CUDA_ERROR_INVALID_HANDLE;
    reader->busy[record->stream] = true;
    if (is_operation(record))
        return operate(reader, position, stream, end);
    switch (record->kind) {
    case TSR_LANE_LAUNCH:
        return launch(reader, record, stream);
    case TSR_LANE_COPY:
        return copy((const struct tsr_lane_copy *)(record + 1), stream);
    case TSR_LANE_SET:
        return set((const struct tsr_lane_set *)(record + 1), stream);
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

static bool watch_locked(struct tsr_lane_reader *reader)
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

/* A launch fails after the driver has taken it, and then what stands behind it in the stream never runs. True: all work is complete. */
static bool watch(struct tsr_lane_reader *reader)
{
    pthread_mutex_lock(&reader->watching);
    bool idle = watch_locked(reader);
    pthread_mutex_unlock(&reader->watching);
    return idle;
}

static void wait_for_records(struct tsr_lane_reader *reader, uint64_t head)
{
    struct tsr_lane *lane = reader->lane;
    for (int i = 0; i < SPINS_BEFORE_SLEEP; i++) {
        if (is_ready(reader, head))
            return;
        __builtin_ia32_pause();
    }
    __atomic_store_n(&lane->sleeping, 1, __ATOMIC_SEQ_CST);
    if (!is_ready(reader, head))
        tsr_os_futex_wait(&lane->sleeping, 1, watch(reader) ? SLEEP_NS : WATCH_NS, true);
    __atomic_store_n(&lane->sleeping, 0, __ATOMIC_SEQ_CST);
}

/* Clears what may be taken for a stamp, and gives the room back. */
static void give_back(struct tsr_lane_reader *reader, uint64_t from, uint64_t end)
{
    for (uint64_t at = from; at < end; at += UNIT)
        __atomic_store_n(&record_at(reader, at)->stamp, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&reader->lane->head, end, __ATOMIC_RELEASE);
}

static void *run(void *argument)
{
    struct tsr_lane_reader *reader = argument;
    struct tsr_lane *lane = reader->lane;
    uint64_t head = 0;
    cuCtxSetCurrent(reader->context);
    while (!__atomic_load_n(&reader->stop, __ATOMIC_ACQUIRE)) {
        if (!is_ready(reader, head)) {
            wait_for_records(reader, head);
            continue;
        }
        uint64_t end = head + record_at(reader, head)->bytes;
        /* In this order: the shim, which gives up in the other one, either knows that the record was taken or is seen to have given up. */
        __atomic_store_n(&lane->taken, end, __ATOMIC_SEQ_CST);
        if (__atomic_load_n(&lane->dead, __ATOMIC_SEQ_CST) == CUDA_SUCCESS) {
            CUresult result = end > head ? carry_out(reader, head, &end) : CUDA_ERROR_INVALID_VALUE;
            if (result != CUDA_SUCCESS) {
                tell(reader, record_at(reader, head));
                fail(reader, result);
            }
        }
        if (end == head)
            break;
        give_back(reader, head, end);
        head = end;
    }
    return NULL;
}

/* A thread of its own: the lane's may be inside the driver for as long as a kernel takes. */
static void *beat(void *argument)
{
    struct tsr_lane_reader *reader = argument;
    while (!__atomic_load_n(&reader->stop, __ATOMIC_ACQUIRE)) {
        __atomic_fetch_add(&reader->lane->pulse, 1, __ATOMIC_RELEASE);
        tsr_os_futex_wait(&reader->lane->never, 0, TSR_LANE_PULSE_NS, true);
    }
    return NULL;
}

static void drain(const struct tsr_lane_reader *reader)
{
    struct tsr_lane *lane = reader->lane;
    uint64_t end = __atomic_load_n(&lane->tail, __ATOMIC_ACQUIRE);
    while (__atomic_load_n(&lane->head, __ATOMIC_ACQUIRE) < end)
        tsr_os_futex_wait(&lane->never, 0, DRAIN_LOOK_NS, true);
}

void tsr_lane_reader_change(struct tsr_lane_reader *reader, const struct tsr_message *message, int descriptor,
                            struct tsr_reply *reply)
{
    drain(reader);
    pthread_mutex_lock(&reader->watching);
    tsr_mirror_apply(reader->mirror, message, descriptor, reply);
    pthread_mutex_unlock(&reader->watching);
}

CUresult tsr_lane_reader_start(const struct tsr_message *hello, int descriptor, struct tsr_mirror *mirror, CUcontext context,
                               struct tsr_lane_reader **out)
{
    struct tsr_lane_reader *reader = calloc(1, sizeof *reader);
    if (!reader)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = CUDA_ERROR_MAP_FAILED;
    *reader = (struct tsr_lane_reader){.bytes = hello->bytes, .mirror = mirror, .context = context};
    pthread_mutex_init(&reader->watching, NULL);
    reader->lane = tsr_os_map((void *)(uintptr_t)hello->address, hello->bytes, PROT_READ | PROT_WRITE, descriptor, 0);
    if (!reader->lane)
        goto drop;
    result = cuMemHostRegister(reader->lane, hello->bytes, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
    if (result != CUDA_SUCCESS)
        goto unmap;
    result = CUDA_ERROR_OUT_OF_MEMORY;
    if (tsr_os_thread_start(&reader->pulse, "tessera-pulse", beat, reader)) {
        if (tsr_os_thread_start(&reader->thread, "tessera-lane", run, reader)) {
            *out = reader;
            return CUDA_SUCCESS;
        }
        __atomic_store_n(&reader->stop, 1, __ATOMIC_RELEASE);
        pthread_join(reader->pulse, NULL);
    }
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
        __atomic_store_n(&reader->lane->home[i], TSR_LANE_OPEN, __ATOMIC_RELEASE);
    __atomic_store_n(&reader->stop, 1, __ATOMIC_RELEASE);
    tsr_os_futex_wake(&reader->lane->sleeping, 1, true);
    pthread_join(reader->thread, NULL);
    pthread_join(reader->pulse, NULL);
    cuCtxSynchronize();
    cuMemHostUnregister(reader->lane);
    tsr_os_unmap(reader->lane, reader->bytes);
    free(reader);
}
