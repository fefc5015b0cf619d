/* Where launches go: the rule and its guard, on programs made by hand, and against clocks kept by a plain model. */
#include "schedule/chains.c"
#include "schedule/coming.c"
#include "schedule/guard.c"
#include "schedule/choose.c"
#include "schedule/place.c"

#include <stdlib.h>

#include "check.h"

#define MS 1e6
#define US 1e3
#define MB (1ull << 20)
#define NVLINK 390.0
#define PCIE 25.0

static struct tsr_place place; /* large */
static uint64_t tickets;

static void start_with(uint32_t gpus, double bytes_per_ns, uint32_t strategies)
{
    struct tsr_place_options options = {
        .gpus = gpus, .strategies = strategies, .lead_ns = 500 * US, .slack_ns = 10 * MS, .careful = true, .queues = true};
    for (uint32_t i = 0; i < TSR_GPUS * TSR_GPUS; i++)
        options.links[i / TSR_GPUS][i % TSR_GPUS] = (struct tsr_place_link){8 * US, 3 * US, 1 / bytes_per_ns};
    tsr_place_init(&place, &options);
    tickets = 0;
}

static void start(uint32_t gpus, double bytes_per_ns)
{
    start_with(gpus, bytes_per_ns, 3);
}

static struct tsr_place_launch made(double now_ns, double ns)
{
    struct tsr_place_launch launch = {.now_ns = now_ns, .allowed = (1u << place.options.gpus) - 1};
    for (uint32_t gpu = 0; gpu < TSR_GPUS; gpu++)
        launch.ns[gpu] = ns;
    return launch;
}

/* It goes where it should. Its ticket is the next one. */
static struct tsr_place_choice go(const struct tsr_place_launch *launch, struct tsr_place_answer *answer)
{
    struct tsr_place_answer ignored;
    struct tsr_place_choice choice;
    tsr_place_choose(&place, launch, &choice);
    *(answer ? answer : &ignored) = tsr_place_take(&place, launch, &choice, choice.gpu, ++tickets);
    return choice;
}

static void add_part(struct tsr_place_launch *launch, uint64_t writer, uint64_t bytes, uint32_t holders)
{
    launch->parts[launch->part_count++] = (struct tsr_place_part){writer, bytes, holders};
}

/* A chain of launches in the stream of `last`, each of which reads what the one before wrote. The last one's GPU; its ticket. */
static uint32_t chain(unsigned count, double ns, double now_ns, uint64_t *last)
{
    uint32_t gpu = 0;
    for (unsigned i = 0; i < count; i++) {
        struct tsr_place_launch launch = made(now_ns, ns);
        launch.last = *last;
        launch.written = MB;
        if (i)
            add_part(&launch, tickets, MB, 1u << gpu);
        gpu = go(&launch, NULL).gpu;
        *last = tickets;
    }
    return gpu;
}

/* Two queues that advance in step, one of which would come to the other's place each time. */
TEST(queues_do_not_make_each_other_forgotten)
{
    uint64_t first = 1, second = (1ull << TSR_PLACE_QUEUE_SHIFT) + 1;
    while (tsr_place_known_at(first) != tsr_place_known_at(second))
        first++;
    start(2, NVLINK);
    for (unsigned i = 0; i < 3000; i++)
        for (unsigned queue = 0; queue < 2; queue++) {
            struct tsr_place_launch launch = made(0, MS);
            struct tsr_place_choice choice;
            tsr_place_choose(&place, &launch, &choice);
            tsr_place_take(&place, &launch, &choice, 0, (queue ? second : first) + i);
        }
    for (unsigned i = 0; i < 3000; i++)
        CHECK(tsr_place_gpu(&place, first + i) == 0 && tsr_place_gpu(&place, second + i) == 0);
}

TEST(a_chain_stays_where_it_began)
{
    uint64_t last = 0;
    start(4, NVLINK);
    chain(2000, 20 * US, 0, &last);
    CHECK_EQ(place.decided[0], 2000);
    CHECK(tsr_place_end(&place) == 2000 * 20 * US);
}

TEST(requests_take_turns_and_move_nothing)
{
    uint64_t last = 0;
    start(2, NVLINK);
    for (unsigned request = 0; request < 40; request++)
        chain(100, 20 * US, 0, &last);
    CHECK(tsr_place_end(&place) <= 21 * 100 * 20 * US);
    CHECK(place.single_ns == 40 * 100 * 20 * US);
}

TEST(sixteen_gpus_are_all_used)
{
    uint64_t last = 0;
    start(16, PCIE);
    for (unsigned request = 0; request < 160; request++)
        chain(100, 20 * US, 0, &last);
    for (uint32_t gpu = 0; gpu < 16; gpu++)
        CHECK(place.decided[gpu] >= 9 * 100 && place.decided[gpu] <= 11 * 100);
}

TEST(without_a_lead_nothing_leaves)
{
    uint64_t last = 0;
    start(2, NVLINK);
    chain(1, 400 * US, 0, &last);
    CHECK_EQ(chain(1, 20 * US, 0, &last), 0); /* it would be done 400 us earlier elsewhere */
    chain(1, 200 * US, 0, &last);
    CHECK_EQ(chain(1, 20 * US, 0, &last), 1);
}

TEST(a_gpu_that_is_not_allowed_gets_nothing)
{
    start(3, NVLINK);
    for (unsigned i = 0; i < 100; i++) {
        struct tsr_place_launch launch = made(0, MS);
        launch.allowed = 1u << 0 | 1u << 2;
        CHECK(go(&launch, NULL).gpu != 1);
    }
    CHECK_EQ(place.decided[0] + place.decided[2], 100);
    struct tsr_place_launch pinned = made(0, MS);
    pinned.allowed = 1u << 1;
    CHECK_EQ(go(&pinned, NULL).gpu, 1);
}

TEST(a_slower_gpu_gets_less)
{
    uint64_t share[2] = {0};
    start(2, NVLINK);
    for (unsigned i = 0; i < 3000; i++) {
        struct tsr_place_launch launch = made(0, 100 * US);
        launch.ns[1] = 200 * US;
        share[go(&launch, NULL).gpu]++;
    }
    CHECK(share[0] > 1900 && share[0] < 2100);
}

TEST(who_stays_goes_home_and_timelines_go_on)
{
    start(2, NVLINK);
    for (unsigned i = 0; i < 100; i++) {
        struct tsr_place_launch launch = made(0, MS);
        launch.stays = true;
        CHECK_EQ(go(&launch, NULL).gpu, 0);
    }
    CHECK(place.timelines[TSR_PLACE_ACTUAL].free_ns[0] == 100 * MS);
    CHECK(place.timelines[TSR_PLACE_STAY].free_ns[0] < 60 * MS);
}

TEST(what_is_late_moves_what_comes_after_it_once)
{
    start(1, NVLINK);
    for (unsigned i = 0; i < 3; i++) {
        struct tsr_place_launch launch = made(0, MS);
        go(&launch, NULL);
    }
    tsr_place_ended(&place, 1, 1.5 * MS); /* half a millisecond late: so are all */
    CHECK(tsr_place_end(&place) == 3.5 * MS);
    tsr_place_ended(&place, 2, 2.5 * MS);
    CHECK(tsr_place_end(&place) == 3.5 * MS);
    tsr_place_ended(&place, 3, 3 * MS);
    CHECK(tsr_place_end(&place) == 3 * MS);
    tsr_place_ended(&place, 77, 9 * MS); /* nobody knows it */
    CHECK(tsr_place_end(&place) == 3 * MS);
}

TEST(a_host_that_waits_would_wait_longer_for_one_gpu)
{
    uint64_t last = 0;
    start(2, NVLINK);
    for (unsigned step = 0; step < 10; step++) {
        double now_ns = tsr_place_end(&place);
        chain(100, 20 * US, now_ns, &last);
        chain(100, 20 * US, now_ns, &last);
        tsr_place_waited(&place, last, now_ns, tsr_place_end(&place));
    }
    CHECK(place.single_ns == 10 * 200 * 20 * US);
    CHECK(tsr_place_end(&place) < 0.6 * place.single_ns);
}

/* What is missing of constants is copied, and no more of it than has cost. */
TEST(constants_are_copied_for_what_lacking_them_has_cost)
{
    uint64_t copied = 0, missing = 40 * MB;
    start(2, PCIE);
    for (unsigned i = 0; i < 200; i++) {
        struct tsr_place_launch launch = made(0, 100 * US);
        launch.constants[1] = missing;
        struct tsr_place_choice choice = go(&launch, NULL);
        if (choice.fetches == 1)
            tsr_place_fetched(&place, &launch, 1);
        if (choice.gpu == 1 || choice.fetches == 1) {
            copied += missing;
            CHECK((double)copied / PCIE <= 100 * US * (i + 1));
            missing = 0;
        }
    }
    CHECK_EQ(copied, 40 * MB);
    CHECK(place.decided[1] > 50);
}

/* ---- chains, and what is known of those that begin in the same place ---- */

/* Kinds of launches. */
enum { STEP = 1, BESIDE, SIDE, FIRST_OF_BRANCH, OF_BRANCH, UPDATE };

/* By ticket: who holds its results, of `result` bytes each. */
static uint32_t held[40000];
static uint64_t result, pulls;
static double slower = 1;  /* GPU 1, as many times */
static uint64_t of_second; /* bytes that a launch reads of what its second ticket's wrote; 0: all */
static uint32_t only;      /* where it may run; 0: anywhere */

/* A launch of the one stream that reads what those with these tickets wrote; 0: nothing. Its ticket. */
static uint64_t run_at(double now_ns, uint64_t like, double ns, uint64_t first, uint64_t second)
{
    struct tsr_place_launch launch = made(now_ns, ns);
    uint64_t read[] = {first, second};
    launch.ns[1] *= slower;
    launch.allowed = only ? only : launch.allowed;
    launch.like = like;
    launch.last = tickets;
    launch.written = result;
    for (uint32_t i = 0; i < 2; i++)
        if (read[i])
            add_part(&launch, read[i], i && of_second ? of_second : result, held[read[i]]);
    struct tsr_place_answer answer;
    uint32_t gpu = go(&launch, &answer).gpu;
    held[tickets] = 1u << gpu;
    for (uint32_t i = 0; i < launch.part_count; i++)
        held[launch.parts[i].writer] |= held[tickets];
    pulls += answer.pulled / result;
    return tickets;
}

static uint64_t run_on(uint64_t like, double ns, uint64_t first, uint64_t second)
{
    return run_at(0, like, ns, first, second);
}

static void start_chains_on(uint32_t gpus, uint64_t bytes)
{
    start(gpus, NVLINK);
    slower = 1;
    of_second = only = 0;
    result = bytes;
    pulls = 0;
}

static void start_chains(uint64_t bytes)
{
    start_chains_on(2, bytes);
}

/* A chain, and beside it again and again one of `length` launches that begins with nothing fresh and that it needs next. */
static uint64_t with_sides(unsigned times, unsigned length, double ns, uint64_t last)
{
    for (unsigned i = 0; i < times; i++) {
        for (unsigned step = 0; step < 10; step++)
            last = run_on(STEP, 100 * US, last, 0);
        uint64_t side = run_on(SIDE, ns, 0, 0);
        for (unsigned more = 1; more < length; more++)
            side = run_on(OF_BRANCH, ns, side, 0);
        last = run_on(STEP, 100 * US, last, side);
    }
    return last;
}

TEST(what_is_soon_waited_for_is_torn_off_once)
{
    start_chains(MB);
    with_sides(100, 1, 40 * US, 0);
    CHECK_EQ(place.decided[1], 1);
}

/* Two chains side by side, and short ones that read what the other GPU once wrote: each joins the chain whose launch does not come right before it. */
TEST(a_short_chain_that_reads_little_goes_where_its_reader_is)
{
    start_chains_on(2, 10000);
    struct tsr_place_launch launch = made(0, 20 * US);
    launch.allowed = 1u << 1;
    go(&launch, NULL);
    uint64_t made_away = tickets, main = 0, beside = 0, sides_away = 0;
    held[made_away] = 1u << 1;
    for (unsigned i = 0; i < 100; i++) {
        for (unsigned step = 0; step < 10; step++)
            main = run_on(STEP, 100 * US, main, 0);
        launch = made(0, 10 * US);
        launch.like = BESIDE;
        launch.last = tickets;
        launch.allowed = 1u << 0;
        if (beside)
            add_part(&launch, beside, result, 1u << 0);
        go(&launch, NULL);
        beside = tickets;
        uint64_t side = run_on(SIDE, 10 * US, made_away, 0);
        sides_away += i > 1 && held[side] & 1u << 1;
        side = run_on(OF_BRANCH, 20 * US, side, 0);
        main = run_on(STEP, 100 * US, main, side);
    }
    CHECK_EQ(sides_away, 0);
}

/* Chains that nobody joins. When all are done. */
static double with_requests(unsigned times, unsigned length, double ns)
{
    for (unsigned i = 0; i < times; i++) {
        uint64_t last = run_on(STEP, ns, 0, 0);
        for (unsigned more = 1; more < length; more++)
            last = run_on(BESIDE, ns, last, 0);
    }
    return tsr_place_end(&place);
}

/* ---- threads in step ---- */

#define IN_STEP 4u

struct client {
    uint64_t last, own; /* of its stream; of the request */
    uint32_t gpu;
};

static uint32_t torn; /* launches that left the GPU of the one before, of the same request */

static void ask_of(struct client *client, uint32_t number, unsigned launch_number, double now_ns)
{
    struct tsr_place_launch launch = made(now_ns, 200 * US);
    launch.like = launch_number ? 100 + launch_number : 7;
    launch.stream = number + 1;
    launch.last = client->last;
    launch.written = MB;
    if (launch_number)
        add_part(&launch, client->own, MB, 1u << client->gpu);
    uint32_t before = client->gpu;
    client->gpu = go(&launch, NULL).gpu;
    client->last = client->own = tickets;
    torn += launch_number && client->gpu != before;
}

/* Each asks for a request of so many launches at the same time as the others, by turns of some, and waits for its end. How many went to GPU 0. */
static uint32_t round_in_step(struct client *clients, unsigned length, unsigned turn, double *now_ns)
{
    uint32_t at_home = 0;
    for (unsigned from = 0; from < length; from += turn)
        for (uint32_t i = 0; i < IN_STEP; i++)
            for (unsigned number = from; number < from + turn; number++, *now_ns += 5 * US)
                ask_of(&clients[i], i, number, *now_ns);
    for (uint32_t i = 0; i < IN_STEP; i++)
        at_home += clients[i].gpu == 0;
    double began_ns = *now_ns;
    *now_ns = tsr_later(began_ns, tsr_place_end(&place));
    for (uint32_t i = 0; i < IN_STEP; i++)
        tsr_place_waited_beside(&place, clients[i].last, began_ns, *now_ns);
    return at_home;
}

TEST(threads_in_step_share_the_gpus)
{
    struct client clients[IN_STEP] = {{0}};
    double now_ns = 0;
    for (unsigned turn = 1; turn <= 50; turn += 49) {
        start(2, NVLINK);
        memset(clients, 0, sizeof clients);
        torn = 0;
        for (unsigned i = 0; i < 20; i++) {
            uint32_t at_home = round_in_step(clients, 100, turn, &now_ns);
            CHECK(i < 2 || at_home == IN_STEP / 2); /* it has to know how long requests are */
        }
        CHECK_EQ(torn, 0);
    }
}

TEST(what_a_stream_does_not_bring_is_forgotten)
{
    struct client clients[IN_STEP] = {{0}};
    double now_ns = 0;
    start(2, NVLINK);
    for (unsigned i = 0; i < 4; i++)
        round_in_step(clients, 100, 50, &now_ns);
    for (uint32_t i = 1; i < IN_STEP; i++)
        ask_of(&clients[i], i, 0, now_ns);
    CHECK(place.coming[clients[1].gpu == place.coming[1].gpu[TSR_PLACE_ACTUAL] ? 1 : 0].left_ns > 0);
    now_ns += 100 * 200 * US + MS;
    struct tsr_place_launch launch = made(now_ns, 200 * US);
    launch.like = 7;
    launch.stream = 1;
    struct tsr_question question = {.place = &place, .timeline = &place.timelines[TSR_PLACE_ACTUAL], .launch = &launch};
    tsr_coming_count(&question, TSR_PLACE_ACTUAL);
    CHECK(question.counts_coming && question.coming_all_ns == 0);
}

/* Of so many requests on two GPUs. */
static double best_end_ns(unsigned times, double request_ns)
{
    double best_ns = times * request_ns;
    for (unsigned away = 1; away <= times; away++) {
        double home_ns = (times - away) * request_ns, away_ns = away * request_ns * slower;
        double end_ns = home_ns > away_ns ? home_ns : away_ns;
        best_ns = end_ns < best_ns ? end_ns : best_ns;
    }
    return best_ns;
}

TEST(requests_go_where_all_of_them_is_done_first)
{
    for (unsigned times = 8; times <= 13; times++) {
        start_chains(MB);
        slower = 2.5;
        CHECK(with_requests(times, 400, 7 * US) < 1.15 * best_end_ns(times, 400 * 7 * US));
    }
}

TEST(short_requests_need_no_lead_to_even_out)
{
    start_chains(MB);
    slower = 3;
    double end_ns = with_requests(400, 4, 10 * US), both_ns = 400 * 4 * 10 * US * 3 / 4;
    CHECK(end_ns < 1.02 * both_ns);
}

TEST(what_was_short_may_grow_long)
{
    start_chains(MB);
    uint64_t last = with_sides(50, 1, 40 * US, 0);
    with_sides(50, 100, 10 * US, last);
    CHECK(place.decided[1] > 48 * 100);
    CHECK(tsr_place_end(&place) < 0.71 * place.single_ns);
}

/*
 * A host that is held up as soon as home has more than `queue_ns` to do: requests of 320 launches, each a chain of 32 ms at home. Until when the GPUs are
 * busy, and then the host, which has waited for them. leftover: requests stay where they begin, and one of the first launches of each reads a little of an earlier one's
 * result.
 */
static double with_queue(unsigned times, double queue_ns, double now_ns, bool leftover)
{
    uint64_t results[4] = {0}; /* of the last requests */
    for (unsigned i = 0; i < times; i++) {
        uint64_t before = leftover ? results[i % 4] : 0, last = 0;
        for (unsigned step = 0; step < 320; step++, now_ns += 5 * US) {
            double most_ns = place.timelines[TSR_PLACE_ACTUAL].free_ns[0] - queue_ns;
            if (most_ns > now_ns + 20 * US) {
                tsr_place_held_up(&place, now_ns, most_ns);
                now_ns = most_ns;
            }
            only = leftover && step ? held[last] : 0;
            last = run_at(now_ns, step ? BESIDE : STEP, 100 * US, last, step == 3 ? before : 0);
        }
        results[i % 4] = last;
        only = 0;
    }
    double began_ns = now_ns;
    now_ns = tsr_place_end(&place);
    tsr_place_waited(&place, tickets, began_ns, now_ns);
    return now_ns;
}

TEST(a_slower_gpu_gets_its_share_from_a_host_that_is_held_up)
{
    for (double queue_ns = 36 * MS; queue_ns < 80 * MS; queue_ns += 7 * MS) {
        start_chains(MB);
        slower = 2.2;
        double began_ns = with_queue(20, queue_ns, 0, false);
        double took_ns = with_queue(20, queue_ns, began_ns, false) - began_ns;
        CHECK(took_ns < 20 * 32 * MS / (1 + 1 / slower) / 0.85);
    }
}

TEST(a_few_bytes_of_earlier_requests_do_not_make_one_chain_of_all)
{
    start_chains(16 * MB);
    slower = 2.2;
    of_second = 4096;
    double began_ns = with_queue(20, 40 * MS, 0, true);
    double took_ns = with_queue(20, 40 * MS, began_ns, true) - began_ns;
    CHECK(took_ns < 20 * 32 * MS / (1 + 1 / slower) / 0.85);
    CHECK(place.decided[1] > 2 * 320);
}

/* Once more work than a lead is: what was then expected of them fades as they are joined. */
TEST(what_was_long_once_is_short_again)
{
    start_chains(MB);
    uint64_t last = with_sides(1, 100, 10 * US, 0);
    last = with_sides(50, 1, 40 * US, last);
    uint64_t before = pulls;
    with_sides(100, 1, 40 * US, last);
    CHECK_EQ(pulls, before);
}

/* Requests of layers, each with a launch that branches off and could run beside what is slow for once, were it not for its result. */
TEST(what_branches_off_stays_with_its_chain)
{
    start_chains(32 * MB);
    for (unsigned request = 0; request < 20; request++) {
        uint64_t last = 0;
        for (unsigned layer = 0; layer < 10; layer++) {
            bool is_slow = request % 4 == 3 && layer == 5;
            uint64_t first = run_on(STEP, 100 * US, last, 0), gate = run_on(STEP, (is_slow ? 2000 : 300) * US, first, 0);
            last = run_on(UPDATE, 10 * US, gate, run_on(BESIDE, 300 * US, first, run_on(SIDE, 5 * US, 0, 0)));
        }
    }
    CHECK(pulls <= 1);
    CHECK(tsr_place_end(&place) < 0.55 * place.single_ns);
}

/* Steps of two branches on the GPUs, of which the second is so many times slower. When all are done. */
static double run_steps(uint32_t gpus, double times)
{
    uint64_t input = 0;
    start_chains_on(gpus, 8192);
    slower = times;
    for (unsigned step = 0; step < 10; step++) {
        uint64_t ends[2];
        for (unsigned branch = 0; branch < 2; branch++) {
            ends[branch] = run_on(FIRST_OF_BRANCH, 7 * US, input, 0);
            for (unsigned i = 0; i < 400; i++)
                ends[branch] = run_on(OF_BRANCH, 7 * US, ends[branch], 0);
        }
        input = run_on(UPDATE, 7 * US, ends[0], ends[1]);
    }
    return tsr_place_end(&place);
}

TEST(gpus_that_are_not_needed_do_no_harm)
{
    double two_ns = run_steps(2, 1);
    CHECK(two_ns < 0.54 * place.single_ns);
    CHECK(run_steps(16, 1) <= two_ns);
    for (uint32_t gpu = 2; gpu < 16; gpu++)
        CHECK_EQ(place.decided[gpu], 0);
}

TEST(a_branch_that_a_slower_gpu_would_end_later_stays)
{
    double end_ns = run_steps(2, 3);
    CHECK(end_ns < 1.05 * place.single_ns);
}

/* Steps of two branches, one of them longer. Each begins with a short chain of nothing fresh, and then the step's input. */
TEST(branches_take_all_of_theirs_with_them)
{
    uint64_t input = 0;
    start_chains(MB);
    for (unsigned step = 0; step < 40; step++) {
        uint64_t ends[2];
        for (unsigned branch = 0; branch < 2; branch++) {
            uint64_t side = run_on(SIDE, 15 * US, 0, 0), more = run_on(OF_BRANCH, 15 * US, side, 0);
            ends[branch] = run_on(FIRST_OF_BRANCH, 20 * US, input, 0);
            ends[branch] = run_on(OF_BRANCH, 20 * US, ends[branch], more);
            ends[branch] = run_on(OF_BRANCH, 20 * US, ends[branch], side);
            for (unsigned i = 0; i < 100 + 50 * branch; i++)
                ends[branch] = run_on(OF_BRANCH, 20 * US, ends[branch], 0);
        }
        input = run_on(UPDATE, 5 * US, ends[0], ends[1]);
    }
    CHECK(pulls <= 2 * 40 + 4); /* the step's input there, one branch's result back */
    CHECK(tsr_place_end(&place) < 0.64 * place.single_ns);
}

/* ---- random programs against plain clocks ---- */

#define LAUNCHES 4000u
#define BUFFERS 24u

struct model {
    double free_ns[TSR_GPUS], link_ns[TSR_GPUS][TSR_GPUS], done_ns[LAUNCHES + 1];
    uint32_t gpu[LAUNCHES + 1], holders[BUFFERS];
    uint64_t writer[BUFFERS];
    unsigned short seed[3];
};

static unsigned draw(struct model *model, unsigned below)
{
    return (unsigned)(nrand48(model->seed) % below);
}

/* When the launch starts on the GPU; its copies take place. */
static double run(struct model *model, const struct tsr_place_launch *launch, uint32_t gpu, double bytes_per_ns)
{
    double start_ns = tsr_later(launch->now_ns, model->free_ns[gpu]);
    for (uint32_t i = 0; i < launch->part_count; i++) {
        const struct tsr_place_part *part = &launch->parts[i];
        uint32_t from = model->gpu[part->writer];
        double ready_ns = model->done_ns[part->writer] + (from == gpu ? 0 : 8 * US);
        if (!(part->holders >> gpu & 1)) {
            double *link_ns = &model->link_ns[from][gpu];
            *link_ns = tsr_later(*link_ns, tsr_later(ready_ns, launch->now_ns)) + (double)part->bytes * (1 / bytes_per_ns);
            ready_ns = *link_ns + 3 * US;
        }
        start_ns = tsr_later(start_ns, ready_ns);
    }
    return start_ns;
}

static void run_random(unsigned seed, uint32_t gpus, double bytes_per_ns, double host_ns)
{
    static struct model model;
    memset(&model, 0, sizeof model);
    model.seed[0] = (unsigned short)seed;
    start_with(gpus, bytes_per_ns, 1 + seed % 3);
    unsigned region = 1 + draw(&model, 4), reads = 1 + draw(&model, 3);
    for (uint64_t number = 1; number <= LAUNCHES; number++) {
        struct tsr_place_launch launch = made((double)number * host_ns, (1 + draw(&model, 60)) * US);
        unsigned part = (unsigned)(number / 50) % region, size = BUFFERS / region, written = part * size + draw(&model, size);
        uint32_t read[8], count = 0;
        for (unsigned i = 0; i < reads; i++) {
            read[count] = draw(&model, 10) ? part * size + draw(&model, size) : draw(&model, BUFFERS);
            if (model.writer[read[count]] && (i == 0 || model.writer[read[count]] != model.writer[read[0]]))
                add_part(&launch, model.writer[read[count]], MB + draw(&model, 8) * MB, model.holders[read[count]]), count++;
        }
        launch.last = number - 1;
        launch.written = 4 * MB;
        struct tsr_place_answer answer;
        uint32_t gpu = go(&launch, &answer).gpu;
        double start_ns = run(&model, &launch, gpu, bytes_per_ns);
        if (!CHECK(answer.start_ns == start_ns && gpu < gpus))
            return;
        model.free_ns[gpu] = model.done_ns[number] = start_ns + launch.ns[0];
        model.gpu[number] = gpu;
        for (uint32_t i = 0; i < count; i++)
            model.holders[read[i]] |= 1u << gpu;
        model.writer[written] = number;
        model.holders[written] = 1u << gpu;
    }
    CHECK(tsr_place_end(&place) <= 1.03 * place.single_ns);
}

TEST(starts_are_those_of_plain_clocks_and_nothing_is_lost)
{
    for (unsigned seed = 1; seed <= 200; seed++)
        run_random(seed, 2 + seed % 15, seed % 2 ? PCIE : NVLINK, seed % 3 * 10 * US);
}

/* A chain, and beside each of its launches one of old bytes that could start at once elsewhere, but whose result the chain needs next. */
static void tempting(uint64_t back, uint64_t more)
{
    static uint32_t holders[2 * LAUNCHES + 2];
    struct tsr_place_launch launch = made(0, 20 * US);
    uint64_t own = tickets + 1, read[] = {own - back, own - more};
    launch.written = 8 * MB;
    for (uint32_t i = 0; i < 2; i++)
        if (read[i] < own)
            add_part(&launch, read[i], 8 * MB, holders[read[i]]);
    holders[own] = 1u << go(&launch, NULL).gpu;
    for (uint32_t i = 0; i < launch.part_count; i++)
        holders[launch.parts[i].writer] |= holders[own];
}

static double tempt(bool careful)
{
    start_with(2, PCIE, 2);
    place.options.careful = careful;
    for (uint64_t i = 1; i <= LAUNCHES; i++) {
        tempting(i > 1 ? 2 : 0, i > 1 ? 1 : 0);
        tempting(i > 20 ? 41 : 0, 0);
    }
    return place.single_ns / tsr_place_end(&place);
}

TEST(who_looks_at_each_launch_alone_loses_and_who_is_careful_does_not)
{
    CHECK(tempt(false) < 0.5);
    CHECK(tempt(true) > 0.97);
}

/* ---- what is learnt of times from waits ---- */

/* Work at home, of which each piece really takes `real` times what was measured, and for which the host waits every ten. Returns the pace. */
static double wait_often(double real)
{
    double now_ns = 0;
    start(1, NVLINK);
    for (unsigned i = 0; i < 100; i++) {
        double began_ns = now_ns;
        uint64_t last = 0;
        for (unsigned k = 0; k < 10; k++) {
            struct tsr_place_launch launch = {
                .last = tickets, .now_ns = now_ns, .ns = {MS * place.pace, MS * place.pace}, .allowed = 1u};
            struct tsr_place_choice choice;
            tsr_place_choose(&place, &launch, &choice);
            tsr_place_take(&place, &launch, &choice, 0, last = ++tickets);
        }
        now_ns += 10 * MS * real;
        tsr_place_waited(&place, last, began_ns, now_ns);
    }
    return place.pace;
}

TEST(measured_times_that_are_too_long_are_found_out)
{
    double pace = wait_often(0.8);
    CHECK(pace > 0.79 && pace < 0.81);
    CHECK(place.single_ns > 0.97 * 800 * MS && place.single_ns < 1.03 * 800 * MS);
    pace = wait_often(1.5);
    CHECK(pace > 1.49 && pace < 1.51);
}

TEST(a_host_that_is_not_held_up_tells_nothing_of_times)
{
    start(2, NVLINK);
    struct tsr_place_launch launch = {.ns = {MS, MS}, .allowed = 1u};
    struct tsr_place_choice choice;
    tsr_place_choose(&place, &launch, &choice);
    tsr_place_take(&place, &launch, &choice, 0, 1);
    tsr_place_waited(&place, 1, 50 * MS, 50 * MS + US);
    CHECK(place.pace == 1);
    CHECK(tsr_place_end(&place) == MS);
}

/* One stream has 40 launches at home, and after them another one a short one, which is done long before: the GPU takes its turn at it. */
static void give_two_streams(void)
{
    start(2, NVLINK);
    for (uint64_t ticket = 1; ticket <= 41; ticket++) {
        double ns = ticket <= 40 ? MS : 0.1 * MS;
        struct tsr_place_launch launch = {.ns = {ns, ns}, .allowed = 1u};
        struct tsr_place_choice choice;
        tsr_place_choose(&place, &launch, &choice);
        tsr_place_take(&place, &launch, &choice, 0, ticket);
    }
}

TEST(a_wait_beside_other_streams_tells_nothing_of_their_work)
{
    give_two_streams();
    CHECK_EQ(tsr_place_gpu(&place, 41), 0);
    CHECK_EQ(tsr_place_gpu(&place, 42), UINT32_MAX);
    tsr_place_waited_beside(&place, 41, 0, 2 * MS);
    CHECK(place.pace == 1);
    CHECK(tsr_place_end(&place) > 40 * MS);
    give_two_streams();
    tsr_place_waited(&place, 41, 0, 2 * MS); /* as if it were the only stream */
    CHECK(place.pace < 1);
    CHECK(tsr_place_end(&place) < 3 * MS);
}

TEST(what_the_host_has_waited_for_is_done_though_others_share_the_gpu)
{
    struct tsr_place_launch launch;
    for (unsigned waits = 0; waits < 2; waits++) {
        start(2, NVLINK);
        for (unsigned i = 0; i < 100; i++) {
            launch = made(0, MS);
            launch.allowed = 1u;
            go(&launch, NULL);
        }
        launch = made(0, 0.1 * MS);
        launch.allowed = 1u;
        go(&launch, NULL);
        uint64_t own = tickets;
        if (waits)
            tsr_place_waited_beside(&place, own, 0, MS);
        launch = made(MS, 10 * MS);
        launch.last = own;
        launch.shared = 1u;
        add_part(&launch, own, MB, 1u);
        struct tsr_place_answer answer;
        CHECK_EQ(go(&launch, &answer).gpu, waits);
        CHECK(!waits || answer.finish_ns < 12 * MS);
    }
}

TEST(a_full_queue_at_home_holds_up_only_who_fills_it)
{
    start(2, NVLINK);
    struct tsr_place_launch launch = {.ns = {MS, MS}, .allowed = 1u};
    struct tsr_place_choice choice;
    for (unsigned i = 0; i < 10; i++) {
        launch.last = i;
        tsr_place_choose(&place, &launch, &choice);
        tsr_place_take(&place, &launch, &choice, 0, i + 1);
    }
    place.timelines[TSR_PLACE_EARLIEST].free_ns[0] = 5 * MS; /* half of it is elsewhere */
    tsr_place_held_up(&place, 0, 4 * MS);                    /* the queue holds six launches */
    CHECK(place.timelines[TSR_PLACE_STAY].behind_ns == 0);
    CHECK(place.timelines[TSR_PLACE_EARLIEST].behind_ns == -4 * MS);
    CHECK(place.single_behind_ns == 0);
}

/* ---- what is seen of GPUs ---- */

#define BRANCH 400u /* launches */
#define LOOK_EVERY 8u
#define MARK_EVERY 5u

/* Two GPUs on which launches really take 100 us; of each GPU those that are marked, and not yet seen to have ended. */
struct real {
    double now_ns, looked_ns, free_ns[2], done_ns[65536];
    uint64_t marks[2][65536];
    uint32_t first[2], end[2];
};

static void look(struct real *real)
{
    for (uint32_t gpu = 0; gpu < 2; gpu++) {
        uint64_t last = 0;
        while (real->first[gpu] < real->end[gpu] && real->done_ns[real->marks[gpu][real->first[gpu]]] <= real->now_ns)
            last = real->marks[gpu][real->first[gpu]++];
        if (last)
            tsr_place_seen(&place, last, real->looked_ns, real->now_ns, real->first[gpu] < real->end[gpu]);
        if (real->first[gpu] < real->end[gpu])
            tsr_place_pending(&place, real->marks[gpu][real->first[gpu]], real->now_ns);
    }
    real->looked_ns = real->now_ns;
}

/* A chain of launches, the first of which reads what `reads` wrote. Returns the last one. */
static uint64_t give_branch(struct real *real, uint64_t like, uint64_t reads, double wrong)
{
    for (unsigned i = 0; i < BRANCH; i++) {
        struct tsr_place_launch launch = made(real->now_ns, 100 * US * wrong * place.pace);
        launch.like = like + (i > 0);
        launch.last = tickets;
        if (reads)
            add_part(&launch, reads, MB, 1);
        for (uint32_t p = 0; p < launch.part_count; p++) {
            uint64_t writer = launch.parts[p].writer;
            launch.parts[p].holders = 1u << tsr_place_gpu(&place, writer);
        }
        uint32_t gpu = go(&launch, NULL).gpu;
        double start_ns = tsr_later(real->now_ns, real->free_ns[gpu]);
        if (launch.part_count)
            start_ns = tsr_later(start_ns, real->done_ns[reads] + (launch.parts[0].holders >> gpu & 1 ? 0 : 20 * US));
        real->free_ns[gpu] = real->done_ns[tickets] = start_ns + 100 * US;
        reads = tickets;
        if (tickets % MARK_EVERY == 0)
            real->marks[gpu][real->end[gpu]++] = tickets;
        if (tickets % LOOK_EVERY == 0)
            look(real);
        real->now_ns = tsr_later(real->now_ns + 5 * US, tsr_later(real->free_ns[0], real->free_ns[1]) - 100 * MS);
    }
    return reads;
}

/* Steps of two branches, of which the second one's end begins the next step. All that was measured is wrong by the factor. Returns the gain. */
static double run_wrong(double wrong)
{
    static struct real real;
    memset(&real, 0, sizeof real);
    start(2, NVLINK);
    uint64_t last = 0;
    for (unsigned step = 0; step < 60; step++) {
        uint64_t first = give_branch(&real, 1, last, wrong);
        last = give_branch(&real, 1001, last, wrong);
        struct tsr_place_launch both = made(real.now_ns, 10 * US);
        both.last = tickets;
        add_part(&both, first, MB, 1u << tsr_place_gpu(&place, first));
        add_part(&both, last, MB, 1u << tsr_place_gpu(&place, last));
        uint32_t gpu = go(&both, NULL).gpu;
        double start_ns = tsr_later(real.free_ns[gpu], tsr_later(real.done_ns[first], real.done_ns[last]) + 20 * US);
        real.free_ns[gpu] = real.done_ns[tickets] = start_ns + 10 * US;
        last = tickets;
    }
    double end_ns = tsr_later(real.free_ns[0], real.free_ns[1]), off_ns = tsr_place_end(&place) - end_ns;
    CHECK(off_ns < 20 * MS && off_ns > -20 * MS);
    return 60 * (2.0 * BRANCH * 100 + 10) * US / end_ns;
}

TEST(times_that_are_wrong_by_a_factor_cost_little)
{
    CHECK(run_wrong(1) > 1.9);
    CHECK(place.pace > 0.9 && place.pace < 1.1);
    CHECK(run_wrong(3) > 1.9);
    CHECK(place.pace < 1.15 / 3);
    CHECK(run_wrong(0.5) > 1.9);
}

/* A GPU that is seen to need three times as long as it should for all its work, which waits for nothing that is known. */
static double pace_of_held_up(uint32_t gpu)
{
    start(2, NVLINK);
    struct tsr_place_launch launch = made(0, 20 * MS);
    launch.allowed = 1u << gpu;
    for (unsigned i = 0; i < 40; i++)
        go(&launch, NULL);
    for (unsigned i = 1; i < 40; i++)
        tsr_place_seen(&place, i, i * 60 * MS - US, i * 60 * MS, true);
    return place.pace;
}

TEST(what_holds_another_gpu_up_makes_no_work_longer_on_one)
{
    CHECK(pace_of_held_up(0) > 2.5);
    CHECK(pace_of_held_up(1) == 1);
}

TEST(what_was_seen_to_have_ended_moves_the_clock)
{
    start(2, NVLINK);
    struct tsr_place_launch launch = made(0, 10 * MS);
    launch.allowed = 1u;
    go(&launch, NULL);
    CHECK(tsr_place_end(&place) == 10 * MS);
    tsr_place_seen(&place, 1, 3 * MS, 4 * MS, false); /* between the two */
    CHECK(tsr_place_end(&place) == 4 * MS);
    go(&launch, NULL);
    tsr_place_pending(&place, 2, 12 * MS); /* it should have ended at 14 */
    CHECK(tsr_place_end(&place) == 14 * MS);
    tsr_place_pending(&place, 2, 15 * MS);
    CHECK(tsr_place_end(&place) == 15 * MS);
    tsr_place_seen(&place, 2, 16 * MS, 17 * MS, false);
    CHECK(tsr_place_end(&place) == 16 * MS);
}

/* Results must be home by the time one GPU would have them, less some slack: what was seen to be late moves that time, too. */
/* What has ended stays where it is, however the clock of its GPU is moved afterwards. */
TEST(what_has_ended_is_not_late)
{
    start(2, NVLINK);
    struct tsr_place_launch launch = made(0, MS);
    launch.allowed = 1u;
    go(&launch, NULL);
    uint64_t written = tickets;
    go(&launch, NULL);
    uint64_t marked = tickets;
    tsr_place_seen(&place, marked, 2 * MS, 2 * MS, true);
    place.shift_ns[0] += 100 * MS;
    launch = made(60 * MS, MS);
    launch.allowed = 2u;
    add_part(&launch, written, MB, 1u);
    struct tsr_place_answer answer;
    go(&launch, &answer);
    CHECK(answer.start_ns < 61 * MS);
}

TEST(a_chain_whose_gpu_is_late_stays_together)
{
    start(2, NVLINK);
    uint64_t last[2] = {0, 0};
    for (unsigned i = 0; i < 300; i++)
        for (uint32_t gpu = 0; gpu < 2; gpu++) {
            struct tsr_place_launch launch = made(0, 100 * US);
            launch.last = tickets;
            launch.allowed = 1u << gpu;
            if (last[gpu])
                add_part(&launch, last[gpu], MB, 1u << gpu);
            go(&launch, NULL);
            last[gpu] = tickets;
        }
    tsr_place_ended(&place, last[1], 60 * MS);
    struct tsr_place_launch next = made(0, 100 * US);
    next.last = last[1];
    add_part(&next, last[1], MB, 1u << 1);
    CHECK_EQ(go(&next, NULL).gpu, 1);
}

TEST(where_all_has_ended_no_clock_is_ahead)
{
    start(2, NVLINK);
    struct tsr_place_launch launch = made(0, 10 * MS);
    launch.allowed = 1u;
    go(&launch, NULL);
    launch.allowed = 2u;
    go(&launch, NULL);
    tsr_place_idle(&place, 6 * MS);
    CHECK(tsr_place_end(&place) == 6 * MS && tsr_place_finish(&place, 1) == 6 * MS && tsr_place_finish(&place, 2) == 6 * MS);
}

TEST(work_that_waited_for_something_else_says_nothing_of_the_pace)
{
    start(2, NVLINK);
    struct tsr_place_launch launch = {.ns = {20 * MS, 20 * MS}, .allowed = 1u};
    go(&launch, NULL);
    tsr_place_waited(&place, 1, 0, 300 * MS); /* code was loaded */
    CHECK(place.pace == 1);
}

/* ---- the guard ---- */

static struct tsr_guard guard;

static void start_guard(void)
{
    struct tsr_guard_options options = {20 * MS, 20 * MS, 1000 * MS, 0.01, 1 * MS};
    tsr_guard_init(&guard, &options);
}

static bool stays(double single_ns, double end_ns, double promised_ns)
{
    struct tsr_guard_clocks now = {single_ns, end_ns, promised_ns};
    return tsr_guard_next(&guard, &now);
}

TEST(who_wins_is_left_alone)
{
    start_guard();
    for (double ns = 0; ns < 1000 * MS; ns += MS)
        CHECK(!stays(ns, 0.9 * ns, 0.9 * ns));
    CHECK(guard.won == guard.windows && guard.windows >= 45);
}

TEST(clocks_may_begin_anywhere)
{
    start_guard();
    CHECK(!stays(1e15, 1e15, 1e15));
    CHECK_EQ(guard.windows, 0);
    CHECK(!stays(1e15 + 19 * MS, 1e15 + 15 * MS, 1e15));
    CHECK(!stays(1e15 + 21 * MS, 1e15 + 15 * MS, 1e15));
    CHECK_EQ(guard.won, 1);
}

TEST(what_a_window_has_won_the_next_one_may_lose)
{
    start_guard();
    stays(0, 0, 0);
    CHECK(!stays(20 * MS, 10 * MS, 10 * MS)); /* 10 ms are won */
    CHECK(!stays(21 * MS, 20 * MS, 11 * MS)); /* 9 ms later than one GPU, where 1 may be */
    CHECK(!stays(41 * MS, 30 * MS, 20 * MS));
    CHECK_EQ(guard.won, 2);
    stays(42 * MS, 42.5 * MS, 21 * MS);
    CHECK(stays(43 * MS, 60 * MS, 22 * MS)); /* that is more */
    CHECK(!stays(63 * MS, 80 * MS, 30 * MS));
    CHECK(stays(64 * MS, 83 * MS, 31 * MS)); /* and after a loss there is no more to lose */
}

/* Two seconds between batches of 100 ms, which two GPUs do in half the time. */
TEST(pauses_are_no_part_of_windows)
{
    double now_ns = 0;
    start(2, NVLINK);
    start_guard();
    for (unsigned i = 0; i < 20; i++, now_ns += 2000 * MS) {
        for (uint64_t part = 0; part < 2; part++) {
            struct tsr_place_launch launch = made(now_ns, 50 * MS);
            launch.allowed = 1u << part;
            go(&launch, NULL);
        }
        struct tsr_guard_clocks clocks = tsr_place_clocks_at_work(&place);
        CHECK(!tsr_guard_next(&guard, &clocks));
        CHECK(clocks.single_ns <= 100 * MS * (i + 1) + MS);
        double began_ns = now_ns;
        tsr_place_waited(&place, tickets, began_ns, now_ns += 50 * MS);
    }
    CHECK(guard.won >= 19);
}

TEST(an_excused_window_is_followed_by_a_short_rest)
{
    start_guard();
    for (double ns = 0; ns < 500 * MS; ns += MS)
        stays(ns, ns, 0.5 * ns);
    CHECK(guard.rest_ns > 100 * MS);
    double ns = guard.until_ns;
    CHECK(!stays(ns, ns, 0.5 * ns));
    tsr_guard_excuse(&guard);
    CHECK(stays(ns + 20 * MS, ns + 20 * MS, 0.5 * ns));
    CHECK(!stays(ns + 41 * MS, ns + 41 * MS, 0.4 * ns));
}

TEST(who_wins_nothing_rests_longer_each_time)
{
    unsigned tried = 0;
    start_guard();
    for (double ns = 0; ns < 4000 * MS; ns += MS)
        tried += !stays(ns, ns, 0.5 * ns);
    CHECK_EQ(guard.won, 0);
    CHECK(tried >= 8 * 20 && tried <= 10 * 21); /* 20, 40, ... 640, 1000, 1000 ms of rest between them */
}

TEST(what_is_made_once_does_not_lengthen_rests)
{
    unsigned tried = 0;
    start_guard();
    for (double ns = 0; ns < 600 * MS; ns += MS) {
        tsr_guard_excuse(&guard);
        tried += !stays(ns, ns, 0.5 * ns);
    }
    CHECK_EQ(guard.won, 0);
    CHECK(tried >= 14 * 20); /* windows and rests of 20 ms */
    for (double ns = 600 * MS; ns < 4600 * MS; ns += MS) {
        tsr_guard_excuse(&guard); /* as if there were no end to it */
        tried += !stays(ns, ns, 0.5 * ns);
    }
    CHECK(tried <= 27 * 21);
}

TEST(nothing_is_tried_while_nothing_is_promised)
{
    unsigned tried = 0;
    start_guard();
    for (double ns = 0; ns < 4000 * MS; ns += MS)
        tried += !stays(ns, ns, ns);
    CHECK(tried >= 20 && tried <= 21); /* the first one */
    CHECK_EQ(guard.windows, 1);
    for (double ns = 4000 * MS; ns < 4100 * MS; ns += MS)
        tried += !stays(ns, ns, 4000 * MS + 0.5 * (ns - 4000 * MS));
    CHECK(tried >= 40);
}

TEST(a_loss_ends_the_window_at_once)
{
    double lag_ns = 0;
    unsigned tried = 0;
    start_guard();
    for (double ns = 0; ns < 4000 * MS; ns += 0.1 * MS)
        if (!stays(ns, ns + lag_ns, 0.5 * ns))
            tried++, lag_ns += 0.1 * MS; /* twice as slow */
    CHECK(lag_ns <= 0.005 * 4000 * MS);
    CHECK(tried > 50);
}

/* All would be done in 0.7 of the time; every 100 ms the host waits, which shows that GPUs are later than that. How many launches stay, of 4000. */
static unsigned stay_if_late(double late_ns)
{
    double lag_ns = 0;
    unsigned stayed = 0;
    start_guard();
    for (unsigned i = 1; i <= 4000; i++) {
        double ns = i * MS;
        stayed += stays(ns, 0.7 * ns + lag_ns, 0.7 * ns);
        if (i % 100)
            continue;
        struct tsr_guard_clocks now = {ns, 0.7 * ns + (lag_ns += late_ns), 0.7 * ns};
        tsr_guard_waited(&guard, &now);
    }
    return stayed;
}

TEST(what_a_wait_shows_came_about_before_this_window)
{
    CHECK_EQ(stay_if_late(0), 0);
    CHECK_EQ(stay_if_late(15 * MS), 0);
    CHECK(stay_if_late(40 * MS) > 400); /* nothing was gained since the wait before */
}
