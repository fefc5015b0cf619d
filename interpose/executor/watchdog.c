/* See watchdog.h. */
#include "executor/watchdog.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/os.h"

struct tsr_watchdog {
    int guest, end;
    pthread_t thread;
};

/* The parent may have ended before it was asked for; then the process has another one. */
bool tsr_watchdog_over_parent(pid_t parent)
{
    return prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent;
}

static bool ends_within(const struct tsr_watchdog *watchdog, int ms)
{
    struct pollfd wait = {.fd = watchdog->end, .events = POLLIN};
    int ready;
    do
        ready = poll(&wait, 1, ms);
    while (ready < 0 && errno == EINTR);
    return ready > 0;
}

static void *watch(void *argument)
{
    struct tsr_watchdog *watchdog = argument;
    struct pollfd wait[2] = {{.fd = watchdog->end, .events = POLLIN}, {.fd = watchdog->guest, .events = POLLRDHUP}};
    while (poll(wait, 2, -1) < 0 && errno == EINTR)
        continue;
    if (!wait[0].revents && !ends_within(watchdog, TSR_WATCHDOG_MS))
        _exit(1); /* not exit(): the driver's own end would wait for the kernel */
    return NULL;
}

struct tsr_watchdog *tsr_watchdog_start(int guest)
{
    struct tsr_watchdog *watchdog = malloc(sizeof *watchdog);
    if (!watchdog)
        return NULL;
    *watchdog = (struct tsr_watchdog){.guest = guest, .end = eventfd(0, EFD_CLOEXEC)};
    if (watchdog->end >= 0 && tsr_os_thread_start(&watchdog->thread, "tessera-dog", watch, watchdog))
        return watchdog;
    if (watchdog->end >= 0)
        close(watchdog->end);
    free(watchdog);
    return NULL;
}

void tsr_watchdog_end(struct tsr_watchdog *watchdog)
{
    if (!watchdog)
        return;
    eventfd_write(watchdog->end, 1);
    pthread_join(watchdog->thread, NULL);
    close(watchdog->end);
    free(watchdog);
}
