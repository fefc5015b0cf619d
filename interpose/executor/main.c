/*
 * tessera-executor --device N --listener DESCRIPTOR --owner PID [--sm-limit N] [--memory-limit BYTES]: serves one application after another
 * on GPU N until standard input, which tessera-run holds open, is closed. tessera-run creates the listening socket before it starts this program, so that
 * applications that connect early wait, and those that connect after its end are refused. Control messages are answered in order on
 * the main thread; launches come through the lane.
 *
 * Only processes of the same user are served. The executor is killed with its owner, tessera-run, and its workers with it; a
 * worker ends when its application has gone, even if a kernel is still running.
 *
 * tessera-executor --prove: prove.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/socket.h"
#include "executor/lane_reader.h"
#include "executor/mirror.h"
#include "executor/prove.h"
#include "executor/share.h"
#include "executor/watchdog.h"

#define POLL_MS 20 /* between checks whether a worker is idle */

#define WORKERS 64 /* applications at a time */
#define GREETING_MS 2000
#define END_MS (TSR_WATCHDOG_MS + 200) /* for workers to end, once no application can connect any more */

enum state { NONE, STARTING, IDLE, BUSY };

struct worker {     /* shared by all processes */
    pid_t pid;      /* the parent's */
    uint32_t state; /* atomic */
};

struct arguments {
    int device;
    int listener;
    pid_t owner;
    unsigned sm_limit;     /* 0: none */
    uint64_t memory_limit; /* bytes; 0: none */
};

static int parse(int count, char **values, struct arguments *out)
{
    *out = (struct arguments){.device = -1, .listener = -1};
    for (int i = 1; i + 1 < count; i += 2) {
        char *end = NULL;
        if (strcmp(values[i], "--device") == 0)
            out->device = (int)strtol(values[i + 1], &end, 10);
        else if (strcmp(values[i], "--listener") == 0)
            out->listener = (int)strtol(values[i + 1], &end, 10);
        else if (strcmp(values[i], "--owner") == 0)
            out->owner = (pid_t)strtol(values[i + 1], &end, 10);
        else if (strcmp(values[i], "--sm-limit") == 0)
            out->sm_limit = (unsigned)strtoul(values[i + 1], &end, 10);
        else if (strcmp(values[i], "--memory-limit") == 0)
            out->memory_limit = strtoull(values[i + 1], &end, 10);
        else
            return 0;
        if (end && *end)
            return 0;
    }
    return out->device >= 0 && out->listener >= 0 && out->owner > 0 && count % 2 == 1;
}

static int report(const char *what, CUresult result)
{
    const char *name = "?";
    cuGetErrorName(result, &name);
    fprintf(stderr, "tessera-executor: %s: %s\n", what, name);
    return 1;
}

/* One packet and, if one came, its descriptor. False: the peer has closed. */
static int receive(int from, struct tsr_message *message, int *descriptor)
{
    ssize_t got = tsr_socket_receive(from, message, sizeof *message, descriptor, 0);
    if (got < (ssize_t)offsetof(struct tsr_message, text)) {
        if (*descriptor >= 0)
            close(*descriptor);
        return 0;
    }
    size_t end = (size_t)got - offsetof(struct tsr_message, text); /* the bytes after that are an older message's */
    message->text[end < sizeof message->text ? end : sizeof message->text - 1] = 0;
    return 1;
}

struct guest {
    struct tsr_mirror *mirror;
    struct tsr_lane_reader *reader;
};

static CUresult greet(struct guest *guest, CUdevice device, CUcontext context, const struct tsr_message *hello, int descriptor,
                      struct tsr_reply *reply)
{
    if (guest->reader)
        return CUDA_ERROR_INVALID_VALUE;
    reply->flags = (uint32_t)getpid();
    CUresult result = tsr_mirror_create(device, &guest->mirror);
    return result == CUDA_SUCCESS ? tsr_lane_reader_start(hello, descriptor, guest->mirror, context, &guest->reader) : result;
}

static void answer(struct guest *guest, CUdevice device, CUcontext context, const struct tsr_message *message, int descriptor,
                   struct tsr_reply *reply)
{
    bool first = message->kind == TSR_MESSAGE_HELLO;
    if (message->version != TSR_LANE_VERSION)
        reply->result = CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
    else if (first)
        reply->result = (int32_t)greet(guest, device, context, message, descriptor, reply);
    else if (!guest->reader)
        reply->result = CUDA_ERROR_NOT_INITIALIZED;
    else {
        bool noticed = message->kind == TSR_MESSAGE_UNLOAD || message->kind == TSR_MESSAGE_ATTRIBUTE ||
                       message->kind == TSR_MESSAGE_STREAM || message->kind == TSR_MESSAGE_GRAPH_SET ||
                       message->kind == TSR_MESSAGE_GRAPH_DROP; /* by launches that were posted before it */
        if (noticed)
            tsr_lane_reader_change(guest->reader, message, descriptor, reply);
        else if (message->kind == TSR_MESSAGE_LANE)
            reply->result = (int32_t)tsr_lane_reader_connect(guest->reader, message, descriptor);
        else
            tsr_mirror_apply(guest->mirror, message, descriptor, reply);
    }
}

static void serve(int guest_socket, CUdevice device, CUcontext context)
{
    struct guest guest = {0};
    static struct tsr_message message;
    int descriptor;
    struct pollfd greeting = {.fd = guest_socket, .events = POLLIN};
    if (poll(&greeting, 1, GREETING_MS) <= 0) /* a client that sends nothing must not keep others from being served */
        return;
    while (receive(guest_socket, &message, &descriptor)) {
        struct tsr_reply reply = {0};
        answer(&guest, device, context, &message, descriptor, &reply);
        if (descriptor >= 0)
            close(descriptor);
        if (send(guest_socket, &reply, sizeof reply, MSG_NOSIGNAL) != (ssize_t)sizeof reply)
            break;
    }
    if (guest.reader)
        tsr_lane_reader_stop(guest.reader);
    if (guest.mirror)
        tsr_mirror_destroy(guest.mirror);
}

static void become(struct worker *self, enum state state)
{
    __atomic_store_n(&self->state, (uint32_t)state, __ATOMIC_SEQ_CST);
}

/* After accept has failed: reports, once, that it was another user. */
static void report_refused(void)
{
    static bool reported;
    if (errno == EPERM && !reported)
        fprintf(stderr, "tessera-executor: another user's process was refused; more of them are, without a word\n");
    reported |= errno == EPERM;
}

/* A worker: one application after another, until standard input is closed. */
static int work(const struct arguments *arguments, int listener, struct worker *self)
{
    CUdevice device;
    CUcontext context;
    CUresult result = cuInit(0);
    if (result == CUDA_SUCCESS)
        result = tsr_share_open((uint32_t)arguments->device, arguments->sm_limit, &device, &context);
    if (result != CUDA_SUCCESS)
        return report("the GPU cannot be used", result);
    tsr_share_limit_memory(device, arguments->memory_limit);
    become(self, IDLE);
    struct pollfd wait[2] = {{.fd = listener, .events = POLLIN}, {.fd = STDIN_FILENO, .events = POLLIN}};
    while (poll(wait, 2, -1) >= 0 || errno == EINTR) {
        if (wait[1].revents)
            break;
        int guest = wait[0].revents & POLLIN ? tsr_socket_accept(listener) : -1;
        if (guest < 0) {
            report_refused();
            continue;
        }
        become(self, BUSY);
        struct tsr_watchdog *watchdog = tsr_watchdog_start(guest);
        serve(guest, device, context);
        CUresult left = cuCtxSynchronize();
        tsr_watchdog_end(watchdog);
        close(guest);
        if (left != CUDA_SUCCESS) /* its context is broken: the next application gets another worker */
            break;
        become(self, IDLE);
    }
    return 0;
}

static struct worker *worker_with(struct worker *workers, pid_t pid)
{
    for (unsigned i = 0; i < WORKERS; i++)
        if (workers[i].pid == pid)
            return &workers[i];
    return NULL;
}

static int all_are_busy(const struct worker *workers)
{
    for (unsigned i = 0; i < WORKERS; i++) {
        uint32_t state = __atomic_load_n(&workers[i].state, __ATOMIC_SEQ_CST);
        if (state == STARTING || state == IDLE)
            return 0;
    }
    return worker_with((struct worker *)workers, 0) != NULL;
}

/* Does not return in the worker. */
static void start_worker(const struct arguments *arguments, int listener, struct worker *workers)
{
    struct worker *self = worker_with(workers, 0);
    pid_t parent = getpid();
    become(self, STARTING);
    pid_t pid = fork();
    if (pid == 0)
        exit(tsr_watchdog_over_parent(parent) ? work(arguments, listener, self) : 1);
    if (pid < 0)
        become(self, NONE);
    else
        self->pid = pid;
}

/* Reaps a worker that has ended, if one has. Who was to be served by one that could not start, beside others, goes without. False: it was the first, so no other will. */
static int reap_worker(struct worker *workers, int listener)
{
    int others = 0;
    pid_t pid = waitpid(-1, NULL, WNOHANG);
    struct worker *ended = pid > 0 ? worker_with(workers, pid) : NULL;
    if (!ended)
        return 1;
    uint32_t state = ended->state;
    ended->pid = 0;
    become(ended, NONE);
    for (unsigned i = 0; i < WORKERS; i++)
        others += workers[i].pid != 0;
    if (state == STARTING && others) {
        int refused = accept(listener, NULL, NULL);
        if (refused >= 0)
            close(refused);
    }
    return state != STARTING || others;
}

static void end_workers(struct worker *workers)
{
    for (unsigned i = 0; i < WORKERS; i++)
        if (workers[i].pid)
            kill(workers[i].pid, SIGCONT); /* a stopped worker would not notice that standard input is closed */
    for (int waited = 0, ended; (ended = waitpid(-1, NULL, WNOHANG)) >= 0;) {
        struct worker *worker = ended ? worker_with(workers, ended) : NULL;
        if (worker)
            worker->pid = 0;
        if (ended)
            continue;
        for (unsigned i = 0; waited >= END_MS && i < WORKERS; i++)
            if (workers[i].pid)
                kill(workers[i].pid, SIGKILL); /* it serves a child of the program that is still running, or a kernel is */
        poll(NULL, 0, POLL_MS);
        waited += POLL_MS;
    }
}

int main(int count, char **values)
{
    struct arguments arguments;
    if (count > 1 && strcmp(values[1], "--prove") == 0)
        return tsr_prove(count - 2, values + 2);
    if (!parse(count, values, &arguments)) {
        fprintf(stderr,
                "usage: tessera-executor --device N --listener DESCRIPTOR --owner PID [--sm-limit N] [--memory-limit BYTES]\n"
                "(started by tessera-run)\n");
        return 2;
    }
    if (!tsr_watchdog_over_parent(arguments.owner))
        return 1;
    int listener = arguments.listener;
    struct worker *workers = mmap(NULL, WORKERS * sizeof *workers, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (fcntl(listener, F_SETFL, O_NONBLOCK) < 0 || workers == MAP_FAILED) {
        fprintf(stderr, "tessera-executor: cannot start: %s\n", strerror(errno));
        return 1;
    }
    start_worker(&arguments, listener, workers);
    struct pollfd wait[2] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.fd = listener, .events = POLLIN}};
    for (;;) {
        int busy = all_are_busy(workers);
        int ready = poll(wait, busy ? 2 : 1, POLL_MS);
        if (ready > 0 && wait[0].revents)
            break;
        if (ready > 0 && busy && (wait[1].revents & POLLIN))
            start_worker(&arguments, listener, workers);
        if (!reap_worker(workers, listener))
            return 1;
    }
    end_workers(workers);
    return 0;
}
