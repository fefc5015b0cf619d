/* See automatic.h. */
#include "schedule/automatic.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <tessera/place.h>

#include "base/options.h"
#include "base/os.h"
#include "driver/real.h"
#include "lane/lane_client.h"
#include "lane/streams.h"
#include "memory/directory.h"
#include "memory/owners.h"
#include "memory/pairs.h"
#include "object/registry.h"
#include "object/session.h"
#include "order/strands.h"
#include "schedule/classes.h"
#include "schedule/plan.h"
#include "times/clock.h"

#define HOME 0u            /* GPUs are told by rank (tsr_session_gpu) */
#define STREAMS 256u       /* that are told from each other; a power of two */
#define EVENTS 1024u       /* the same */
#define SAMPLES 16u        /* under way */
#define TELL_EVERY 1024u   /* launches between reports */
#define TELL_PLAN_EVERY 64u  /* the same, of a plan */
#define LOOK_EVERY 8u      /* launches between looks at samples */
#define NEW_COPY_PART 8.0   /* of the bytes of memory for a copy: what it costs */
#define MARKS_PER_LEAD 0.2   /* a mark after launches of this share of it */
#define CREDIT_NS 500e3 /* to begin with */
#define RELAYED_PER_NS 10.0  /* of one that copies through the host */
#define ALONE 64u          /* launches of one stream, after which no other is thought to be under way */
#define NOT_WAITING -1.0
#define QUEUE_FULL_NS 20e3 /* a launch that takes the host so long */

/* Work up to some point: the ticket of the launch that will be done last, and when all is, by course. */
struct point {
    uint64_t latest;
    double ns[TSR_PLACE_COURSES];
};

/* What is known of a stream. */
struct stream {
    CUstream handle; /* NULL: none, or all */
    uint32_t gpu;    /* of its last launch */
    uint64_t last;   /* ticket of that */
    struct point given;
    double after_ns[TSR_PLACE_COURSES]; /* when its next launch can begin, whatever it reads */
    uint32_t joins;
    bool related; /* to the legacy stream */
};

struct event {
    CUevent handle; /* NULL: none */
    struct point point;
};

struct sample {
    CUevent begin, end;
    struct tsr_class_of of;
    bool busy;
};

/* A piece of work that was told to the rule: its place among all. */
struct recent {
    uint64_t ticket, number;
};

static struct {
    struct tsr_place place;
    struct tsr_guard guard;
    struct tsr_classes classes;
    struct recent recent[TSR_PLACE_KNOWN];
    struct stream streams[STREAMS], all;
    struct event events[EVENTS];
    struct sample samples[SAMPLES];
    /* Samples on other GPUs, by lane; without a function: none. */
    struct tsr_class_of away[TSR_LANES][TSR_LANE_TIMES_PLACED];
    uint32_t under_way_away[TSR_LANES]; /* of these */
    struct {
        CUstream last;  /* stream that was given work last */
        uint64_t since; /* launches on the GPU when that was another one last */
    } given[TSR_GPUS];  /* by rank */
    uint64_t launches, unknown, read_back;
    uint32_t under_way; /* samples */
    CUcontext context;  /* of the samples' events */
    bool no_samples, stays;
} *state; /* lock */

/* What has been told of the process (struct tsr_policy_schedule). */
static struct tsr_policy_schedule told; /* lock */
static double start_ns;                 /* lock; of the first launch; 0: none */

bool tsr_automatic_is_on;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct tsr_times_driver times;
static bool frozen;               /* the host's time stands still but where it waits: emulated GPUs have a time of their own */
static __thread double frozen_ns; /* that time, of each thread, */
static __thread bool has_frozen;  /* which begins with the first one's */
static double first_frozen_ns;    /* lock; of that */
static uint64_t first_frozen;     /* lock; its number; 0: none yet */
static uint32_t all_gpus;         /* set */

/* A thread's launch between being asked for and being told. */
static __thread struct tsr_place_launch asked;
static __thread struct tsr_place_choice choice;
static __thread struct tsr_class_of class;
static __thread bool planned; /* a plan says where it goes */
static __thread bool apart;   /* its bytes may lie on any GPU of a pool, which decides where it goes */
static __thread bool
    cuts; /* in a pool: it is the first one on its GPU of what follows; whom it pulls from waits for it, and not for those */
static __thread CUstream asked_stream;
static __thread double asked_at_ns; /* when the launch, which goes home, was about to be given to it; 0: there is none */
static __thread bool samples;       /* it is to be a sample, on the GPU that was chosen, or, once it has gone home, there */
static __thread struct sample *sample;
static __thread struct tsr_class_of *sample_away; /* NULL: it is none */
static __thread uint32_t sample_lane;
static __thread double wait_began_ns = NOT_WAITING;

static double now_ns_locked(void)
{
    if (!frozen)
        return (double)tsr_os_monotonic_ns();
    if (!has_frozen)
        frozen_ns = first_frozen_ns;
    has_frozen = true;
    return frozen_ns;
}

/* Emulated GPUs: the calling thread has waited until then. */
static void go_on_at_locked(double ns)
{
    frozen_ns = ns > now_ns_locked() ? ns : frozen_ns;
    first_frozen = first_frozen ? first_frozen : tsr_stream_thread();
    if (first_frozen == tsr_stream_thread())
        first_frozen_ns = frozen_ns;
}

static struct stream *stream_of_locked(CUstream handle)
{
    struct stream *stream = &state->streams[((uintptr_t)handle >> 4 ^ (uintptr_t)handle >> 12) % STREAMS];
    if (stream->handle != handle)
        *stream = (struct stream){.handle = handle};
    return stream;
}

static struct event *event_of_locked(CUevent handle)
{
    return &state->events[((uintptr_t)handle >> 4 ^ (uintptr_t)handle >> 14) % EVENTS];
}

/* Later work comes after what is done by then. */
static void raise_to(double to[TSR_PLACE_COURSES], const double ns[TSR_PLACE_COURSES])
{
    for (uint32_t course = 0; course < TSR_PLACE_COURSES; course++)
        to[course] = ns[course] > to[course] ? ns[course] : to[course];
}

static void extend(struct point *point, const struct point *by)
{
    if (by->ns[TSR_PLACE_ACTUAL] >= point->ns[TSR_PLACE_ACTUAL])
        point->latest = by->latest;
    raise_to(point->ns, by->ns);
}

static struct recent *recent_of(uint64_t ticket)
{
    return &state->recent[(ticket + (ticket >> TSR_TICKET_SHIFT) * 40503u) % TSR_PLACE_KNOWN];
}

static bool is_fresh(void *context, uint64_t ticket)
{
    (void)context;
    const struct recent *recent = recent_of(ticket);
    return recent->ticket == ticket && state->launches - recent->number < TSR_PLACE_OLD;
}

static struct tsr_lane_time *answer_of(const struct tsr_lane_client *lane, uint32_t place)
{
    return &tsr_lane_times(lane)[TSR_LANE_TIMES - TSR_LANE_TIMES_PLACED + place];
}

static void look_at_samples_of_locked(uint32_t number)
{
    const struct tsr_lane_client *lane = tsr_session()->lanes[number];
    for (uint32_t i = 0; i < TSR_LANE_TIMES_PLACED; i++) {
        struct tsr_class_of *of = &state->away[number][i];
        uint32_t found = of->function ? __atomic_load_n(&answer_of(lane, i)->state, __ATOMIC_ACQUIRE) : TSR_LANE_TIME_OPEN;
        if (found == TSR_LANE_TIME_OPEN)
            continue;
        if (found == TSR_LANE_TIME_KNOWN)
            tsr_class_tell(&state->classes, of, number + 1, (double)answer_of(lane, i)->ns);
        __atomic_store_n(&answer_of(lane, i)->state, TSR_LANE_TIME_OPEN, __ATOMIC_RELAXED);
        *of = (struct tsr_class_of){0};
        state->under_way_away[number]--;
    }
}

static void look_at_samples_locked(void)
{
    for (uint32_t number = 0; number < tsr_session()->lane_count; number++)
        if (state->under_way_away[number])
            look_at_samples_of_locked(number);
    for (uint32_t i = 0; i < SAMPLES && state->under_way; i++) {
        struct sample *one = &state->samples[i];
        float ms = 0;
        if (!one->busy || tsr_times_query(&times, one->end) == CUDA_ERROR_NOT_READY)
            continue;
        if (tsr_real.cuEventElapsedTime(&ms, one->begin, one->end) == CUDA_SUCCESS)
            tsr_class_tell(&state->classes, &one->of, HOME, (double)ms * 1e6);
        else
            state->no_samples = true;
        one->busy = false;
        state->under_way--;
    }
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
    uint32_t best = stream_of_locked(launch->stream)->gpu;
    double best_bytes = distance(survey, best);
    for (uint32_t gpu = 0; gpu < state->place.options.gpus; gpu++) {
        double bytes = distance(survey, gpu);
        if (bytes < best_bytes)
            best = gpu, best_bytes = bytes;
    }
    return best;
}

void tsr_automatic_distances(const struct tsr_touch *touches, uint32_t count, double *bytes)
{
    struct tsr_survey survey = {0};
    pthread_mutex_lock(&lock);
    struct tsr_survey_of of = {.copies = (uint16_t)all_gpus, .is_fresh = is_fresh, .in_pool = true};
    tsr_copies_survey(touches, count, &of, &survey);
    for (uint32_t gpu = 0; gpu < state->place.options.gpus; gpu++)
        bytes[gpu] = distance(&survey, gpu);
    pthread_mutex_unlock(&lock);
}

static void survey_locked(const struct tsr_automatic_launch *launch, uint64_t *bytes)
{
    struct tsr_survey survey;
    struct tsr_survey_of of = {.copies = (uint16_t)all_gpus, .is_fresh = is_fresh, .in_pool = tsr_owners_are_spread()};
    tsr_survey_begin(&survey);
    tsr_copies_survey(launch->touches, launch->count, &of, &survey);
    asked.part_count = survey.part_count;
    for (uint32_t i = 0; i < survey.part_count; i++)
        asked.parts[i] = survey.parts[i];
    for (uint32_t gpu = 0; gpu < TSR_DIRECTORY_COPIES; gpu++)
        asked.constants[gpu] = survey.constants[gpu];
    cuts = false;
    if (of.in_pool && asked.allowed != 1u << HOME) {
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

/* Launches of other streams may be between the events around one: then they measure those, too. */
static bool is_shared_locked(uint32_t gpu)
{
    uint64_t launches = state->place.decided[gpu];
    return state->given[gpu].since && launches - state->given[gpu].since < ALONE;
}

/* Of the class. */
static bool is_due_locked(uint32_t gpu, CUstream stream)
{
    const CUstream before = state->given[gpu].last;
    bool shared = is_shared_locked(gpu) || (gpu != HOME && before && before != stream);
    return class.function && !shared && tsr_class_is_due(&class, gpu);
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
                                      .classes = &state->classes,
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

static void ask_locked(const struct tsr_automatic_launch *launch)
{
    uint64_t bytes = 0;
    bool may_leave = launch->touches && !launch->stays;
    asked.now_ns = now_ns_locked();
    if (!start_ns)
        start_ns = asked.now_ns > 0 ? asked.now_ns : 1;
    struct stream *stream = stream_of_locked(launch->stream);
    if (stream->joins != launch->joins)
        raise_to(stream->after_ns, stream->given.ns);
    stream->joins = launch->joins;
    stream->related = launch->related;
    memcpy(asked.after_ns, stream->after_ns, sizeof asked.after_ns);
    asked.last = stream->last;
    asked.shared = 0;
    for (uint32_t gpu = 0; gpu < state->place.options.gpus; gpu++)
        asked.shared |= (uint32_t)is_shared_locked(gpu) << gpu;
    asked.allowed = may_leave ? all_gpus : 1u << HOME;
    apart = may_leave && tsr_owners_are_spread();
    asked.stays = may_leave && state->stays && !apart;
    if (launch->touches) {
        survey_locked(launch, &bytes);
    } else { /* it comes after everything */
        double end_ns = tsr_place_end(&state->place);
        asked.now_ns = end_ns > asked.now_ns ? end_ns : asked.now_ns;
        asked.part_count = 0;
        asked.written = 0;
        for (uint32_t gpu = 0; gpu < TSR_DIRECTORY_COPIES; gpu++)
            asked.constants[gpu] = 0;
    }
    class = tsr_class_find(&state->classes, (uintptr_t)launch->function, launch->grid, launch->block, launch->shared_bytes);
    asked.like = class.shape ? class.shape->key : (uintptr_t)launch->function;
    for (uint32_t gpu = 0; gpu < state->place.options.gpus; gpu++)
        asked.ns[gpu] = tsr_class_ns(&state->classes, &class, gpu, bytes) * state->place.pace;
    planned = false;
    if (tsr_plan_is_there)
        follow_plan_locked(launch);
}

static void add(uint64_t *to, uint64_t *told_before, uint64_t now)
{
    __atomic_fetch_add(to, now - *told_before, __ATOMIC_RELAXED);
    *told_before = now;
}

static uint64_t since_start(double at_ns)
{
    return at_ns > start_ns ? (uint64_t)(at_ns - start_ns) : 0;
}

/* For the report at the end. */
static void tell_locked(void)
{
    struct tsr_policy_schedule *to = &tsr_session()->policy->schedule;
    struct tsr_guard_clocks clocks = tsr_place_clocks(&state->place);
    if (!start_ns)
        return;
    add(&to->launches, &told.launches, state->launches);
    add(&to->unknown, &told.unknown, state->unknown);
    add(&to->rested, &told.rested, state->guard.rested);
    add(&to->windows, &told.windows, state->guard.windows);
    add(&to->won, &told.won, state->guard.won);
    add(&to->taken_ns, &told.taken_ns, since_start(clocks.end_ns));
    add(&to->single_ns, &told.single_ns, since_start(clocks.single_ns));
    add(&to->promised_ns, &told.promised_ns, since_start(clocks.promised_ns));
    add(&to->read_back, &told.read_back, state->read_back);
}

void tsr_automatic_in(struct tsr_automatic_launch *launch, const struct tsr_stream *stream)
{
    if (!stream)
        return;
    launch->joins = __atomic_load_n(&stream->joins, __ATOMIC_RELAXED);
    launch->related = !tsr_stream_is(stream, TSR_STREAM_FREE);
}

struct tsr_lane_client *tsr_automatic_choose(const struct tsr_automatic_launch *launch)
{
    if (!tsr_copies_matter())
        tsr_copies_begin();
    pthread_mutex_lock(&lock);
    asked_stream = launch->stream;
    asked_at_ns = 0;
    if (++state->launches % LOOK_EVERY == 0)
        look_at_samples_locked();
    if (state->launches % TELL_EVERY == 0)
        tell_locked();
    if (tsr_plan_is_there && state->launches % TELL_PLAN_EVERY == 0)
        tsr_plan_tell(frozen ? tsr_place_end(&state->place) : now_ns_locked());
    state->unknown += !launch->touches;
    ask_locked(launch);
    tsr_place_choose(&state->place, &asked, &choice);
    samples = choice.gpu != HOME && is_due_locked(choice.gpu, launch->stream);
    pthread_mutex_unlock(&lock);
    return choice.gpu == HOME ? NULL : tsr_session()->lanes[choice.gpu - 1];
}

/* It reads nothing else there, and lacks some of it. */
static bool is_constant_locked(const struct tsr_touch *touch, uint32_t gpu)
{
    struct tsr_survey survey;
    struct tsr_survey_of of = {.copies = (uint16_t)all_gpus, .is_fresh = is_fresh};
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
    if (choice.fetches == HOME || !launch->touches)
        return 0;
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < launch->count; i++)
        if (is_constant_locked(&launch->touches[i], choice.fetches))
            constants[count++] = launch->touches[i];
    pthread_mutex_unlock(&lock);
    *lane = tsr_session()->lanes[choice.fetches - 1];
    return count;
}

void tsr_automatic_fetched(void)
{
    pthread_mutex_lock(&lock);
    tsr_place_fetched(&state->place, &asked, choice.fetches);
    pthread_mutex_unlock(&lock);
}

bool tsr_automatic_may_leave(void)
{
    return apart || planned || (!asked.stays && asked.allowed != 1u << HOME);
}

bool tsr_automatic_marks(const struct tsr_lane_client *lane)
{
    static __thread double unmarked_ns[TSR_GPUS];
    uint32_t gpu = tsr_lane_rank(lane);
    unmarked_ns[gpu] += asked.ns[gpu];
    bool due = unmarked_ns[gpu] >= MARKS_PER_LEAD * (double)tsr_options()->lead;
    if (!(due || cuts) || !tsr_automatic_may_leave())
        return false;
    unmarked_ns[gpu] = 0;
    return true;
}

static void note_locked(struct stream *stream, uint64_t ticket)
{
    struct point own = {.latest = ticket};
    memcpy(own.ns, choice.own.finish_ns, sizeof own.ns);
    stream->last = ticket;
    extend(&stream->given, &own);
}

/* It was to be a sample elsewhere, and has not gone there. */
static void drop_sample_locked(void)
{
    *sample_away = (struct tsr_class_of){0};
    state->under_way_away[sample_lane]--;
}

static void note_stream_locked(uint32_t gpu, CUstream stream)
{
    if (state->given[gpu].last && state->given[gpu].last != stream)
        state->given[gpu].since = state->place.decided[gpu];
    state->given[gpu].last = stream;
}

void tsr_automatic_went(const struct tsr_lane_client *lane, uint64_t ticket)
{
    uint32_t gpu = tsr_lane_rank(lane);
    pthread_mutex_lock(&lock);
    if (sample_away && !lane)
        drop_sample_locked();
    sample_away = NULL;
    tsr_place_take(&state->place, &asked, &choice, gpu, ticket);
    samples = gpu == HOME && is_due_locked(HOME, asked_stream);
    if (ticket)
        *recent_of(ticket) = (struct recent){.ticket = ticket, .number = state->launches};
    if (tsr_plan_is_there)
        tsr_plan_went(gpu, choice.own.finish_ns[TSR_PLACE_ACTUAL]);
    note_stream_locked(gpu, asked_stream);
    note_locked(stream_of_locked(asked_stream), ticket);
    stream_of_locked(asked_stream)->gpu = gpu;
    note_locked(&state->all, ticket);
    struct tsr_guard_clocks clocks = tsr_place_clocks(&state->place);
    state->stays = tsr_guard_next(&state->guard, &clocks);
    asked_at_ns = lane || frozen ? 0 : (double)tsr_os_monotonic_ns();
    pthread_mutex_unlock(&lock);
}

/* NULL: there is none now. */
static struct sample *free_sample_locked(void)
{
    CUcontext current = NULL;
    if (state->no_samples || state->under_way == SAMPLES || tsr_real.cuCtxGetCurrent(&current) != CUDA_SUCCESS || !current)
        return NULL;
    if (!state->context)
        state->context = current;
    if (state->context != current)
        return NULL;
    struct sample *one = state->samples;
    while (one->busy)
        one++;
    if (!one->begin && tsr_real.cuEventCreate(&one->begin, CU_EVENT_DEFAULT) != CUDA_SUCCESS)
        return NULL;
    return one->end || tsr_real.cuEventCreate(&one->end, CU_EVENT_DEFAULT) == CUDA_SUCCESS ? one : NULL;
}

uint16_t tsr_automatic_sample(const struct tsr_lane_client *lane)
{
    uint32_t number = tsr_lane_number(lane), i = 0;
    if (!samples)
        return 0;
    pthread_mutex_lock(&lock);
    while (i < TSR_LANE_TIMES_PLACED && state->away[number][i].function)
        i++;
    if (i < TSR_LANE_TIMES_PLACED) {
        state->away[number][i] = class;
        state->under_way_away[number]++;
        sample_away = &state->away[number][i];
        sample_lane = number;
    }
    pthread_mutex_unlock(&lock);
    return i < TSR_LANE_TIMES_PLACED ? (uint16_t)(TSR_LANE_TIMES - TSR_LANE_TIMES_PLACED + i + 1) : 0;
}

void tsr_automatic_begins(CUstream stream)
{
    sample = NULL;
    if (!samples)
        return;
    pthread_mutex_lock(&lock);
    struct sample *one = free_sample_locked();
    if (one && tsr_real.cuEventRecord(one->begin, stream) == CUDA_SUCCESS) {
        one->of = class;
        one->busy = true;
        state->under_way++;
        sample = one;
    }
    pthread_mutex_unlock(&lock);
}

/* Giving a GPU a launch takes microseconds, unless its queue is full. */
static void look_for_full_queue(void)
{
    double began_ns = asked_at_ns, ended_ns = (double)tsr_os_monotonic_ns();
    asked_at_ns = 0;
    if (!began_ns || frozen || ended_ns - began_ns < QUEUE_FULL_NS)
        return;
    pthread_mutex_lock(&lock);
    tsr_place_held_up(&state->place, began_ns + QUEUE_FULL_NS / 2, ended_ns);
    pthread_mutex_unlock(&lock);
}

void tsr_automatic_ends(CUstream stream)
{
    look_for_full_queue();
    if (!sample)
        return;
    pthread_mutex_lock(&lock);
    if (tsr_real.cuEventRecord(sample->end, stream) != CUDA_SUCCESS) {
        sample->busy = false;
        state->under_way--;
        state->no_samples = true;
    }
    pthread_mutex_unlock(&lock);
    sample = NULL;
}

void tsr_automatic_wait_begins(void)
{
    if (!tsr_automatic_is_on)
        return;
    pthread_mutex_lock(&lock);
    wait_began_ns = now_ns_locked();
    pthread_mutex_unlock(&lock);
}

void tsr_automatic_waits_not(void)
{
    wait_began_ns = NOT_WAITING;
}

void tsr_automatic_waited_for(uint64_t ticket)
{
    if (!tsr_automatic_is_on || wait_began_ns == NOT_WAITING)
        return;
    pthread_mutex_lock(&lock);
    look_at_samples_locked();
    if (frozen)
        go_on_at_locked(tsr_place_finish(&state->place, ticket));
    tsr_place_waited(&state->place, ticket, wait_began_ns, now_ns_locked());
    state->read_back++;
    pthread_mutex_unlock(&lock);
    wait_began_ns = NOT_WAITING;
}

/* The calling thread has waited for it since wait_began_ns. */
static void end_wait_locked(const struct point *point)
{
    look_at_samples_locked();
    if (frozen)
        go_on_at_locked(point->ns[TSR_PLACE_ACTUAL]);
    if (point->latest)
        tsr_place_waited(&state->place, point->latest, wait_began_ns, now_ns_locked());
    tell_locked();
    wait_began_ns = NOT_WAITING;
}

/* Of the stream, and of those that it waits for. */
static struct point given_to_locked(CUstream stream)
{
    struct point point = stream ? stream_of_locked(stream)->given : state->all.given;
    for (uint32_t i = 0; stream == CU_STREAM_LEGACY && i < STREAMS; i++)
        if (state->streams[i].related)
            extend(&point, &state->streams[i].given);
    return point;
}

void tsr_automatic_waited(CUstream stream)
{
    if (!tsr_automatic_is_on || wait_began_ns == NOT_WAITING)
        return;
    pthread_mutex_lock(&lock);
    struct point point = given_to_locked(stream);
    end_wait_locked(&point);
    (stream ? stream_of_locked(stream) : &state->all)->given = (struct point){0};
    pthread_mutex_unlock(&lock);
}

void tsr_automatic_waited_event(CUevent event)
{
    if (!tsr_automatic_is_on || wait_began_ns == NOT_WAITING)
        return;
    pthread_mutex_lock(&lock);
    struct event *of = event_of_locked(event);
    if (of->handle == event)
        end_wait_locked(&of->point);
    pthread_mutex_unlock(&lock);
    wait_began_ns = NOT_WAITING;
}

void tsr_automatic_recorded(CUevent event, CUstream stream)
{
    if (!tsr_automatic_is_on)
        return;
    pthread_mutex_lock(&lock);
    *event_of_locked(event) = (struct event){event, given_to_locked(stream)};
    pthread_mutex_unlock(&lock);
}

void tsr_automatic_follows(CUstream stream, CUevent event)
{
    if (!tsr_automatic_is_on)
        return;
    pthread_mutex_lock(&lock);
    struct event *of = event_of_locked(event);
    struct stream *follower = stream_of_locked(stream);
    if (of->handle == event) {
        raise_to(follower->after_ns, of->point.ns);
        extend(&follower->given, &of->point);
    }
    pthread_mutex_unlock(&lock);
}

static struct tsr_place_link link_between(const struct tsr_session *session, uint32_t from, uint32_t to)
{
    const struct tsr_policy_pair *pair = tsr_pair_of(session, to, from);
    uint32_t proof = __atomic_load_n(&pair->proof, __ATOMIC_ACQUIRE);
    double rate = proof == TSR_PROOF_RIGHT && pair->bytes_per_s            ? (double)pair->bytes_per_s / 1e9
                  : proof == TSR_PROOF_RIGHT || proof == TSR_PROOF_PENDING ? (double)TSR_PLACE_BYTES_PER_NS
                                                                           : RELAYED_PER_NS;
    return (struct tsr_place_link){.fence_ns = TSR_PLACE_FENCE_NS, .copy_ns = TSR_PLACE_COPY_NS, .ns_per_byte = 1 / rate};
}

static void start_place(const struct tsr_session *session)
{
    const struct tsr_guard_options guard = {.window_ns = TSR_GUARD_WINDOW_NS,
                                            .rest_ns = TSR_GUARD_REST_NS,
                                            .longest_rest_ns = TSR_GUARD_LONGEST_REST_NS,
                                            .least = TSR_GUARD_LEAST_PERMILLE / 1e3,
                                            .budget_ns = TSR_GUARD_BUDGET_NS};
    struct tsr_place_options options = {.gpus = 1 + session->lane_count,
                                        .home = HOME,
                                        .ways = (1u << TSR_PLACE_WAYS) - 1,
                                        .lead_ns = (double)tsr_options()->lead,
                                        .slack_ns = TSR_PLACE_SLACK_NS,
                                        .careful = true};
    for (uint32_t from = 0; from < options.gpus; from++)
        for (uint32_t to = 0; to < options.gpus; to++)
            options.links[from][to] = link_between(session, from, to);
    tsr_place_init(&state->place, &options);
    tsr_guard_init(&state->guard, &guard);
    all_gpus = (1u << options.gpus) - 1;
    for (uint32_t gpu = 0; gpu < options.gpus; gpu++) /* or the first launch of what could run there stays, and all with it */
        state->place.credit_ns[gpu] = CREDIT_NS;
}

void tsr_automatic_start(const struct tsr_session *session, bool emulated)
{
    const struct tsr_policy *policy = session->policy;
    bool asks = policy->tables[policy->generation % 2].default_device == TSR_POLICY_AUTO;
    pthread_mutex_init(&lock, NULL);
    free(state); /* a parent process' */
    state = asks && tsr_order_by_data && session->lane_count ? calloc(1, sizeof *state) : NULL;
    tsr_automatic_is_on = state != NULL;
    if (!state)
        return;
    told = (struct tsr_policy_schedule){0};
    start_ns = 0;
    frozen = emulated;
    times = (struct tsr_times_driver){.event_query = tsr_real.cuEventQuery};
    if (emulated)
        tsr_times_find_emulator(&times, tsr_real.cuGetExportTable);
    frozen_ns = first_frozen_ns = 0;
    first_frozen = 0;
    start_place(session);
    tsr_plan_start(session);
}
