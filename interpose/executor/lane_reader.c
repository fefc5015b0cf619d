/* See lane_reader.h. */
#include "executor/lane_reader.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/os.h"
#include "carry/carry.h"
#include "carry/record.h"
#include "executor/backlog.h"
#include "executor/lane_times.h"

#define SPINS_BEFORE_SLEEP 2000
#define SLEEP_NS 100000000ull /* bound on a sleep, in case a wake-up is lost or `stop` is set */
#define FEED_NS 50000ull      /* between checks whether a stream has room for records that wait */
#define FEED_RECORDS 32u      /* or after so many records of other streams */
#define WATCH_NS 2000000ull   /* between checks of work under way: otherwise nobody would notice that it has failed */

#define MOST_OPERATIONS 16u   /* of one batch */

/* Records that are carried out together: one, or consecutive waits and signals of a stream. */
struct batch {
    struct tsr_record_copy first;
    struct tsr_lane_record operations[MOST_OPERATIONS]; /* the first one's header among them */
    unsigned count;                                     /* of operations; 0: the batch is no waits and signals */
    struct tsr_lane_ring *ring;
    uint64_t end; /* where the last record ends */
};

struct tsr_lane_reader {
    struct tsr_lane *lane;
    struct tsr_lane
        *others[TSR_LANES]; /* lanes of other executors, for their fences; NULL: none. Set before records that wait for them */
    pthread_mutex_t watching;    /* held while streams are queried to which no record refers, and while one is replaced */
    bool busy[TSR_LANE_STREAMS]; /* thread; has been given work that has not been found complete */
    uint64_t bytes;
    struct tsr_mirror *mirror;
    struct tsr_backlog *backlog;
    CUcontext context;
    struct tsr_lane_times *times; /* NULL: nothing is timed */
    pthread_t thread, pulse;
    int stop;                           /* atomic */
    uint64_t positions[TSR_LANE_RINGS]; /* thread; of the next record */
    uint32_t next_ring;                 /* thread; the ring to look at next */
    uint64_t fences;                    /* thread; taken so far */
    struct batch batch;                 /* thread */
    struct tsr_record_copy next;        /* thread; that may belong to the batch */
};

#define DRAIN_POLL_NS 20000ull

static const struct tsr_carry_driver driver = {.launch = cuLaunchKernel,
                                               .launch_ex = cuLaunchKernelEx,
                                               .copy = cuMemcpyAsync, /* cuMemcpyDtoDAsync would refuse host memory */
                                               .copy_rows = cuMemcpy2DAsync,
                                               .write = cuMemcpyHtoDAsync,
                                               .set8 = cuMemsetD8Async,
                                               .set16 = cuMemsetD16Async,
                                               .set32 = cuMemsetD32Async,
                                               .set_rows8 = cuMemsetD2D8Async,
                                               .set_rows16 = cuMemsetD2D16Async,
                                               .set_rows32 = cuMemsetD2D32Async};

static bool is_closed(const struct tsr_lane *lane)
{
    return __atomic_load_n(&lane->closed, __ATOMIC_SEQ_CST) != 0;
}

/* Before fences are opened: a stream that passes one of these finds the error. */
static void say_failed(struct tsr_lane *lane, CUresult error)
{
    uint32_t none = CUDA_SUCCESS;
    __atomic_compare_exchange_n(&lane->dead, &none, (uint32_t)error, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

static void fail(struct tsr_lane_reader *reader, CUresult error)
{
    const char *name = "?";
    cuGetErrorName(error, &name);
    fprintf(stderr, "tessera-executor: %s; the application gets the error\n", name);
    say_failed(reader->lane, error);
    for (uint32_t i = 0; i < TSR_LANE_STREAMS; i++)
        __atomic_store_n(&reader->lane->away[i], TSR_LANE_OPEN, __ATOMIC_RELEASE);
}

/* Logs what the driver has refused. */
static void report_refused(const struct tsr_lane_reader *reader, const struct tsr_lane_record *record)
{
    static const char *const kinds[] = {"skip", "launch", "wait", "signal", "copy", "memset", "write", "graph"};
    if (!record) {
        fprintf(stderr, "tessera-executor: what the lane holds is no record\n");
        return;
    }
    const struct tsr_carry_function *of =
        record->kind == TSR_LANE_LAUNCH ? tsr_mirror_function(reader->mirror, record->function) : NULL;
    const char *name = "";
    if (of)
        cuFuncGetName(&name, of->function);
    fprintf(stderr, "tessera-executor: refused: %s %s",
            record->kind < sizeof kinds / sizeof kinds[0] ? kinds[record->kind] : "?", name);
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
    if (record->kind == TSR_LANE_WRITE)
        fprintf(stderr, " to %#lx of %u bytes", record->value, record->param_bytes);
    fputc('\n', stderr);
}

static bool is_operation(const struct tsr_lane_record *record)
{
    return tsr_lane_is_fence(record->kind);
}

static CUstreamBatchMemOpParams operation_of(const struct tsr_lane_reader *reader, const struct tsr_lane_record *record)
{
    const struct tsr_lane *lane = reader->lane;
    CUstreamBatchMemOpParams operation = {0};
    if (record->kind == TSR_LANE_WAIT) {
        uint32_t slot = record->shared_bytes ? record->shared_bytes - 1 : record->stream;
        const uint64_t *fence = record->function == TSR_LANE_OWN ? &lane->away[slot]
                                : record->function               ? &reader->others[record->function - 1]->away[slot]
                                                                 : &lane->home[slot];
        operation.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_64;
        operation.waitValue.address = (CUdeviceptr)(uintptr_t)fence;
        operation.waitValue.value64 = record->value;
        operation.waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;
    } else {
        operation.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
        operation.writeValue.address = (CUdeviceptr)(uintptr_t)&lane->away[record->stream];
        operation.writeValue.value64 = record->value;
    }
    return operation;
}

/* Whether there is a record at that position and, if it is a fence, whether it is the next one after `ahead` more have been taken. */
static bool is_due(const struct tsr_lane_reader *reader, struct tsr_lane_ring *ring, uint64_t position, unsigned ahead)
{
    const struct tsr_lane_record *there = tsr_lane_record_at(ring, position);
    return tsr_lane_is_ready(ring, position) && (!tsr_lane_is_fence(__atomic_load_n(&there->kind, __ATOMIC_RELAXED)) ||
                                                 __atomic_load_n(&there->sequence, __ATOMIC_RELAXED) == reader->fences + ahead);
}

/* The next ring, round robin, that has a record to be taken; TSR_LANE_RINGS: none. */
static uint32_t find_due(const struct tsr_lane_reader *reader)
{
    for (uint32_t i = 0; i < TSR_LANE_RINGS; i++) {
        uint32_t number = (reader->next_ring + i) % TSR_LANE_RINGS;
        if (is_due(reader, &reader->lane->rings[number], reader->positions[number], 0))
            return number;
    }
    return TSR_LANE_RINGS;
}

/* Takes the record that begins there out of the ring. False: it is no record. */
static bool take(struct tsr_lane_reader *reader, struct tsr_lane_ring *ring, uint64_t position)
{
    struct batch *batch = &reader->batch;
    if (!tsr_record_take(ring, position, &batch->first))
        return false;
    batch->ring = ring;
    batch->end = position + batch->first.record.bytes;
    batch->count = is_operation(&batch->first.record);
    batch->operations[0] = batch->first.record;
    while (batch->count && batch->count < MOST_OPERATIONS && is_due(reader, ring, batch->end, batch->count)) {
        const struct tsr_lane_record *next = &reader->next.record;
        if (!tsr_record_take(ring, batch->end, &reader->next) || !is_operation(next) ||
            next->stream != batch->first.record.stream)
            break;
        batch->operations[batch->count++] = *next;
        batch->end += next->bytes;
    }
    return true;
}

/* Publishes what is about to be taken, for failover. */
static void note(const struct tsr_lane_reader *reader)
{
    struct tsr_lane *lane = reader->lane;
    const struct batch *batch = &reader->batch;
    for (unsigned i = 0; i < batch->count; i++) {
        const struct tsr_lane_record *operation = &batch->operations[i];
        if (operation->kind == TSR_LANE_WAIT)
            __atomic_store_n(&lane->follows[operation->stream], tsr_lane_follow(operation), __ATOMIC_RELEASE);
        else
            __atomic_store_n(&lane->settles[operation->stream], operation->value, __ATOMIC_RELEASE);
    }
    if (tsr_carry_is_work(&batch->first.record))
        __atomic_store_n(&lane->settles[batch->first.record.stream], TSR_LANE_UNSETTLED, __ATOMIC_RELEASE);
}

static CUresult operate(const struct tsr_lane_reader *reader, const struct tsr_lane_record *records, unsigned count,
                        CUstream stream)
{
    CUstreamBatchMemOpParams operations[MOST_OPERATIONS];
    for (unsigned i = 0; i < count; i++)
        operations[i] = operation_of(reader, &records[i]);
    return cuStreamBatchMemOp(stream, count, operations, 0);
}

static bool sees(const struct tsr_lane_reader *reader, const struct tsr_lane_record *record)
{
    return record->kind != TSR_LANE_WAIT || !record->function || record->function == TSR_LANE_OWN ||
           (record->function <= TSR_LANES && reader->others[record->function - 1]);
}

/* Gives the driver a record, which may be the first of several operations of its stream. */
static CUresult carry_out(struct tsr_lane_reader *reader, const struct tsr_lane_record *record,
                          const struct tsr_lane_record *operations, unsigned count)
{
    CUstream stream = tsr_mirror_stream(reader->mirror, record->stream);
    const struct tsr_carry_function *function =
        record->kind == TSR_LANE_LAUNCH ? tsr_mirror_function(reader->mirror, record->function) : NULL;
    if (!stream || (record->kind == TSR_LANE_LAUNCH && !function))
        return CUDA_ERROR_INVALID_HANDLE;
    for (unsigned i = 0; i < count; i++)
        if (!sees(reader, &operations[i]))
            return CUDA_ERROR_INVALID_VALUE;
    reader->busy[record->stream] = true;
    struct tsr_lane_pair *pair = count ? NULL : tsr_lane_times_begin(reader->times, record, stream);
    CUresult result = count                            ? operate(reader, operations, count, stream)
                      : record->kind == TSR_LANE_GRAPH ? tsr_mirror_launch(reader->mirror, record->function, stream)
                                                       : tsr_carry_out(&driver, record, function, stream);
    if (pair)
        tsr_lane_times_end(reader->times, pair, record, stream, result == CUDA_SUCCESS);
    unsigned given = count ? count : 1;
    tsr_backlog_given(reader->backlog, record->stream, stream, given);
    uint32_t *count_given = &reader->lane->given[record->stream]; /* only this thread writes it */
    __atomic_store_n(count_given, *count_given + given, __ATOMIC_RELAXED);
    return result;
}

/* Keeps a record that was taken from the lane until its stream has room. */
static CUresult keep(struct tsr_lane_reader *reader)
{
    const struct batch *batch = &reader->batch;
    if (batch->count == 0)
        return tsr_backlog_add(reader->backlog, &batch->first.record) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    for (unsigned i = 0; i < batch->count; i++) {
        struct tsr_lane_record operation = batch->operations[i];
        operation.bytes = sizeof operation;
        if (!tsr_backlog_add(reader->backlog, &operation))
            return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return CUDA_SUCCESS;
}

/* Gives a record that was taken from the lane to the driver, or keeps it until the stream has room. */
static CUresult accept(struct tsr_lane_reader *reader)
{
    const struct batch *batch = &reader->batch;
    const struct tsr_lane_record *record = &batch->first.record;
    if (record->kind == TSR_LANE_SKIP)
        return CUDA_SUCCESS;
    if (tsr_backlog_must_wait(reader->backlog, record->stream))
        return keep(reader);
    return carry_out(reader, record, batch->operations, batch->count);
}

static bool is_dead(const struct tsr_lane *lane)
{
    return __atomic_load_n(&lane->dead, __ATOMIC_SEQ_CST) != CUDA_SUCCESS;
}

/* Gives the driver the records that were kept for streams that have room now. */
static void feed(struct tsr_lane_reader *reader)
{
    const struct tsr_lane_record *record;
    while (!is_closed(reader->lane) && (record = tsr_backlog_next(reader->backlog))) {
        CUresult result =
            is_dead(reader->lane) ? CUDA_SUCCESS : carry_out(reader, record, record, is_operation(record) ? 1 : 0);
        if (result != CUDA_SUCCESS) {
            report_refused(reader, record);
            fail(reader, result);
        }
        tsr_backlog_remove(reader->backlog, record->stream);
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
        if (result == CUDA_SUCCESS && tsr_backlog_holds(reader->backlog, i))
            continue;
        reader->busy[i] = false;
        if (result == CUDA_SUCCESS)
            __atomic_store_n(&reader->lane->settles[i], 0, __ATOMIC_RELEASE);
        else if (!reader->lane->dead && !is_closed(reader->lane))
            fail(reader, result);
    }
    return idle;
}

/* A launch may fail after the driver has accepted it, and later work of the stream then never runs. True: all work is complete. */
static bool watch(struct tsr_lane_reader *reader)
{
    pthread_mutex_lock(&reader->watching);
    bool idle = watch_locked(reader);
    pthread_mutex_unlock(&reader->watching);
    return idle;
}

static void wait_for_records(struct tsr_lane_reader *reader)
{
    struct tsr_lane *lane = reader->lane;
    for (int i = 0; i < SPINS_BEFORE_SLEEP; i++) {
        if (find_due(reader) < TSR_LANE_RINGS)
            return;
        __builtin_ia32_pause();
    }
    __atomic_store_n(&lane->sleeping, 1, __ATOMIC_SEQ_CST);
    if (find_due(reader) == TSR_LANE_RINGS) {
        uint64_t longest_ns = watch(reader) ? SLEEP_NS : WATCH_NS;
        tsr_os_futex_wait(&lane->sleeping, 1, tsr_backlog_is_empty(reader->backlog) ? longest_ns : FEED_NS, true);
    }
    __atomic_store_n(&lane->sleeping, 0, __ATOMIC_SEQ_CST);
}

/* One record of the ring, or several operations. False: nothing more is to be taken. */
static bool take_next(struct tsr_lane_reader *reader, uint32_t number)
{
    struct tsr_lane *lane = reader->lane;
    struct tsr_lane_ring *ring = &lane->rings[number];
    uint64_t begin = reader->positions[number];
    bool taken = take(reader, ring, begin);
    uint64_t end = taken ? reader->batch.end : begin;
    if (taken)
        note(reader);
    __atomic_store_n(&ring->taken, end, __ATOMIC_SEQ_CST);
    if (is_closed(lane))
        return false;
    if (!is_dead(lane)) {
        CUresult result = taken ? accept(reader) : CUDA_ERROR_INVALID_VALUE;
        if (result != CUDA_SUCCESS) {
            report_refused(reader, taken ? &reader->batch.first.record : NULL);
            fail(reader, result);
        }
    }
    if (!taken)
        return false;
    tsr_lane_give_back(ring, begin, end);
    reader->fences += reader->batch.count;
    reader->positions[number] = end;
    reader->next_ring = (number + 1) % TSR_LANE_RINGS;
    return true;
}

static void *run(void *argument)
{
    struct tsr_lane_reader *reader = argument;
    struct tsr_lane *lane = reader->lane;
    cuCtxSetCurrent(reader->context);
    for (unsigned turn = 0; !__atomic_load_n(&reader->stop, __ATOMIC_ACQUIRE) && !is_closed(lane); turn++) {
        uint32_t number = find_due(reader);
        if (!tsr_backlog_is_empty(reader->backlog) && (turn % FEED_RECORDS == 0 || number == TSR_LANE_RINGS))
            feed(reader);
        if (number == TSR_LANE_RINGS)
            wait_for_records(reader);
        else if (!take_next(reader, number))
            break;
    }
    return NULL;
}

/* In a thread of its own, because the lane's thread may be inside the driver for as long as a kernel takes. */
static void *beat(void *argument)
{
    struct tsr_lane_reader *reader = argument;
    while (!__atomic_load_n(&reader->stop, __ATOMIC_ACQUIRE)) {
        __atomic_fetch_add(&reader->lane->pulse, 1, __ATOMIC_RELEASE);
        tsr_os_futex_wait(&reader->lane->never, 0, TSR_LANE_PULSE_NS, true);
    }
    return NULL;
}

/* Whether records posted before the message, up to these tails, have not been taken yet. */
static bool is_behind(const struct tsr_lane *lane, const uint64_t tails[TSR_LANE_RINGS])
{
    for (uint32_t i = 0; i < TSR_LANE_RINGS; i++)
        if (__atomic_load_n(&lane->rings[i].head, __ATOMIC_ACQUIRE) < tails[i])
            return true;
    return false;
}

/* Whether launches that the message may concern wait for room in their streams. Other streams' may be held up by the application. */
static bool is_held_up(const struct tsr_backlog *backlog, const struct tsr_message *message)
{
    switch (message->kind) {
    case TSR_MESSAGE_ATTRIBUTE:
        return tsr_backlog_launches(backlog, TSR_LANE_LAUNCH, message->id);
    case TSR_MESSAGE_GRAPH_SET:
    case TSR_MESSAGE_GRAPH_DROP:
        return tsr_backlog_launches(backlog, TSR_LANE_GRAPH, message->id);
    default:
        return !tsr_backlog_is_empty(backlog);
    }
}

/* Whether some of them, which the message may concern, have not been given to the driver yet. */
static bool is_early(const struct tsr_lane_reader *reader, const struct tsr_message *message,
                     const uint64_t tails[TSR_LANE_RINGS])
{
    if (message->kind == TSR_MESSAGE_STREAM) /* all records posted for the stream are complete */
        return false;
    return is_behind(reader->lane, tails) || is_held_up(reader->backlog, message);
}

void tsr_lane_reader_change(struct tsr_lane_reader *reader, const struct tsr_message *message, int descriptor,
                            struct tsr_reply *reply)
{
    uint64_t tails[TSR_LANE_RINGS];
    for (uint32_t i = 0; i < TSR_LANE_RINGS; i++)
        tails[i] = __atomic_load_n(&reader->lane->rings[i].tail, __ATOMIC_ACQUIRE);
    while (is_early(reader, message, tails) && !is_closed(reader->lane))
        tsr_os_futex_wait(&reader->lane->never, 0, DRAIN_POLL_NS, true);
    bool replaces = message->kind == TSR_MESSAGE_STREAM; /* what else there is may take as long as a kernel */
    if (replaces)
        pthread_mutex_lock(&reader->watching);
    tsr_mirror_apply(reader->mirror, message, descriptor, reply);
    if (replaces)
        pthread_mutex_unlock(&reader->watching);
}

CUresult tsr_lane_reader_connect(struct tsr_lane_reader *reader, const struct tsr_message *message, int descriptor)
{
    uint64_t offset = message->address - TSR_LANE_ADDRESS, number = offset / TSR_LANE_SPACING;
    if (message->bytes != TSR_LANE_FRONT_BYTES || offset % TSR_LANE_SPACING || number >= TSR_LANES ||
        message->address == (uint64_t)(uintptr_t)reader->lane || reader->others[number] ||
        !tsr_os_is_sealed(descriptor, F_SEAL_SHRINK, TSR_LANE_SPACING))
        return CUDA_ERROR_INVALID_VALUE;
    struct tsr_lane *other =
        tsr_os_map((void *)(uintptr_t)message->address, TSR_LANE_FRONT_BYTES, PROT_READ | PROT_WRITE, descriptor, 0);
    if (!other)
        return CUDA_ERROR_MAP_FAILED;
    CUresult result =
        cuMemHostRegister(other, TSR_LANE_FRONT_BYTES, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
    if (result == CUDA_SUCCESS)
        reader->others[number] = other;
    else
        tsr_os_unmap(other, TSR_LANE_FRONT_BYTES);
    return result;
}

static bool is_lane(const struct tsr_message *hello, int descriptor)
{
    uint64_t offset = hello->address - TSR_LANE_ADDRESS;
    return hello->bytes == TSR_LANE_SPACING && offset % TSR_LANE_SPACING == 0 && offset / TSR_LANE_SPACING < TSR_LANES &&
           tsr_os_is_sealed(descriptor, F_SEAL_SHRINK, hello->bytes);
}

CUresult tsr_lane_reader_start(const struct tsr_message *hello, int descriptor, struct tsr_mirror *mirror, CUcontext context,
                               struct tsr_lane_reader **out)
{
    if (!is_lane(hello, descriptor))
        return CUDA_ERROR_INVALID_VALUE;
    struct tsr_lane_reader *reader = aligned_alloc(64, (sizeof *reader + 63) / 64 * 64);
    if (!reader)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = CUDA_ERROR_MAP_FAILED;
    *reader = (struct tsr_lane_reader){.bytes = hello->bytes, .mirror = mirror, .context = context};
    pthread_mutex_init(&reader->watching, NULL);
    reader->backlog = tsr_backlog_create();
    if (!reader->backlog) {
        result = CUDA_ERROR_OUT_OF_MEMORY;
        goto drop;
    }
    reader->lane = tsr_os_map((void *)(uintptr_t)hello->address, hello->bytes, PROT_READ | PROT_WRITE, descriptor, 0);
    if (!reader->lane)
        goto drop;
    result = cuMemHostRegister(reader->lane, TSR_LANE_FRONT_BYTES, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
    if (result != CUDA_SUCCESS)
        goto unmap;
    result = CUDA_ERROR_OUT_OF_MEMORY;
    reader->times = tsr_lane_times_create(reader->lane, context);
    if (tsr_os_thread_start(&reader->pulse, "tessera-pulse", beat, reader)) {
        if (tsr_os_thread_start(&reader->thread, "tessera-lane", run, reader)) {
            *out = reader;
            return CUDA_SUCCESS;
        }
        __atomic_store_n(&reader->stop, 1, __ATOMIC_RELEASE);
        pthread_join(reader->pulse, NULL);
    }
    tsr_lane_times_destroy(reader->times);
    cuMemHostUnregister(reader->lane);
unmap:
    tsr_os_unmap(reader->lane, hello->bytes);
drop:
    if (reader->backlog)
        tsr_backlog_destroy(reader->backlog);
    free(reader);
    return result;
}

/* Not if it goes on without this executor. */
static bool is_gone(const struct tsr_lane *lane)
{
    return __atomic_load_n(&lane->closed, __ATOMIC_SEQ_CST) != TSR_LANE_PARDONED;
}

/*
 * The application is gone: work that still waits for its fences, or another executor's, must not keep this process alive. If it goes on without this executor, others' fences still say
 * what they have done.
 */
static void open_fences(struct tsr_lane_reader *reader)
{
    bool gone = is_gone(reader->lane);
    for (uint32_t i = 0; i < TSR_LANE_STREAMS; i++) {
        __atomic_store_n(&reader->lane->home[i], TSR_LANE_OPEN, __ATOMIC_RELEASE);
        for (uint32_t other = 0; other < TSR_LANES; other++)
            if (reader->others[other] && gone)
                __atomic_store_n(&reader->others[other]->away[i], TSR_LANE_OPEN, __ATOMIC_RELEASE);
    }
}

static void disconnect(struct tsr_lane_reader *reader)
{
    for (uint32_t other = 0; other < TSR_LANES; other++) {
        if (!reader->others[other])
            continue;
        cuMemHostUnregister(reader->others[other]);
        tsr_os_unmap(reader->others[other], TSR_LANE_FRONT_BYTES);
    }
}

void tsr_lane_reader_stop(struct tsr_lane_reader *reader)
{
    if (is_gone(reader->lane)) /* or it has closed its socket, and goes on */
        say_failed(reader->lane, CUDA_ERROR_LAUNCH_FAILED);
    open_fences(reader);
    __atomic_store_n(&reader->stop, 1, __ATOMIC_RELEASE);
    tsr_os_futex_wake(&reader->lane->sleeping, 1, true);
    pthread_join(reader->thread, NULL);
    pthread_join(reader->pulse, NULL);
    while (!watch(reader)) { /* the other executor may still write a smaller value */
        open_fences(reader);
        tsr_os_futex_wait(&reader->lane->never, 0, DRAIN_POLL_NS, true);
    }
    cuCtxSynchronize();
    tsr_lane_times_destroy(reader->times);
    tsr_backlog_destroy(reader->backlog);
    disconnect(reader);
    cuMemHostUnregister(reader->lane);
    tsr_os_unmap(reader->lane, reader->bytes);
    free(reader);
}
