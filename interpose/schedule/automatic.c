/* See automatic.h. */
#include "schedule/automatic.h"

#include <string.h>

#include <tessera/place.h>

#include "base/options.h"
#include "base/os.h"
#include "lane/lane_client.h"
#include "memory/copies.h"
#include "memory/directory.h"
#include "memory/owners.h"
#include "object/registry.h"
#include "object/session.h"
#include "order/strands.h"
#include "schedule/automatic_parts.h"
#include "schedule/decisions.h"
#include "schedule/host_time.h"
#include "schedule/plan.h"

#define REPORT_EVERY 1024u  /* launches between reports */
#define REPORT_PLAN_EVERY 64u  /* the same, of a plan, */
#define REPORT_PLAN_NS 20e6    /* or so much later, if that is sooner */
#define POLL_EVERY 8u       /* launches between polls of samples */
#define RAREST_SAMPLE 1024u /* of so many launches of a class one is a sample, */
#define RAREST_SAMPLE_ADAPTING 64u /* and where somebody waits for news */
#define NEW_COPY_PART 8.0   /* of the bytes of memory for a copy: what it costs */
#define MARK_AFTER 0.2      /* of a lead: work after which a mark is set, */
#define MARK_LAUNCHES 4u    /* if it was as many launches, for setting one takes the host time; */
#define MARK_AT_ONCE 1.0    /* and after so much in any case */
#define QUEUE_FULL_NS 20e3 /* a launch that takes the host so long */

_Static_assert(TSR_PLACE_QUEUE_SHIFT == TSR_TICKET_SHIFT, "tickets are as the rule sees them");

bool tsr_automatic_is_on;
struct tsr_automatic_state *tsr_automatic;
pthread_mutex_t tsr_automatic_lock = PTHREAD_MUTEX_INITIALIZER;

/* A thread's launch between being asked for and being reported. */
static __thread struct tsr_place_launch asked;
static __thread struct tsr_place_choice choice;
static __thread struct tsr_class_of class;
static __thread bool planned;      /* a plan says where it goes */
static __thread bool pulled_often; /* results of launches like it are, by other GPUs: they wait for it alone */
static __thread bool spread;       /* its bytes may lie on any GPU of a pool, which decides where it goes */
static __thread bool
    cuts; /* in a pool: it is the first one on its GPU of what follows; whom it pulls from waits for it, and not for those */
static __thread CUstream asked_stream;
static __thread bool makes;                               /* code for a GPU is missing, or constants are copied for it */
static __thread struct tsr_automatic_launch asked_launch; /* where decisions are wanted */
static __thread double asked_at_ns; /* when the launch, which goes home, was about to be given to it; 0: there is none */
static __thread bool samples;       /* it is to be a sample, on the GPU that was chosen, or, once it has gone home, there */
static __thread struct tsr_sample *sample;
static __thread struct tsr_sample_away sample_away;

static const struct tsr_automatic_recent *recent_of(uint64_t ticket)
{
    const struct tsr_automatic_recent *recent = &tsr_automatic->recent[tsr_place_known_at(ticket)];
    for (uint32_t i = 0; i < TSR_PLACE_WAYS; i++)
        if (recent[i].ticket == ticket)
            return &recent[i];
    return NULL;
}

/* In the place of the oldest, or of the same ticket. */
static void note_recent_locked(uint64_t ticket)
{
    struct tsr_automatic_recent *recent = &tsr_automatic->recent[tsr_place_known_at(ticket)], *oldest = recent;
    for (uint32_t i = 0; i < TSR_PLACE_WAYS && oldest->ticket != ticket; i++)
        if (recent[i].ticket == ticket || recent[i].number < oldest->number)
            oldest = &recent[i];
    *oldest = (struct tsr_automatic_recent){.ticket = ticket, .number = tsr_automatic->figures.launches, .shape = class.shape};
}

static bool is_fresh(void *context, uint64_t ticket)
{
    (void)context;
    const struct tsr_automatic_recent *recent = recent_of(ticket);
    return recent && tsr_automatic->figures.launches - recent->number < TSR_PLACE_OLD;
}

/* Bytes that would have to come to the GPU: through the link each time; now; and memory for copies, of which nothing has to be there. */
static double distance(const struct tsr_survey *survey, uint32_t gpu)
{
    uint64_t bytes = survey->through_link[gpu] + survey->constants[gpu];
    for (uint32_t i = 0; i < survey->part_count; i++)
        bytes += survey->parts[i].holders >> gpu & 1 ? 0 : survey->parts[i].bytes;
    return (double)bytes + (double)survey->new_copies[gpu] / NEW_COPY_PART;
}

/* In a pool: where the bytes are that cost most to move; of several such GPUs the one where the stream's last launch went. */
static uint32_t nearest_locked(const struct tsr_automatic_launch *launch, const struct tsr_survey *survey)
{
    uint32_t best = tsr_stream_points_at(&tsr_automatic->points, launch->stream)->gpu;
    double best_bytes = distance(survey, best);
    for (uint32_t gpu = 0; gpu < tsr_automatic->place.options.gpus; gpu++) {
        double bytes = distance(survey, gpu);
        if (bytes < best_bytes)
            best = gpu, best_bytes = bytes;
    }
    return best;
}

void tsr_automatic_distances(const struct tsr_touch *touches, uint32_t count, double *bytes)
{
    struct tsr_survey survey = {0};
    pthread_mutex_lock(&tsr_automatic_lock);
    struct tsr_survey_of of = {.copies = (uint16_t)tsr_automatic->all_gpus, .is_fresh = is_fresh, .in_pool = true};
    tsr_copies_survey(touches, count, &of, &survey);
    for (uint32_t gpu = 0; gpu < tsr_automatic->place.options.gpus; gpu++)
        bytes[gpu] = distance(&survey, gpu);
    pthread_mutex_unlock(&tsr_automatic_lock);
}

static void survey_locked(const struct tsr_automatic_launch *launch, uint64_t *bytes)
{
    struct tsr_survey survey;
    struct tsr_survey_of of = {
        .copies = (uint16_t)tsr_automatic->all_gpus, .is_fresh = is_fresh, .in_pool = tsr_owners_are_spread()};
    tsr_survey_begin(&survey);
    tsr_copies_survey(launch->touches, launch->count, &of, &survey);
    asked.part_count = survey.part_count;
    for (uint32_t i = 0; i < survey.part_count; i++)
        asked.parts[i] = survey.parts[i];
    for (uint32_t gpu = 0; gpu < TSR_DIRECTORY_COPIES; gpu++)
        asked.constants[gpu] = survey.constants[gpu];
    cuts = false;
    if (of.in_pool && asked.allowed != 1u << TSR_RANK_HOME) {
        uint32_t gpu = nearest_locked(launch, &survey);
        asked.allowed = 1u << gpu;
        cuts = distance(&survey, gpu) > 0;
    }
    asked.written = *bytes = 0;
    for (uint32_t i = 0; i < launch->count; i++) {
        uint64_t size = launch->touches[i].end - launch->touches[i].first;
        asked.written += launch->touches[i].writes ? size : 0;
        *bytes += size;
    }
}

/* Its work runs side by side with that of other streams. */
static bool is_shared_locked(CUstream stream, uint32_t gpu)
{
    double free_ns = tsr_automatic->place.timelines[TSR_PLACE_ACTUAL].free_ns[gpu];
    return tsr_sharing_is_shared(&tsr_automatic->samples.sharing[gpu], stream, asked.now_ns, free_ns);
}

static bool is_due_locked(uint32_t gpu)
{
    return class.function && tsr_class_is_due(&tsr_automatic->samples.classes, &class, gpu,
                                              tsr_plan_adapts() ? RAREST_SAMPLE_ADAPTING : RAREST_SAMPLE);
}

static bool continues_locked(void)
{
    for (uint32_t i = 0; i < asked.part_count; i++)
        if (asked.last && asked.parts[i].writer == asked.last)
            return true;
    return false;
}

/* Where there is a plan, and it says where the launch goes. */
static void follow_plan_locked(const struct tsr_automatic_launch *launch)
{
    const struct tsr_plan_asked of = {.function = launch->function,
                                      .grid = launch->grid,
                                      .block = launch->block,
                                      .shared_bytes = launch->shared_bytes,
                                      .classes = &tsr_automatic->samples.classes,
                                      .shape = class.shape,
                                      .reads = !launch->touches     ? TSR_PLAN_READS_UNKNOWN
                                               : continues_locked() ? TSR_PLAN_READS_SOME
                                                                    : TSR_PLAN_READS_NOTHING,
                                      .now_ns = asked.now_ns};
    uint32_t gpu = tsr_plan_gpu(&of);
    if (gpu == TSR_PLAN_NO_GPU || !(asked.allowed >> gpu & 1))
        return;
    asked.allowed = 1u << gpu;
    asked.stays = false;
    planned = true;
}

/* What was measured of each, where the program launched it by itself, too. */
static void add_times_locked(const struct tsr_automatic_launch *launch, double *ns)
{
    const struct tsr_classes *classes = &tsr_automatic->samples.classes;
    uint32_t gpus = tsr_automatic->place.options.gpus;
    memset(ns, 0, gpus * sizeof *ns);
    for (uint32_t i = 0; i < launch->part_count; i++) {
        const struct tsr_automatic_part *part = &launch->parts[i];
        double of_part[TSR_GPUS];
        struct tsr_class_of of = tsr_class_find(&tsr_automatic->samples.classes, (uintptr_t)part->function, part->grid,
                                                part->block, part->shared_bytes, tsr_plan_is_there ? 0 : part->bytes);
        tsr_class_times(classes, &of, gpus, part->bytes, tsr_automatic->place.pace, of_part);
        for (uint32_t gpu = 0; gpu < gpus; gpu++)
            ns[gpu] += of_part[gpu];
    }
}

static void ask_locked(const struct tsr_automatic_launch *launch)
{
    uint64_t bytes = 0;
    bool may_leave = launch->touches && !launch->stays;
    asked.now_ns = tsr_host_time_ns();
    if (!tsr_automatic->figures.start_ns)
        tsr_automatic->figures.start_ns = asked.now_ns > 0 ? asked.now_ns : 1;
    struct tsr_point_stream *stream = tsr_stream_points_at(&tsr_automatic->points, launch->stream);
    tsr_stream_points_join(stream, launch->joins);
    stream->related = launch->related;
    asked.loose = launch->own;
    memcpy(asked.after_ns, stream->after_ns, sizeof asked.after_ns);
    asked.stream = (uint32_t)(stream - tsr_automatic->points.streams) + 1;
    asked.last = stream->last;
    asked.shared = 0;
    for (uint32_t gpu = 0; gpu < tsr_automatic->place.options.gpus; gpu++)
        asked.shared |= (uint32_t)is_shared_locked(launch->stream, gpu) << gpu;
    asked.allowed = may_leave ? tsr_automatic->all_gpus & ~((uint32_t)launch->unprepared << 1) : 1u << TSR_RANK_HOME;
    spread = may_leave && tsr_owners_are_spread();
    asked.stays = may_leave && tsr_automatic->stays && !spread;
    if (launch->touches) {
        survey_locked(launch, &bytes);
    } else { /* it comes after everything */
        double end_ns = tsr_place_end(&tsr_automatic->place);
        asked.now_ns = end_ns > asked.now_ns ? end_ns : asked.now_ns;
        asked.part_count = 0;
        asked.written = 0;
        for (uint32_t gpu = 0; gpu < TSR_DIRECTORY_COPIES; gpu++)
            asked.constants[gpu] = 0;
    }
    class = tsr_class_find(&tsr_automatic->samples.classes, (uintptr_t)launch->function, launch->grid, launch->block,
                           launch->shared_bytes, tsr_plan_is_there ? 0 : bytes); /* a plan's classes have no bytes */
    asked.like = class.shape ? class.shape->key : (uintptr_t)launch->function;
    if (launch->part_count && !tsr_class_is_measured(&class))
        add_times_locked(launch, asked.ns);
    else
        tsr_class_times(&tsr_automatic->samples.classes, &class, tsr_automatic->place.options.gpus, bytes,
                        tsr_automatic->place.pace, asked.ns);
    pulled_often = tsr_class_is_pulled(&class);
    planned = false;
    if (tsr_plan_is_there)
        follow_plan_locked(launch);
}

/* Emulated GPUs are ahead of the host, whose time stands still. */
static void look_at_progress_locked(void)
{
    if (!tsr_host_time_is_virtual())
        tsr_progress_look(&tsr_automatic->progress, &tsr_automatic->place, tsr_host_time_ns());
}

void tsr_automatic_report_locked(void)
{
    tsr_schedule_report(&tsr_session()->policy->schedule, &tsr_automatic->figures, &tsr_automatic->place,
                        &tsr_automatic->guard);
}

void tsr_automatic_in(struct tsr_automatic_launch *launch, const struct tsr_stream *stream)
{
    if (!stream)
        return;
    launch->joins = __atomic_load_n(&stream->joins, __ATOMIC_RELAXED);
    launch->related = !tsr_stream_is(stream, TSR_STREAM_FREE);
    launch->own = tsr_stream_is(stream, TSR_STREAM_OWN);
}

static void report_plan_locked(void)
{
    double now_ns = tsr_host_time_is_virtual() ? tsr_place_end(&tsr_automatic->place) : tsr_host_time_ns();
    if (tsr_automatic->figures.launches % REPORT_PLAN_EVERY && now_ns - tsr_automatic->plan_told_ns < REPORT_PLAN_NS)
        return;
    tsr_automatic->plan_told_ns = now_ns;
    tsr_plan_report(tsr_automatic->figures.start_ns, now_ns);
}

struct tsr_lane_client *tsr_automatic_choose(const struct tsr_automatic_launch *launch)
{
    if (!tsr_copies_matter())
        tsr_copies_begin();
    pthread_mutex_lock(&tsr_automatic_lock);
    asked_stream = launch->stream;
    if (tsr_decisions_are_wanted)
        asked_launch = *launch;
    asked_at_ns = 0;
    makes = launch->unprepared != 0;
    if (++tsr_automatic->figures.launches % POLL_EVERY == 0) {
        tsr_samples_poll(&tsr_automatic->samples);
        look_at_progress_locked();
    }
    if (tsr_automatic->figures.launches % REPORT_EVERY == 0)
        tsr_automatic_report_locked();
    if (tsr_plan_is_there && tsr_automatic->figures.launches % POLL_EVERY == 0)
        report_plan_locked();
    tsr_automatic->figures.unknown += !launch->touches;
    ask_locked(launch);
    tsr_place_choose(&tsr_automatic->place, &asked, &choice);
    samples = choice.gpu != TSR_RANK_HOME && is_due_locked(choice.gpu);
    pthread_mutex_unlock(&tsr_automatic_lock);
    return choice.gpu == TSR_RANK_HOME ? NULL : tsr_session()->lanes[choice.gpu - 1];
}

/* It reads nothing else there, and lacks some of it. */
static bool is_constant_locked(const struct tsr_touch *touch, uint32_t gpu)
{
    struct tsr_survey survey;
    struct tsr_survey_of of = {.copies = (uint16_t)tsr_automatic->all_gpus, .is_fresh = is_fresh};
    if (!touch->pulls || touch->writes)
        return false;
    tsr_survey_begin(&survey);
    tsr_copies_survey(touch, 1, &of, &survey);
    return !survey.part_count && survey.constants[gpu];
}

uint32_t tsr_automatic_fetches(const struct tsr_automatic_launch *launch, struct tsr_touch *constants,
                               struct tsr_lane_client **lane)
{
    uint32_t count = 0;
    if (choice.fetches == TSR_RANK_HOME || !launch->touches)
        return 0;
    pthread_mutex_lock(&tsr_automatic_lock);
    for (uint32_t i = 0; i < launch->count; i++)
        if (is_constant_locked(&launch->touches[i], choice.fetches))
            constants[count++] = launch->touches[i];
    pthread_mutex_unlock(&tsr_automatic_lock);
    *lane = tsr_session()->lanes[choice.fetches - 1];
    return count;
}

void tsr_automatic_fetched(void)
{
    pthread_mutex_lock(&tsr_automatic_lock);
    tsr_place_fetched(&tsr_automatic->place, &asked, choice.fetches);
    makes = true;
    pthread_mutex_unlock(&tsr_automatic_lock);
}

bool tsr_automatic_spreads(void)
{
    return tsr_automatic_is_on && !__atomic_load_n(&tsr_automatic->stays, __ATOMIC_RELAXED) && !tsr_plan_is_there &&
           !tsr_owners_have_begun() && tsr_sleep_is_awake(&tsr_automatic->sleep);
}

bool tsr_automatic_may_leave(void)
{
    return spread || planned || (!asked.stays && asked.allowed != 1u << TSR_RANK_HOME);
}

bool tsr_automatic_stages(bool placed)
{
    return tsr_options()->stage == TSR_STAGE_ALL || (placed && !choice.idles && !planned);
}

/* What each GPU was given by the thread since a mark was set there. */
static __thread struct unmarked {
    float ns;
    uint32_t launches;
} unmarked[TSR_GPUS];

bool tsr_automatic_marks_before(const struct tsr_lane_client *lane)
{
    uint32_t gpu = tsr_lane_rank(lane);
    bool is_long = asked.ns[gpu] >= MARK_AT_ONCE * (double)tsr_options()->lead;
    if (!is_long || !tsr_automatic_may_leave())
        return false;
    unmarked[gpu] = (struct unmarked){0};
    return true;
}

bool tsr_automatic_marks(const struct tsr_lane_client *lane)
{
    uint32_t gpu = tsr_lane_rank(lane), launches = ++unmarked[gpu].launches;
    double leads = (double)(unmarked[gpu].ns += (float)asked.ns[gpu]) / (double)tsr_options()->lead;
    bool due = leads >= MARK_AT_ONCE || (leads >= MARK_AFTER && launches >= MARK_LAUNCHES);
    if (!(due || cuts || pulled_often) || !tsr_automatic_may_leave())
        return false;
    unmarked[gpu] = (struct unmarked){0};
    return true;
}

void tsr_automatic_marked(const struct tsr_lane_client *lane, uint64_t ticket, const struct tsr_stream *stream)
{
    uint32_t gpu = tsr_lane_rank(lane);
    uint64_t value = tsr_host_time_is_virtual() ? 0 : tsr_strands_marked(stream, gpu, ticket & TSR_TICKET_LATEST);
    if (!value)
        return;
    pthread_mutex_lock(&tsr_automatic_lock);
    const struct tsr_progress_mark mark = {.ticket = ticket, .value = value, .given_ns = asked.now_ns, .slot = stream->slot};
    if (is_shared_locked(asked_stream, gpu))
        tsr_progress_forget(&tsr_automatic->progress, &tsr_automatic->place, gpu);
    else
        tsr_progress_mark(&tsr_automatic->progress, lane, &mark);
    pthread_mutex_unlock(&tsr_automatic_lock);
}

/* Of whom it reads what its GPU does not have. */
static void note_pulled_locked(uint32_t gpu)
{
    for (uint32_t i = 0; i < asked.part_count; i++) {
        const struct tsr_automatic_recent *writer = recent_of(asked.parts[i].writer);
        if (!(asked.parts[i].holders >> gpu & 1) && writer && writer->shape)
            tsr_class_pulled(writer->shape);
    }
    tsr_class_given(&class);
}

static bool is_function(const struct tsr_function_record *function)
{
    return function && function != TSR_AUTOMATIC_SET && function != TSR_AUTOMATIC_COPY && function != TSR_AUTOMATIC_GIVE;
}

static const char *name_of(const struct tsr_function_record *function)
{
    if (is_function(function))
        return function->name ? function->name : "(function)";
    return function == TSR_AUTOMATIC_SET    ? "(set)"
           : function == TSR_AUTOMATIC_COPY ? "(copy)"
           : function == TSR_AUTOMATIC_GIVE ? "(given)"
                                            : "(graph)";
}

static void log_decision_locked(uint32_t gpu)
{
    struct tsr_guard_clocks clocks = tsr_place_clocks(&tsr_automatic->place);
    tsr_decisions_add(&(struct tsr_decided){.number = tsr_automatic->figures.launches,
                                            .name = name_of(asked_launch.function),
                                            .unknown = !asked_launch.touches,
                                            .stays = asked_launch.stays,
                                            .rests = tsr_automatic->stays,
                                            .joins = asked_launch.joins,
                                            .gpu = gpu,
                                            .start_ns = tsr_automatic->figures.start_ns,
                                            .pace = tsr_automatic->place.pace,
                                            .asked = &asked,
                                            .choice = &choice,
                                            .clocks = &clocks});
}

bool tsr_automatic_sleeps(void)
{
    return tsr_sleep_goes_on(&tsr_automatic->sleep);
}

/* What happens once: code or constants for a GPU are under way, or a GPU has got a copy of memory since the last launch. */
static bool makes_locked(uint32_t gpu)
{
    uint64_t held = 0, before = tsr_automatic->held;
    for (uint32_t each = 0; each < tsr_automatic->place.options.gpus; each++)
        held += __atomic_load_n(&tsr_copies_held[each], __ATOMIC_RELAXED);
    tsr_automatic->held = held;
    return held > before || makes || (gpu != TSR_RANK_HOME && asked.constants[gpu]);
}

void tsr_automatic_went(const struct tsr_lane_client *lane, uint64_t ticket)
{
    uint32_t gpu = tsr_lane_rank(lane);
    pthread_mutex_lock(&tsr_automatic_lock);
    if (sample_away.is_one && !lane) /* it was to be a sample elsewhere, and has not gone there */
        tsr_samples_drop(&tsr_automatic->samples, &sample_away);
    sample_away.is_one = false;
    tsr_place_take(&tsr_automatic->place, &asked, &choice, gpu, ticket);
    samples = gpu == TSR_RANK_HOME && is_due_locked(TSR_RANK_HOME);
    if (ticket)
        note_recent_locked(ticket);
    note_pulled_locked(gpu);
    if (tsr_plan_is_there)
        tsr_plan_went(gpu, choice.own.finish_ns[TSR_PLACE_ACTUAL]);
    tsr_sharing_give(&tsr_automatic->samples.sharing[gpu], asked_stream, choice.own.finish_ns[TSR_PLACE_ACTUAL]);
    tsr_stream_points_give(&tsr_automatic->points, asked_stream, ticket, choice.own.finish_ns,
                           tsr_place_end(&tsr_automatic->place));
    tsr_stream_points_at(&tsr_automatic->points, asked_stream)->gpu = gpu;
    struct tsr_guard_clocks clocks = tsr_place_clocks_at_work(&tsr_automatic->place);
    if (tsr_decisions_are_wanted)
        log_decision_locked(gpu);
    bool once = makes_locked(gpu);
    if (once)
        tsr_guard_excuse(&tsr_automatic->guard);
    __atomic_store_n(&tsr_automatic->stays, tsr_guard_next(&tsr_automatic->guard, &clocks), __ATOMIC_RELAXED);
    if (!tsr_plan_is_there && !tsr_owners_have_begun())
        tsr_sleep_look(&tsr_automatic->sleep, &tsr_automatic->guard, &clocks, tsr_automatic->figures.launches, once);
    asked_at_ns = lane || tsr_host_time_is_virtual() ? 0 : (double)tsr_os_monotonic_ns();
    pthread_mutex_unlock(&tsr_automatic_lock);
}

uint16_t tsr_automatic_sample(const struct tsr_lane_client *lane)
{
    if (!samples)
        return 0;
    pthread_mutex_lock(&tsr_automatic_lock);
    bool shared = is_shared_locked(asked_stream, tsr_lane_rank(lane)); /* since it was asked for, others may have gone there */
    uint16_t time = tsr_samples_begin_away(&tsr_automatic->samples, &class, lane, asked_stream, shared, &sample_away);
    pthread_mutex_unlock(&tsr_automatic_lock);
    return time;
}

void tsr_automatic_begins(CUstream stream)
{
    sample = NULL;
    if (!samples)
        return;
    pthread_mutex_lock(&tsr_automatic_lock);
    sample = tsr_samples_begin(&tsr_automatic->samples, &class, stream, is_shared_locked(stream, TSR_RANK_HOME));
    pthread_mutex_unlock(&tsr_automatic_lock);
}

/* Giving a GPU a launch takes microseconds, unless its queue is full. */
static void look_for_full_queue(void)
{
    double began_ns = asked_at_ns, ended_ns = (double)tsr_os_monotonic_ns();
    asked_at_ns = 0;
    if (!began_ns || tsr_host_time_is_virtual() || ended_ns - began_ns < QUEUE_FULL_NS)
        return;
    pthread_mutex_lock(&tsr_automatic_lock);
    tsr_place_held_up(&tsr_automatic->place, began_ns + QUEUE_FULL_NS / 2, ended_ns);
    pthread_mutex_unlock(&tsr_automatic_lock);
}

void tsr_automatic_ends(CUstream stream, bool refused)
{
    look_for_full_queue();
    if (!sample)
        return;
    pthread_mutex_lock(&tsr_automatic_lock);
    if (refused)
        tsr_samples_drop_home(&tsr_automatic->samples, sample);
    else
        tsr_samples_end(&tsr_automatic->samples, sample, stream);
    pthread_mutex_unlock(&tsr_automatic_lock);
    sample = NULL;
}
