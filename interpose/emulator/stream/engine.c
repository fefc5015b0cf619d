#include "engine.h"

#include "../machine/clock.h"
#include "base/log.h"
#include "base/os.h"
#include "callback.h"
#include "graph.h"
#include "run.h"
#include "stream.h"

#include <stdlib.h>
#include <unistd.h>

#define QUANTUM_NS 20000000u
#define STALLED_QUANTUM_NS 1000000u
#define STALLED_PAUSE_NS 30000u
#define STALLED_TURN 8u            /* a stalled kernel gets a turn after so many other items at the latest */
#define LONG_RUN_NS 1000000000u
#define GRACE_NS 100000000u
#define POLL_LEAST_NS 5000u
#define POLL_MOST_NS 100000u

typedef TSR_VEC(struct tsr_item *) tsr_items;

static pthread_mutex_t engine_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct {
    pthread_cond_t work;      /* the engine sleeps here */
    pthread_cond_t completed; /* threads that wait for items sleep here */
    tsr_items ready;          /* binary heap by sequence */
    tsr_items polls;          /* waits for values and for other processes' events that were not fulfilled when last looked at */
    tsr_items stalled;        /* started kernels that stand back, the one to run next first */
    struct tsr_item *current; /* a kernel that used up its quantum and goes on */
    struct tsr_item *left;    /* completed items whose work is to be released */
    uint64_t poll_pause_ns;
    unsigned streak; /* ready items taken since the last stalled kernel */
    unsigned waiters;
    bool started, ending;
    pthread_t thread;
    struct tsr_timeline *timeline;
} engine = {.work = PTHREAD_COND_INITIALIZER, .completed = PTHREAD_COND_INITIALIZER};

void tsr_engine_lock(void)
{
    pthread_mutex_lock(&engine_mutex);
}

void tsr_engine_unlock(void)
{
    struct tsr_item *left = engine.left;
    engine.left = NULL;
    pthread_mutex_unlock(&engine_mutex);
    while (left) {
        struct tsr_item *next = left->chained;
        tsr_work_release(&left->work);
        tsr_item_put(left);
        left = next;
    }
}

void tsr_engine_leave_locked(struct tsr_item *item)
{
    item->chained = engine.left;
    engine.left = item;
}

void tsr_engine_leave_graph_locked(struct tsr_graph *graph)
{
    struct tsr_item *carrier = calloc(1, sizeof *carrier);
    tsr_graph_hide(graph);
    if (!carrier)
        return; /* lost, and so is everything else soon */
    carrier->references = 1;
    carrier->work = (struct tsr_work){.kind = TSR_WORK_CHILD, .child = {graph}};
    tsr_engine_leave_locked(carrier);
}

void tsr_engine_pause_locked(void)
{
    engine.waiters++;
    pthread_cond_wait(&engine.completed, &engine_mutex);
    engine.waiters--;
}

void tsr_engine_completed_locked(void)
{
    engine.poll_pause_ns = POLL_LEAST_NS;
    if (engine.waiters)
        pthread_cond_broadcast(&engine.completed);
}

static void sleep_locked(uint64_t ns)
{
    uint64_t until_ns = tsr_os_monotonic_ns() + ns;
    struct timespec until = {(time_t)(until_ns / 1000000000u), (long)(until_ns % 1000000000u)};
    pthread_cond_clockwait(&engine.work, &engine_mutex, CLOCK_MONOTONIC, &until);
}

static void push_locked(tsr_items *items, struct tsr_item *item)
{
    /* Room was made when the item was pushed as ready: an item is in one list at a time. */
    if (!tsr_vec_push(items, item)) {
        tsr_context_fail(item->streams->context, CUDA_ERROR_OUT_OF_MEMORY);
        tsr_item_complete_locked(item, item->ready_ns);
    }
}

void tsr_engine_push_ready_locked(struct tsr_item *item)
{
    item->state = TSR_ITEM_READY;
    if (!tsr_vec_push(&engine.ready, item)) {
        tsr_context_fail(item->streams->context, CUDA_ERROR_OUT_OF_MEMORY);
        tsr_item_complete_locked(item, item->ready_ns);
        return;
    }
    size_t index = engine.ready.count - 1;
    while (index && engine.ready.data[(index - 1) / 2]->sequence > item->sequence) {
        engine.ready.data[index] = engine.ready.data[(index - 1) / 2];
        index = (index - 1) / 2;
    }
    engine.ready.data[index] = item;
    pthread_cond_signal(&engine.work);
}

static struct tsr_item *pop_ready_locked(void)
{
    struct tsr_item *first = engine.ready.data[0], *last = tsr_vec_pop(&engine.ready);
    size_t index = 0, child;
    while ((child = 2 * index + 1) < engine.ready.count) {
        if (child + 1 < engine.ready.count && engine.ready.data[child + 1]->sequence < engine.ready.data[child]->sequence)
            child++;
        if (engine.ready.data[child]->sequence > last->sequence)
            break;
        engine.ready.data[index] = engine.ready.data[child];
        index = child;
    }
    if (engine.ready.count)
        engine.ready.data[index] = last;
    return first;
}

static struct tsr_item *pop_stalled_locked(void)
{
    struct tsr_item *item = engine.stalled.data[0];
    engine.stalled.count--;
    for (size_t i = 0; i < engine.stalled.count; i++)
        engine.stalled.data[i] = engine.stalled.data[i + 1];
    engine.streak = 0;
    return item;
}

/* The context failed or is being destroyed: what has not been done is dropped, except what the application must be told. */
static bool discarded_locked(const struct tsr_item *item)
{
    return tsr_context_sticky(item->streams->context) != CUDA_SUCCESS;
}

/* For items that may never get on by themselves. */
static bool stuck_discarded_locked(const struct tsr_item *item)
{
    return item->streams->dying || discarded_locked(item);
}

static void kernel_drop(struct tsr_item *item)
{
    if (item->grid)
        tsr_grid_destroy(item->grid);
    item->grid = NULL;
}

static void poll_locked(void)
{
    for (size_t i = 0; i < engine.polls.count;) {
        struct tsr_item *item = engine.polls.data[i];
        uint64_t end_ns = item->ready_ns;
        if (!stuck_discarded_locked(item) && !tsr_run_poll(item, &end_ns)) {
            i++;
            continue;
        }
        for (size_t k = i; k + 1 < engine.polls.count; k++)
            engine.polls.data[k] = engine.polls.data[k + 1];
        engine.polls.count--;
        tsr_item_complete_locked(item, end_ns);
    }
}

/* One quantum of a kernel. */
static void step_kernel_locked(struct tsr_item *item, uint64_t quantum_ns)
{
    uint64_t end_ns = item->ready_ns;
    if (discarded_locked(item)) {
        kernel_drop(item);
        tsr_item_complete_locked(item, end_ns);
        return;
    }
    tsr_engine_unlock();
    enum tsr_grid_state state = tsr_run_kernel(item, quantum_ns, &end_ns);
    bool progress = state == TSR_GRID_RUNNING && tsr_grid_made_progress(item->grid);
    bool long_run = state == TSR_GRID_RUNNING && tsr_os_monotonic_ns() - item->started_real_ns > LONG_RUN_NS;
    tsr_engine_lock();
    if (state != TSR_GRID_RUNNING || (!progress && item->streams->dying)) {
        kernel_drop(item);
        tsr_item_complete_locked(item, end_ns);
    } else if (progress && !(long_run && engine.ready.count)) {
        engine.current = item;
    } else {
        item->started_real_ns = tsr_os_monotonic_ns();
        push_locked(&engine.stalled, item);
    }
}

/* Work that the engine does in one go. */
static void step_plain_locked(struct tsr_item *item)
{
    bool run = !discarded_locked(item);
    uint64_t end_ns = item->ready_ns;
    tsr_engine_unlock();
    tsr_run_plain(item, run, &end_ns);
    tsr_engine_lock();
    tsr_item_complete_locked(item, end_ns);
}

/* The grace keeps programs with quick host functions deterministic. A callback thread that is late already gets none. */
static void step_host_locked(struct tsr_item *item)
{
    bool late = tsr_callback_busy_locked();
    tsr_item_get(item);
    tsr_callback_queue_locked(item);
    uint64_t until_ns = tsr_os_monotonic_ns() + (late ? 0 : GRACE_NS), now_ns;
    while (item->state != TSR_ITEM_DONE && !engine.ending && (now_ns = tsr_os_monotonic_ns()) < until_ns)
        sleep_locked(until_ns - now_ns);
    tsr_item_put(item);
}

static void step_locked(struct tsr_item *item)
{
    item->state = TSR_ITEM_RUNNING;
    switch (item->work.kind) {
    case TSR_WORK_KERNEL:
        step_kernel_locked(item, QUANTUM_NS);
        break;
    case TSR_WORK_HOST:
        if (discarded_locked(item) && !item->work.host.callback)
            tsr_item_complete_locked(item, item->ready_ns);
        else
            step_host_locked(item);
        break;
    case TSR_WORK_WAIT:
    case TSR_WORK_VALUES:
        push_locked(&engine.polls, item);
        break;
    default:
        step_plain_locked(item);
    }
}

/* Nothing but stalled kernels and unfulfilled waits: leave the processor to those who can change that, then look again. */
static void idle_locked(void)
{
    if (engine.stalled.count) {
        sleep_locked(STALLED_PAUSE_NS);
        if (!engine.ready.count && engine.stalled.count && !engine.ending)
            step_kernel_locked(pop_stalled_locked(), STALLED_QUANTUM_NS);
    } else if (engine.polls.count) {
        sleep_locked(engine.poll_pause_ns);
        engine.poll_pause_ns = engine.poll_pause_ns * 2 < POLL_MOST_NS ? engine.poll_pause_ns * 2 : POLL_MOST_NS;
    } else {
        pthread_cond_wait(&engine.work, &engine_mutex);
    }
}

static void *engine_main(void *unused)
{
    (void)unused;
    tsr_engine_lock();
    while (!engine.ending) {
        struct tsr_item *current = engine.current;
        engine.current = NULL;
        if (current) {
            step_kernel_locked(current, QUANTUM_NS);
        } else if (poll_locked(), engine.stalled.count && engine.ready.count && ++engine.streak > STALLED_TURN) {
            step_kernel_locked(pop_stalled_locked(), STALLED_QUANTUM_NS);
        } else if (engine.ready.count) {
            step_locked(pop_ready_locked());
        } else {
            /* What was completed must be released before sleeping: a module may wait for it. */
            if (engine.left) {
                tsr_engine_unlock();
                tsr_engine_lock();
            } else {
                idle_locked();
            }
        }
    }
    tsr_engine_unlock();
    return NULL;
}

void tsr_engine_kick_locked(void)
{
    pthread_cond_signal(&engine.work);
}

static void stop_at_exit(void)
{
    tsr_engine_lock();
    bool started = engine.started && !engine.ending;
    engine.ending = true;
    pthread_cond_broadcast(&engine.work);
    pthread_cond_broadcast(&engine.completed);
    tsr_engine_unlock();
    if (started && !pthread_equal(engine.thread, pthread_self()))
        pthread_join(engine.thread, NULL);
    tsr_callback_stop();
}

static void lock_before_fork(void)
{
    pthread_mutex_lock(&engine_mutex);
}

static void unlock_after_fork(void)
{
    pthread_mutex_unlock(&engine_mutex);
}

/* The engine thread and whoever waited do not exist here. */
static void forget_in_child(void)
{
    pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
    engine_mutex = fresh;
    engine.work = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    engine.completed = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    engine.ending = true;
    tsr_callback_forget();
}

static CUresult start_locked(void)
{
    if (!engine.timeline && !(engine.timeline = tsr_timeline_create(tsr_machine_instance())))
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (!tsr_os_thread_start(&engine.thread, "tessera-engine", engine_main, NULL))
        return CUDA_ERROR_OPERATING_SYSTEM;
    engine.started = true;
    engine.poll_pause_ns = POLL_LEAST_NS;
    pthread_atfork(lock_before_fork, unlock_after_fork, forget_in_child);
    atexit(stop_at_exit);
    return CUDA_SUCCESS;
}

CUresult tsr_engine_ready_locked(void)
{
    if (engine.ending)
        return CUDA_ERROR_DEINITIALIZED;
    if (tsr_callback_here())
        return CUDA_ERROR_NOT_PERMITTED;
    return engine.started ? CUDA_SUCCESS : start_locked();
}

bool tsr_engine_ending_locked(void)
{
    return engine.ending;
}

struct tsr_timeline *tsr_engine_timeline(void)
{
    return engine.timeline;
}
