/*
 * Streams of a thread, and the order of those that touch the same item. One stream waits for another by an event, by a word in memory that one
 * writes and the other waits for, by the CPU, or not at all where the rules of the legacy default stream order them anyway.
 */

#include "../waiting.h"
#include "program.h"

static pthread_mutex_t captures = PTHREAD_MUTEX_INITIALIZER;

void lock_captures(bool capture)
{
    (void)capture;
    pthread_mutex_lock(&captures);
}

void unlock_captures(void)
{
    pthread_mutex_unlock(&captures);
}

const char *stream_name(uint32_t stream)
{
    static const char *const names[STREAMS] = {"legacy", "per-thread", "blocking", "free-a", "free-b", "urgent", "gpu-1"};
    return names[stream];
}

static uint32_t gpu_of(uint32_t stream)
{
    return stream == OTHER;
}

void enter(struct worker *worker, uint32_t stream)
{
    CU(cuCtxSetCurrent(worker->program->contexts[gpu_of(stream)]));
}

static void open_stream(struct worker *worker, uint32_t stream)
{
    int least = 0, greatest = 0;
    if (stream == LEGACY || stream == PER_THREAD) {
        worker->streams[stream] = stream == LEGACY ? CU_STREAM_LEGACY : CU_STREAM_PER_THREAD;
        return;
    }
    enter(worker, stream);
    unsigned flags = stream == BLOCKING ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING;
    if (stream == URGENT && CU(cuCtxGetStreamPriorityRange(&least, &greatest)))
        CU(cuStreamCreateWithPriority(&worker->streams[stream], flags, greatest));
    else
        CU(cuStreamCreate(&worker->streams[stream], flags));
    enter(worker, LEGACY);
}

CUstream stream_of(struct worker *worker, uint32_t stream)
{
    if (!worker->opened[stream]) {
        open_stream(worker, stream);
        worker->opened[stream] = true;
    }
    return worker->streams[stream];
}

uint32_t draw_stream(struct worker *worker, struct draw *from)
{
    uint32_t stream = draw(from, OTHER);
    return uses(worker->program, FEATURE_streams) ? stream : stream % 2 ? LEGACY : FREE_A;
}

static CUevent next_event(struct worker *worker, uint32_t gpu)
{
    CUevent *event = &worker->events[gpu][worker->next_event[gpu]++ % WORKER_EVENTS];
    if (!*event)
        CU(cuEventCreate(event, worker->next_event[gpu] % 2 ? CU_EVENT_DISABLE_TIMING : CU_EVENT_DEFAULT));
    return *event;
}

static CUevent record(struct worker *worker, uint32_t stream)
{
    enter(worker, stream);
    say(worker, "    event %u records %s", worker->next_event[gpu_of(stream)] % WORKER_EVENTS, stream_name(stream));
    CUevent event = next_event(worker, gpu_of(stream));
    CU(cuEventRecord(event, stream_of(worker, stream)));
    enter(worker, LEGACY);
    return event;
}

static void wait_for_event(struct worker *worker, uint32_t stream, CUevent event)
{
    enter(worker, stream);
    say(worker, "    %s waits for an event", stream_name(stream));
    CU(cuStreamWaitEvent(stream_of(worker, stream), event, 0));
    enter(worker, LEGACY);
}

static bool ordered_anyway(uint32_t earlier, uint32_t later)
{
    bool blocking = later == BLOCKING || later == PER_THREAD, was_blocking = earlier == BLOCKING || earlier == PER_THREAD;
    return (earlier == LEGACY && blocking) || (later == LEGACY && was_blocking);
}

static CUresult until_ready(CUresult (*query)(CUstream), CUstream stream)
{
    CUresult result;
    for (unsigned times = 0; (result = query(stream)) == CUDA_ERROR_NOT_READY; times++)
        wait_a_moment(times);
    return result;
}

static CUresult until_event(CUevent event)
{
    CUresult result;
    for (unsigned times = 0; (result = cuEventQuery(event)) == CUDA_ERROR_NOT_READY; times++)
        wait_a_moment(times);
    return result;
}

static void wait_on_cpu(struct worker *worker, uint32_t stream, struct draw *from)
{
    CUstream waited = stream_of(worker, stream);
    enter(worker, stream);
    switch (draw(from, 5)) {
    case 0:
        CU(cuEventSynchronize(record(worker, stream)));
        break;
    case 1:
        CU(until_event(record(worker, stream)));
        break;
    case 2:
        CU(until_ready(cuStreamQuery, waited));
        break;
    default:
        CU(cuStreamSynchronize(waited));
    }
    enter(worker, LEGACY);
}

static void by_value(struct worker *worker, uint32_t earlier, uint32_t later)
{
    static const uint32_t zeros[STREAMS];
    if (!worker->flags && CU(cuMemAlloc(&worker->flags, sizeof zeros)))
        CU(cuMemcpyHtoD(worker->flags, zeros, sizeof zeros));
    /* One word for each stream that writes: of two streams the lower value might come last. */
    CUdeviceptr flag = worker->flags + 4 * earlier;
    uint32_t value = ++worker->flag_value;
    say(worker, "    %s writes %u, %s waits for it", stream_name(earlier), value, stream_name(later));
    CU(cuStreamWriteValue32(stream_of(worker, earlier), flag, value, 0));
    CU(cuStreamWaitValue32(stream_of(worker, later), flag, value, CU_STREAM_WAIT_VALUE_GEQ));
}

static void join(struct worker *worker, uint32_t earlier, uint32_t later, struct draw *from)
{
    uint32_t way = draw(from, 12);
    if (ordered_anyway(earlier, later) && way < 8)
        return;
    if (way == 0)
        wait_on_cpu(worker, earlier, from);
    else if (way < 3 && uses(worker->program, FEATURE_values) && earlier != OTHER && later != OTHER)
        by_value(worker, earlier, later);
    else
        wait_for_event(worker, later, record(worker, earlier));
}

static uint8_t touched_by(const struct sync *sync, bool write)
{
    uint8_t streams = write ? sync->readers : 0;
    return sync->writer == NO_STREAM ? streams : (uint8_t)(streams | 1u << sync->writer);
}

void order(struct worker *worker, struct sync *sync, uint32_t stream, bool write, struct draw *from)
{
    if (sync->handed) {
        sync->handed = false;
        if (one_in(from, 4)) {
            CU(cuEventSynchronize(sync->events[sync->handed_gpu]));
        } else {
            wait_for_event(worker, stream, sync->events[sync->handed_gpu]);
            sync->writer = (uint8_t)stream;
        }
    }
    uint8_t others = touched_by(sync, write) & (uint8_t)~(1u << stream);
    for (uint32_t earlier = 0; earlier < STREAMS; earlier++)
        if (others >> earlier & 1)
            join(worker, earlier, stream, from);
    if (write) {
        sync->writer = (uint8_t)stream;
        sync->readers = 0;
    } else {
        sync->readers |= (uint8_t)(1u << stream);
    }
}

void host_wait(struct worker *worker, struct sync *sync, bool write, struct draw *from)
{
    if (sync->handed)
        CU(cuEventSynchronize(sync->events[sync->handed_gpu]));
    sync->handed = false;
    for (uint32_t stream = 0; stream < STREAMS; stream++)
        if (touched_by(sync, write) >> stream & 1)
            wait_on_cpu(worker, stream, from);
    sync->writer = NO_STREAM;
    if (write)
        sync->readers = 0;
}

void hand_over(struct worker *worker, struct sync *sync)
{
    uint8_t streams = touched_by(sync, true);
    if (sync->handed || streams == 0)
        return;
    uint32_t last = (uint32_t)__builtin_ctz(streams);
    for (uint32_t stream = last + 1; stream < STREAMS; stream++)
        if (streams >> stream & 1)
            wait_for_event(worker, last, record(worker, stream));
    uint32_t gpu = gpu_of(last);
    enter(worker, last);
    if (!sync->events[gpu])
        CU(cuEventCreate(&sync->events[gpu], CU_EVENT_DISABLE_TIMING));
    CU(cuEventRecord(sync->events[gpu], stream_of(worker, last)));
    enter(worker, LEGACY);
    *sync = (struct sync){
        .writer = NO_STREAM, .handed = true, .handed_gpu = (uint8_t)gpu, .events = {sync->events[0], sync->events[1]}};
}

void op_wait(struct worker *worker, struct draw *from)
{
    uint32_t stream = draw_stream(worker, from);
    say(worker, "wait for %s", stream_name(stream));
    if (one_in(from, 4)) {
        lock_captures(false);
        CU(cuCtxSynchronize());
        unlock_captures();
    } else {
        wait_on_cpu(worker, stream, from);
    }
}

/* A new stream in the place of one that may still have work. */
void op_restart_stream(struct worker *worker, struct draw *from)
{
    uint32_t stream = BLOCKING + draw(from, OTHER - BLOCKING);
    if (!worker->opened[stream] || !uses(worker->program, FEATURE_streams))
        return;
    say(worker, "another stream as %s", stream_name(stream));
    CUevent event = record(worker, stream);
    CU(cuStreamDestroy(worker->streams[stream]));
    worker->opened[stream] = false;
    wait_for_event(worker, stream, event);
}

void op_context(struct worker *worker, struct draw *from)
{
    CUcontext popped = NULL, current = NULL, *contexts = worker->program->contexts;
    CUcontext other = uses(worker->program, FEATURE_peer) ? contexts[1] : contexts[0];
    if (!uses(worker->program, FEATURE_contexts))
        return;
    say(worker, "push and pop contexts");
    for (uint32_t i = draw(from, 3) + 1; i > 0; i--) {
        CU(cuCtxPushCurrent(other));
        CU(cuCtxGetCurrent(&current));
        worker->digest = scramble(worker->digest + (current == other));
        CU(cuCtxPopCurrent(&popped));
    }
    CU(cuCtxSetCurrent(NULL));
    CU(cuCtxSetCurrent(contexts[0]));
}

void close_streams(struct worker *worker)
{
    for (uint32_t stream = 0; stream < STREAMS; stream++) {
        enter(worker, stream);
        if (worker->opened[stream] && stream != LEGACY && stream != PER_THREAD)
            CU(cuStreamDestroy(worker->streams[stream]));
    }
    for (uint32_t gpu = 0; gpu < 2; gpu++)
        for (uint32_t i = 0; i < WORKER_EVENTS; i++)
            if (worker->events[gpu][i])
                CU(cuEventDestroy(worker->events[gpu][i]));
    enter(worker, LEGACY);
    if (worker->flags)
        CU(cuMemFree(worker->flags));
}
