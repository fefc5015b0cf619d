/* lane/watch.c with lane/failover.c: what becomes of records that are posted to an executor just after it has been declared lost. */
#include "check.h"

#include "lane/watch.c"

#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "driver/real.h"
#include "object/registry.h"

#define LONGEST_NS 20000000000ull
#define STREAM 3u

struct tsr_real tsr_real;
__thread struct tsr_session_counting tsr_session_counts_here;
static struct tsr_policy policy;
static struct tsr_session session = {.policy = &policy};
static struct tsr_lane lane;
static struct tsr_lane_client client = {.lane = &lane, .number = 1, .socket.descriptor = -1};
static bool busy; /* atomic; a stream has work there */

struct tsr_session *tsr_session(void)
{
    return &session;
}

void tsr_session_count_in(const struct tsr_session *of)
{
    (void)of;
}

struct tsr_function_record *tsr_function_with_id(uint32_t id)
{
    (void)id;
    return NULL;
}

CUcontext tsr_slot_context(uint32_t slot)
{
    (void)slot;
    return NULL;
}

bool tsr_streams_are_with(const struct tsr_lane_client *of)
{
    (void)of;
    return __atomic_load_n(&busy, __ATOMIC_SEQ_CST);
}

CUresult tsr_lane_state(const struct tsr_lane_client *of)
{
    return (CUresult)__atomic_load_n(&of->lane->dead, __ATOMIC_ACQUIRE);
}

bool tsr_lane_is_lost(const struct tsr_lane_client *of)
{
    return __atomic_load_n(&of->lost, __ATOMIC_SEQ_CST);
}

static CUresult CUDAAPI exchange_mode(CUstreamCaptureMode *mode)
{
    (void)mode;
    return CUDA_SUCCESS;
}

static void look_now(void)
{
    uint64_t last_look_ns = tsr_os_monotonic_ns();
    look_at_all(&last_look_ns);
}

static void lose_executor(void)
{
    int ends[2];
    memset(&lane, 0, sizeof lane);
    client = (struct tsr_lane_client){.lane = &lane, .number = 1};
    pthread_mutex_init(&client.fence_lock, NULL);
    tsr_real.cuThreadExchangeStreamCaptureMode = exchange_mode;
    REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0);
    close(ends[1]);
    client.socket = tsr_os_file_keep(ends[0]);
    lanes[client.number] = &client;
    look_now();
    CHECK(client.lost && client.decided);
    CHECK_EQ(lane.dead, CUDA_SUCCESS);
}

static void post_signal(uint64_t value)
{
    struct tsr_lane_record signal = {.kind = TSR_LANE_SIGNAL, .stream = STREAM, .value = value};
    __atomic_store_n(&busy, true, __ATOMIC_SEQ_CST);
    CHECK_EQ(tsr_lane_post(&client, &signal, NULL), CUDA_SUCCESS);
}

/* False: for so long nobody has written it. */
static bool is_signalled(uint64_t value)
{
    uint64_t deadline = tsr_os_monotonic_ns() + LONGEST_NS;
    while (__atomic_load_n(&lane.away[STREAM], __ATOMIC_ACQUIRE) != value && tsr_os_monotonic_ns() < deadline)
        sched_yield();
    return lane.away[STREAM] == value;
}

static bool is_left(void)
{
    uint64_t deadline = tsr_os_monotonic_ns() + LONGEST_NS;
    __atomic_store_n(&busy, false, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&client.standing, __ATOMIC_ACQUIRE) && tsr_os_monotonic_ns() < deadline)
        sched_yield();
    return !client.standing;
}

TEST(records_that_come_after_the_verdict_are_carried_out)
{
    lose_executor();
    CHECK(!client.standing);
    for (uint64_t value = 1; value <= 2; value++) {
        post_signal(value);
        look_now();
        REQUIRE(is_signalled(value));
        REQUIRE(is_left());
    }
    look_now();
    CHECK(!client.standing);
    CHECK_EQ(lane.dead, CUDA_SUCCESS);
    tsr_os_file_close(&client.socket);
}

TEST(an_executor_that_runs_again_takes_none_of_them)
{
    lose_executor();
    CHECK_EQ(lane.closed, 1);
    post_signal(1);
    struct tsr_lane_ring *ring = tsr_lane_ring_of(&lane, STREAM);
    ring->taken = ring->tail; /* published before it saw that the lane is closed */
    look_now();
    CHECK(is_signalled(1));
    CHECK(is_left());
    tsr_os_file_close(&client.socket);
}

TEST(what_an_executor_still_publishes_is_an_error)
{
    lose_executor();
    lane.settles[STREAM] = TSR_LANE_UNSETTLED;
    post_signal(1);
    look_now();
    CHECK_EQ(lane.dead, CUDA_ERROR_LAUNCH_FAILED);
    CHECK_EQ(lane.away[STREAM], TSR_LANE_OPEN);
    tsr_os_file_close(&client.socket);
}

static void *look_late(void *unused)
{
    struct timespec late = {.tv_nsec = 30000000};
    (void)unused;
    nanosleep(&late, NULL);
    look_now();
    return NULL;
}

TEST(what_comes_after_the_verdict_is_waited_for)
{
    pthread_t thread;
    lose_executor();
    for (uint64_t value = 1; value <= 2; value++) {
        post_signal(value);
        REQUIRE(pthread_create(&thread, NULL, look_late, NULL) == 0);
        tsr_failover_await(&client);
        CHECK_EQ(lane.away[STREAM], value);
        pthread_join(thread, NULL);
        REQUIRE(is_left());
        tsr_failover_await(&client);
    }
    CHECK_EQ(lane.dead, CUDA_SUCCESS);
    tsr_os_file_close(&client.socket);
}

TEST(an_executor_sees_the_end_of_a_process_whose_child_goes_on)
{
    int ends[2];
    client = (struct tsr_lane_client){.lane = &lane, .number = 1};
    REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0);
    client.socket = tsr_os_file_keep(ends[0]);
    tsr_watch_start(&client);
    pid_t child = fork();
    if (child == 0) {
        close(ends[1]);
        pause();
    }
    tsr_watch_stop(&client);
    tsr_os_file_close(&client.socket);
    struct pollfd executor = {.fd = ends[1], .events = POLLRDHUP};
    CHECK_EQ(poll(&executor, 1, 5000), 1);
    kill(child, SIGKILL);
    CHECK_EQ(waitpid(child, NULL, 0), child);
    close(ends[1]);
}
