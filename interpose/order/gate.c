/* See gate.h. */
#include "order/gate.h"

#include <pthread.h>
#include <time.h>

#include "base/os.h"

bool tsr_gate_watched;
static pthread_rwlock_t gate = PTHREAD_RWLOCK_INITIALIZER;
static __thread bool closed_by_me;

void tsr_gate_start(bool watched)
{
    pthread_rwlock_init(&gate, NULL);
    closed_by_me = false;
    tsr_gate_watched = watched;
}

bool tsr_gate_enter_watched(void)
{
    return !closed_by_me && pthread_rwlock_rdlock(&gate) == 0;
}

void tsr_gate_leave_watched(void)
{
    pthread_rwlock_unlock(&gate);
}

bool tsr_gate_close(uint64_t timeout_ns)
{
    uint64_t end = tsr_os_monotonic_ns() + timeout_ns;
    struct timespec deadline = {.tv_sec = (time_t)(end / 1000000000), .tv_nsec = (long)(end % 1000000000)};
    closed_by_me = pthread_rwlock_clockwrlock(&gate, CLOCK_MONOTONIC, &deadline) == 0;
    return closed_by_me;
}

void tsr_gate_open(void)
{
    closed_by_me = false;
    pthread_rwlock_unlock(&gate);
}
