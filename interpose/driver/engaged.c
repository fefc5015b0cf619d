/* See engaged.h. */
#include "driver/engaged.h"

#include "base/fork.h"

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

void tsr_engaged_prepare(void)
{
    static const struct tsr_fork_listener forks = {.in_child = begin_idle};
    tsr_fork_listen(&forks);
}
