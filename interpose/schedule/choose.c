/* See question.h. */
#include "schedule/question.h"

#include <stddef.h>

#define GAP_WEIGHT 2.0    /* of time for which a GPU waits for others: */
#define GAP_LEADS 8.0     /* up to so many leads, or one that has long had nothing to do would never get anything */
#define ROUND_TRIP 2.0      /* a copy, and one back */
#define TEAR_LEADS 0.2      /* of a lead: work of a short chain that is worth two GPUs waiting for each other, of which clocks know less than of each */
#define TEAR_BYTES 32.0   /* of a short chain's results, on their return trip: what they gain is little */
#define LITTLE_BYTES 65536u /* that a short chain reads of what other GPUs wrote: copying them costs less than waiting for its results on another GPU */
#define WIDE 4u           /* of more GPUs, those that hold nothing are alike */
#define CHAIN_LEAD 0.25   /* of the work of chains that nobody joins, if that is less than the lead, between GPUs that are not alike */
#define HELD_UP_PART 0.5  /* of its chain's work, by which a launch may end later on a GPU that would else do nothing */
#define ALIKE 1.25 /* as many times as long take the same launches */

/* Copies into one GPU from another come one after the other. */
struct copying {
    double busy[TSR_GPUS]; /* until when each link to the GPU is */
    uint32_t used;         /* set of links */
};

static double copied_at(struct copying *copying, const struct tsr_question *question, uint32_t gpu, uint32_t from,
                        double ready_ns, double copy_ns)
{
    double begin_ns = copying->used >> from & 1 ? copying->busy[from] : question->timeline->link_ns[gpu][from];
    copying->busy[from] = tsr_later(begin_ns, tsr_later(ready_ns, question->now_ns)) + copy_ns;
    copying->used |= 1u << from;
    return copying->busy[from] + question->place->options.links[from][gpu].copy_ns;
}

struct tsr_option tsr_question_look(const struct tsr_question *question, uint32_t gpu, double *links)
{
    const struct tsr_place_link(*of)[TSR_GPUS] = question->place->options.links;
    double free_ns = tsr_later(tsr_question_free_ns(question, gpu), question->least_ns);
    struct tsr_option option = {.start_ns = free_ns};
    struct copying copying;
    copying.used = 0;
    for (uint32_t i = 0; i < question->count; i++) {
        const struct tsr_question_read *read = &question->reads[i];
        double ready_ns = read->gpu == gpu ? read->done_ns : read->done_ns + of[read->gpu][gpu].fence_ns;
        if (!(read->holders >> gpu & 1)) {
            double copy_ns = (double)read->bytes * of[read->gpu][gpu].ns_per_byte;
            ready_ns = copied_at(&copying, question, gpu, read->gpu, ready_ns, copy_ns);
            option.pull_ns += copy_ns;
            option.missing += read->bytes;
        }
        option.start_ns = tsr_later(option.start_ns, ready_ns);
    }
    uint32_t home = question->place->options.home;
    if (question->constants && question->launch->constants[gpu] && gpu != home) {
        double copy_ns = (double)question->launch->constants[gpu] * of[home][gpu].ns_per_byte;
        option.start_ns = tsr_later(option.start_ns, copied_at(&copying, question, gpu, home, question->now_ns, copy_ns));
    }
    option.copies = copying.used != 0;
    for (; links && copying.used; copying.used &= copying.used - 1)
        links[__builtin_ctz(copying.used)] = copying.busy[__builtin_ctz(copying.used)];
    option.gap_ns = option.start_ns - free_ns;
    option.finish_ns = option.start_ns + question->launch->ns[gpu];
    return option;
}

bool tsr_are_alike(const struct tsr_place *place, uint32_t a, uint32_t b)
{
    return place->work_ns[a] <= ALIKE * place->work_ns[b] && place->work_ns[b] <= ALIKE * place->work_ns[a];
}

/* When what it reads could be on a GPU that has nothing of it. */
static double arrival_ns(const struct tsr_question *question, uint32_t gpu)
{
    double arrival_ns = question->least_ns;
    for (uint32_t i = 0; i < question->count; i++) {
        const struct tsr_question_read *read = &question->reads[i];
        const struct tsr_place_link *link = &question->place->options.links[read->gpu][gpu];
        arrival_ns =
            tsr_later(arrival_ns, read->done_ns + link->fence_ns + link->copy_ns + (double)read->bytes * link->ns_per_byte);
    }
    return arrival_ns;
}

/* Of GPUs that differ in their clocks alone: the one that idles least before the launch, if any is free in time; else the first to be free. */
static uint32_t best_fit(const struct tsr_question *question, uint32_t gpus)
{
    uint32_t idle = TSR_GPUS, first = TSR_GPUS;
    double idle_ns = 0, first_ns = 0, arrival = arrival_ns(question, (uint32_t)__builtin_ctz(gpus));
    for (; gpus; gpus &= gpus - 1) {
        uint32_t gpu = (uint32_t)__builtin_ctz(gpus);
        double free_ns = tsr_question_free_ns(question, gpu);
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
static uint32_t worth_a_look(const struct tsr_question *question, uint32_t allowed)
{
    if (are_few(allowed))
        return allowed;
    uint32_t some = 1u << question->last | 1u << question->place->options.home;
    for (uint32_t i = 0; i < question->count; i++)
        some |= question->reads[i].holders;
    return some & allowed;
}

/* With the chain that it opens. */
static double chain_end(const struct tsr_question *question, uint32_t gpu, double finish_ns)
{
    return finish_ns + question->rest_ns[gpu];
}

/*
 * By how much it may end later on the GPU. It opens a chain, the GPU has nothing to do, and the host was held up a short time ago, as home's queue was full:
 * what would come next, and use that GPU, it cannot ask for.
 */
double tsr_question_late_ns(const struct tsr_question *question, uint32_t gpu)
{
    const struct tsr_place *place = question->place;
    double work_ns = question->history ? (double)question->history->work_ns : 0;
    bool lets_it_go_on = gpu != place->options.home && work_ns > place->options.lead_ns && place->held_up_ns > 0 &&
                         question->launch->now_ns - place->held_up_ns < work_ns &&
                         question->timeline->free_ns[gpu] <= question->now_ns;
    return lets_it_go_on ? HELD_UP_PART * work_ns : 0;
}

/* What it leaves could be back home before one GPU would be done with it. */
static bool is_home_in_time(const struct tsr_question *question, uint32_t gpu, double finish_ns)
{
    const struct tsr_place_options *options = &question->place->options;
    double single_ns = question->timeline->single_ns + question->rest_ns[options->home] + question->coming_all_ns;
    const struct tsr_place_link *link = &options->links[gpu][options->home];
    double back_ns = link->fence_ns + link->copy_ns + (double)question->launch->written * link->ns_per_byte;
    return !options->careful || gpu == options->home || finish_ns <= question->late_until_ns ||
           chain_end(question, gpu, finish_ns) + back_ns <= single_ns + tsr_question_late_ns(question, gpu);
}

static double end_ns_on(const struct tsr_question *question, uint32_t gpu)
{
    return chain_end(question, gpu, tsr_question_look(question, gpu, NULL).finish_ns);
}

static uint64_t missing_on(const struct tsr_question *question, uint32_t gpu)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < question->count; i++)
        bytes += question->reads[i].holders >> gpu & 1 ? 0 : question->reads[i].bytes;
    return bytes;
}

/* The GPU where it belongs. */
static uint32_t own_of(const struct tsr_question *question, uint32_t gpus)
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

/* By which a launch must end earlier on the GPU than on its own. Where all GPUs are alike, leads of a chain's length would only scatter small chains. */
static double lead_to(const struct tsr_question *question, uint32_t gpu, uint32_t own)
{
    double lead_ns = question->place->options.lead_ns;
    if (!question->history || question->history->joins || question->count || tsr_are_alike(question->place, gpu, own))
        return lead_ns;
    double late_ns = tsr_question_late_ns(question, gpu);
    if (late_ns > 0)
        return -late_ns;
    double chain_ns = CHAIN_LEAD * (double)question->history->work_ns;
    return chain_ns < lead_ns ? chain_ns : lead_ns;
}

/* What it must gain by leaving its own GPU. */
static double away_from(const struct tsr_question *question, uint32_t gpu, uint32_t own)
{
    double fence_ns = question->place->options.links[own][gpu].fence_ns;
    return 2 * fence_ns + lead_to(question, gpu, own);
}

/* Of a launch that belongs somewhere, where its chain ends; and what leaving its own GPU must gain. */
static double score_of(const struct tsr_question *question, const struct tsr_option *option, double end_ns, double away_ns)
{
    double most_ns = GAP_LEADS * question->place->options.lead_ns;
    double gap_ns = option->gap_ns < most_ns ? option->gap_ns : most_ns;
    return end_ns + ROUND_TRIP * option->pull_ns + GAP_WEIGHT * gap_ns + away_ns;
}

/* It opens a chain that was soon joined, whenever it was: torn off, it gains no more than its own work. */
static bool is_short(const struct tsr_question *question)
{
    return question->history && question->history->joins &&
           (double)question->history->work_ns < question->place->options.lead_ns;
}

/* Its own GPU, and those for which it may leave it: the chain's work is worth its results' return trip. */
static uint32_t worth_leaving(const struct tsr_question *question, uint32_t gpus, uint32_t own)
{
    uint32_t some = 1u << own;
    double least_ns = TEAR_LEADS * question->place->options.lead_ns;
    double work_ns = (double)question->history->work_ns, bytes = TEAR_BYTES * (double)question->history->bytes;
    for (uint32_t left = gpus & ~some; left; left &= left - 1) {
        uint32_t gpu = (uint32_t)__builtin_ctz(left);
        const struct tsr_place_link *link = &question->place->options.links[gpu][own];
        if (work_ns > least_ns + link->fence_ns + link->copy_ns + bytes * link->ns_per_byte)
            some |= 1u << gpu;
    }
    return some;
}

/* Of the GPU, if it holds all that the launch reads. */
static bool look_in_place(const struct tsr_question *question, uint32_t gpu, double free_ns, struct tsr_option *option)
{
    const struct tsr_place_options *options = &question->place->options;
    *option = (struct tsr_option){.start_ns = free_ns};
    for (uint32_t i = 0; i < question->count; i++) {
        const struct tsr_question_read *read = &question->reads[i];
        double fence_ns = read->gpu == gpu ? 0 : options->links[read->gpu][gpu].fence_ns;
        if (!(read->holders >> gpu & 1))
            return false;
        option->start_ns = tsr_later(option->start_ns, read->done_ns + fence_ns);
    }
    option->gap_ns = option->start_ns - free_ns;
    option->finish_ns = option->start_ns + question->launch->ns[gpu];
    return gpu == options->home || !question->constants || !question->launch->constants[gpu];
}

/* The chain that the launch opens cannot end earlier there. */
static double soonest_ns(const struct tsr_question *question, uint32_t gpu)
{
    return tsr_later(tsr_question_free_ns(question, gpu), question->least_ns) + question->whole_ns[gpu];
}

/*
 * The GPU of the stream's last launch holds all that is fresh, so the launch belongs there; and ends there before any other could, even one
 * that did not have to wait or copy.
 */
static bool stays_where_it_is(const struct tsr_question *question, uint32_t allowed, struct tsr_option *there)
{
    uint32_t own = question->last, gpus = question->place->options.gpus, others = allowed & ~(1u << own);
    double free_ns = tsr_later(tsr_question_free_ns(question, own), question->least_ns);
    if (!(allowed >> own & 1) || !look_in_place(question, own, free_ns, there))
        return false;
    double score = score_of(question, there, chain_end(question, own, there->finish_ns), 0);
    double most_ns = question->history ? HELD_UP_PART * (double)question->history->work_ns : 0;
    for (uint32_t gpu = 0; gpu < gpus; gpu++) {
        double soonest = soonest_ns(question, gpu);
        if (soonest <= score + most_ns && others >> gpu & 1 && soonest + away_from(question, gpu, own) <= score)
            return false;
    }
    return is_home_in_time(question, own, there->finish_ns);
}

/* The best GPU so far, by its score, of those from which results are home in time; and of all the one where the launch ends first. */
struct contest {
    uint32_t best, earliest; /* TSR_GPUS: none yet */
    double score, earliest_ns;
    struct tsr_option of_best, of_earliest;
};

/* own: the GPU where it belongs; TSR_GPUS: it goes where its chain ends first. */
static void consider(struct contest *contest, const struct tsr_question *question, uint32_t gpu, uint32_t own)
{
    double away_ns = own == TSR_GPUS || gpu == own ? 0 : away_from(question, gpu, own);
    if (contest->best != TSR_GPUS && soonest_ns(question, gpu) + away_ns >= contest->score)
        return;
    struct tsr_option option = tsr_question_look(question, gpu, NULL);
    double end_ns = chain_end(question, gpu, option.finish_ns);
    if (contest->earliest == TSR_GPUS || end_ns < contest->earliest_ns)
        contest->earliest = gpu, contest->earliest_ns = end_ns, contest->of_earliest = option;
    if (!is_home_in_time(question, gpu, option.finish_ns))
        return;
    double score = own == TSR_GPUS ? end_ns : score_of(question, &option, end_ns, away_ns);
    if (contest->best == TSR_GPUS || score < contest->score)
        contest->best = gpu, contest->score = score, contest->of_best = option;
}

/* Even where it waits for nothing else, on one that holds nothing of it. */
static bool others_lose(const struct contest *contest, const struct tsr_question *question, uint32_t others)
{
    uint32_t gpu = (uint32_t)__builtin_ctz(others);
    return contest->best != TSR_GPUS && arrival_ns(question, gpu) + question->shortest_ns >= contest->score;
}

/* The GPU where it belongs, one of those that are worth a look. Of these and of the others only those are left for which it may leave that one. */
static uint32_t belongs_on(const struct tsr_question *question, uint32_t *gpus, uint32_t *others)
{
    if (*others && !(*gpus >> question->last & 1))
        *gpus |= 1u << best_fit(question, *others), *others = 0;
    uint32_t own = own_of(question, *gpus);
    if (!is_short(question))
        return own;
    if (*gpus >> question->last & 1 && (question->history->returns || missing_on(question, question->last) <= LITTLE_BYTES))
        own = question->last;
    *gpus = worth_leaving(question, *gpus, own);
    *others &= worth_leaving(question, *others, own);
    return own;
}

uint32_t tsr_choose(const struct tsr_question *question, uint32_t strategy, uint32_t allowed, struct tsr_option *chosen)
{
    if (strategy == TSR_PLACE_STAY && stays_where_it_is(question, allowed, chosen))
        return question->last;
    uint32_t gpus = worth_a_look(question, allowed), others = allowed & ~gpus, own = TSR_GPUS;
    struct contest contest;
    contest.best = contest.earliest = TSR_GPUS;
    if (strategy == TSR_PLACE_STAY) {
        own = belongs_on(question, &gpus, &others);
        consider(&contest, question, own, own);
        gpus &= ~(1u << own);
    }
    for (; gpus; gpus &= gpus - 1)
        consider(&contest, question, (uint32_t)__builtin_ctz(gpus), own);
    if (others && !others_lose(&contest, question, others))
        consider(&contest, question, best_fit(question, others), own);
    bool none = contest.best == TSR_GPUS;
    *chosen = none ? contest.of_earliest : contest.of_best;
    return none ? contest.earliest : contest.best;
}
