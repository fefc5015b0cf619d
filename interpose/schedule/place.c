/* See tessera/place.h. */
#include <tessera/place.h>

#include <string.h>

#include "schedule/chains.h"

#define GAP_WEIGHT 2.0    /* of time for which a GPU waits for others: */
#define GAP_LEADS 8.0     /* up to so many leads, or one that has long had nothing to do would never get anything */
#define ROUND_TRIP 2.0      /* a copy, and one back */
#define TEAR_BYTES 32.0   /* of a short chain's results, on their return trip: what they gain is little */
#define EVERY 256u        /* launches between comparisons of the strategies */
#define FADES 0.9         /* what came before a comparison, at the next one */
#define AHEAD 0.9         /* who ends so much earlier is ahead */
#define AHEAD_FOR 3u      /* comparisons, before launches follow */
#define WIDE 4u           /* of more GPUs, those that hold nothing are alike */
#define TICKET_SPREAD 40503u
#define HELD_UP_NS 10e3   /* a shorter wait of the host shows only that the work was done */
#define LEAST_GIVEN_NS 1e6 /* work from which something is learnt of the pace */
#define PACE_WEIGHT 0.3
#define SURE 0.1 /* share of the work that predictions may err by for other reasons */
#define SLOWEST 4.0
#define WEIGHED_EVERY 16u /* launches: how GPUs compare */
#define WORK_FADES 0.992  /* what GPUs' times were before */
#define CHAIN_LEAD 0.25   /* of the work of chains that nobody joins, if that is less than the lead, between GPUs that are not alike */
#define ALIKE 1.25 /* as many times as long take the same launches */

_Static_assert(TSR_PLACE_TIMELINES == sizeof((struct tsr_place *)0)->timelines / sizeof(struct tsr_place_timeline),
               "timelines");
_Static_assert(TSR_PLACE_KNOWN == sizeof((struct tsr_place *)0)->known / sizeof(struct tsr_place_known), "known");
_Static_assert(TSR_PLACE_PARTS == sizeof((struct tsr_place_launch *)0)->parts / sizeof(struct tsr_place_part), "parts");

/* A launch on one GPU. */
struct option {
    double start_ns, finish_ns;
    double pull_ns; /* copying fresh bytes */
    double gap_ns;  /* for which the GPU waits */
    uint64_t missing;
    bool copies; /* something, constants too */
};

/* What a launch reads, in one timeline. */
struct read {
    double done_ns;
    uint64_t bytes;
    uint32_t holders, gpu;
};

struct question {
    const struct tsr_place *place;
    const struct tsr_place_timeline *timeline;
    const struct tsr_place_launch *launch;
    const struct tsr_place_history *history; /* of a chain that it opens; NULL: not known, or none */
    double rest_ns[TSR_GPUS];                /* what is expected of that chain after the launch, */
    double whole_ns[TSR_GPUS];               /* and with it, */
    double shortest_ns;                      /* where that is shortest */
    double now_ns, after_ns;
    double least_ns; /* before which it starts nowhere */
    bool constants;  /* count */
    uint32_t count, last;
    struct read reads[TSR_PLACE_PARTS];
};

static double later(double a, double b)
{
    return a > b ? a : b;
}

static struct tsr_place_known *slot_of(const struct tsr_place *place, uint64_t ticket)
{
    uint64_t queue = ticket >> 48;
    return (struct tsr_place_known *)&place->known[(ticket + queue * TICKET_SPREAD) % TSR_PLACE_KNOWN];
}

static struct tsr_place_known *find(const struct tsr_place *place, uint64_t ticket)
{
    struct tsr_place_known *known = slot_of(place, ticket);
    return ticket && known->ticket == ticket ? known : NULL;
}

void tsr_place_init(struct tsr_place *place, const struct tsr_place_options *options)
{
    memset(place, 0, sizeof *place);
    place->options = *options;
    place->pace = 1;
    for (uint32_t gpu = 0; gpu < options->gpus; gpu++)
        place->slowness[gpu] = 1;
    place->strategy = options->strategies & 1u << TSR_PLACE_STAY ? TSR_PLACE_STAY : TSR_PLACE_EARLIEST;
}

/* Copies into one GPU from another come one after the other. */
struct copying {
    double busy[TSR_GPUS]; /* until when each link to the GPU is */
    uint32_t used;         /* set of links */
};

static double copied_at(struct copying *copying, const struct question *question, uint32_t gpu, uint32_t from, double ready_ns,
                        double copy_ns)
{
    double begin_ns = copying->used >> from & 1 ? copying->busy[from] : question->timeline->link_ns[gpu][from];
    copying->busy[from] = later(begin_ns, later(ready_ns, question->now_ns)) + copy_ns;
    copying->used |= 1u << from;
    return copying->busy[from] + question->place->options.links[from][gpu].copy_ns;
}

/* Writes when the links to the GPU have done, if asked. */
static inline struct option look(const struct question *question, uint32_t gpu, double *links)
{
    const struct tsr_place_link(*of)[TSR_GPUS] = question->place->options.links;
    double free_ns = later(question->timeline->free_ns[gpu], question->least_ns);
    struct option option = {.start_ns = free_ns};
    struct copying copying;
    copying.used = 0;
    for (uint32_t i = 0; i < question->count; i++) {
        const struct read *read = &question->reads[i];
        double ready_ns = read->gpu == gpu ? read->done_ns : read->done_ns + of[read->gpu][gpu].fence_ns;
        if (!(read->holders >> gpu & 1)) {
            double copy_ns = (double)read->bytes * of[read->gpu][gpu].ns_per_byte;
            ready_ns = copied_at(&copying, question, gpu, read->gpu, ready_ns, copy_ns);
            option.pull_ns += copy_ns;
            option.missing += read->bytes;
        }
        option.start_ns = later(option.start_ns, ready_ns);
    }
    uint32_t home = question->place->options.home;
    if (question->constants && question->launch->constants[gpu] && gpu != home) {
        double copy_ns = (double)question->launch->constants[gpu] * of[home][gpu].ns_per_byte;
        option.start_ns = later(option.start_ns, copied_at(&copying, question, gpu, home, question->now_ns, copy_ns));
    }
    option.copies = copying.used != 0;
    for (; links && copying.used; copying.used &= copying.used - 1)
        links[__builtin_ctz(copying.used)] = copying.busy[__builtin_ctz(copying.used)];
    option.gap_ns = option.start_ns - free_ns;
    option.finish_ns = option.start_ns + question->launch->ns[gpu];
    return option;
}

/* When what it reads could be on a GPU that has nothing of it. */
static double arrival_ns(const struct question *question, uint32_t gpu)
{
    double arrival_ns = question->least_ns;
    for (uint32_t i = 0; i < question->count; i++) {
        const struct read *read = &question->reads[i];
        const struct tsr_place_link *link = &question->place->options.links[read->gpu][gpu];
        arrival_ns =
            later(arrival_ns, read->done_ns + link->fence_ns + link->copy_ns + (double)read->bytes * link->ns_per_byte);
    }
    return arrival_ns;
}

/* Of GPUs that differ in their clocks alone: the one that idles least before the launch, if any is free in time; else the first to be free. */
static uint32_t best_fit(const struct question *question, uint32_t gpus)
{
    uint32_t idle = TSR_GPUS, first = TSR_GPUS;
    double idle_ns = 0, first_ns = 0, arrival = arrival_ns(question, (uint32_t)__builtin_ctz(gpus));
    for (; gpus; gpus &= gpus - 1) {
        uint32_t gpu = (uint32_t)__builtin_ctz(gpus);
        double free_ns = question->timeline->free_ns[gpu];
        if (free_ns > arrival) {
            if (first == TSR_GPUS || free_ns < first_ns)
                first = gpu, first_ns = free_ns;
        } else if (idle == TSR_GPUS || free_ns > idle_ns) {
            idle = gpu, idle_ns = free_ns;
        }
    }
    return idle == TSR_GPUS ? first : idle;
}

static bool are_few(uint32_t gpus)
{
    for (uint32_t i = 0; gpus && i < WIDE; i++)
        gpus &= gpus - 1;
    return !gpus;
}

/* Of many GPUs; the others, that hold nothing of it and were not used last, are alike. */
static uint32_t worth_a_look(const struct question *question, uint32_t allowed)
{
    if (are_few(allowed))
        return allowed;
    uint32_t some = 1u << question->last | 1u << question->place->options.home;
    for (uint32_t i = 0; i < question->count; i++)
        some |= question->reads[i].holders;
    return some & allowed;
}

/* With the chain that it opens. */
static double chain_end(const struct question *question, uint32_t gpu, double finish_ns)
{
    return finish_ns + question->rest_ns[gpu];
}

/* What it leaves could be back home before one GPU would be done with it. */
static bool is_home_in_time(const struct question *question, uint32_t gpu, double finish_ns)
{
    const struct tsr_place_options *options = &question->place->options;
    double single_ns = question->timeline->single_ns + question->rest_ns[options->home];
    const struct tsr_place_link *link = &options->links[gpu][options->home];
    double back_ns = link->fence_ns + link->copy_ns + (double)question->launch->written * link->ns_per_byte;
    return !options->careful || gpu == options->home || chain_end(question, gpu, finish_ns) + back_ns <= single_ns;
}

static double end_ns_on(const struct question *question, uint32_t gpu)
{
    return chain_end(question, gpu, look(question, gpu, NULL).finish_ns);
}

static uint64_t missing_on(const struct question *question, uint32_t gpu)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < question->count; i++)
        bytes += question->reads[i].holders >> gpu & 1 ? 0 : question->reads[i].bytes;
    return bytes;
}

/* The GPU where it belongs. */
static uint32_t own_of(const struct question *question, uint32_t gpus)
{
    uint32_t own = gpus >> question->last & 1 ? question->last : (uint32_t)__builtin_ctz(gpus);
    if (!question->count)
        return own;
    uint64_t least = missing_on(question, own);
    for (uint32_t left = gpus & ~(1u << own); left; left &= left - 1) {
        uint32_t gpu = (uint32_t)__builtin_ctz(left);
        uint64_t missing = missing_on(question, gpu);
        bool ties = missing == least && own != question->last;
        if (missing < least || (ties && end_ns_on(question, gpu) < end_ns_on(question, own)))
            own = gpu, least = missing;
    }
    return own;
}

/* What is measured of GPUs that are alike differs a little, too. */
static bool are_alike(const struct tsr_place *place, uint32_t a, uint32_t b)
{
    return place->work_ns[a] <= ALIKE * place->work_ns[b] && place->work_ns[b] <= ALIKE * place->work_ns[a];
}

/* By which a launch must end earlier on the GPU than on its own. Where all GPUs are alike, leads of a chain's length would only scatter small chains. */
static double lead_to(const struct question *question, uint32_t gpu, uint32_t own)
{
    double lead_ns = question->place->options.lead_ns;
    if (!question->history || question->history->joins || question->count || are_alike(question->place, gpu, own))
        return lead_ns;
    double chain_ns = CHAIN_LEAD * (double)question->history->work_ns;
    return chain_ns < lead_ns ? chain_ns : lead_ns;
}

/* What it must gain by leaving its own GPU. */
static double away_from(const struct question *question, uint32_t gpu, uint32_t own)
{
    double fence_ns = question->place->options.links[own][gpu].fence_ns;
    return 2 * fence_ns + lead_to(question, gpu, own);
}

/* Of a launch that belongs somewhere, where its chain ends; and what leaving its own GPU must gain. */
static double score_of(const struct question *question, const struct option *option, double end_ns, double away_ns)
{
    double most_ns = GAP_LEADS * question->place->options.lead_ns;
    double gap_ns = option->gap_ns < most_ns ? option->gap_ns : most_ns;
    return end_ns + ROUND_TRIP * option->pull_ns + GAP_WEIGHT * gap_ns + away_ns;
}

/* It opens a chain that was soon joined, whenever it was: torn off, it gains no more than its own work. */
static bool is_short(const struct question *question)
{
    return question->history && question->history->joins &&
           (double)question->history->work_ns < question->place->options.lead_ns;
}

/* Its own GPU, and those for which it may leave it: the chain's work is worth its results' return trip. */
static uint32_t worth_leaving(const struct question *question, uint32_t gpus, uint32_t own)
{
    uint32_t some = 1u << own;
    double work_ns = (double)question->history->work_ns, bytes = TEAR_BYTES * (double)question->history->bytes;
    for (uint32_t left = gpus & ~some; left; left &= left - 1) {
        uint32_t gpu = (uint32_t)__builtin_ctz(left);
        const struct tsr_place_link *link = &question->place->options.links[gpu][own];
        if (work_ns > link->fence_ns + link->copy_ns + bytes * link->ns_per_byte)
            some |= 1u << gpu;
    }
    return some;
}

/* Of the GPU, if it holds all that the launch reads. */
static bool look_in_place(const struct question *question, uint32_t gpu, double free_ns, struct option *option)
{
    const struct tsr_place_options *options = &question->place->options;
    *option = (struct option){.start_ns = free_ns};
    for (uint32_t i = 0; i < question->count; i++) {
        const struct read *read = &question->reads[i];
        double fence_ns = read->gpu == gpu ? 0 : options->links[read->gpu][gpu].fence_ns;
        if (!(read->holders >> gpu & 1))
            return false;
        option->start_ns = later(option->start_ns, read->done_ns + fence_ns);
    }
    option->gap_ns = option->start_ns - free_ns;
    option->finish_ns = option->start_ns + question->launch->ns[gpu];
    return gpu == options->home || !question->constants || !question->launch->constants[gpu];
}

/* The chain that the launch opens cannot end earlier there. */
static double soonest_ns(const struct question *question, uint32_t gpu)
{
    return later(question->timeline->free_ns[gpu], question->least_ns) + question->whole_ns[gpu];
}

/*
 * The GPU of the stream's last launch holds all that is fresh, so the launch belongs there; and ends there before any other could, even one
 * that did not have to wait or copy.
 */
static bool stays_where_it_is(const struct question *question, uint32_t allowed, struct option *there)
{
    uint32_t own = question->last, gpus = question->place->options.gpus, others = allowed & ~(1u << own);
    double free_ns = later(question->timeline->free_ns[own], question->least_ns);
    if (!(allowed >> own & 1) || !look_in_place(question, own, free_ns, there))
        return false;
    double score = score_of(question, there, chain_end(question, own, there->finish_ns), 0);
    for (uint32_t gpu = 0; gpu < gpus; gpu++) {
        double soonest = soonest_ns(question, gpu);
        if (soonest <= score && others >> gpu & 1 && soonest + away_from(question, gpu, own) <= score)
            return false;
    }
    return is_home_in_time(question, own, there->finish_ns);
}

/* The best GPU so far, by its score, of those from which results are home in time; and of all the one where the launch ends first. */
struct contest {
    uint32_t best, earliest; /* TSR_GPUS: none yet */
    double score, earliest_ns;
    struct option of_best, of_earliest;
};

static void consider(struct contest *contest, const struct question *question, uint32_t gpu, uint32_t own, uint32_t strategy)
{
    double away_ns = strategy == TSR_PLACE_STAY && gpu != own ? away_from(question, gpu, own) : 0;
    if (contest->best != TSR_GPUS && soonest_ns(question, gpu) + away_ns >= contest->score)
        return;
    struct option option = look(question, gpu, NULL);
    double end_ns = chain_end(question, gpu, option.finish_ns);
    if (contest->earliest == TSR_GPUS || end_ns < contest->earliest_ns)
        contest->earliest = gpu, contest->earliest_ns = end_ns, contest->of_earliest = option;
    if (!is_home_in_time(question, gpu, option.finish_ns))
        return;
    double score = strategy == TSR_PLACE_STAY ? score_of(question, &option, end_ns, away_ns) : end_ns;
    if (contest->best == TSR_GPUS || score < contest->score)
        contest->best = gpu, contest->score = score, contest->of_best = option;
}

/* Even where it waits for nothing else, on one that holds nothing of it. */
static bool others_lose(const struct contest *contest, const struct question *question, uint32_t others)
{
    uint32_t gpu = (uint32_t)__builtin_ctz(others);
    return contest->best != TSR_GPUS && arrival_ns(question, gpu) + question->shortest_ns >= contest->score;
}

static uint32_t choose(const struct question *question, uint32_t strategy, uint32_t allowed, struct option *chosen)
{
    bool stays = strategy == TSR_PLACE_STAY;
    if (stays && stays_where_it_is(question, allowed, chosen))
        return question->last;
    uint32_t gpus = worth_a_look(question, allowed), others = allowed & ~gpus, own = TSR_GPUS;
    if (others && stays && !(gpus >> question->last & 1))
        gpus |= 1u << best_fit(question, others), others = 0;
    if (stays)
        own = own_of(question, gpus);
    if (stays && is_short(question)) {
        own = question->history->returns && gpus >> question->last & 1 ? question->last : own;
        gpus = worth_leaving(question, gpus, own);
        others = worth_leaving(question, others, own) & others;
    }
    struct contest contest;
    contest.best = contest.earliest = TSR_GPUS;
    if (stays)
        consider(&contest, question, own, own, strategy);
    for (uint32_t left = stays ? gpus & ~(1u << own) : gpus; left; left &= left - 1)
        consider(&contest, question, (uint32_t)__builtin_ctz(left), own, strategy);
    if (others && !others_lose(&contest, question, others))
        consider(&contest, question, best_fit(question, others), own, strategy);
    bool none = contest.best == TSR_GPUS;
    *chosen = none ? contest.of_earliest : contest.of_best;
    return none ? contest.earliest : contest.best;
}

static void ask(struct question *question, struct tsr_place *place, const struct tsr_place_launch *launch,
                struct tsr_place_known *const known[], uint32_t number)
{
    const struct tsr_place_known *last = known[TSR_PLACE_PARTS];
    question->place = place;
    question->timeline = &place->timelines[number];
    question->launch = launch;
    question->now_ns = launch->now_ns + question->timeline->behind_ns;
    question->after_ns = launch->after_ns[number];
    question->least_ns = later(question->now_ns, question->after_ns);
    question->constants = number == TSR_PLACE_ACTUAL;
    question->last = last ? last->gpu[number] : place->options.home;
    question->count = 0;
    for (uint32_t i = 0; i < launch->part_count; i++) {
        const struct tsr_place_known *writer = known[i];
        const struct tsr_place_part *part = &launch->parts[i];
        if (!writer && number != TSR_PLACE_ACTUAL)
            continue;
        double shared_ns =
            writer && launch->shared >> writer->gpu[number] & 1 ? question->timeline->free_ns[writer->gpu[number]] : 0;
        question->reads[question->count++] = (struct read){
            .done_ns = writer ? later(writer->finish_ns[number], shared_ns) : 0,
            .bytes = part->bytes,
            .holders = number == TSR_PLACE_ACTUAL ? part->holders : writer->holders[number],
            .gpu = writer ? writer->gpu[number] : (uint32_t)__builtin_ctz(part->holders | 1u << (TSR_GPUS - 1)),
        };
    }
}

double tsr_place_end(const struct tsr_place *place)
{
    return place->timelines[TSR_PLACE_ACTUAL].end_ns;
}

struct tsr_guard_clocks tsr_place_clocks(const struct tsr_place *place)
{
    return (struct tsr_guard_clocks){.single_ns = place->single_ns,
                                     .end_ns = place->timelines[TSR_PLACE_ACTUAL].end_ns,
                                     .promised_ns = place->timelines[place->strategy].end_ns};
}

/* What has been gained is not to be lost again, but for the slack. */
static void tighten(struct tsr_place *place)
{
    for (uint32_t number = 0; number < TSR_PLACE_TIMELINES; number++) {
        struct tsr_place_timeline *timeline = &place->timelines[number];
        double most_ns = timeline->end_ns + place->options.slack_ns;
        if (timeline->single_ns > most_ns)
            timeline->single_ns = most_ns;
    }
}

/* Another strategy is followed when it has been ahead for some time. */
static void compare(struct tsr_place *place)
{
    uint32_t best = place->strategy;
    tighten(place);
    if (place->options.strategies != (1u << TSR_PLACE_STRATEGIES) - 1)
        return;
    for (uint32_t strategy = 0; strategy < TSR_PLACE_STRATEGIES; strategy++) {
        struct tsr_place_timeline *timeline = &place->timelines[strategy];
        double end_ns = timeline->end_ns;
        timeline->lost_ns = timeline->lost_ns * FADES + end_ns - timeline->checked_ns;
        timeline->checked_ns = end_ns;
        if (timeline->lost_ns < AHEAD * place->timelines[best].lost_ns)
            best = strategy;
    }
    place->ahead = best == place->strategy ? 0 : place->ahead + 1;
    if (place->ahead < AHEAD_FOR)
        return;
    place->strategy = best;
    place->ahead = 0;
}

static double constants_ns(const struct tsr_place *place, const struct tsr_place_launch *launch, uint32_t gpu)
{
    return (double)launch->constants[gpu] * place->options.links[place->options.home][gpu].ns_per_byte;
}

/* GPUs that have its constants, or can pay for them. */
static uint32_t affordable(const struct tsr_place *place, const struct tsr_place_launch *launch)
{
    uint32_t home = place->options.home, some = launch->allowed;
    if (launch->stays)
        return 1u << home;
    for (uint32_t gpu = 0; gpu < place->options.gpus; gpu++)
        if (launch->constants[gpu] && gpu != home && constants_ns(place, launch, gpu) > place->credit_ns[gpu])
            some &= ~(1u << gpu);
    return some ? some : launch->allowed;
}

static void pay(struct tsr_place *place, const struct tsr_place_launch *launch, uint32_t gpu)
{
    place->credit_ns[gpu] = later(place->credit_ns[gpu] - constants_ns(place, launch, gpu), 0);
}

/* Of a launch that would run on another GPU if its constants were there; whether they are to be fetched. */
static bool earns(struct tsr_place *place, const struct tsr_place_launch *launch, uint32_t wanted)
{
    double cost_ns = constants_ns(place, launch, wanted);
    place->credit_ns[wanted] += launch->ns[wanted];
    return launch->constants[wanted] && cost_ns <= place->credit_ns[wanted];
}

static void look_up(struct tsr_place *place, const struct tsr_place_launch *launch, struct tsr_place_known *known[])
{
    for (uint32_t i = 0; i < launch->part_count; i++)
        known[i] = find(place, launch->parts[i].writer);
    known[TSR_PLACE_PARTS] = find(place, launch->last);
}

/* The timeline goes on with the launch on the GPU. */
static void advance(struct tsr_place *place, const struct question *question, uint32_t number, uint32_t gpu,
                    const struct option *option, struct tsr_place_known *const known[], struct tsr_place_known *own)
{
    struct tsr_place_timeline *timeline = &place->timelines[number];
    if (option->copies)
        look(question, gpu, timeline->link_ns[gpu]);
    timeline->free_ns[gpu] = option->finish_ns;
    timeline->end_ns = later(timeline->end_ns, option->finish_ns);
    for (uint32_t i = 0; i < question->launch->part_count; i++)
        if (known[i])
            known[i]->holders[number] |= (uint16_t)(1u << gpu);
    own->finish_ns[number] = option->finish_ns;
    own->holders[number] = (uint16_t)(1u << gpu);
    own->gpu[number] = (uint8_t)gpu;
}

/* As the chain before it that began in the same place, by how the GPUs compare. */
static void expect_rest(struct question *question, const struct tsr_place *place, const struct tsr_place_launch *launch)
{
    uint32_t home = place->options.home;
    double rest_ns = later(question->history ? (double)question->history->work_ns - launch->ns[home] : 0, 0);
    question->shortest_ns = launch->ns[home] + rest_ns;
    for (uint32_t gpu = 0; gpu < place->options.gpus; gpu++) {
        double there_ns = rest_ns * place->slowness[gpu], whole_ns = launch->ns[gpu] + there_ns;
        question->rest_ns[gpu] = there_ns;
        question->whole_ns[gpu] = whole_ns;
        question->shortest_ns = whole_ns < question->shortest_ns ? whole_ns : question->shortest_ns;
    }
}

/* It comes to the timeline. */
static void begin(struct question *question, struct tsr_place *place, const struct tsr_place_launch *launch, uint32_t number,
                  struct tsr_place_known *const known[])
{
    struct tsr_place_timeline *timeline = &place->timelines[number];
    ask(question, place, launch, known, number);
    timeline->single_ns = later(timeline->single_ns, question->now_ns) + launch->ns[place->options.home];
}

void tsr_place_choose(struct tsr_place *place, const struct tsr_place_launch *launch, struct tsr_place_choice *choice)
{
    struct tsr_chain_readers readers;
    struct tsr_place_known **known = readers.known;
    uint32_t home = place->options.home;
    struct option option;
    choice->own = (struct tsr_place_known){0};
    look_up(place, launch, known);
    struct question question;
    question.history = tsr_chain_history(place, launch, &readers);
    expect_rest(&question, place, launch);
    for (uint32_t strategy = 0; strategy < TSR_PLACE_STRATEGIES; strategy++) {
        if (!(place->options.strategies >> strategy & 1))
            continue;
        begin(&question, place, launch, strategy, known);
        uint32_t gpu = choose(&question, strategy, launch->allowed, &option);
        advance(place, &question, strategy, gpu, &option, known, &choice->own);
    }
    begin(&question, place, launch, TSR_PLACE_ACTUAL, known);
    choice->gpu = choose(&question, place->strategy, affordable(place, launch), &option);
    choice->start_ns = option.start_ns;
    choice->finish_ns = option.finish_ns;
    choice->copies = option.copies;
    choice->idles = option.gap_ns > option.pull_ns;
    choice->version = ++place->version;
    uint32_t wanted = choice->own.gpu[place->strategy];
    bool earning = choice->gpu == home && wanted != home;
    choice->fetches = earning && earns(place, launch, wanted) ? wanted : home;
    place->single_ns = later(place->single_ns, launch->now_ns + place->single_behind_ns) + launch->ns[home];
    choice->own.single_ns = place->single_ns;
    if (++place->launches % EVERY == 0)
        compare(place);
}

static void weigh(struct tsr_place *place)
{
    for (uint32_t gpu = 0; gpu < place->options.gpus; gpu++) {
        place->work_ns[gpu] = place->work_ns[gpu] * WORK_FADES + place->lately_ns[gpu];
        place->lately_ns[gpu] = 0;
    }
    for (uint32_t gpu = 0, home = place->options.home; gpu < place->options.gpus; gpu++)
        place->slowness[gpu] = are_alike(place, gpu, home) ? 1 : place->work_ns[gpu] / place->work_ns[home];
}

struct tsr_place_answer tsr_place_take(struct tsr_place *place, const struct tsr_place_launch *launch,
                                       struct tsr_place_choice *choice, uint32_t gpu, uint64_t ticket)
{
    struct tsr_chain_readers readers;
    struct tsr_place_known **known = readers.known;
    uint32_t home = place->options.home;
    struct question question;
    question.launch = launch;
    struct option option = {.start_ns = choice->start_ns, .finish_ns = choice->finish_ns};
    look_up(place, launch, known);
    if (choice->gpu != gpu || choice->copies || choice->version != place->version) {
        ask(&question, place, launch, known, TSR_PLACE_ACTUAL);
        option = look(&question, gpu, NULL);
    }
    place->version++;
    advance(place, &question, TSR_PLACE_ACTUAL, gpu, &option, known, &choice->own);
    if (gpu != home && launch->constants[gpu])
        pay(place, launch, gpu);
    for (uint32_t each = 0; each < place->options.gpus; each++)
        place->lately_ns[each] += launch->ns[each];
    if (place->launches % WEIGHED_EVERY == 0)
        weigh(place);
    place->given_ns += launch->ns[gpu];
    place->given_away |= gpu != home;
    tsr_chain_take(place, launch, &readers, &choice->own);
    place->decided[gpu]++;
    choice->own.ticket = ticket;
    choice->own.shift_ns = place->shift_ns[gpu];
    if (ticket)
        *slot_of(place, ticket) = choice->own;
    return (struct tsr_place_answer){option.start_ns, option.finish_ns, choice->own.single_ns,
                                     option.missing + (gpu == home ? 0 : launch->constants[gpu])};
}

void tsr_place_fetched(struct tsr_place *place, const struct tsr_place_launch *launch, uint32_t gpu)
{
    double *link_ns = &place->timelines[TSR_PLACE_ACTUAL].link_ns[gpu][place->options.home];
    *link_ns = later(*link_ns, launch->now_ns) + constants_ns(place, launch, gpu);
    place->version++;
    pay(place, launch, gpu);
}

/* Its end, as is known now: what was seen since its choice moved it as well. */
static double expected_ns(const struct tsr_place *place, const struct tsr_place_known *known)
{
    return known->finish_ns[TSR_PLACE_ACTUAL] + place->shift_ns[known->gpu[TSR_PLACE_ACTUAL]] - known->shift_ns;
}

double tsr_place_finish(const struct tsr_place *place, uint64_t ticket)
{
    const struct tsr_place_known *known = find(place, ticket);
    return known ? expected_ns(place, known) : 0;
}

void tsr_place_ended(struct tsr_place *place, uint64_t ticket, double at_ns)
{
    struct tsr_place_known *known = find(place, ticket);
    if (!known)
        return;
    uint32_t gpu = known->gpu[TSR_PLACE_ACTUAL];
    double error_ns = at_ns - expected_ns(place, known);
    known->finish_ns[TSR_PLACE_ACTUAL] = at_ns;
    place->version++;
    known->shift_ns = place->shift_ns[gpu] += error_ns;
    struct tsr_place_timeline *timeline = &place->timelines[TSR_PLACE_ACTUAL];
    timeline->free_ns[gpu] = later(timeline->free_ns[gpu] + error_ns, at_ns);
    timeline->end_ns = 0;
    for (uint32_t each = 0; each < place->options.gpus; each++)
        timeline->end_ns = later(timeline->end_ns, timeline->free_ns[each]);
}

/* Of all that was given since the last time. */
static void learn_pace(struct tsr_place *place, const struct tsr_place_known *last, double at_ns)
{
    uint32_t home = place->options.home;
    double error_ns = at_ns - expected_ns(place, last);
    bool at_home = !place->given_away && last->gpu[TSR_PLACE_ACTUAL] == home;
    if (place->given_ns > LEAST_GIVEN_NS &&
        (at_home || error_ns < -SURE * place->given_ns)) { /* elsewhere it may have waited */
        place->pace *= 1 + PACE_WEIGHT * later(error_ns / place->given_ns, -0.5);
        place->pace = place->pace < 1 / SLOWEST ? 1 / SLOWEST : place->pace > SLOWEST ? SLOWEST : place->pace;
    }
    place->given_ns = 0;
    place->given_away = false;
}

void tsr_place_waited(struct tsr_place *place, uint64_t ticket, double began_ns, double ended_ns)
{
    const struct tsr_place_known *known = find(place, ticket);
    if (!known)
        return;
    for (uint32_t strategy = 0; strategy < TSR_PLACE_STRATEGIES; strategy++) {
        struct tsr_place_timeline *timeline = &place->timelines[strategy];
        timeline->behind_ns = later(began_ns + timeline->behind_ns, known->finish_ns[strategy]) - ended_ns;
    }
    place->single_behind_ns = later(began_ns + place->single_behind_ns, known->single_ns) - ended_ns;
    if (ended_ns - began_ns < HELD_UP_NS && expected_ns(place, known) <= ended_ns)
        return;
    learn_pace(place, known, ended_ns);
    tsr_place_ended(place, ticket, ended_ns);
}

void tsr_place_held_up(struct tsr_place *place, double began_ns, double ended_ns)
{
    uint32_t home = place->options.home;
    double queue_ns = place->timelines[TSR_PLACE_ACTUAL].free_ns[home] - ended_ns; /* that it can be ahead */
    for (uint32_t strategy = 0; strategy < TSR_PLACE_STRATEGIES; strategy++) {
        struct tsr_place_timeline *timeline = &place->timelines[strategy];
        timeline->behind_ns = later(began_ns + timeline->behind_ns, timeline->free_ns[home] - queue_ns) - ended_ns;
    }
    place->single_behind_ns = later(began_ns + place->single_behind_ns, place->single_ns - queue_ns) - ended_ns;
}
