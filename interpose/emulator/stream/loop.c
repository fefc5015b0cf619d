#include "loop.h"

#include "../machine/clock.h"
#include "base/fork.h"
#include "base/os.h"
#include "callback.h"
#include "disorder.h"
#include "engine.h"
#include "engine_object.h"
#include "run.h"
#include "stream_object.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define QUANTUM_NS 20000000u
#define STALLED_QUANTUM_NS 1000000u
#define STALLED_PAUSE_NS 30000u
#define STALLED_TURN 8u            /* a stalled kernel gets a turn after so many other items at the latest */
#define LONG_RUN_NS 1000000000u
#define GRACE_NS 100000000u
#define POLL_MOST_NS 100000u

static void sleep_locked(uint64_t ns)
{
    uint64_t until_ns = tsr_os_monotonic_ns() + ns;
    struct timespec until = {(time_t)(until_ns / 1000000000u), (long)(until_ns % 1000000000u)};
    pthread_cond_timedwait(&tsr_engine_state.work, &tsr_engine_state.mutex, &until);
}

static void push_locked(tsr_items *items, struct tsr_item *item)
{
    /* Room was made when the item was pushed as ready: an item is in one list at a time. */
    if (!tsr_vec_push(items, item)) {
        tsr_context_fail(item->streams->context, CUDA_ERROR_OUT_OF_MEMORY);
        tsr_item_complete_locked(item, item->ready_ns);
    }
}

static struct tsr_item *pop_ready_locked(void)
{
    struct tsr_item *first = tsr_engine_state.ready.data[0], *last = tsr_vec_pop(&tsr_engine_state.ready);
    size_t index = 0, child;
    while ((child = 2 * index + 1) < tsr_engine_state.ready.count) {
        if (child + 1 < tsr_engine_state.ready.count &&
            tsr_engine_state.ready.data[child + 1]->turn < tsr_engine_state.ready.data[child]->turn)
            child++;
        if (tsr_engine_state.ready.data[child]->turn > last->turn)
            break;
        tsr_engine_state.ready.data[index] = tsr_engine_state.ready.data[child];
        index = child;
    }
    if (tsr_engine_state.ready.count)
        tsr_engine_state.ready.data[index] = last;
    return first;
}

static struct tsr_item *pop_stalled_locked(void)
{
    struct tsr_item *item = tsr_engine_state.stalled.data[0];
    tsr_engine_state.stalled.count--;
    for (size_t i = 0; i < tsr_engine_state.stalled.count; i++)
        tsr_engine_state.stalled.data[i] = tsr_engine_state.stalled.data[i + 1];
    tsr_engine_state.streak = 0;
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
    for (size_t i = 0; i < tsr_engine_state.polls.count;) {
        struct tsr_item *item = tsr_engine_state.polls.data[i];
        uint64_t end_ns = item->ready_ns;
        if (!stuck_discarded_locked(item) && !tsr_run_poll(item, &end_ns)) {
            i++;
            continue;
        }
        for (size_t k = i; k + 1 < tsr_engine_state.polls.count; k++)
            tsr_engine_state.polls.data[k] = tsr_engine_state.polls.data[k + 1];
        tsr_engine_state.polls.count--;
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
    } else if (progress && !(long_run && tsr_engine_state.ready.count)) {
        tsr_engine_state.current = item;
    } else {
        item->started_real_ns = tsr_os_monotonic_ns();
        push_locked(&tsr_engine_state.stalled, item);
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
    while (item->state != TSR_ITEM_DONE && !tsr_engine_state.ending && (now_ns = tsr_os_monotonic_ns()) < until_ns)
        sleep_locked(until_ns - now_ns);
    tsr_item_put(item);
}

static void step_locked(struct tsr_item *item)
{
    uint64_t pause_ns = tsr_disorder_pause_ns(item->sequence);
    item->state = TSR_ITEM_RUNNING;
    if (pause_ns) {
        tsr_engine_unlock();
        nanosleep(&(struct timespec){.tv_nsec = (long)pause_ns}, NULL);
        tsr_engine_lock();
    }
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
        push_locked(&tsr_engine_state.polls, item);
        break;
    default:
        step_plain_locked(item);
    }
}

/* Nothing but stalled kernels and unfulfilled waits: leave the processor to those who can change that, then look again. */
static void idle_locked(void)
{
    if (tsr_engine_state.stalled.count) {
        sleep_locked(STALLED_PAUSE_NS);
        if (!tsr_engine_state.ready.count && tsr_engine_state.stalled.count && !tsr_engine_state.ending)
            step_kernel_locked(pop_stalled_locked(), STALLED_QUANTUM_NS);
    } else if (tsr_engine_state.polls.count) {
        sleep_locked(tsr_engine_state.poll_pause_ns);
        tsr_engine_state.poll_pause_ns =
            tsr_engine_state.poll_pause_ns * 2 < POLL_MOST_NS ? tsr_engine_state.poll_pause_ns * 2 : POLL_MOST_NS;
    } else {
        pthread_cond_wait(&tsr_engine_state.work, &tsr_engine_state.mutex);
    }
}

static void *engine_main(void *unused)
{
    (void)unused;
    tsr_engine_lock();
    while (!tsr_engine_state.ending) {
        struct tsr_item *current = tsr_engine_state.current;
        tsr_engine_state.current = NULL;
        if (current) {
            step_kernel_locked(current, QUANTUM_NS);
        } else if (poll_locked(),
                   tsr_engine_state.stalled.count && tsr_engine_state.ready.count && ++tsr_engine_state.streak > STALLED_TURN) {
            step_kernel_locked(pop_stalled_locked(), STALLED_QUANTUM_NS);
        } else if (tsr_engine_state.ready.count) {
            step_locked(pop_ready_locked());
        } else {
            /* What was completed must be released before sleeping: a module may wait for it. */
            if (tsr_engine_state.left) {
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

static void stop_at_exit(void)
{
    tsr_engine_lock();
    bool started = tsr_engine_state.started && !tsr_engine_state.ending;
    tsr_engine_state.ending = true;
    pthread_cond_broadcast(&tsr_engine_state.work);
    pthread_cond_broadcast(&tsr_engine_state.completed);
    tsr_engine_unlock();
    if (started && !pthread_equal(tsr_engine_state.thread, pthread_self()))
        pthread_join(tsr_engine_state.thread, NULL);
    tsr_callback_stop();
}

static void lock_before_fork(void)
{
    pthread_mutex_lock(&tsr_engine_state.mutex);
}

static void unlock_after_fork(void)
{
    pthread_mutex_unlock(&tsr_engine_state.mutex);
}

/* The engine thread and whoever waited do not exist here. */
static void forget_in_child(void)
{
    pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
    tsr_engine_state.mutex = fresh;
    tsr_engine_state.work = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    tsr_engine_state.completed = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    tsr_engine_state.ending = true;
    tsr_callback_forget();
}

static const struct tsr_fork_listener forks = {lock_before_fork, unlock_after_fork, forget_in_child};

/* It is waited for until a time of CLOCK_MONOTONIC. Nobody waits yet. */
static void make_work_locked(void)
{
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&tsr_engine_state.work, &clock);
    pthread_condattr_destroy(&clock);
}

static CUresult start_locked(void)
{
    if (!tsr_engine_state.timeline && !(tsr_engine_state.timeline = tsr_timeline_create(tsr_machine_instance())))
        return CUDA_ERROR_OUT_OF_MEMORY;
    make_work_locked();
    if (!tsr_os_thread_start(&tsr_engine_state.thread, "tessera-engine", engine_main, NULL))
        return CUDA_ERROR_OPERATING_SYSTEM;
    tsr_engine_state.started = true;
    tsr_engine_state.poll_pause_ns = TSR_ENGINE_POLL_LEAST_NS;
    tsr_fork_listen(&forks);
    atexit(stop_at_exit);
    return CUDA_SUCCESS;
}

CUresult tsr_loop_ready_locked(void)
{
    if (tsr_engine_state.ending)
        return CUDA_ERROR_DEINITIALIZED;
    if (tsr_callback_here())
        return CUDA_ERROR_NOT_PERMITTED;
    return tsr_engine_state.started ? CUDA_SUCCESS : start_locked();
}
