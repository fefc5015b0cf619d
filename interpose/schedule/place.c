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
#define WORK_FADES 0.9995 /* what GPUs' times were before, at each launch */
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
    double rest_ns[TSR_GPUS];                /* what is expected of that chain after the launch */
    double now_ns, after_ns;
    bool constants; /* count */
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
    double free_ns = later(question->timeline->free_ns[gpu], later(question->now_ns, question->after_ns));
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
    double arrival_ns = later(question->now_ns, question->after_ns);
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
    uint32_t best = (uint32_t)__builtin_ctz(gpus);
    const double *free_ns = question->timeline->free_ns, arrival = arrival_ns(question, best);
    for (uint32_t left = gpus & (gpus - 1); left; left &= left - 1) {
        uint32_t gpu = (uint32_t)__builtin_ctz(left);
        bool idles_less = free_ns[best] <= arrival && free_ns[gpu] <= arrival && free_ns[gpu] > free_ns[best];
        if (idles_less || (free_ns[best] > arrival && free_ns[gpu] < free_ns[best]))
            best = gpu;
    }
    return best;
}

/* Of many GPUs those that hold nothing of it and were not used last are alike. */
static uint32_t worth_a_look(const struct question *question, uint32_t allowed)
{
    if (question->place->options.gpus <= WIDE || (uint32_t)__builtin_popcount(allowed) <= WIDE)
        return allowed;
    uint32_t some = 1u << question->last | 1u << question->place->options.home;
    for (uint32_t i = 0; i < question->count; i++)
        some |= question->reads[i].holders;
    some &= allowed;
    return allowed == some ? some : some | 1u << best_fit(question, allowed & ~some);
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

/* The GPU where it belongs. */
static uint32_t own_of(const struct question *question, const struct option options[TSR_GPUS], uint32_t gpus)
{
    uint32_t own = gpus >> question->last & 1 ? question->last : (uint32_t)__builtin_ctz(gpus);
    if (!question->count)
        return own;
    for (uint32_t left = gpus; left; left &= left - 1) {
        uint32_t gpu = (uint32_t)__builtin_ctz(left);
        const struct option *other = &options[gpu], *best = &options[own];
        bool earlier = chain_end(question, gpu, other->finish_ns) < chain_end(question, own, best->finish_ns);
        if (other->missing < best->missing || (other->missing == best->missing && own != question->last && earlier))
            own = gpu;
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

static double score_of(const struct question *question, const struct option *option, uint32_t gpu, uint32_t own)
{
    const struct tsr_place_options *options = &question->place->options;
    double most_ns = GAP_LEADS * options->lead_ns, gap_ns = option->gap_ns < most_ns ? option->gap_ns : most_ns;
    double score = chain_end(question, gpu, option->finish_ns) + ROUND_TRIP * option->pull_ns + GAP_WEIGHT * gap_ns;
    return gpu == own ? score : score + 2 * options->links[own][gpu].fence_ns + lead_to(question, gpu, own);
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
    for (uint32_t left = gpus & ~some; left; left &= left - 1) {
        uint32_t gpu = (uint32_t)__builtin_ctz(left);
        const struct tsr_place_link *link = &question->place->options.links[gpu][own];
        double back_ns = link->fence_ns + link->copy_ns + TEAR_BYTES * (double)question->history->bytes * link->ns_per_byte;
        if ((double)question->history->work_ns > back_ns)
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

/*
 * The GPU of the stream's last launch holds all that is fresh, so the launch belongs there; and ends there before any other could, even one
 * that did not have to wait or copy.
 */
static bool stays_where_it_is(const struct question *question, uint32_t allowed, struct option *there)
{
    const struct tsr_place_timeline *timeline = question->timeline;
    const struct tsr_place_options *options = &question->place->options;
    uint32_t own = question->last;
    double least_ns = later(question->now_ns, question->after_ns);
    if (!(allowed >> own & 1) || !look_in_place(question, own, later(timeline->free_ns[own], least_ns), there))
        return false;
    double score = score_of(question, there, own, own);
    for (uint32_t left = allowed & ~(1u << own); left; left &= left - 1) {
        uint32_t gpu = (uint32_t)__builtin_ctz(left);
        double finish_ns = later(timeline->free_ns[gpu], least_ns) + question->launch->ns[gpu];
        if (chain_end(question, gpu, finish_ns) + 2 * options->links[own][gpu].fence_ns + lead_to(question, gpu, own) <= score)
            return false;
    }
    return is_home_in_time(question, own, there->finish_ns);
}

static uint32_t choose(const struct question *question, uint32_t strategy, uint32_t allowed, struct option *chosen)
{
    if (strategy == TSR_PLACE_STAY && stays_where_it_is(question, allowed, chosen))
        return question->last;
    struct option options[TSR_GPUS];
    uint32_t gpus = worth_a_look(question, allowed), best = TSR_GPUS, earliest = TSR_GPUS;
    for (uint32_t left = gpus; left; left &= left - 1)
        options[__builtin_ctz(left)] = look(question, (uint32_t)__builtin_ctz(left), NULL);
    uint32_t own = strategy == TSR_PLACE_STAY ? own_of(question, options, gpus) : 0;
    double best_score = 0;
    if (strategy == TSR_PLACE_STAY && is_short(question)) {
        if (question->history->returns && gpus >> question->last & 1)
            own = question->last;
        gpus = worth_leaving(question, gpus, own);
    }
    for (uint32_t left = gpus; left; left &= left - 1) {
        uint32_t gpu = (uint32_t)__builtin_ctz(left);
        double finish_ns = options[gpu].finish_ns, chain_ns = chain_end(question, gpu, finish_ns);
        if (earliest == TSR_GPUS || chain_ns < chain_end(question, earliest, options[earliest].finish_ns))
            earliest = gpu;
        if (!is_home_in_time(question, gpu, finish_ns))
            continue;
        double score = strategy == TSR_PLACE_STAY ? score_of(question, &options[gpu], gpu, own) : chain_ns;
        if (best == TSR_GPUS || score < best_score)
            best = gpu, best_score = score;
    }
    best = best == TSR_GPUS ? earliest : best;
    *chosen = options[best];
    return best;
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

static double end_of(const struct tsr_place_timeline *timeline, uint32_t gpus)
{
    double end_ns = 0;
    for (uint32_t gpu = 0; gpu < gpus; gpu++)
        end_ns = later(end_ns, timeline->free_ns[gpu]);
    return end_ns;
}

double tsr_place_end(const struct tsr_place *place)
{
    return end_of(&place->timelines[TSR_PLACE_ACTUAL], place->options.gpus);
}

struct tsr_guard_clocks tsr_place_clocks(const struct tsr_place *place)
{
    uint32_t gpus = place->options.gpus;
    return (struct tsr_guard_clocks){.single_ns = place->single_ns,
                                     .end_ns = end_of(&place->timelines[TSR_PLACE_ACTUAL], gpus),
                                     .promised_ns = end_of(&place->timelines[place->strategy], gpus)};
}

/* What has been gained is not to be lost again, but for the slack. */
static void tighten(struct tsr_place *place)
{
    for (uint32_t number = 0; number < TSR_PLACE_TIMELINES; number++) {
        struct tsr_place_timeline *timeline = &place->timelines[number];
        double most_ns = end_of(timeline, place->options.gpus) + place->options.slack_ns;
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
        double end_ns = end_of(timeline, place->options.gpus);
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
    uint32_t home = place->options.home, some = 0;
    if (launch->stays)
        return 1u << home;
    for (uint32_t left = launch->allowed; left; left &= left - 1) {
        uint32_t gpu = (uint32_t)__builtin_ctz(left);
        if (gpu == home || constants_ns(place, launch, gpu) <= place->credit_ns[gpu])
            some |= 1u << gpu;
    }
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
    double rest_ns = question->history ? (double)question->history->work_ns - launch->ns[home] : 0;
    for (uint32_t gpu = 0; gpu < place->options.gpus; gpu++)
        question->rest_ns[gpu] = rest_ns <= 0                  ? 0
                                 : are_alike(place, gpu, home) ? rest_ns
                                                               : rest_ns * place->work_ns[gpu] / place->work_ns[home];
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
        place->work_ns[each] = place->work_ns[each] * WORK_FADES + launch->ns[each];
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
    place->timelines[TSR_PLACE_ACTUAL].free_ns[gpu] = later(place->timelines[TSR_PLACE_ACTUAL].free_ns[gpu] + error_ns, at_ns);
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
