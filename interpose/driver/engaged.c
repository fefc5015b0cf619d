/* See engaged.h. */
#include "driver/engaged.h"

#include <pthread.h>

uint32_t tsr_engaged TSR_HOT;

void tsr_engage(enum tsr_role role)
{
    __atomic_fetch_or(&tsr_engaged, role, __ATOMIC_RELEASE);
}

void tsr_disengage(enum tsr_role role)
{
    __atomic_fetch_and(&tsr_engaged, ~(uint32_t)role, __ATOMIC_RELEASE);
}

static void begin_idle(void)
{
    __atomic_store_n(&tsr_engaged, 0, __ATOMIC_RELEASE);
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, begin_idle);
}

void tsr_engaged_prepare(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
}
