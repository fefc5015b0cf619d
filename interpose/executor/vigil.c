/* See vigil.h. */
#include "executor/vigil.h"

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

struct tsr_vigil {
    int guest, end;
    pthread_t thread;
};

/* The parent may have ended before it was asked for; then the process has another one. */
bool tsr_vigil_over_parent(pid_t parent)
{
    return prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent;
}

static bool ends_within(const struct tsr_vigil *vigil, int ms)
{
    struct pollfd wait = {.fd = vigil->end, .events = POLLIN};
    int ready;
    do
        ready = poll(&wait, 1, ms);
    while (ready < 0 && errno == EINTR);
    return ready > 0;
}

static void *watch(void *argument)
{
    struct tsr_vigil *vigil = argument;
    struct pollfd wait[2] = {{.fd = vigil->end, .events = POLLIN}, {.fd = vigil->guest, .events = POLLRDHUP}};
    while (poll(wait, 2, -1) < 0 && errno == EINTR)
        continue;
    if (!wait[0].revents && !ends_within(vigil, TSR_VIGIL_MS))
        _exit(1); /* not exit(): the driver's own end would wait for the kernel */
    return NULL;
}

struct tsr_vigil *tsr_vigil_start(int guest)
{
    struct tsr_vigil *vigil = malloc(sizeof *vigil);
    if (!vigil)
        return NULL;
    *vigil = (struct tsr_vigil){.guest = guest, .end = eventfd(0, EFD_CLOEXEC)};
    if (vigil->end >= 0 && tsr_os_thread_start(&vigil->thread, "tessera-vigil", watch, vigil))
        return vigil;
    if (vigil->end >= 0)
        close(vigil->end);
    free(vigil);
    return NULL;
}

void tsr_vigil_end(struct tsr_vigil *vigil)
{
    if (!vigil)
        return;
    eventfd_write(vigil->end, 1);
    pthread_join(vigil->thread, NULL);
    close(vigil->end);
    free(vigil);
}
