/* See lane_times.h. */
#include "executor/lane_times.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/os.h"
#include "times/clock.h"

#define BUSY_NS 1000000ull   /* between looks while launches are timed, */
#define IDLE_NS 100000000ull /* and while none is */

enum { FREE, BEGUN, FAILED, PENDING };

struct tsr_lane_pair {
    uint32_t state;     /* atomic; PENDING: the reading thread's; BEGUN, FAILED: what is timed ends with another record */
    CUevent begin, end; /* NULL: not made yet */
    struct tsr_times_asked asked;
};

struct tsr_lane_times {
    struct tsr_lane *lane;
    CUcontext context;
    struct tsr_times_driver driver;
    struct tsr_times_clock clock; /* the reading thread's */
    pthread_t thread;
    bool runs;        /* the lane's thread: the reading thread has been started */
    int stop;         /* atomic */
    uint32_t pending; /* atomic; futex: pairs that are to be read */
    struct tsr_lane_pair pairs[TSR_LANE_TIMES];
};

struct tsr_lane_times *tsr_lane_times_create(struct tsr_lane *lane, CUcontext context)
{
    struct tsr_lane_times *times = calloc(1, sizeof *times);
    if (!times)
        return NULL;
    times->lane = lane;
    times->context = context;
    times->driver = (struct tsr_times_driver){.stream_create = cuStreamCreate,
                                              .event_create = cuEventCreate,
                                              .event_record = cuEventRecord,
                                              .event_query = cuEventQuery,
                                              .elapsed = cuEventElapsedTime};
    if (getenv("TESSERA_MACHINE"))
        tsr_times_find_emulator(&times->driver, cuGetExportTable);
    return times;
}

static void answer(struct tsr_lane_times *times, const struct tsr_lane_pair *pair, bool known, uint64_t start_ns, uint64_t ns)
{
    struct tsr_lane_time *place = &times->lane->times[pair - times->pairs];
    place->start_ns = start_ns;
    place->ns = ns;
    __atomic_store_n(&place->state, known ? TSR_LANE_TIME_KNOWN : TSR_LANE_TIME_UNKNOWN, __ATOMIC_RELEASE);
}

static void read_pair(struct tsr_lane_times *times, struct tsr_lane_pair *pair)
{
    CUresult result = cuEventQuery(pair->end);
    uint64_t start = 0, ns = 0;
    if (result == CUDA_ERROR_NOT_READY)
        return;
    bool known = result == CUDA_SUCCESS &&
                 tsr_times_read(&times->driver, &times->clock, pair->begin, pair->end, &pair->asked, &start, &ns);
    __atomic_store_n(&pair->state, FREE, __ATOMIC_RELEASE); /* first: the answer lets the place be used again */
    answer(times, pair, known, start, ns);
    __atomic_fetch_sub(&times->pending, 1, __ATOMIC_RELAXED);
}

static void *keep_reading(void *argument)
{
    struct tsr_lane_times *times = argument;
    cuCtxSetCurrent(times->context);
    while (!__atomic_load_n(&times->stop, __ATOMIC_ACQUIRE)) {
        uint32_t pending = __atomic_load_n(&times->pending, __ATOMIC_ACQUIRE);
        if (pending && tsr_times_prepare(&times->driver, &times->clock))
            for (uint32_t i = 0; i < TSR_LANE_TIMES; i++)
                if (__atomic_load_n(&times->pairs[i].state, __ATOMIC_ACQUIRE) == PENDING)
                    read_pair(times, &times->pairs[i]);
        pending = __atomic_load_n(&times->pending, __ATOMIC_ACQUIRE);
        tsr_os_futex_wait(&times->pending, pending, pending ? BUSY_NS : IDLE_NS, false);
    }
    return NULL;
}

void tsr_lane_times_destroy(struct tsr_lane_times *times)
{
    if (!times)
        return;
    __atomic_store_n(&times->stop, 1, __ATOMIC_RELEASE);
    __atomic_fetch_add(&times->pending, 1, __ATOMIC_RELEASE);
    tsr_os_futex_wake(&times->pending, 1, false);
    if (times->runs)
        pthread_join(times->thread, NULL);
    for (uint32_t i = 0; i < TSR_LANE_TIMES; i++) {
        if (times->pairs[i].begin)
            cuEventDestroy(times->pairs[i].begin);
        if (times->pairs[i].end)
            cuEventDestroy(times->pairs[i].end);
    }
    if (times->clock.anchor)
        cuEventDestroy(times->clock.anchor);
    if (times->clock.spare)
        cuEventDestroy(times->clock.spare);
    if (times->clock.stream)
        cuStreamDestroy(times->clock.stream);
    free(times);
}

static bool is_usable(struct tsr_lane_times *times, struct tsr_lane_pair *pair)
{
    if (!times->runs)
        times->runs = tsr_os_thread_start(&times->thread, "tessera-times", keep_reading, times);
    return times->runs && __atomic_load_n(&pair->state, __ATOMIC_ACQUIRE) != PENDING &&
           (pair->begin || cuEventCreate(&pair->begin, CU_EVENT_DEFAULT) == CUDA_SUCCESS) &&
           (pair->end || cuEventCreate(&pair->end, CU_EVENT_DEFAULT) == CUDA_SUCCESS);
}

static bool may_be_timed(const struct tsr_lane_record *record)
{
    return record->kind == TSR_LANE_LAUNCH || record->kind == TSR_LANE_COPY || record->kind == TSR_LANE_GRAPH;
}

static bool begin(struct tsr_lane_times *times, struct tsr_lane_pair *pair, CUstream stream)
{
    if (!is_usable(times, pair))
        return false;
    pair->asked.asked_ns = tsr_os_monotonic_ns();
    if (cuEventRecord(pair->begin, stream) != CUDA_SUCCESS)
        return false;
    pair->asked.begun_ns = tsr_os_monotonic_ns();
    return true;
}

/* An earlier record has begun it; all of it was enqueued at once, and nobody left the GPU idle in between. */
static bool end_begun(struct tsr_lane_pair *pair)
{
    bool begun = __atomic_load_n(&pair->state, __ATOMIC_ACQUIRE) == BEGUN;
    __atomic_store_n(&pair->state, FREE, __ATOMIC_RELEASE);
    return begun;
}

struct tsr_lane_pair *tsr_lane_times_begin(struct tsr_lane_times *times, const struct tsr_lane_record *record, CUstream stream)
{
    unsigned place = record->time & TSR_LANE_TIME_PLACE;
    if (!may_be_timed(record) || !place || place > TSR_LANE_TIMES || !times)
        return NULL;
    struct tsr_lane_pair *pair = &times->pairs[place - 1];
    if (record->time & TSR_LANE_TIME_ENDS ? end_begun(pair) : begin(times, pair, stream))
        return pair;
    if (record->time & TSR_LANE_TIME_BEGINS) /* the answer is for the end */
        __atomic_store_n(&pair->state, FAILED, __ATOMIC_RELEASE);
    else
        answer(times, pair, false, 0, 0);
    return NULL;
}

void tsr_lane_times_end(struct tsr_lane_times *times, struct tsr_lane_pair *pair, const struct tsr_lane_record *record,
                        CUstream stream, bool launched)
{
    if (!(record->time & TSR_LANE_TIME_ENDS))
        pair->asked.launched_ns = tsr_os_monotonic_ns();
    if (record->time & TSR_LANE_TIME_BEGINS) {
        __atomic_store_n(&pair->state, launched ? BEGUN : FAILED, __ATOMIC_RELEASE);
        return;
    }
    if (!launched || cuEventRecord(pair->end, stream) != CUDA_SUCCESS) {
        answer(times, pair, false, 0, 0);
        return;
    }
    __atomic_store_n(&pair->state, PENDING, __ATOMIC_RELEASE);
    if (__atomic_fetch_add(&times->pending, 1, __ATOMIC_RELEASE) == 0)
        tsr_os_futex_wake(&times->pending, 1, false);
}
