/* Runs programs on a driver, each operation on its host thread. Buffers, streams, events and threads live as long as the process. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cuda.h>

#include "../waiting.h"
#include "kernels.h"
#include "program.h"

/* The functions of programs built with per-thread default streams. */
CUresult cuMemcpyHtoD_v2_ptds(CUdeviceptr to, const void *from, size_t bytes);
CUresult cuMemcpyDtoH_v2_ptds(void *to, CUdeviceptr from, size_t bytes);
CUresult cuMemcpyDtoD_v2_ptds(CUdeviceptr to, CUdeviceptr from, size_t bytes);
CUresult cuMemsetD32_v2_ptds(CUdeviceptr to, unsigned value, size_t count);
CUresult cuLaunchKernel_ptsz(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                             unsigned block_y, unsigned block_z, unsigned shared, CUstream stream, void **params, void **extra);
CUresult cuEventRecord_ptsz(CUevent event, CUstream stream);
CUresult cuStreamSynchronize_ptsz(CUstream stream);

#define BYTES (4 * WORDS)
#define POLL_SECONDS 20

static struct {
    CUcontext contexts[2];
    CUfunction functions[KERNELS], other;
    CUstream streams[STREAMS], capture[THREADS];
    CUevent events[EVENTS];
    CUdeviceptr device[BUFFERS]; /* of host buffers too: where kernels see them */
    void *host[BUFFERS];
    CUdeviceptr flags[FLAGS];
    pthread_t threads[THREADS];
    pthread_barrier_t start, end;
    bool stop;
} state;

static struct {
    const struct program *program;
    uint32_t expected[MOST_OPS][WORDS];
    uint32_t flag_base;
    bool issued[MOST_OPS]; /* atomic */
    pthread_mutex_t lock;
    bool failed; /* atomic */
    char what[256];
} now = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void fail(unsigned op, const char *what, long detail)
{
    pthread_mutex_lock(&now.lock);
    if (!now.failed)
        snprintf(now.what, sizeof now.what, "operation %u: %s (%ld)", op, what, detail);
    __atomic_store_n(&now.failed, true, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&now.lock);
}

static void compare(unsigned op, const void *found, const uint32_t *expected)
{
    uint32_t words[WORDS];
    memcpy(words, found, sizeof words);
    for (unsigned i = 0; i < WORDS; i++)
        if (words[i] != expected[i]) {
            fail(op, "wrong word", (long)i);
            return;
        }
}

static CUresult launch_on(CUstream stream, const struct op *op, uint32_t salt)
{
    uint32_t spin = op->spin;
    void *params[] = {&state.device[op->to], &state.device[op->from], &salt, &spin};
    CUfunction function = stream_on_other(op->stream) ? state.other : state.functions[op->where];
    if (op->stream == PER_THREAD && stream == CU_STREAM_PER_THREAD && salt & 1)
        return cuLaunchKernel_ptsz(function, 1, 1, 1, WORDS, 1, 1, 0, NULL, params, NULL);
    return cuLaunchKernel(function, 1, 1, 1, WORDS, 1, 1, 0, stream, params, NULL);
}

/* A context that has a capture cannot be waited for. */
static pthread_mutex_t capturing = PTHREAD_MUTEX_INITIALIZER;

static CUresult synchronize_context(void)
{
    pthread_mutex_lock(&capturing);
    CUresult result = cuCtxSynchronize();
    pthread_mutex_unlock(&capturing);
    return result;
}

static CUresult graph(const struct op *op, CUstream stream)
{
    CUgraph made = NULL;
    CUgraphExec ready = NULL;
    CUstream capture = state.capture[op->thread];
    pthread_mutex_lock(&capturing);
    CUresult result = cuStreamBeginCapture(capture, CU_STREAM_CAPTURE_MODE_RELAXED);
    for (uint32_t i = 0; i < 2 && result == CUDA_SUCCESS; i++)
        result = launch_on(capture, op, op->salt + i);
    CUresult ended = cuStreamEndCapture(capture, &made);
    pthread_mutex_unlock(&capturing);
    result = result == CUDA_SUCCESS ? ended : result;
    if (result == CUDA_SUCCESS)
        result = cuGraphInstantiate(&ready, made, 0);
    for (unsigned i = 0; i < 2 && result == CUDA_SUCCESS; i++)
        result = cuGraphLaunch(ready, stream);
    if (ready)
        cuGraphExecDestroy(ready);
    if (made)
        cuGraphDestroy(made);
    return result;
}

static void side_of(unsigned buffer, size_t offset, CUmemorytype *type, const void **host, CUdeviceptr *device)
{
    *type = is_device(buffer) ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
    *host = (char *)state.host[buffer] + offset;
    *device = state.device[buffer] + offset;
}

static CUresult copy_rows(const struct op *op, CUstream stream)
{
    const void *to_host;
    CUDA_MEMCPY2D copy = {.srcPitch = 32, .dstPitch = 32, .WidthInBytes = 16, .Height = 8};
    side_of(op->from, 0, &copy.srcMemoryType, &copy.srcHost, &copy.srcDevice);
    side_of(op->to, 0, &copy.dstMemoryType, &to_host, &copy.dstDevice);
    copy.dstHost = (void *)to_host;
    return cuMemcpy2DAsync(&copy, stream);
}

static CUresult copy_bytes(const struct op *op, CUstream stream, size_t offset, size_t bytes)
{
    CUdeviceptr to = state.device[op->to] + offset, from = state.device[op->from] + offset;
    char *to_host = (char *)state.host[op->to] + offset;
    const char *from_host = (const char *)state.host[op->from] + offset;
    if (!is_device(op->to))
        return cuMemcpyDtoHAsync(to_host, from, bytes, stream);
    if (!is_device(op->from))
        return cuMemcpyHtoDAsync(to, from_host, bytes, stream);
    if ((op->to < OTHER_FIRST) != (op->from < OTHER_FIRST))
        return cuMemcpyPeerAsync(to, state.contexts[op->to >= OTHER_FIRST], from, state.contexts[op->from >= OTHER_FIRST],
                                 bytes, stream);
    return cuMemcpyDtoDAsync(to, from, bytes, stream);
}

static CUdeviceptr unified(unsigned buffer)
{
    return is_device(buffer) ? state.device[buffer] : (CUdeviceptr)(uintptr_t)state.host[buffer];
}

static CUresult copy(const struct op *op, CUstream stream)
{
    switch (op->where) {
    case COPY_PLAIN:
        return cuMemcpyAsync(unified(op->to), unified(op->from), BYTES, stream);
    case COPY_TYPED:
        return copy_bytes(op, stream, 0, BYTES);
    case COPY_PART:
        return copy_bytes(op, stream, 64, WORDS);
    default:
        return copy_rows(op, stream);
    }
}

static CUresult copy_now(unsigned index, const struct op *op)
{
    bool own = op->stream == PER_THREAD;
    size_t offset = op->where == COPY_PART ? 64 : 0, bytes = op->where == COPY_PART ? WORDS : BYTES;
    CUdeviceptr to = state.device[op->to] + offset, from = state.device[op->from] + offset;
    char *to_host = (char *)state.host[op->to] + offset;
    const char *from_host = (const char *)state.host[op->from] + offset;
    CUresult result;
    if (is_device(op->to) && is_device(op->from))
        return own ? cuMemcpyDtoD_v2_ptds(to, from, bytes) : cuMemcpyDtoD(to, from, bytes);
    if (is_device(op->to))
        return own ? cuMemcpyHtoD_v2_ptds(to, from_host, bytes) : cuMemcpyHtoD(to, from_host, bytes);
    result = own ? cuMemcpyDtoH_v2_ptds(to_host, from, bytes) : cuMemcpyDtoH(to_host, from, bytes);
    if (result == CUDA_SUCCESS)
        compare(index, state.host[op->to], now.expected[index]);
    return result;
}

static CUresult set(const struct op *op, CUstream stream)
{
    CUdeviceptr to = state.device[op->to];
    switch (op->where) {
    case SET_8:
        return cuMemsetD8Async(to, (unsigned char)op->salt, BYTES, stream);
    case SET_16:
        return cuMemsetD16Async(to, (unsigned short)op->salt, BYTES / 2, stream);
    case SET_32:
        return cuMemsetD32Async(to, op->salt, WORDS, stream);
    default:
        return cuMemsetD2D32Async(to, 32, op->salt, 4, 8, stream);
    }
}

static CUresult set_now(const struct op *op)
{
    CUdeviceptr to = state.device[op->to];
    if (op->where == SET_32)
        return op->stream == PER_THREAD ? cuMemsetD32_v2_ptds(to, op->salt, WORDS) : cuMemsetD32(to, op->salt, WORDS);
    return set(op, op->stream == PER_THREAD ? CU_STREAM_PER_THREAD : NULL);
}

static void CUDA_CB host_function(void *data)
{
    const struct op *op = data;
    mix(state.host[op->to], state.host[op->from], op->salt);
}

static double seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static CUresult poll_until_complete(unsigned index, const struct op *op, CUstream stream)
{
    double end = seconds() + POLL_SECONDS;
    CUresult result;
    unsigned times = 0;
    while ((result = op->kind == STREAM_POLL ? cuStreamQuery(stream) : cuEventQuery(state.events[op->event])) ==
               CUDA_ERROR_NOT_READY &&
           !__atomic_load_n(&now.failed, __ATOMIC_ACQUIRE)) {
        if (seconds() > end)
            fail(index, "never complete", 0);
        wait_a_moment(times++);
    }
    return __atomic_load_n(&now.failed, __ATOMIC_ACQUIRE) ? CUDA_SUCCESS : result;
}

static CUresult check_if_complete(unsigned index, const struct op *op, CUstream stream)
{
    CUresult result = op->kind == STREAM_CHECK ? cuStreamQuery(stream) : cuEventQuery(state.events[op->event]);
    if (result == CUDA_SUCCESS)
        compare(index, state.host[op->from], now.expected[index]);
    return result == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : result;
}

static CUresult create_stream(unsigned number)
{
    int least, greatest;
    CUresult result = cuCtxGetStreamPriorityRange(&least, &greatest);
    bool urgent = number == FREE_URGENT || number == BLOCKING_URGENT;
    bool blocking = number == BLOCKING_A || number == BLOCKING_B || number == BLOCKING_URGENT || number == OTHER_BLOCKING;
    CUstream made = NULL;
    if (result == CUDA_SUCCESS)
        result =
            cuStreamCreateWithPriority(&made, blocking ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING, urgent ? greatest : least);
    __atomic_store_n(&state.streams[number], made, __ATOMIC_RELAXED);
    return result;
}

static CUresult recreate(unsigned number)
{
    CUresult result = cuStreamDestroy(state.streams[number]);
    return result == CUDA_SUCCESS ? create_stream(number) : result;
}

static uint32_t flag_value(const struct program *program, unsigned index)
{
    unsigned last = index;
    while (program->ops[last].kind != FLAG_WRITE || program->ops[last].event != program->ops[index].event)
        last--;
    return now.flag_base + last + 1;
}

static CUresult execute(unsigned index, const struct op *op)
{
    CUstream stream = __atomic_load_n(&state.streams[op->stream], __ATOMIC_RELAXED); /* not used by all kinds of operation */
    uint32_t *host = state.host[op->to];
    switch (op->kind) {
    case LAUNCH:
        return launch_on(stream, op, op->salt);
    case GRAPH:
        return graph(op, stream);
    case COPY:
        return copy(op, stream);
    case COPY_NOW:
        return copy_now(index, op);
    case SET:
        return set(op, stream);
    case SET_NOW:
        return set_now(op);
    case HOST_FUNCTION:
        return cuLaunchHostFunc(stream, host_function, (void *)op);
    case RECORD:
        return op->stream == PER_THREAD ? cuEventRecord_ptsz(state.events[op->event], NULL)
                                        : cuEventRecord(state.events[op->event], stream);
    case WAIT:
        return cuStreamWaitEvent(stream, state.events[op->event], 0);
    case EVENT_SYNC:
        return cuEventSynchronize(state.events[op->event]);
    case STREAM_SYNC:
        return op->stream == PER_THREAD ? cuStreamSynchronize_ptsz(NULL) : cuStreamSynchronize(stream);
    case EVENT_POLL:
    case STREAM_POLL:
        return poll_until_complete(index, op, stream);
    case EVENT_CHECK:
    case STREAM_CHECK:
        return check_if_complete(index, op, stream);
    case CONTEXT_SYNC:
        return synchronize_context();
    case RECREATE:
        return recreate(op->stream);
    case HOST_WRITE:
        for (uint32_t i = 0; i < WORDS; i++)
            host[i] = op->salt + i;
        return CUDA_SUCCESS;
    case HOST_CHECK:
        compare(index, state.host[op->from], now.expected[index]);
        return CUDA_SUCCESS;
    case FLAG_WRITE:
        return cuStreamWriteValue32(stream, state.flags[op->event], flag_value(now.program, index), 0);
    default:
        return cuStreamWaitValue32(stream, state.flags[op->event], flag_value(now.program, index), CU_STREAM_WAIT_VALUE_GEQ);
    }
}

static void wait_for_others(unsigned index, const struct op *op)
{
    unsigned times = 0;
    for (unsigned k = 0; k < index; k++)
        if (op->after >> now.program->ops[k].thread & 1)
            while (!__atomic_load_n(&now.issued[k], __ATOMIC_ACQUIRE) && !__atomic_load_n(&now.failed, __ATOMIC_ACQUIRE))
                wait_a_moment(times++);
}

static void run_thread(unsigned thread)
{
    for (unsigned i = 0; i < now.program->count; i++) {
        const struct op *op = &now.program->ops[i];
        if (op->thread != thread)
            continue;
        wait_for_others(i, op);
        if (__atomic_load_n(&now.failed, __ATOMIC_ACQUIRE))
            return;
        cuCtxSetCurrent(state.contexts[stream_on_other(op->stream)]);
        CUresult result = execute(i, op);
        if (result != CUDA_SUCCESS)
            fail(i, "CUDA error", result);
        __atomic_store_n(&now.issued[i], true, __ATOMIC_RELEASE);
    }
}

static void *thread_main(void *argument)
{
    for (;;) {
        pthread_barrier_wait(&state.start);
        if (state.stop)
            return NULL;
        run_thread((unsigned)(uintptr_t)argument);
        pthread_barrier_wait(&state.end);
    }
}

static bool make_buffers(void)
{
    CUresult result = CUDA_SUCCESS;
    void *flags;
    for (unsigned b = 0; b < BUFFERS && result == CUDA_SUCCESS; b++) {
        cuCtxSetCurrent(state.contexts[b >= OTHER_FIRST && is_device(b)]);
        if (is_device(b))
            result = cuMemAlloc(&state.device[b], BYTES);
        else if (b < PAGED_FIRST)
            result = cuMemHostAlloc(&state.host[b], BYTES, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
        else
            result = (state.host[b] = malloc(BYTES)) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    }
    cuCtxSetCurrent(state.contexts[0]);
    if (result == CUDA_SUCCESS)
        result = cuMemHostAlloc(&flags, 64, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
    if (result == CUDA_SUCCESS) {
        memset(flags, 0, 64);
        result = cuMemHostGetDevicePointer(&state.flags[0], flags, 0);
        state.flags[1] = state.flags[0] + 32;
    }
    if (result == CUDA_SUCCESS)
        result = cuMemAlloc(&state.flags[2], 64);
    return result == CUDA_SUCCESS && cuMemsetD8(state.flags[2], 0, 64) == CUDA_SUCCESS;
}

static bool make_functions(void)
{
    static const char *const names[KERNELS] = {"k_home", "k_one", "k_two"};
    CUmodule module;
    CUresult result = cuModuleLoadData(&module, home_ptx);
    for (unsigned i = 0; i < KERNELS && result == CUDA_SUCCESS; i++)
        result = cuModuleGetFunction(&state.functions[i], module, names[i]);
    cuCtxSetCurrent(state.contexts[1]);
    if (result == CUDA_SUCCESS)
        result = cuModuleLoadData(&module, other_ptx);
    return result == CUDA_SUCCESS && cuModuleGetFunction(&state.other, module, "k_other") == CUDA_SUCCESS;
}

static bool make_streams(void)
{
    CUresult result = CUDA_SUCCESS;
    state.streams[LEGACY] = state.streams[OTHER_LEGACY] = CU_STREAM_LEGACY;
    state.streams[PER_THREAD] = CU_STREAM_PER_THREAD;
    for (unsigned i = BLOCKING_A; i < STREAMS && result == CUDA_SUCCESS; i++) {
        cuCtxSetCurrent(state.contexts[stream_on_other(i)]);
        if (i != OTHER_LEGACY)
            result = create_stream(i);
    }
    for (unsigned i = 0; i < EVENTS && result == CUDA_SUCCESS; i++) {
        cuCtxSetCurrent(state.contexts[i >= HOME_EVENTS]);
        result = cuEventCreate(&state.events[i], i % 2 ? CU_EVENT_DISABLE_TIMING : CU_EVENT_DEFAULT);
    }
    cuCtxSetCurrent(state.contexts[0]);
    for (unsigned i = 0; i < THREADS && result == CUDA_SUCCESS; i++)
        result = cuStreamCreate(&state.capture[i], CU_STREAM_NON_BLOCKING);
    return result == CUDA_SUCCESS;
}

bool run_start(void)
{
    if (cuInit(0) != CUDA_SUCCESS)
        return false;
    for (int i = 0; i < 2; i++)
        if (cuDevicePrimaryCtxRetain(&state.contexts[i], i) != CUDA_SUCCESS)
            return false;
    cuCtxSetCurrent(state.contexts[0]);
    if (!make_functions() || !make_buffers() || !make_streams())
        return false;
    pthread_barrier_init(&state.start, NULL, THREADS + 1);
    pthread_barrier_init(&state.end, NULL, THREADS + 1);
    for (uintptr_t i = 0; i < THREADS; i++)
        if (pthread_create(&state.threads[i], NULL, thread_main, (void *)i) != 0)
            return false;
    return true;
}

void run_finish(void)
{
    state.stop = true;
    pthread_barrier_wait(&state.start);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(state.threads[i], NULL);
}

static void synchronize(void)
{
    for (int i = 1; i >= 0; i--) {
        cuCtxSetCurrent(state.contexts[i]);
        CUresult result = cuCtxSynchronize();
        if (result != CUDA_SUCCESS)
            fail(now.program->count, "CUDA error at the end", result);
    }
}

static void write_buffers(const struct memory *memory)
{
    for (unsigned b = 0; b < BUFFERS; b++)
        if (is_device(b))
            cuMemcpyHtoD(state.device[b], memory->words[b], BYTES);
        else
            memcpy(state.host[b], memory->words[b], BYTES);
}

static void compare_buffers(const struct memory *memory)
{
    for (unsigned b = 0; b < BUFFERS; b++) {
        uint32_t found[WORDS];
        CUresult result = CUDA_SUCCESS;
        if (is_device(b))
            result = cuMemcpyDtoH(found, state.device[b], BYTES);
        else
            memcpy(found, state.host[b], BYTES);
        if (result != CUDA_SUCCESS)
            fail(now.program->count, "CUDA error reading back", result);
        else if (memcmp(found, memory->words[b], BYTES) != 0)
            fail(now.program->count, "wrong bytes at the end in buffer", b);
    }
}

bool run_program(const struct program *program, char *what, unsigned what_bytes)
{
    static struct memory memory;
    now.program = program;
    now.failed = false;
    now.flag_base += MOST_OPS + 1;
    memset(now.issued, 0, sizeof now.issued);
    memory_init(&memory);
    write_buffers(&memory);
    synchronize();
    interpret(program, &memory, now.expected);
    pthread_barrier_wait(&state.start);
    pthread_barrier_wait(&state.end);
    synchronize();
    compare_buffers(&memory);
    snprintf(what, what_bytes, "%s", now.failed ? now.what : "");
    return !now.failed;
}
