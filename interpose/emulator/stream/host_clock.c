#include "host_clock.h"

#include "../context/context.h"
#include "base/options.h"
#include "base/os.h"

#include <stdbool.h>

struct host_clock {
    uint64_t virtual_ns, real_ns; /* real_ns: when the last call ended */
    bool started, first;
};

static __thread struct host_clock clock_here;
static uint64_t first_thread_ns; /* atomic: time of the first thread that used the driver */
static bool first_thread_taken;  /* atomic */

static void publish(void)
{
    if (clock_here.first)
        __atomic_store_n(&first_thread_ns, clock_here.virtual_ns, __ATOMIC_RELAXED);
}

static bool real_time(void)
{
    const struct tsr_machine *machine = tsr_machine_instance();
    return machine && machine->host_time == TSR_HOST_REAL;
}

static void start(void)
{
    if (clock_here.started)
        return;
    clock_here.started = true;
    clock_here.first = !__atomic_exchange_n(&first_thread_taken, true, __ATOMIC_RELAXED);
    clock_here.virtual_ns = __atomic_load_n(&first_thread_ns, __ATOMIC_RELAXED);
    if (real_time())
        clock_here.real_ns = tsr_os_monotonic_ns();
}

uint64_t tsr_host_clock_enter(void)
{
    const struct tsr_machine *machine = tsr_machine_instance();
    start();
    if (real_time())
        clock_here.virtual_ns += tsr_os_monotonic_ns() - clock_here.real_ns;
    if (machine)
        clock_here.virtual_ns += machine->host_call_ns;
    publish();
    return clock_here.virtual_ns;
}

void tsr_host_clock_leave(void)
{
    if (real_time())
        clock_here.real_ns = tsr_os_monotonic_ns();
}

void tsr_host_clock_advance(uint64_t ns)
{
    start();
    if (ns > clock_here.virtual_ns)
        clock_here.virtual_ns = ns;
    publish();
}

void tsr_host_clock_seen(uint64_t ns)
{
    if (tsr_options()->query_time)
        tsr_host_clock_advance(ns);
}

uint64_t tsr_host_clock_now(void)
{
    start();
    return clock_here.virtual_ns;
}
