/* Which GPU a new stream or thread is given: by who has launched lately, then by who is alive, home first. */
#include "schedule/assign.c"

#include "check.h"

#define SECOND 1000000000ull
#define GPUS 3
#define OWNERS 40

static uint32_t chosen(uint32_t count, const struct tsr_assign_load *loads)
{
    return tsr_assign_choose(loads, count);
}

TEST(home_comes_first_then_executors_in_order)
{
    struct tsr_assign_load loads[3] = {0};
    CHECK_EQ(chosen(3, loads), 0);
    loads[0].used = loads[0].alive = 1;
    CHECK_EQ(chosen(3, loads), 1);
    loads[1].used = loads[1].alive = 1;
    CHECK_EQ(chosen(3, loads), 2);
    loads[2].used = loads[2].alive = 1;
    CHECK_EQ(chosen(3, loads), 0);
}

TEST(who_launches_counts_more_than_who_only_lives)
{
    struct tsr_assign_load loads[2] = {{.used = 2, .alive = 2}, {.used = 1, .alive = 9}};
    CHECK_EQ(chosen(2, loads), 1);
    loads[1].used = 2;
    CHECK_EQ(chosen(2, loads), 0);
}

TEST(lost_executors_get_nothing)
{
    struct tsr_assign_load loads[3] = {{.used = 5, .alive = 5}, {.lost = true}, {.used = 6, .alive = 6}};
    CHECK_EQ(chosen(3, loads), 0);
    loads[2].lost = true;
    CHECK_EQ(chosen(3, loads), 0);
}

TEST(a_launch_counts_for_a_minute_after_it_was_seen)
{
    struct tsr_assigned one = {.place = TSR_ASSIGNED_HOME, .used_ns = 100 * SECOND};
    struct tsr_assign_load load = {0};
    tsr_assign_add(&load, &one, 159 * SECOND);
    CHECK_EQ(load.used, 1);
    tsr_assign_add(&load, &one, 160 * SECOND);
    CHECK_EQ(load.used, 1);
    one.launches++;
    tsr_assign_add(&load, &one, 300 * SECOND);
    tsr_assign_add(&load, &one, 359 * SECOND);
    CHECK_EQ(load.used, 3);
    tsr_assign_add(&load, &one, 360 * SECOND);
    CHECK_EQ(load.used, 3);
    CHECK_EQ(load.alive, 5);
}

/* A world of owners, as the shim keeps it: place 0 is nobody's, and time passes. */
static struct tsr_assigned owners[OWNERS];
static uint64_t now_ns, state = 1;

static uint32_t draw(uint32_t below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % below;
}

static void give_simply(struct tsr_assigned *one, uint32_t count)
{
    struct tsr_assign_load loads[GPUS] = {0};
    for (uint32_t i = 0; i < OWNERS; i++)
        if (owners[i].place)
            tsr_assign_add(&loads[owners[i].place - TSR_ASSIGNED_HOME], &owners[i], now_ns);
    *one = (struct tsr_assigned){.place = TSR_ASSIGNED_HOME + tsr_assign_choose(loads, count), .used_ns = now_ns};
}

/* Whatever was there before, in equal parts, and whichever of them launch meanwhile: as many newcomers as there are GPUs, or a multiple, are divided
   evenly. */
TEST(newcomers_are_divided_evenly)
{
    for (uint32_t round = 0; round < 2000; round++) {
        uint32_t count = 2 + draw(GPUS - 1), before = draw(8), newcomers = count * (1 + draw(8)), got[GPUS] = {0};
        memset(owners, 0, sizeof owners);
        now_ns = 1000 * SECOND;
        for (uint32_t i = 0; i < before; i++)
            give_simply(&owners[i], count);
        now_ns += draw(2) * 100 * SECOND; /* those may have been idle for long */
        for (uint32_t i = before; i < before + newcomers; i++) {
            give_simply(&owners[i], count);
            got[owners[i].place - TSR_ASSIGNED_HOME]++;
            owners[before + draw(i - before + 1)].launches += draw(1000);
            now_ns += draw(SECOND);
        }
        for (uint32_t i = 0; i < count; i++)
            if (!CHECK_EQ(got[i], newcomers / count))
                return;
    }
}

/* Who ends gives the place back: the numbers of those alive never differ by more than what ended since. */
TEST(places_are_given_back)
{
    memset(owners, 0, sizeof owners);
    now_ns = 1000 * SECOND;
    for (uint32_t i = 0; i < 6; i++)
        give_simply(&owners[i], 2);
    owners[1].place = owners[3].place = 0; /* both of GPU 1 */
    give_simply(&owners[1], 2);
    CHECK_EQ(owners[1].place, TSR_ASSIGNED_LANES);
    give_simply(&owners[3], 2);
    CHECK_EQ(owners[3].place, TSR_ASSIGNED_LANES);
    give_simply(&owners[6], 2);
    CHECK_EQ(owners[6].place, TSR_ASSIGNED_HOME);
}

/* The whole of it, for a session with two executors. */
struct tsr_lane_client {
    bool lost;
};

static struct tsr_policy policy = {.home = 0, .executor_count = 2};
static struct tsr_lane_client clients[2];
static struct tsr_session session = {
    .policy = &policy, .lane_count = 2, .lanes = {&clients[0], &clients[1]}, .lane_device = {1, 2}};
static struct tsr_stream streams[8];

struct tsr_stream *tsr_stream_first(void)
{
    return streams;
}

struct tsr_stream *tsr_stream_find(CUstream stream, bool per_thread)
{
    (void)per_thread;
    return (struct tsr_stream *)stream;
}

struct tsr_stream *tsr_stream_seen(CUstream stream, bool per_thread)
{
    return tsr_stream_find(stream, per_thread);
}

bool tsr_lane_is_lost(const struct tsr_lane_client *lane)
{
    return lane->lost;
}

static void begin_session(void)
{
    memset(clients, 0, sizeof clients);
    memset(&policy.given_streams, 0, sizeof policy.given_streams);
    memset(&policy.given_threads, 0, sizeof policy.given_threads);
    session.lane_count = 2;
    for (uint32_t i = 0; i < 8; i++) {
        streams[i] = (struct tsr_stream){.live = true};
        streams[i].next = i < 7 ? &streams[i + 1] : NULL;
    }
    tsr_assign_start();
}

/* The GPU that a launch goes to; 99: nobody can tell. */
static uint32_t gpu_of(int32_t by, struct tsr_stream *stream, bool captured)
{
    struct tsr_decide_launch launch = {.stream = (CUstream)stream, .captured = captured, .record = captured ? stream : NULL};
    struct tsr_assignment found = tsr_assign(&session, by, &launch);
    if (!found.lane)
        return found.leaves ? 99 : 0;
    return found.lane == &clients[0] ? 1 : 2;
}

static uint32_t of_stream(uint32_t number)
{
    return gpu_of(TSR_POLICY_BY_STREAM, &streams[number], false);
}

TEST(a_stream_stays_where_it_began)
{
    begin_session();
    for (uint32_t round = 0; round < 3; round++)
        for (uint32_t i = 0; i < 6; i++)
            CHECK_EQ(of_stream(i), i % 3);
    CHECK_EQ(streams[4].assigned.launches, 3);
    CHECK_EQ(policy.given_streams[0], 2);
    CHECK_EQ(policy.given_streams[1], 2);
    CHECK_EQ(policy.given_streams[2], 2);
}

TEST(a_stream_that_is_destroyed_gives_its_place_back)
{
    begin_session();
    for (uint32_t i = 0; i < 3; i++)
        of_stream(i);
    streams[1].live = false;
    CHECK_EQ(of_stream(3), 1);
}

TEST(streams_of_a_lost_executor_go_elsewhere_for_good)
{
    begin_session();
    for (uint32_t i = 0; i < 6; i++)
        of_stream(i);
    clients[0].lost = true;
    CHECK_EQ(of_stream(4), 0);
    CHECK_EQ(of_stream(1), 2);
    CHECK_EQ(of_stream(2), 2);
    clients[1].lost = true;
    for (uint32_t i = 0; i < 6; i++)
        CHECK_EQ(of_stream(i), 0);
    CHECK_EQ(of_stream(7), 0);
}

TEST(a_captured_launch_gives_no_place)
{
    begin_session();
    of_stream(0);
    CHECK_EQ(gpu_of(TSR_POLICY_BY_STREAM, &streams[1], true), 99);
    CHECK_EQ(gpu_of(TSR_POLICY_BY_STREAM, NULL, true), 99);
    CHECK_EQ(of_stream(2), 1);
    CHECK_EQ(gpu_of(TSR_POLICY_BY_STREAM, &streams[2], true), 1);
    CHECK_EQ(gpu_of(TSR_POLICY_BY_STREAM, &streams[0], true), 0);
    CHECK_EQ(gpu_of(TSR_POLICY_BY_STREAM, NULL, false), 0);
}

TEST(without_executors_that_answer_nothing_can_leave)
{
    begin_session();
    session.lane_count = 0;
    CHECK_EQ(of_stream(0), 99);
    policy.executor_count = 0;
    CHECK_EQ(of_stream(0), 0);
    policy.executor_count = 2;
}

struct asking {
    pthread_barrier_t *all;
    uint32_t gpus[100];
};

static void *ask_as_thread(void *argument)
{
    struct asking *asking = argument;
    for (uint32_t i = 0; i < 100; i++)
        asking->gpus[i] = gpu_of(TSR_POLICY_BY_THREAD, &streams[i % 8], false);
    pthread_barrier_wait(asking->all);
    return NULL;
}

/* Threads that begin together, in any order: evenly; and the place is given back when they end. */
TEST(threads_that_begin_together_are_divided_evenly)
{
    begin_session();
    for (uint32_t round = 1; round <= 50; round++) {
        pthread_barrier_t all;
        pthread_t threads_of_round[6];
        static struct asking asking[6];
        uint32_t got[3] = {0};
        pthread_barrier_init(&all, NULL, 6);
        for (uint32_t i = 0; i < 6; i++) {
            asking[i].all = &all;
            REQUIRE(pthread_create(&threads_of_round[i], NULL, ask_as_thread, &asking[i]) == 0);
        }
        for (uint32_t i = 0; i < 6; i++) {
            pthread_join(threads_of_round[i], NULL);
            for (uint32_t k = 1; k < 100; k++)
                CHECK_EQ(asking[i].gpus[k], asking[i].gpus[0]);
            got[asking[i].gpus[0] % 3]++;
        }
        pthread_barrier_destroy(&all);
        for (uint32_t gpu = 0; gpu < 3; gpu++) {
            CHECK_EQ(got[gpu], 2);
            CHECK_EQ(policy.given_threads[gpu], 2 * round);
        }
    }
}

/* As after a fork: who had a place in the session before has none, and takes none away when it ends. */
static void *ask_in_two_sessions(void *argument)
{
    struct asking *asking = argument;
    asking->gpus[0] = gpu_of(TSR_POLICY_BY_THREAD, streams, false);
    pthread_barrier_wait(asking->all);
    pthread_barrier_wait(asking->all); /* another session has begun, and others have asked in it */
    return NULL;
}

TEST(a_thread_of_an_earlier_session_has_no_place)
{
    pthread_barrier_t all;
    pthread_t thread;
    struct asking asking = {.all = &all};
    begin_session();
    CHECK_EQ(gpu_of(TSR_POLICY_BY_THREAD, streams, false), 0);
    pthread_barrier_init(&all, NULL, 2);
    REQUIRE(pthread_create(&thread, NULL, ask_in_two_sessions, &asking) == 0);
    pthread_barrier_wait(&all);
    CHECK_EQ(asking.gpus[0], 1);
    begin_session();
    CHECK_EQ(gpu_of(TSR_POLICY_BY_THREAD, streams, false), 0); /* in the record that was the other's, or its own */
    pthread_barrier_wait(&all);
    pthread_join(thread, NULL);
    pthread_barrier_destroy(&all);
    CHECK_EQ(of_stream(0), 1);
    CHECK_EQ(of_stream(1), 2);
    CHECK_EQ(of_stream(2), 0);
}

/* Of many threads that find the same stream without a place, one gives it. */
static pthread_barrier_t start_line;

static void *ask_for_stream(void *argument)
{
    pthread_barrier_wait(&start_line);
    *(uint32_t *)argument = of_stream(0);
    return NULL;
}

TEST(a_stream_is_given_one_place_whoever_asks)
{
    for (uint32_t round = 0; round < 200; round++) {
        pthread_t askers[4];
        uint32_t gpus[4];
        begin_session();
        pthread_barrier_init(&start_line, NULL, 4);
        for (uint32_t i = 0; i < 4; i++)
            REQUIRE(pthread_create(&askers[i], NULL, ask_for_stream, &gpus[i]) == 0);
        for (uint32_t i = 0; i < 4; i++)
            pthread_join(askers[i], NULL);
        pthread_barrier_destroy(&start_line);
        for (uint32_t i = 0; i < 4; i++)
            CHECK_EQ(gpus[i], 0);
        CHECK_EQ(policy.given_streams[0], 1);
    }
}
