/*
 * From lane/lane_post.c to the driver (executor/lane_reader.c), with many threads and streams: what a WAIT may depend on has been given to
 * the driver before it, whichever rings it stands in. The driver here only looks at the order of what it is given.
 */
#include "check.h"

#include <pthread.h>
#include <stdlib.h>

#include <cuda.h>

#include "lane/lane_object.h"

#undef cuStreamBatchMemOp
#undef cuCtxSetCurrent
#undef cuStreamQuery
#define cuStreamBatchMemOp given_operations
#define cuCtxSetCurrent made_current
#define cuStreamQuery asked
static CUresult given_operations(CUstream stream, unsigned count, CUstreamBatchMemOpParams *operations, unsigned flags);
static CUresult made_current(CUcontext context);
static CUresult asked(CUstream stream);

#include "executor/lane_reader.c"

#define WRITERS 6u
#define STREAMS 40u /* more than rings */
#define RECORDS 20000u

struct stream {
    pthread_mutex_t lock;
    uint32_t posted;  /* lock; records */
    uint32_t signals; /* atomic; records up to the last signal that was posted */
    uint32_t given;   /* the reader's thread; records */
};

/* What had been signalled when a wait was posted, by stream. */
struct snapshot {
    uint32_t signals[STREAMS];
};

static struct tsr_lane lane;
static struct tsr_lane_client client = {.lane = &lane, .fence_lock = PTHREAD_MUTEX_INITIALIZER};
static struct tsr_lane_reader reader = {.lane = &lane, .watching = PTHREAD_MUTEX_INITIALIZER};
static struct stream streams[STREAMS];
static struct snapshot *snapshots;             /* by number of the wait */
static uint32_t waits, refused;                /* atomic */
static uint32_t given, out_of_order, too_soon; /* the reader's thread; given: atomic */
static const struct tsr_carry_function function;

/* lane_client.h, which is the shim's, and the executor's cuda.h exclude each other. */
CUresult tsr_lane_post(struct tsr_lane_client *client, struct tsr_lane_record *record, const void *params);
CUresult tsr_lane_state(const struct tsr_lane_client *client);
bool tsr_lane_is_lost(const struct tsr_lane_client *client);

CUresult tsr_lane_state(const struct tsr_lane_client *of)
{
    return (CUresult)__atomic_load_n(&of->lane->dead, __ATOMIC_ACQUIRE);
}

bool tsr_lane_is_lost(const struct tsr_lane_client *of)
{
    return tsr_lane_state(of) != CUDA_SUCCESS;
}

CUstream tsr_mirror_stream(const struct tsr_mirror *mirror, uint32_t slot)
{
    (void)mirror;
    return (CUstream)(uintptr_t)(slot + 16);
}

const struct tsr_carry_function *tsr_mirror_function(const struct tsr_mirror *mirror, uint32_t id)
{
    (void)mirror, (void)id;
    return &function;
}

CUresult tsr_mirror_launch(const struct tsr_mirror *mirror, uint32_t id, CUstream stream)
{
    (void)mirror, (void)id, (void)stream;
    return CUDA_ERROR_INVALID_HANDLE;
}

void tsr_mirror_apply(struct tsr_mirror *mirror, const struct tsr_message *message, int descriptor, struct tsr_reply *reply)
{
    (void)mirror, (void)message, (void)descriptor, (void)reply;
}

struct tsr_lane_times *tsr_lane_times_create(struct tsr_lane *of, CUcontext context)
{
    (void)of, (void)context;
    return NULL;
}

void tsr_lane_times_destroy(struct tsr_lane_times *times)
{
    (void)times;
}

struct tsr_lane_pair *tsr_lane_times_begin(struct tsr_lane_times *times, const struct tsr_lane_record *record, CUstream stream)
{
    (void)times, (void)record, (void)stream;
    return NULL;
}

void tsr_lane_times_end(struct tsr_lane_times *times, struct tsr_lane_pair *pair, const struct tsr_lane_record *record,
                        CUstream stream, bool launched)
{
    (void)times, (void)pair, (void)record, (void)stream, (void)launched;
}

static CUresult made_current(CUcontext context)
{
    (void)context;
    return CUDA_SUCCESS;
}

static CUresult asked(CUstream stream)
{
    (void)stream;
    return CUDA_SUCCESS;
}

/* The driver has been given a record of the stream, which has so many before it. */
static void note_given(uint32_t slot, uint32_t number)
{
    out_of_order += streams[slot].given++ != number;
    __atomic_fetch_add(&given, 1, __ATOMIC_RELEASE);
}

CUresult tsr_carry_out(const struct tsr_carry_driver *of, const struct tsr_lane_record *record,
                       const struct tsr_carry_function *what, CUstream stream)
{
    (void)of, (void)what, (void)stream;
    note_given(record->stream, record->shared_bytes);
    return CUDA_SUCCESS;
}

static CUresult given_operations(CUstream stream, unsigned count, CUstreamBatchMemOpParams *operations, unsigned flags)
{
    uint32_t slot = (uint32_t)(uintptr_t)stream - 16;
    (void)flags;
    for (unsigned i = 0; i < count; i++) {
        bool is_wait = operations[i].operation == CU_STREAM_MEM_OP_WAIT_VALUE_64;
        uint64_t value = is_wait ? operations[i].waitValue.value64 : operations[i].writeValue.value64;
        for (uint32_t other = 0; is_wait && other < STREAMS; other++)
            too_soon += streams[other].given < snapshots[value >> 32].signals[other];
        note_given(slot, (uint32_t)value);
    }
    return CUDA_SUCCESS;
}

static uint64_t look_around(void)
{
    uint32_t number = __atomic_fetch_add(&waits, 1, __ATOMIC_RELAXED);
    for (uint32_t i = 0; i < STREAMS; i++)
        snapshots[number].signals[i] = __atomic_load_n(&streams[i].signals, __ATOMIC_ACQUIRE);
    return number;
}

static void post_one(uint32_t slot, uint32_t drawn)
{
    static const uint8_t parameters[300];
    struct stream *stream = &streams[slot];
    pthread_mutex_lock(&stream->lock);
    uint32_t number = stream->posted++;
    struct tsr_lane_record record = {.kind = TSR_LANE_LAUNCH, .stream = slot, .shared_bytes = number};
    if (drawn % 8 == 0)
        record = (struct tsr_lane_record){.kind = TSR_LANE_WAIT, .stream = slot, .value = look_around() << 32 | number};
    else if (drawn % 8 < 3)
        record = (struct tsr_lane_record){.kind = TSR_LANE_SIGNAL, .stream = slot, .value = number};
    else
        record.param_bytes = drawn % sizeof parameters;
    if (tsr_lane_post(&client, &record, parameters) != CUDA_SUCCESS)
        __atomic_fetch_add(&refused, 1, __ATOMIC_RELAXED);
    if (record.kind == TSR_LANE_SIGNAL)
        __atomic_store_n(&stream->signals, number + 1, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&stream->lock);
}

static void *write_records(void *seed)
{
    uint64_t drawn = (uint64_t)(uintptr_t)seed;
    for (uint32_t i = 0; i < RECORDS; i++) {
        drawn = drawn * 6364136223846793005ull + 1442695040888963407ull;
        post_one((uint32_t)(drawn >> 33) % STREAMS, (uint32_t)(drawn >> 44));
    }
    return NULL;
}

TEST(a_wait_comes_after_all_that_it_may_depend_on)
{
    pthread_t writers[WRITERS], taker;
    snapshots = calloc((size_t)WRITERS * RECORDS, sizeof snapshots[0]);
    reader.backlog = tsr_backlog_create();
    REQUIRE(snapshots && reader.backlog);
    for (uint32_t i = 0; i < STREAMS; i++)
        pthread_mutex_init(&streams[i].lock, NULL);
    REQUIRE(pthread_create(&taker, NULL, run, &reader) == 0);
    for (uintptr_t i = 0; i < WRITERS; i++)
        REQUIRE(pthread_create(&writers[i], NULL, write_records, (void *)(i + 1)) == 0);
    for (unsigned i = 0; i < WRITERS; i++)
        pthread_join(writers[i], NULL);
    uint64_t end_ns = tsr_os_monotonic_ns() + 30000000000ull;
    while (__atomic_load_n(&given, __ATOMIC_ACQUIRE) < WRITERS * RECORDS && tsr_os_monotonic_ns() < end_ns)
        tsr_os_futex_wait(&lane.never, 0, 1000000, true);
    __atomic_store_n(&reader.stop, 1, __ATOMIC_RELEASE);
    pthread_join(taker, NULL);
    CHECK_EQ(given, WRITERS * RECORDS);
    CHECK(waits > WRITERS * RECORDS / 16);
    CHECK_EQ(out_of_order, 0);
    CHECK_EQ(too_soon, 0);
    CHECK_EQ(refused, 0);
    CHECK_EQ(lane.dead, CUDA_SUCCESS);
    tsr_backlog_destroy(reader.backlog);
    free(snapshots);
}
