/* See capture.h. */
#include "object/capture.h"

#include "driver/engaged.h"

#include <pthread.h>
#include <unistd.h>

#include "base/fork.h"
#include "driver/real.h"

#define MOST_CAPTURES 256

uint32_t tsr_captures TSR_HOT;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t open_captures[MOST_CAPTURES];                 /* lock; the first tsr_captures: streams, see key_of */
static pthread_rwlock_t changes = PTHREAD_RWLOCK_INITIALIZER; /* exclusive while a capture begins, grows or ends */

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

static const struct tsr_fork_listener forks = {.in_child = forget_parent};

/* Beyond MOST_CAPTURES the last entry stands for several, and the count never returns to zero: from then on the driver is always asked. */
void tsr_capture_note(CUstream stream)
{
    tsr_fork_listen(&forks);
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

void tsr_captures_change_begin(void)
{
    pthread_rwlock_wrlock(&changes);
}

void tsr_captures_change_end(void)
{
    pthread_rwlock_unlock(&changes);
}
