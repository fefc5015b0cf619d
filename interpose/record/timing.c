/* See timing.h. The pools by context, the thread that harvests them, and the last harvest when the process exits. */
#include "record/timing.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/fork.h"
#include "base/options.h"
#include "base/os.h"
#include "object/capture.h"
#include "driver/real.h"
#include "record/recorder.h"
#include "record/timing_away.h"
#include "record/timing_pool.h"
#include "record/timing_record.h"
#include "record/writer.h"

#define CONTEXTS 4096u
#define BUSY_NS 5000000ull   /* between two harvests while launches are pending, */
#define IDLE_NS 50000000ull  /* and while none is */
#define RENEWAL_NS 1000000000ull
#define EXIT_PATIENCE_NS 100000000

enum tsr_timing_mode tsr_timing_mode TSR_HOT;
struct tsr_times_driver tsr_timing_driver;

static pthread_mutex_t harvest = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t creation = PTHREAD_MUTEX_INITIALIZER;
static struct tsr_timing_pool *pools[CONTEXTS]; /* atomic; by context, made once each */
static uint32_t highest;                        /* atomic; context that has a pool */
static bool stopped;                            /* atomic; the process exits: no more calls of the driver */
static bool exit_is_watched;                    /* atomic */
static bool harvesting;                         /* creation; the thread runs */

static void forget_parent(void)
{
    harvest = creation = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    memset(pools, 0, (highest + 1) * sizeof pools[0]);
    highest = 0;
    stopped = exit_is_watched = false;
    harvesting = false;
    tsr_timing_away_forget();
}

static const struct tsr_fork_listener forks = {.in_child = forget_parent};

static void find_driver(bool emulated)
{
    struct tsr_times_driver found = {.stream_create = tsr_real.cuStreamCreate,
                                     .event_create = tsr_real.cuEventCreate,
                                     .event_record = tsr_real.cuEventRecord,
                                     .event_query = tsr_real.cuEventQuery,
                                     .elapsed = tsr_real.cuEventElapsedTime};
    if (emulated)
        tsr_times_find_emulator(&found, tsr_real.cuGetExportTable);
    tsr_timing_driver = found;
}

enum tsr_gpu_clock tsr_timing_start(void)
{
    tsr_fork_listen(&forks);
    const struct tsr_options *options = tsr_options();
    tsr_timing_mode = strcmp(options->timing, "off") == 0   ? TSR_TIMING_OFF
                      : strcmp(options->timing, "all") == 0 ? TSR_TIMING_ALL
                                                            : TSR_TIMING_SAMPLED;
    if (!tsr_timing_driver.event_create)
        find_driver(options->machine[0]);
    return tsr_timing_driver.event_ns ? TSR_GPU_CLOCK_OWN : TSR_GPU_CLOCK_HOST;
}

void tsr_timing_lose(uint64_t count)
{
    struct tsr_journal *journal = tsr_writer_journal();
    if (journal && count)
        __atomic_fetch_add(&journal->times_lost, count, __ATOMIC_RELAXED);
}

void tsr_timing_report(uint32_t ring, uint64_t number, uint64_t start_ns, uint64_t ns)
{
    struct tsr_thread *thread = tsr_thread();
    if (!thread || !tsr_ring_has_room(&thread->writer, 1)) {
        tsr_timing_lose(1);
        return;
    }
    *tsr_ring_at(&thread->writer, 0) = (struct tsr_record){
        .start = tsr_ticks(),
        .kind = TSR_RECORD_TIME,
        .u.time = {.number = number, .ring = ring, .start_ns = start_ns, .ns = ns},
    };
    tsr_ring_commit(&thread->writer, 1);
}

/* The journal's first anchor is older than every launch, and its last one is renewed while there are launches. */
uint64_t tsr_timing_host_ns(uint64_t ticks)
{
    const struct tsr_journal *journal = tsr_writer_journal();
    if (!journal)
        return 0;
    const struct tsr_anchor *first = &journal->first, *last = &journal->last;
    double per_tick = (double)(last->monotonic_ns - first->monotonic_ns) / (double)(last->ticks - first->ticks);
    return last->monotonic_ns + (uint64_t)(int64_t)((double)(int64_t)(ticks - last->ticks) * per_tick);
}

/* Reads all pools; returns how many launches are not done yet. Leaves the thread's current context as it was. */
static uint32_t harvest_locked(void)
{
    uint32_t not_ready = 0;
    for (uint32_t i = 1; i <= __atomic_load_n(&highest, __ATOMIC_ACQUIRE); i++) {
        struct tsr_timing_pool *pool = __atomic_load_n(&pools[i], __ATOMIC_ACQUIRE);
        CUcontext popped;
        if (!pool || __atomic_load_n(&pool->dead, __ATOMIC_RELAXED) ||
            tsr_real.cuCtxPushCurrent_v2(pool->handle) != CUDA_SUCCESS)
            continue;
        not_ready += tsr_timing_pool_harvest(pool);
        tsr_real.cuCtxPopCurrent_v2(&popped);
    }
    return not_ready + tsr_timing_away_harvest();
}

static void renew_journal_locked(void)
{
    struct tsr_journal *journal = tsr_writer_journal();
    if (journal)
        journal->last = tsr_ticks_anchor();
    if (tsr_writer_is_alone())
        tsr_disengage(TSR_OBSERVED);
}

static void *keep_harvesting(void *unused)
{
    (void)unused;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED; /* else our calls would end captures of other threads */
    tsr_real.cuThreadExchangeStreamCaptureMode(&mode);
    uint64_t renewed = 0;
    while (tsr_has_role(TSR_RECORDING)) {
        pthread_mutex_lock(&harvest);
        bool done = __atomic_load_n(&stopped, __ATOMIC_RELAXED);
        uint32_t not_ready = done ? 0 : harvest_locked();
        uint64_t now = tsr_os_monotonic_ns();
        bool due = !done && now - renewed >= RENEWAL_NS;
        if (due)
            renew_journal_locked();
        pthread_mutex_unlock(&harvest);
        if (done)
            break;
        renewed = due ? now : renewed;
        uint64_t pause = not_ready ? BUSY_NS : IDLE_NS;
        nanosleep(&(struct timespec){.tv_nsec = (long)pause}, NULL);
    }
    return NULL;
}

/* At the process' exit. */
static void finish(void)
{
    int saved_errno = errno;
    struct timespec limit;
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_nsec += EXIT_PATIENCE_NS;
    limit.tv_sec += limit.tv_nsec / 1000000000;
    limit.tv_nsec %= 1000000000;
    bool locked = tsr_has_role(TSR_RECORDING) && !__atomic_load_n(&stopped, __ATOMIC_RELAXED) &&
                  pthread_mutex_timedlock(&harvest, &limit) == 0;
    __atomic_store_n(&stopped, true, __ATOMIC_RELAXED);
    if (locked) {
        if (!tsr_is_any_capture())
            harvest_locked();
        tsr_timing_away_finish(EXIT_PATIENCE_NS);
        for (uint32_t i = 1; i <= highest; i++)
            tsr_timing_abandon((uint16_t)i);
        renew_journal_locked();
        pthread_mutex_unlock(&harvest);
    }
    errno = saved_errno;
}

static void start_locked(void)
{
    pthread_t thread;
    if (!harvesting && (harvesting = tsr_os_thread_start(&thread, "tessera-times", keep_harvesting, NULL)))
        pthread_detach(thread);
}

void tsr_timing_note_timed(void)
{
    struct tsr_journal *journal = tsr_writer_journal();
    if (journal)
        __atomic_fetch_add(&journal->timed_launches, 1, __ATOMIC_RELAXED);
    if (!__atomic_exchange_n(&exit_is_watched, true, __ATOMIC_RELAXED))
        atexit(finish); /* now that the driver has registered what it does then, which so comes after it */
}

void tsr_timing_run(void)
{
    pthread_mutex_lock(&creation);
    start_locked();
    pthread_mutex_unlock(&creation);
}

static struct tsr_timing_pool *create_pool(uint16_t context)
{
    CUcontext handle;
    if (tsr_real.cuCtxGetCurrent(&handle) != CUDA_SUCCESS || !handle)
        return NULL;
    pthread_mutex_lock(&creation);
    struct tsr_timing_pool *pool = pools[context];
    if (!pool && (pool = tsr_timing_pool_create(handle, context))) {
        __atomic_store_n(&pools[context], pool, __ATOMIC_RELEASE);
        if (context > highest)
            __atomic_store_n(&highest, context, __ATOMIC_RELEASE);
        start_locked();
    }
    pthread_mutex_unlock(&creation);
    return pool;
}

struct tsr_timing_pair *tsr_timing_begin(struct tsr_thread *thread, CUstream stream, uint16_t context)
{
    if (!context || __atomic_load_n(&stopped, __ATOMIC_RELAXED) || tsr_record_context(thread, NULL) != context)
        return NULL;
    struct tsr_timing_pool *pool = __atomic_load_n(&pools[context], __ATOMIC_ACQUIRE);
    if (!pool && !(pool = create_pool(context)))
        return NULL;
    struct tsr_timing_pair *pair = tsr_timing_pool_take(pool);
    if (!pair)
        return NULL;
    pair->asked = tsr_ticks();
    if (tsr_real.cuEventRecord(pair->begin, stream) == CUDA_SUCCESS) {
        pair->begun = tsr_ticks();
        return pair;
    }
    __atomic_store_n(&pool->dead, true, __ATOMIC_RELAXED);
    tsr_timing_pool_give_back(pair);
    return NULL;
}

struct tsr_timing_pair *tsr_timing_begin_other(CUstream stream)
{
    struct tsr_thread *thread = tsr_thread();
    if (!thread || tsr_is_any_capture() || tsr_has_role(TSR_REDIRECTING))
        return NULL;
    if (tsr_timing_mode == TSR_TIMING_SAMPLED && thread->others++ >= TSR_TIMING_FIRST && thread->others % TSR_TIMING_ONE_OF)
        return NULL;
    return tsr_timing_begin(thread, stream, tsr_record_context(thread, stream));
}

void tsr_timing_mark(struct tsr_timing_pair *pair, CUstream stream, bool launched)
{
    pair->launched = tsr_ticks();
    pair->marked = launched && tsr_real.cuEventRecord(pair->end, stream) == CUDA_SUCCESS;
}

void tsr_timing_end(struct tsr_timing_pair *pair, const struct tsr_thread *thread, uint64_t number)
{
    if (!pair->marked) { /* there was no launch */
        tsr_timing_pool_give_back(pair);
        return;
    }
    tsr_timing_note_timed();
    if (number == UINT64_MAX) {
        tsr_timing_lose(1);
        tsr_timing_pool_give_back(pair);
        return;
    }
    pair->ring = thread->ring;
    pair->number = number;
    tsr_timing_pool_submit(pair);
}

void tsr_timing_end_work(struct tsr_timing_pair *pair, bool is_recorded)
{
    const struct tsr_thread *thread = tsr_thread_current;
    tsr_timing_end(pair, thread, is_recorded ? thread->writer.tail - 1 : UINT64_MAX);
}

void tsr_timing_pause(void)
{
    pthread_mutex_lock(&harvest);
    if (!__atomic_load_n(&stopped, __ATOMIC_RELAXED) && !tsr_is_any_capture())
        harvest_locked();
}

void tsr_timing_abandon(uint16_t context)
{
    struct tsr_timing_pool *pool = pools[context];
    if (!pool)
        return;
    tsr_timing_pool_abandon(pool);
}

void tsr_timing_resume(void)
{
    pthread_mutex_unlock(&harvest);
}
