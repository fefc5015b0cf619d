/* See skipped_wait.h. */
#include "shim/skipped_wait.h"

#include <pthread.h>

#include "driver/current.h"
#include "driver/real.h"
#include "lane/streams.h"
#include "memory/readback.h"
#include "object/capture.h"
#include "schedule/automatic.h"
#include "shim/deferred.h"
#include "shim/host_waits.h"

/* Changed with the lock, and also read without it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    CUstream stream; /* NULL: none */
    CUcontext context;
    uint64_t stamp; /* of what the stream had been given */
    uint64_t skips; /* so far, of all streams */
} skipped;

static CUstream now(void)
{
    return __atomic_load_n(&skipped.stream, __ATOMIC_ACQUIRE);
}

bool tsr_wait_skip(CUstream stream, uint64_t stamp)
{
    CUcontext context = tsr_is_any_capture() ? NULL : tsr_current_context(); /* during a capture it could not be made up for */
    pthread_mutex_lock(&lock);
    bool skips = context && (!skipped.stream || (skipped.stream == stream && skipped.context == context));
    if (skips) {
        skipped.stamp = stamp;
        __atomic_store_n(&skipped.context, context, __ATOMIC_RELEASE);
        __atomic_store_n(&skipped.skips, skipped.skips + 1, __ATOMIC_RELEASE);
        __atomic_store_n(&skipped.stream, stream, __ATOMIC_RELEASE);
        __atomic_fetch_or(&tsr_deferring, TSR_SKIPPED, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&lock);
    return skips;
}

bool tsr_wait_is_taken_as_made(CUstream stream)
{
    if (now() != stream)
        return false;
    CUcontext context = tsr_current_context();
    pthread_mutex_lock(&lock);
    bool is_owed = skipped.stream == stream && skipped.context == context;
    uint64_t stamp = skipped.stamp;
    pthread_mutex_unlock(&lock);
    return is_owed && stamp == tsr_readback_stamp(stream);
}

uint64_t tsr_wait_begins(void)
{
    return __atomic_load_n(&skipped.skips, __ATOMIC_ACQUIRE);
}

static void forget_locked(void)
{
    __atomic_store_n(&skipped.stream, NULL, __ATOMIC_RELEASE);
    __atomic_fetch_and(&tsr_deferring, ~TSR_SKIPPED, __ATOMIC_RELEASE);
}

void tsr_wait_forget(void)
{
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    forget_locked();
}

/* What was skipped since the wait began is still owed. */
void tsr_wait_made(CUstream stream, uint64_t began)
{
    if (!now())
        return;
    CUcontext context = tsr_current_context();
    pthread_mutex_lock(&lock);
    if (skipped.skips == began && context == skipped.context && (!stream || stream == skipped.stream))
        forget_locked();
    pthread_mutex_unlock(&lock);
}

/* A context that is gone has no work. */
CUresult tsr_wait_settle(void)
{
    pthread_mutex_lock(&lock);
    CUstream stream = skipped.stream;
    CUcontext context = skipped.context;
    uint64_t began = skipped.skips;
    pthread_mutex_unlock(&lock);
    bool pushed;
    if (!stream)
        return CUDA_SUCCESS;
    CUresult result = CUDA_SUCCESS;
    if (tsr_current_push(context, &pushed) == CUDA_SUCCESS) {
        tsr_automatic_wait_begins();
        result = tsr_deferred_wait_for(stream);
        if (result == CUDA_SUCCESS)
            result = tsr_host_wait_for(stream);
        tsr_automatic_waited(stream);
        tsr_current_pop(pushed);
    }
    pthread_mutex_lock(&lock);
    if (skipped.skips == began)
        forget_locked();
    pthread_mutex_unlock(&lock);
    return result;
}

CUresult tsr_wait_settle_for(CUstream stream)
{
    CUstream owed = now();
    bool ordered = stream == owed || (!stream && owed == CU_STREAM_LEGACY);
    if (!owed || (ordered && tsr_current_context() == __atomic_load_n(&skipped.context, __ATOMIC_ACQUIRE)))
        return CUDA_SUCCESS;
    return tsr_wait_settle();
}

static bool is_free(CUstream stream)
{
    const struct tsr_stream *seen = tsr_stream_seen(stream, false);
    return seen && tsr_stream_is(seen, TSR_STREAM_FREE);
}

CUresult tsr_wait_settle_for_query(CUstream stream)
{
    CUstream owed = now();
    return !owed || is_free(stream) || is_free(owed) ? CUDA_SUCCESS : tsr_wait_settle_for(stream);
}
