/* See host_time.h. */
#include "schedule/host_time.h"

#include <stdint.h>

#include "base/os.h"
#include "lane/streams.h"

static bool is_virtual;
static __thread double thread_ns; /* in virtual time, */
static __thread bool has_time;    /* which begins with the first thread's */
static double first_ns;           /* of that */
static uint64_t first_thread;     /* its number; 0: none yet */

void tsr_host_time_init(bool emulated)
{
    is_virtual = emulated;
    thread_ns = first_ns = 0;
    first_thread = 0;
}

bool tsr_host_time_is_virtual(void)
{
    return is_virtual;
}

double tsr_host_time_ns(void)
{
    if (!is_virtual)
        return (double)tsr_os_monotonic_ns();
    if (!has_time)
        thread_ns = first_ns;
    has_time = true;
    return thread_ns;
}

void tsr_host_time_waited(double until_ns)
{
    if (!is_virtual)
        return;
    thread_ns = until_ns > tsr_host_time_ns() ? until_ns : thread_ns;
    first_thread = first_thread ? first_thread : tsr_stream_thread();
    if (first_thread == tsr_stream_thread())
        first_ns = thread_ns;
}
