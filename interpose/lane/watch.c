/* See watch.h. The thread waits for the sockets' ends, and polls the pulses when it is not woken. */
#include "lane/watch.h"

#include <poll.h>
#include <pthread.h>

#include "base/fork.h"
#include "base/log.h"
#include "base/os.h"
#include "lane/lane_client.h"
#include "lane/lane_object.h"
#include "object/session.h"
#include "lane/streams.h"
#include "lane/failover.h"

#define POLL_MS 50
#define START_NS 10000000000ull /* until its first beat */
#define STARVED_NS 30000000000ull /* without a beat, though it would run if it had a CPU or a page */
#define DEPARTING_POLLS 50u /* longer than a departure takes that is not stuck */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct tsr_lane_client *lanes[TSR_LANES]; /* lock */
static bool running;                             /* lock */

/* On a machine that is busy with others nobody beats for a while, or nobody sees it: a stopped process has no thread that waits for a CPU. */
bool tsr_watch_is_alive(const struct tsr_lane_client *lane)
{
    uint64_t quiet_ns = tsr_os_monotonic_ns() - __atomic_load_n(&lane->pulse_ns, __ATOMIC_ACQUIRE);
    uint32_t process = __atomic_load_n(&lane->process, __ATOMIC_ACQUIRE);
    return quiet_ns < TSR_LANE_LONGEST_PAUSE_NS ||
           __atomic_load_n(&lane->lane->pulse, __ATOMIC_ACQUIRE) != __atomic_load_n(&lane->pulse, __ATOMIC_RELAXED) ||
           (quiet_ns < STARVED_NS && process && tsr_os_process_is_ready((int)process));
}

/* Repeatedly: a GPU that resumes may still execute an earlier signal, which closes the fence again for later waits. */
static void open_fences(struct tsr_lane *lane)
{
    for (uint32_t i = 0; i < TSR_LANE_STREAMS; i++) {
        __atomic_store_n(&lane->away[i], TSR_LANE_OPEN, __ATOMIC_RELEASE);
        __atomic_store_n(&lane->home[i], TSR_LANE_OPEN, __ATOMIC_RELEASE);
    }
}

/* False: it had one. */
static bool set_error(struct tsr_lane *lane, CUresult error)
{
    uint32_t none = CUDA_SUCCESS;
    return __atomic_compare_exchange_n(&lane->dead, &none, (uint32_t)error, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

void tsr_lane_fail(struct tsr_lane_client *client, CUresult error, const char *how)
{
    /* In this order: a stream that passes a fence opened here finds the error. */
    if (set_error(client->lane, error))
        tsr_error("executor %u %s; work that it had is lost, and the application gets an error", client->number, how);
    open_fences(client->lane);
}

static bool has_nothing(const struct tsr_lane_client *client)
{
    return !__atomic_load_n(&client->departing, __ATOMIC_SEQ_CST) && !tsr_streams_are_with(client);
}

static void decide(struct tsr_lane_client *client, const char *how)
{
    for (unsigned i = 0; i < DEPARTING_POLLS && __atomic_load_n(&client->departing, __ATOMIC_SEQ_CST); i++)
        poll(NULL, 0, 1);
    if (tsr_lane_state(client) != CUDA_SUCCESS)
        open_fences(client->lane); /* the application has its error */
    else if (has_nothing(client) && tsr_failover_close(client) &&
             has_nothing(client)) /* a stream may have come before it was closed */
        tsr_warn("executor %u %s; none of its work is lost, and what was to run there runs at home", client->number, how);
    else if (tsr_failover_start(client))
        tsr_warn("executor %u %s; none of its work is lost%s", client->number, how,
                 tsr_session()->policy->memory_place == TSR_POLICY_COPIES
                     ? " but what it had not taken, if there is any: GPUs have copies of memory"
                     : ", and what it had not taken runs at home");
    else
        tsr_lane_fail(client, CUDA_ERROR_LAUNCH_FAILED, how);
}

static void give_up(struct tsr_lane_client *client, const char *how)
{
    if (__atomic_exchange_n(&client->lost, 1, __ATOMIC_SEQ_CST))
        return;
    decide(client, how);
    __atomic_store_n(&client->decided, 1, __ATOMIC_RELEASE);
}

/* The executor takes it for the program's end, drops what it has not done by then, and may have set the error. */
static void cut_off(struct tsr_lane_client *client)
{
    if (__atomic_exchange_n(&client->lost, 1, __ATOMIC_SEQ_CST))
        return;
    tsr_error(
        "executor %u: the program has closed a descriptor that it did not open, the way to this executor; it gets an error",
        client->number);
    set_error(client->lane, CUDA_ERROR_LAUNCH_FAILED);
    open_fences(client->lane);
    __atomic_store_n(&client->decided, 1, __ATOMIC_RELEASE);
}

/* What was posted by who had found it alive just before. */
static void look_again(struct tsr_lane_client *client)
{
    bool right = __atomic_load_n(&client->decided, __ATOMIC_ACQUIRE) && tsr_lane_state(client) == CUDA_SUCCESS;
    if (right && tsr_failover_is_due(client) && !tsr_failover_start(client))
        tsr_lane_fail(client, CUDA_ERROR_LAUNCH_FAILED, "was lost just before it was given work");
}

static bool is_needed(const struct tsr_lane_client *lane)
{
    return __atomic_load_n(&lane->asking, __ATOMIC_ACQUIRE) || tsr_streams_are_with(lane);
}

/* The pulse is judged by what this thread saw itself: when it did not run either, no time counts. */
static void look(struct tsr_lane_client *lane, uint64_t *last_look_ns)
{
    uint64_t now = tsr_os_monotonic_ns(), pulse = __atomic_load_n(&lane->lane->pulse, __ATOMIC_ACQUIRE);
    bool slept = now - *last_look_ns > 4 * POLL_MS * 1000000ull;
    bool starts = pulse == 0 && now - lane->started_ns < START_NS;
    if (pulse != lane->pulse || slept || starts) {
        __atomic_store_n(&lane->pulse, pulse, __ATOMIC_RELAXED);
        __atomic_store_n(&lane->pulse_ns, now, __ATOMIC_RELEASE);
    } else if (is_needed(lane) && !tsr_watch_is_alive(lane)) {
        give_up(lane, "does not run");
    }
}

static void look_at_all(uint64_t *last_look_ns)
{
    struct pollfd ends[TSR_LANES];
    struct tsr_lane_client *watched[TSR_LANES];
    unsigned count = 0;
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < TSR_LANES; i++) {
        if (!lanes[i])
            continue;
        if (__atomic_load_n(&lanes[i]->lane->dead, __ATOMIC_ACQUIRE) != CUDA_SUCCESS)
            open_fences(lanes[i]->lane);
        if (__atomic_load_n(&lanes[i]->lost, __ATOMIC_ACQUIRE)) {
            look_again(lanes[i]);
            continue;
        }
        if (!tsr_os_file_is_ours(&lanes[i]->socket)) {
            cut_off(lanes[i]);
            continue;
        }
        watched[count] = lanes[i];
        ends[count++] = (struct pollfd){.fd = lanes[i]->socket.descriptor, .events = POLLRDHUP};
    }
    poll(ends, count, 0);
    for (unsigned i = 0; i < count; i++)
        if (ends[i].revents & (POLLRDHUP | POLLHUP | POLLERR))
            give_up(watched[i], "has ended");
        else if (__atomic_load_n(&watched[i]->broken, __ATOMIC_SEQ_CST))
            give_up(watched[i], "does not answer");
        else
            look(watched[i], last_look_ns);
    pthread_mutex_unlock(&lock);
    *last_look_ns = tsr_os_monotonic_ns();
}

static void *watch(void *argument)
{
    uint64_t last_look_ns = tsr_os_monotonic_ns();
    (void)argument;
    for (;;) {
        look_at_all(&last_look_ns);
        poll(NULL, 0, POLL_MS);
    }
    return NULL;
}

/* An executor finds out that the parent has ended although the child goes on. */
static void leave_parents(void)
{
    for (unsigned i = 0; i < TSR_LANES; i++)
        if (lanes[i])
            tsr_os_file_close(&lanes[i]->socket);
    tsr_watch_reset();
}

static const struct tsr_fork_listener forks = {.in_child = leave_parents};

void tsr_watch_start(struct tsr_lane_client *lane)
{
    pthread_t thread;
    tsr_fork_listen(&forks);
    lane->started_ns = lane->pulse_ns = tsr_os_monotonic_ns();
    pthread_mutex_lock(&lock);
    lanes[lane->number] = lane;
    if (!running && (running = tsr_os_thread_start(&thread, "tessera-watch", watch, NULL)))
        pthread_detach(thread);
    pthread_mutex_unlock(&lock);
}

void tsr_watch_stop(struct tsr_lane_client *lane)
{
    pthread_mutex_lock(&lock);
    lanes[lane->number] = NULL;
    pthread_mutex_unlock(&lock);
}

void tsr_watch_reset(void)
{
    pthread_mutex_init(&lock, NULL);
    for (unsigned i = 0; i < TSR_LANES; i++)
        lanes[i] = NULL;
    running = false;
}
