/* See writer.h. */
#include "record/writer.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fork.h"
#include "base/log.h"
#include "base/options.h"
#include "base/os.h"
#include "base/socket.h"
#include "driver/engaged.h"
#include "record/journal.h"
#include "record/ticks.h"

#define CONNECT_TIMEOUT_NS 500000000ull
#define SEND_TIMEOUT_MS 100

__thread struct tsr_thread *tsr_thread_current;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards everything below */
static struct tsr_os_file connection = {.descriptor = -1};
static struct tsr_journal_writer journal = {.file = {.descriptor = -1}};
static struct tsr_ring *rings[TSR_RINGS];
static bool taken[TSR_RINGS]; /* by a living thread */
static uint32_t ring_count;
static struct tsr_ring *overflow; /* shared by threads beyond the limit, which use its counters only */
static struct tsr_ring nowhere;   /* used instead of `overflow` when there is no memory for that */
static pthread_key_t thread_key;

static int connect_within(const char *path, uint64_t ns)
{
    uint64_t deadline = tsr_os_monotonic_ns() + ns;
    int descriptor;
    while ((descriptor = tsr_socket_connect(path, SOCK_NONBLOCK)) < 0 && (errno == EAGAIN || errno == EINTR) &&
           tsr_os_monotonic_ns() < deadline)
        poll(NULL, 0, 2);
    return descriptor;
}

/* On failure, errno says why: EPIPE and the like when nobody listens, EAGAIN when nobody has read for long. */
static bool send_message_locked(struct tsr_records_message message, int passed)
{
    message.magic = TSR_RECORDS_MAGIC;
    message.version = TSR_RECORDS_VERSION;
    message.pid = (uint32_t)getpid();
    if (!tsr_os_file_is_ours(&connection)) {
        errno = EBADF;
        return false;
    }
    struct pollfd wait = {.fd = connection.descriptor, .events = POLLOUT};
    for (int attempt = 0; attempt < 3; attempt++) {
        if (tsr_socket_send(connection.descriptor, &message, sizeof message, passed, MSG_DONTWAIT) == (ssize_t)sizeof message)
            return true;
        if (errno != EAGAIN)
            return false;
        poll(&wait, 1, SEND_TIMEOUT_MS);
    }
    errno = EAGAIN;
    return false;
}

static bool send_locked(uint32_t kind, uint32_t number, int passed)
{
    return send_message_locked((struct tsr_records_message){.kind = kind, .number = number}, passed);
}

/* A new ring, announced to the control plane and taken; NULL: no memory, or the control plane does not listen. */
static struct tsr_ring *add_ring_locked(void)
{
    struct tsr_ring *ring;
    int descriptor = tsr_ring_create(ring_count, &ring);
    if (descriptor < 0)
        return NULL;
    bool sent = send_locked(TSR_RECORDS_RING, ring_count, descriptor);
    if (!sent && errno != EAGAIN)
        tsr_disengage(TSR_OBSERVED);
    close(descriptor);
    if (!sent) {
        tsr_ring_destroy(ring);
        return NULL;
    }
    taken[ring_count] = true;
    rings[ring_count++] = ring;
    return ring;
}

/* A ring of a thread that has ended, if the reader has mostly emptied it; otherwise a new one. */
static struct tsr_ring *take_ring_locked(void)
{
    for (uint32_t i = 0; i < ring_count; i++) {
        if (!taken[i] && rings[i]->tail - __atomic_load_n(&rings[i]->head, __ATOMIC_ACQUIRE) <= TSR_RING_RECORDS / 2) {
            taken[i] = true;
            return rings[i];
        }
    }
    return ring_count < TSR_RINGS - 1 ? add_ring_locked() : NULL;
}

static struct tsr_ring *overflow_locked(void)
{
    if (!overflow && ring_count == TSR_RINGS - 1)
        overflow = add_ring_locked();
    return overflow ? overflow : &nowhere;
}

static void say_who(struct tsr_thread *thread)
{
    struct tsr_ring_writer *writer = &thread->writer;
    uint32_t id = (uint32_t)gettid();
    __atomic_store_n(&writer->ring->thread, id, __ATOMIC_RELAXED);
    if (!tsr_ring_has_room(writer, 1))
        return;
    *tsr_ring_at(writer, 0) = (struct tsr_record){.start = tsr_ticks(), .kind = TSR_RECORD_THREAD, .u.thread.id = id};
    tsr_ring_commit(writer, 1);
}

struct tsr_thread *tsr_thread_begin(void)
{
    int saved_errno = errno;
    struct tsr_thread *thread = tsr_has_role(TSR_RECORDING) ? calloc(1, sizeof *thread) : NULL;
    if (!thread)
        return NULL;
    pthread_mutex_lock(&lock);
    struct tsr_ring *ring = take_ring_locked();
    thread->writer = ring ? tsr_ring_writer(ring) : tsr_ring_writer_shared(overflow_locked());
    pthread_mutex_unlock(&lock);
    thread->ring = thread->writer.ring->number;
    thread->random = (uint32_t)tsr_ticks() | 1u;
    if (ring)
        say_who(thread);
    tsr_thread_current = thread;
    pthread_setspecific(thread_key, thread);
    errno = saved_errno;
    return thread;
}

/* At the end of the thread itself. A later call, from another destructor, starts anew. In a forked child the value is the parent's. */
static void end_thread(void *value)
{
    struct tsr_thread *thread = tsr_thread_current;
    if (!thread || value != thread)
        return;
    tsr_thread_current = NULL;
    if (!thread->writer.shared) {
        pthread_mutex_lock(&lock);
        __atomic_store_n(&thread->writer.ring->thread, 0, __ATOMIC_RELEASE);
        taken[thread->ring] = false;
        pthread_mutex_unlock(&lock);
    }
    free(thread);
}

static void forget_parent(void)
{
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    tsr_thread_current = NULL;
    for (uint32_t i = 0; i < ring_count; i++) {
        tsr_ring_destroy(rings[i]);
        rings[i] = NULL;
        taken[i] = false;
    }
    ring_count = 0;
    overflow = NULL;
    tsr_os_file_close(&connection);
    tsr_journal_destroy(&journal);
}

static const struct tsr_fork_listener forks = {.in_child = forget_parent};

static void prepare(void)
{
    pthread_key_create(&thread_key, end_thread);
    tsr_fork_listen(&forks);
}

static bool connect_locked(const char *socket_path, struct tsr_anchor first, enum tsr_gpu_clock clock)
{
    int descriptor = connect_within(socket_path, CONNECT_TIMEOUT_NS);
    if (descriptor < 0)
        return false;
    connection = tsr_os_file_keep(descriptor);
    if (!tsr_journal_create(&journal))
        goto close_connection;
    journal.journal->gpu_clock = clock;
    journal.journal->emulated = tsr_options()->machine[0] != 0;
    journal.journal->first = first;
    journal.journal->last = tsr_ticks_anchor();
    if (send_locked(TSR_RECORDS_HELLO, 0, journal.file.descriptor))
        return true;
    tsr_journal_destroy(&journal);
close_connection:
    tsr_os_file_close(&connection);
    return false;
}

bool tsr_writer_start(const char *socket_path, struct tsr_anchor first, enum tsr_gpu_clock clock)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, prepare);
    int saved_errno = errno;
    pthread_mutex_lock(&lock);
    bool started = !journal.journal && connect_locked(socket_path, first, clock);
    pthread_mutex_unlock(&lock);
    errno = saved_errno;
    return started;
}

struct tsr_journal *tsr_writer_journal(void)
{
    return __atomic_load_n(&journal.journal, __ATOMIC_RELAXED);
}

bool tsr_writer_define(struct tsr_entry *entry, const char *text)
{
    int saved_errno = errno;
    pthread_mutex_lock(&lock);
    bool appended = journal.journal && tsr_journal_append(&journal, entry, text);
    pthread_mutex_unlock(&lock);
    errno = saved_errno;
    return appended;
}

bool tsr_writer_hand_over(struct tsr_records_message message, int descriptor)
{
    int saved_errno = errno;
    message.kind = TSR_RECORDS_CODE;
    pthread_mutex_lock(&lock);
    bool sent = journal.journal && send_message_locked(message, descriptor);
    pthread_mutex_unlock(&lock);
    errno = saved_errno;
    return sent;
}

bool tsr_writer_is_alone(void)
{
    struct pollfd state = {.fd = connection.descriptor, .events = 0};
    return !tsr_os_file_is_ours(&connection) || (poll(&state, 1, 0) > 0 && state.revents & (POLLHUP | POLLERR));
}
