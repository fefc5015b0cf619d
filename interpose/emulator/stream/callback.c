#include "callback.h"

#include "../context/context_object.h"
#include "base/os.h"
#include "engine.h"
#include "stream_object.h"

static struct {
    TSR_VEC(struct tsr_item *) queue; /* lock of the engine, as is everything here */
    size_t first;                     /* of the queue, not yet taken */
    bool started, running, ending;
    pthread_t thread;
    uint32_t posted; /* atomic; futex: counts queued functions and the stop */
} callback;
static __thread bool on_callback_thread;

static struct tsr_item *take_locked(void)
{
    callback.running = false;
    if (callback.first == callback.queue.count) {
        callback.first = 0;
        tsr_vec_clear(&callback.queue);
        return NULL;
    }
    callback.running = true;
    return callback.queue.data[callback.first++];
}

static void call(const struct tsr_work *work, CUresult status)
{
    if (work->host.callback)
        work->host.callback(work->host.stream, status, work->host.data);
    else
        work->host.fn(work->host.data);
}

static void *callback_main(void *unused)
{
    (void)unused;
    on_callback_thread = true;
    tsr_engine_lock();
    while (!callback.ending) {
        uint32_t posted = __atomic_load_n(&callback.posted, __ATOMIC_ACQUIRE);
        struct tsr_item *item = take_locked();
        if (!item) {
            tsr_engine_unlock();
            tsr_os_futex_wait(&callback.posted, posted, UINT64_MAX, false);
            tsr_engine_lock();
            continue;
        }
        struct tsr_context *context = item->streams->context;
        tsr_engine_unlock();
        /* Calls from the function fail for what it is, not for want of a context. */
        tsr_current_set(context);
        call(&item->work, tsr_context_sticky(context));
        tsr_current_set(NULL);
        tsr_engine_lock();
        tsr_item_complete_locked(item, item->ready_ns);
        tsr_engine_kick_locked();
    }
    tsr_engine_unlock();
    return NULL;
}

static void post(void)
{
    __atomic_fetch_add(&callback.posted, 1, __ATOMIC_RELEASE);
    tsr_os_futex_wake(&callback.posted, 1, false);
}

void tsr_callback_queue_locked(struct tsr_item *item)
{
    if (!callback.started)
        callback.started = tsr_os_thread_start(&callback.thread, "tessera-calls", callback_main, NULL);
    if (!callback.started || !tsr_vec_push(&callback.queue, item)) {
        tsr_context_fail(item->streams->context, CUDA_ERROR_OUT_OF_MEMORY);
        tsr_item_complete_locked(item, item->ready_ns);
        return;
    }
    post();
}

bool tsr_callback_busy_locked(void)
{
    return callback.running || callback.first < callback.queue.count;
}

bool tsr_callback_here(void)
{
    return on_callback_thread;
}

void tsr_callback_stop(void)
{
    tsr_engine_lock();
    bool started = callback.started && !callback.ending, running = callback.running;
    callback.ending = true;
    tsr_engine_unlock();
    if (!started || on_callback_thread)
        return;
    post();
    if (running)
        pthread_detach(callback.thread);
    else
        pthread_join(callback.thread, NULL);
}

void tsr_callback_forget(void)
{
    callback.started = false;
    callback.ending = true;
}
