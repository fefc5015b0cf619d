/* See tessera/place.h. */
#include <tessera/place.h>

#include <string.h>

#include "schedule/chains.h"
#include "schedule/coming.h"
#include "schedule/question.h"

#define EVERY 256u        /* launches between comparisons of the strategies */
#define FADES 0.95        /* what came before a comparison, at the next one */
#define AHEAD 0.9         /* who ends so much earlier is ahead */
#define AHEAD_FOR 6u      /* comparisons, before launches follow */
#define HELD_UP_NS 10e3   /* a shorter wait of the host shows only that the work was done */
#define LEAST_GIVEN_NS 1e6 /* work from which something is learnt of the pace */
#define PACE_BEGINS_NS 20e6 /* of work as if it had been seen to take as long as measured */
#define PACE_MEMORY_NS 300e6 /* of work from which the pace is learnt */
#define PACE_STEP 0.6 /* what is learnt at once */
#define SIGHT_NS 10e6 /* of work between two that are compared: the time at which one ended is known only roughly */
#define SLOWEST 4.0
#define LATE_SLACK 1.25 /* as many times as what is expected of a chain that may end late */
#define PAUSE_NS 2e6 /* in which one GPU would have nothing to do: the program waits for something else */
#define WEIGHED_EVERY 16u /* launches: how GPUs compare */
#define WORK_FADES 0.992  /* what GPUs' times were before */

_Static_assert(TSR_PLACE_TIMELINES == sizeof((struct tsr_place *)0)->timelines / sizeof(struct tsr_place_timeline),
               "timelines");
_Static_assert(TSR_PLACE_KNOWN == sizeof((struct tsr_place *)0)->known / sizeof(struct tsr_place_known), "known");
_Static_assert(TSR_PLACE_PARTS == sizeof((struct tsr_place_launch *)0)->parts / sizeof(struct tsr_place_part), "parts");

static struct tsr_place_known *find(const struct tsr_place *place, uint64_t ticket)
{
    const struct tsr_place_known *known = &place->known[tsr_place_known_at(ticket)];
    for (uint32_t i = 0; i < TSR_PLACE_WAYS && ticket; i++)
        if (known[i].ticket == ticket)
            return (struct tsr_place_known *)&known[i];
    return NULL;
}

void tsr_place_init(struct tsr_place *place, const struct tsr_place_options *options)
{
    memset(place, 0, sizeof *place);
    place->options = *options;
    place->pace = 1;
    place->real_ns = place->measured_ns = PACE_BEGINS_NS;
    for (uint32_t gpu = 0; gpu < options->gpus; gpu++)
        place->slowness[gpu] = 1;
    place->strategy = options->strategies & 1u << TSR_PLACE_STAY ? TSR_PLACE_STAY : TSR_PLACE_EARLIEST;
}

/* Its end, as is known now: what was seen since its choice moved it as well. */
static double expected_ns(const struct tsr_place *place, const struct tsr_place_known *known)
{
    return known->finish_ns[TSR_PLACE_ACTUAL] + place->shift_ns[known->gpu[TSR_PLACE_ACTUAL]] - known->shift_ns;
}

static uint64_t *latest_over(const struct tsr_place *place, uint64_t ticket)
{
    return (uint64_t *)&place->over[(ticket >> TSR_PLACE_QUEUE_SHIFT) % TSR_PLACE_QUEUES];
}

/* It was seen to have ended, or the host has waited for it; or this is so of a later one of its queue. */
static bool is_over(const struct tsr_place *place, uint64_t ticket)
{
    uint64_t latest = *latest_over(place, ticket), queue = ticket >> TSR_PLACE_QUEUE_SHIFT;
    bool ordered = place->options.queues && !(place->loose >> queue % TSR_PLACE_QUEUES & 1);
    return latest == ticket || (ordered && latest > ticket && latest >> TSR_PLACE_QUEUE_SHIFT == queue);
}

static void note_over(struct tsr_place *place, uint64_t ticket)
{
    uint64_t *latest = latest_over(place, ticket);
    *latest = is_over(place, ticket) ? *latest : ticket;
}

/* In the place of the oldest, or of the same ticket: queues may begin anew. */
static void remember(struct tsr_place *place, const struct tsr_place_launch *launch, const struct tsr_place_known *own)
{
    struct tsr_place_known *known = &place->known[tsr_place_known_at(own->ticket)], *oldest = known;
    for (uint32_t i = 0; i < TSR_PLACE_WAYS; i++)
        oldest = known[i].number < oldest->number ? &known[i] : oldest;
    struct tsr_place_known *same = find(place, own->ticket);
    *(same ? same : oldest) = *own;
    if (is_over(place, own->ticket))
        *latest_over(place, own->ticket) = 0;
    place->loose |= (uint64_t)launch->loose << (own->ticket >> TSR_PLACE_QUEUE_SHIFT) % TSR_PLACE_QUEUES;
}

/* On a GPU that several streams share, with the rest of its work at the latest; and by now, if it is over, however late its GPU was since. */
static double done_ns(const struct tsr_question *question, const struct tsr_place_known *writer, uint32_t number)
{
    double known_ns = number == TSR_PLACE_ACTUAL ? expected_ns(question->place, writer) : writer->finish_ns[number];
    if (is_over(question->place, writer->ticket)) /* in what really happens: a strategy's timeline may be behind */
        return number != TSR_PLACE_ACTUAL || known_ns < question->now_ns ? known_ns : question->now_ns;
    bool shared = question->launch->shared >> writer->gpu[number] & 1;
    return shared ? tsr_later(known_ns, question->timeline->free_ns[writer->gpu[number]]) : known_ns;
}

static void ask(struct tsr_question *question, struct tsr_place *place, const struct tsr_place_launch *launch,
                struct tsr_place_known *const known[], uint32_t number)
{
    const struct tsr_place_known *last = known[TSR_PLACE_PARTS];
    question->place = place;
    question->timeline = &place->timelines[number];
    question->launch = launch;
    question->now_ns = launch->now_ns + question->timeline->behind_ns;
    double after_ns = launch->after_ns[number], end_ns = question->timeline->end_ns; /* which may have been corrected since */
    question->least_ns = tsr_later(question->now_ns, after_ns < end_ns ? after_ns : end_ns);
    question->constants = number == TSR_PLACE_ACTUAL;
    question->last = last ? last->gpu[number] : place->options.home;
    question->count = 0;
    for (uint32_t i = 0; i < launch->part_count; i++) {
        const struct tsr_place_known *writer = known[i];
        const struct tsr_place_part *part = &launch->parts[i];
        if (!writer && number != TSR_PLACE_ACTUAL)
            continue;
        question->reads[question->count++] = (struct tsr_question_read){
            .done_ns = writer ? done_ns(question, writer, number) : 0,
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

struct tsr_guard_clocks tsr_place_clocks_at_work(const struct tsr_place *place)
{
    struct tsr_guard_clocks clocks = tsr_place_clocks(place);
    return (struct tsr_guard_clocks){clocks.single_ns - place->pauses_ns, clocks.end_ns - place->pauses_ns,
                                     clocks.promised_ns - place->pauses_ns};
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
    place->credit_ns[gpu] = tsr_later(place->credit_ns[gpu] - constants_ns(place, launch, gpu), 0);
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
static void advance(struct tsr_place *place, const struct tsr_question *question, uint32_t number, uint32_t gpu,
                    const struct tsr_option *option, struct tsr_place_known *const known[], struct tsr_place_known *own)
{
    struct tsr_place_timeline *timeline = &place->timelines[number];
    if (option->copies)
        tsr_question_look(question, gpu, timeline->link_ns[gpu]);
    timeline->free_ns[gpu] = option->finish_ns;
    timeline->end_ns = tsr_later(timeline->end_ns, option->finish_ns);
    for (uint32_t i = 0; i < question->launch->part_count; i++)
        if (known[i])
            known[i]->holders[number] |= (uint16_t)(1u << gpu);
    own->finish_ns[number] = option->finish_ns;
    own->holders[number] = (uint16_t)(1u << gpu);
    own->gpu[number] = (uint8_t)gpu;
}

/* As the chain before it that began in the same place, by how the GPUs compare. */
static void expect_rest(struct tsr_question *question, const struct tsr_place *place, const struct tsr_place_launch *launch)
{
    uint32_t home = place->options.home;
    double rest_ns = tsr_later(question->history ? (double)question->history->work_ns - launch->ns[home] : 0, 0);
    question->shortest_ns = launch->ns[home] + rest_ns;
    for (uint32_t gpu = 0; gpu < place->options.gpus; gpu++) {
        double there_ns = rest_ns * place->slowness[gpu], whole_ns = launch->ns[gpu] + there_ns;
        question->rest_ns[gpu] = there_ns;
        question->whole_ns[gpu] = whole_ns;
        question->shortest_ns = whole_ns < question->shortest_ns ? whole_ns : question->shortest_ns;
    }
}

/* It comes to the timeline. */
static void begin(struct tsr_question *question, struct tsr_place *place, const struct tsr_place_launch *launch,
                  uint32_t number, struct tsr_place_known *const known[])
{
    struct tsr_place_timeline *timeline = &place->timelines[number];
    ask(question, place, launch, known, number);
    tsr_coming_count(question, number);
    timeline->single_ns = tsr_later(timeline->single_ns, question->now_ns) + launch->ns[place->options.home];
}

/* Until when its chain may take, if it begins on a GPU where it may end late. */
static double late_until(const struct tsr_question *question, uint32_t gpu, double finish_ns)
{
    return tsr_question_late_ns(question, gpu) > 0 ? finish_ns + LATE_SLACK * question->rest_ns[gpu] : 0;
}

/* What is coming bears on where it goes, not on when it ends there. */
static uint32_t choose(struct tsr_question *question, uint32_t strategy, uint32_t allowed, struct tsr_option *chosen)
{
    uint32_t gpu = tsr_choose(question, strategy, allowed, chosen);
    if (question->counts_coming) {
        question->counts_coming = false;
        *chosen = tsr_question_look(question, gpu, NULL);
    }
    return gpu;
}

void tsr_place_choose(struct tsr_place *place, const struct tsr_place_launch *launch, struct tsr_place_choice *choice)
{
    struct tsr_chain_readers readers;
    struct tsr_place_known **known = readers.known;
    uint32_t home = place->options.home;
    struct tsr_option option;
    choice->own = (struct tsr_place_known){0};
    look_up(place, launch, known);
    struct tsr_question question;
    const struct tsr_place_chain *chain = tsr_chain_find(place, launch, &readers, &question.history);
    expect_rest(&question, place, launch);
    for (uint32_t strategy = 0; strategy < TSR_PLACE_STRATEGIES; strategy++) {
        if (!(place->options.strategies >> strategy & 1))
            continue;
        begin(&question, place, launch, strategy, known);
        question.late_until_ns = chain ? chain->late_until_ns[strategy] : 0;
        uint32_t gpu = choose(&question, strategy, launch->allowed, &option);
        choice->late_until_ns[strategy] = late_until(&question, gpu, option.finish_ns);
        advance(place, &question, strategy, gpu, &option, known, &choice->own);
    }
    begin(&question, place, launch, TSR_PLACE_ACTUAL, known);
    question.late_until_ns = chain ? chain->late_until_ns[TSR_PLACE_ACTUAL] : 0;
    choice->gpu = choose(&question, place->strategy, affordable(place, launch), &option);
    choice->late_until_ns[TSR_PLACE_ACTUAL] = late_until(&question, choice->gpu, option.finish_ns);
    choice->chain_ns = question.history ? (double)question.history->work_ns : 0;
    choice->chain_joins = question.history && question.history->joins;
    choice->opened_ns = choice->chain_joins ? 0 : choice->chain_ns;
    choice->start_ns = option.start_ns;
    choice->finish_ns = option.finish_ns;
    choice->copies = option.copies;
    choice->idles = option.gap_ns > option.pull_ns;
    choice->version = ++place->version;
    uint32_t wanted = choice->own.gpu[place->strategy];
    bool earning = choice->gpu == home && wanted != home;
    choice->fetches = earning && earns(place, launch, wanted) ? wanted : home;
    double asked_ns = launch->now_ns + place->single_behind_ns;
    if (asked_ns > place->single_ns + PAUSE_NS)
        place->pauses_ns += asked_ns - place->single_ns;
    place->single_ns = tsr_later(place->single_ns, asked_ns) + launch->ns[home];
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
        place->slowness[gpu] = tsr_are_alike(place, gpu, home) ? 1 : place->work_ns[gpu] / place->work_ns[home];
}

static bool waits_for_others(const struct tsr_place_launch *launch, struct tsr_place_known *const known[], uint32_t gpu)
{
    bool waits = launch->constants[gpu];
    for (uint32_t i = 0; i < launch->part_count; i++)
        waits |= known[i] && known[i]->gpu[TSR_PLACE_ACTUAL] != gpu;
    return waits;
}

struct tsr_place_answer tsr_place_take(struct tsr_place *place, const struct tsr_place_launch *launch,
                                       struct tsr_place_choice *choice, uint32_t gpu, uint64_t ticket)
{
    struct tsr_chain_readers readers;
    struct tsr_place_known **known = readers.known;
    uint32_t home = place->options.home;
    struct tsr_question question;
    question.launch = launch;
    question.counts_coming = false;
    struct tsr_option option = {.start_ns = choice->start_ns, .finish_ns = choice->finish_ns};
    look_up(place, launch, known);
    if (choice->gpu != gpu || choice->copies || choice->version != place->version) {
        ask(&question, place, launch, known, TSR_PLACE_ACTUAL);
        option = tsr_question_look(&question, gpu, NULL);
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
    place->given_busy_ns += launch->ns[gpu] / place->pace;
    place->given_away |= gpu != home;
    place->sights[gpu].waits |= waits_for_others(launch, known, gpu);
    choice->own.busy_ns = place->busy_ns[gpu] += launch->ns[gpu] / place->pace;
    tsr_chain_take(place, launch, &readers, choice->late_until_ns, &choice->own);
    tsr_coming_take(place, launch, choice->opened_ns, &choice->own);
    place->decided[gpu]++;
    choice->own.ticket = ticket;
    choice->own.shift_ns = place->shift_ns[gpu];
    choice->own.number = ++place->taken;
    if (ticket)
        remember(place, launch, &choice->own);
    return (struct tsr_place_answer){option.start_ns, option.finish_ns, choice->own.single_ns,
                                     option.missing + (gpu == home ? 0 : launch->constants[gpu])};
}

void tsr_place_fetched(struct tsr_place *place, const struct tsr_place_launch *launch, uint32_t gpu)
{
    double *link_ns = &place->timelines[TSR_PLACE_ACTUAL].link_ns[gpu][place->options.home];
    *link_ns = tsr_later(*link_ns, launch->now_ns) + constants_ns(place, launch, gpu);
    place->version++;
    pay(place, launch, gpu);
}

double tsr_place_finish(const struct tsr_place *place, uint64_t ticket)
{
    const struct tsr_place_known *known = find(place, ticket);
    return known ? expected_ns(place, known) : 0;
}

/* What the GPU was given ends so much later, or earlier, and not before least_ns. */
static void shift_clock(struct tsr_place *place, uint32_t gpu, double by_ns, double least_ns)
{
    struct tsr_place_timeline *timeline = &place->timelines[TSR_PLACE_ACTUAL];
    place->version++;
    place->shift_ns[gpu] += by_ns;
    timeline->free_ns[gpu] = tsr_later(timeline->free_ns[gpu] + by_ns, least_ns);
    for (uint32_t from = 0; from < place->options.gpus && by_ns < 0; from++) /* what was to be copied for it is there, too */
        timeline->link_ns[gpu][from] += by_ns;
    double end_ns = 0;
    for (uint32_t each = 0; each < place->options.gpus; each++)
        end_ns = tsr_later(end_ns, timeline->free_ns[each]);
    timeline->single_ns += end_ns - timeline->end_ns;
    timeline->end_ns = end_ns;
}

void tsr_place_ended(struct tsr_place *place, uint64_t ticket, double at_ns)
{
    struct tsr_place_known *known = find(place, ticket);
    if (!known)
        return;
    uint32_t gpu = known->gpu[TSR_PLACE_ACTUAL];
    shift_clock(place, gpu, at_ns - expected_ns(place, known), at_ns);
    known->finish_ns[TSR_PLACE_ACTUAL] = at_ns;
    known->shift_ns = place->shift_ns[gpu];
}

/* Work that was measured to take so long has taken that long. */
static void learn_pace(struct tsr_place *place, double measured_ns, double real_ns)
{
    double expected = measured_ns * place->pace, least = expected * (1 - PACE_STEP), most = expected * (1 + PACE_STEP);
    place->measured_ns += measured_ns;
    place->real_ns += real_ns < least ? least : real_ns > most ? most : real_ns;
    if (place->measured_ns > PACE_MEMORY_NS) {
        place->real_ns *= PACE_MEMORY_NS / place->measured_ns;
        place->measured_ns = PACE_MEMORY_NS;
    }
    double pace = place->real_ns / place->measured_ns;
    place->pace = pace < 1 / SLOWEST ? 1 / SLOWEST : pace > SLOWEST ? SLOWEST : pace;
}

static void begin_given(struct tsr_place *place)
{
    place->given_ns = place->given_busy_ns = 0;
    place->given_away = false;
}

/* Of all that was given since the last time: where none of it had to wait for another GPU. */
static void learn_from_wait(struct tsr_place *place, const struct tsr_place_known *last, double at_ns)
{
    bool at_home = !place->given_away && last->gpu[TSR_PLACE_ACTUAL] == place->options.home;
    double late_ns = at_ns - expected_ns(place, last);
    if (at_home && place->given_ns > LEAST_GIVEN_NS &&
        late_ns < PACE_STEP * place->given_ns) /* who is later, waited for something else */
        learn_pace(place, place->given_busy_ns, place->given_ns + late_ns);
    begin_given(place);
}

/*
 * Its GPU's work between two launches took no longer than from one to the other, whatever it waited for; and no less if it did not. That is believed of home alone: what holds up
 * another GPU, that nobody knows of, would else count as work, which one GPU would have had to do as well, and the guard would see no loss.
 */
static void learn_from_sight(struct tsr_place *place, const struct tsr_place_known *known, double since_ns, double at_ns,
                             bool busy)
{
    struct tsr_place_sight *sight = &place->sights[known->gpu[TSR_PLACE_ACTUAL]];
    double work_ns = known->busy_ns - sight->busy_ns, expected = work_ns * place->pace;
    double most_ns = at_ns - sight->since_ns, least_ns = since_ns - sight->at_ns;
    sight->waits |= !busy;
    if (sight->at_ns > 0 && expected < SIGHT_NS)
        return;
    bool at_home = known->gpu[TSR_PLACE_ACTUAL] == place->options.home;
    if (sight->at_ns > 0 && (expected > most_ns || (expected < least_ns && !sight->waits && at_home)))
        learn_pace(place, work_ns, expected > most_ns ? most_ns : least_ns);
    *sight = (struct tsr_place_sight){known->busy_ns, since_ns, at_ns, !busy};
}

void tsr_place_seen(struct tsr_place *place, uint64_t ticket, double since_ns, double at_ns, bool busy)
{
    const struct tsr_place_known *known = find(place, ticket);
    if (!known)
        return;
    double expected = expected_ns(place, known);
    note_over(place, ticket);
    learn_from_sight(place, known, since_ns, at_ns, busy);
    if (expected > at_ns || expected < since_ns)
        tsr_place_ended(place, ticket, expected > at_ns ? at_ns : since_ns);
}

void tsr_place_pending(struct tsr_place *place, uint64_t ticket, double at_ns)
{
    const struct tsr_place_known *known = find(place, ticket);
    if (known && expected_ns(place, known) < at_ns)
        tsr_place_ended(place, ticket, at_ns);
}

void tsr_place_unseen(struct tsr_place *place, uint32_t gpu)
{
    place->sights[gpu].at_ns = 0;
}

void tsr_place_idle(struct tsr_place *place, double at_ns)
{
    const double *free_ns = place->timelines[TSR_PLACE_ACTUAL].free_ns;
    for (uint32_t gpu = 0; gpu < place->options.gpus; gpu++)
        if (free_ns[gpu] > at_ns)
            shift_clock(place, gpu, at_ns - free_ns[gpu], at_ns);
}

uint32_t tsr_place_gpu(const struct tsr_place *place, uint64_t ticket)
{
    const struct tsr_place_known *known = find((struct tsr_place *)place, ticket);
    return known ? known->gpu[TSR_PLACE_ACTUAL] : UINT32_MAX;
}

/* In other timelines the host goes on at another time. */
static void host_waited(struct tsr_place *place, const struct tsr_place_known *known, double began_ns, double ended_ns)
{
    for (uint32_t strategy = 0; strategy < TSR_PLACE_STRATEGIES; strategy++) {
        struct tsr_place_timeline *timeline = &place->timelines[strategy];
        timeline->behind_ns = tsr_later(began_ns + timeline->behind_ns, known->finish_ns[strategy]) - ended_ns;
    }
    place->single_behind_ns = tsr_later(began_ns + place->single_behind_ns, known->single_ns) - ended_ns;
    note_over(place, known->ticket);
}

void tsr_place_waited_beside(struct tsr_place *place, uint64_t ticket, double began_ns, double ended_ns)
{
    const struct tsr_place_known *known = find(place, ticket);
    if (!known)
        return;
    host_waited(place, known, began_ns, ended_ns);
    begin_given(place);
}

void tsr_place_waited(struct tsr_place *place, uint64_t ticket, double began_ns, double ended_ns)
{
    const struct tsr_place_known *known = find(place, ticket);
    if (!known)
        return;
    host_waited(place, known, began_ns, ended_ns);
    if (ended_ns - began_ns < HELD_UP_NS && expected_ns(place, known) <= ended_ns)
        return;
    learn_from_wait(place, known, ended_ns);
    tsr_place_ended(place, ticket, ended_ns);
}

void tsr_place_held_up(struct tsr_place *place, double began_ns, double ended_ns)
{
    uint32_t home = place->options.home;
    double queue_ns = place->timelines[TSR_PLACE_ACTUAL].free_ns[home] - ended_ns; /* that it can be ahead */
    if (queue_ns >= place->options.lead_ns)                                        /* or something else held it up */
        place->held_up_ns = ended_ns;
    for (uint32_t strategy = 0; strategy < TSR_PLACE_STRATEGIES; strategy++) {
        struct tsr_place_timeline *timeline = &place->timelines[strategy];
        timeline->behind_ns = tsr_later(began_ns + timeline->behind_ns, timeline->free_ns[home] - queue_ns) - ended_ns;
    }
    place->single_behind_ns = tsr_later(began_ns + place->single_behind_ns, place->single_ns - queue_ns) - ended_ns;
}
