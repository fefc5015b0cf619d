/* See capture.h. The wrappers that begin and end captures. */
#include "shim/record/capture.h"

#include "shim/entry/engaged.h"

#include <pthread.h>
#include <unistd.h>

#include "shim/launch/gate.h"
#include "shim/order/order.h"
#include "shim/entry/real.h"
#include "shim/record/recorder.h"
#include "shim/entry/stream_handle.h"

#define MOST_CAPTURES 256

uint32_t tsr_captures TSR_HOT;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t open_captures[MOST_CAPTURES];                 /* lock; the first tsr_captures: streams, see key_of */
static pthread_rwlock_t changes = PTHREAD_RWLOCK_INITIALIZER; /* exclusive while a capture begins or ends */

/* Each thread's own default stream has the same handle. */
static uint64_t key_of(CUstream stream)
{
    return stream == CU_STREAM_PER_THREAD ? 0x8000000000000000ull | (uint64_t)gettid() : (uint64_t)(uintptr_t)stream;
}

bool tsr_ask_capturing(CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    return tsr_real.cuStreamIsCapturing(stream, &status) != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_NONE;
}

static void forget_parent(void)
{
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    changes = (pthread_rwlock_t)PTHREAD_RWLOCK_INITIALIZER;
    tsr_captures = 0;
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, forget_parent);
}

/* Beyond MOST_CAPTURES the last place stands for several, and the count never comes back to zero: the driver is asked for ever. */
static void remember(CUstream stream)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&lock);
    uint32_t count = tsr_captures < MOST_CAPTURES ? tsr_captures + 1 : MOST_CAPTURES;
    open_captures[count - 1] = count == MOST_CAPTURES ? 0 : key_of(stream);
    __atomic_store_n(&tsr_captures, count, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&lock);
}

void tsr_capture_forget(CUstream stream)
{
    if (!tsr_is_any_capture())
        return;
    pthread_mutex_lock(&lock);
    uint64_t key = key_of(stream);
    for (uint32_t i = 0; i < tsr_captures; i++)
        if (open_captures[i] == key) {
            open_captures[i] = open_captures[tsr_captures - 1];
            __atomic_store_n(&tsr_captures, tsr_captures - 1, __ATOMIC_RELAXED);
            break;
        }
    pthread_mutex_unlock(&lock);
}

void tsr_captures_hold(void)
{
    pthread_rwlock_rdlock(&changes);
}

void tsr_captures_release(void)
{
    pthread_rwlock_unlock(&changes);
}

static void record(uint64_t start, enum tsr_row row, CUresult result, CUstream stream)
{
    struct tsr_record *made = tsr_record_begin_on(start, row, TSR_RECORD_CAPTURE, result, stream, false);
    if (!made)
        return;
    made->flags = 0; /* the call itself is no part of the graph */
    tsr_record_commit(made);
}

static __attribute__((noinline)) CUresult begun(uint64_t start, enum tsr_row row, CUresult result, CUstream stream)
{
    if (result == CUDA_SUCCESS)
        remember(stream);
    record(start, row, result, stream);
    return result;
}

/* A capture that cannot be made into a graph has ended, too. */
static __attribute__((noinline)) CUresult ended(uint64_t start, enum tsr_row row, CUresult result, CUstream stream)
{
    if (result == CUDA_SUCCESS || !tsr_ask_capturing(stream))
        tsr_capture_forget(stream);
    record(start, row, result, stream);
    return result;
}

/* Parameters, and their names for the call, in parentheses. */
#define CAPTURE(symbol, per_thread, after, parameters, arguments)                                                              \
    TSR_ENGAGED(symbol) parameters                                                      \
    {                                                                                                                          \
        uint64_t start = tsr_record_start();                                                                                   \
        bool gated = tsr_gate_enter();                                                                                         \
        pthread_rwlock_wrlock(&changes);                                                                                       \
        CUresult result = tsr_order_join(hStream, per_thread);                                                                 \
        if (result == CUDA_SUCCESS)                                                                                            \
            result = tsr_real.symbol arguments;                                                                                \
        result = after(start, TSR_ROW_##symbol, result, tsr_stream_named(hStream, per_thread));                                \
        pthread_rwlock_unlock(&changes);                                                                                       \
        tsr_gate_leave(gated);                                                                                                 \
        return result;                                                                                                         \
    }

#define TO_GRAPH                                                                                                               \
    (CUstream hStream, CUgraph hGraph, const CUgraphNode *dependencies, const CUgraphEdgeData *dependencyData,                 \
     size_t numDependencies, CUstreamCaptureMode mode)
#define TO_GRAPH_NAMES (hStream, hGraph, dependencies, dependencyData, numDependencies, mode)

CAPTURE(cuStreamBeginCapture, false, begun, (CUstream hStream), (hStream))
CAPTURE(cuStreamBeginCapture_ptsz, true, begun, (CUstream hStream), (hStream))
CAPTURE(cuStreamBeginCapture_v2, false, begun, (CUstream hStream, CUstreamCaptureMode mode), (hStream, mode))
CAPTURE(cuStreamBeginCapture_v2_ptsz, true, begun, (CUstream hStream, CUstreamCaptureMode mode), (hStream, mode))
CAPTURE(cuStreamBeginCaptureToGraph, false, begun, TO_GRAPH, TO_GRAPH_NAMES)
CAPTURE(cuStreamBeginCaptureToGraph_ptsz, true, begun, TO_GRAPH, TO_GRAPH_NAMES)
CAPTURE(cuStreamEndCapture, false, ended, (CUstream hStream, CUgraph *phGraph), (hStream, phGraph))
CAPTURE(cuStreamEndCapture_ptsz, true, ended, (CUstream hStream, CUgraph *phGraph), (hStream, phGraph))
