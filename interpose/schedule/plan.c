/* See plan.h. */
#include "schedule/plan.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"
#include "base/options.h"
#include "base/os.h"
#include "lane/lane_client.h"
#include "object/registry.h"
#include "object/session.h"
#include "schedule/automatic.h"
#include "schedule/classes.h"
#include "schedule/plan_position.h"

#define NOT_LOOKED_UP 0u /* of classes' numbers, as they are remembered: from here on, */
#define FIRST_NUMBER 1u
#define NOT_THERE 0xffffu
#define OTHER_CODE 0xfffeu
#define OTHER_SHAPE 0xff00u /* less the number of the shape */
#define SHAPES 64u
#define REQUESTS 256u /* whose ends are remembered */
#define NEVER UINT32_MAX

_Static_assert(SHAPES == sizeof((struct tsr_plan *)0)->shapes / sizeof(struct tsr_plan_shape), "shapes");
_Static_assert(FIRST_NUMBER + TSR_PLAN_CLASSES < OTHER_SHAPE - SHAPES, "numbers");

static struct {
    struct tsr_plan *shared;    /* mapped */
    uint32_t generation;        /* that was adopted; 0: none yet */
    bool is_sound;              /* it can be followed */
    uint32_t rank[TSR_GPUS];    /* by the machine's number; TSR_PLAN_NO_GPU: not in this session */
    uint32_t numbers[TSR_GPUS]; /* by rank */
    uint32_t gpus;
    const struct tsr_session *session;
    uint16_t number_of[TSR_CLASSES];                  /* by class: its number in the plan, as above */
    const struct tsr_class *shapes[TSR_PLAN_CLASSES]; /* by that number; NULL: none was launched */
    const struct tsr_class *other_shapes[SHAPES];
    uint64_t dealt, dealt_to[TSR_PLAN_PLACEMENTS];
    double ends_ns[REQUESTS]; /* of the last launches of the newest requests */
    struct tsr_plan_index index;
} *state; /* automatic.c's lock */

bool tsr_plan_is_there;

/* A thread's place in the plan. */
struct follower {
    uint32_t generation;
    bool has_request;
    uint32_t placement;
    uint64_t turn, request;
    struct tsr_plan_position position;
};
static __thread struct follower follower;
static __thread uint32_t wanted; /* of the launch that was asked for */

static void count(uint64_t *counter)
{
    __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

static bool is_function(const struct tsr_plan_class *class, const struct tsr_plan_asked *asked)
{
    return class->what == TSR_PLAN_LAUNCH && (uintptr_t)asked->function > (uintptr_t)TSR_AUTOMATIC_GIVE &&
           class->name == asked->function->name_hash;
}

static bool is_class(const struct tsr_plan_class *class, const struct tsr_plan_asked *asked)
{
    if (class->what != TSR_PLAN_LAUNCH) {
        const void *stands = class->what == TSR_PLAN_COPY  ? TSR_AUTOMATIC_COPY
                             : class->what == TSR_PLAN_SET ? TSR_AUTOMATIC_SET
                                                           : TSR_AUTOMATIC_GIVE;
        return stands == asked->function && class->size + 1 == asked->grid[0];
    }
    return is_function(class, asked) && class->shared_bytes == asked->shared_bytes &&
           memcmp(class->grid, asked->grid, sizeof class->grid) == 0 &&
           memcmp(class->block, asked->block, sizeof class->block) == 0;
}

/* Whether the launch's code is the plan's, as far as either is known. */
static bool is_code(const struct tsr_plan_class *class, const struct tsr_plan_asked *asked)
{
    if (class->what != TSR_PLAN_LAUNCH || !class->code || !asked->function->module)
        return true;
    uint64_t hash = __atomic_load_n(&asked->function->module->hash, __ATOMIC_RELAXED);
    return !hash || hash == class->code;
}

/* The control plane may make a plan for this shape. */
static uint16_t note_shape(const struct tsr_plan_asked *asked, uint32_t class)
{
    struct tsr_plan *shared = state->shared;
    uint32_t number = shared->shape_count;
    if (number == SHAPES)
        return NOT_THERE;
    struct tsr_plan_shape *shape = &shared->shapes[number];
    *shape = (struct tsr_plan_shape){.of = class, .shared_bytes = asked->shared_bytes};
    memcpy(shape->grid, asked->grid, sizeof shape->grid);
    memcpy(shape->block, asked->block, sizeof shape->block);
    state->other_shapes[number] = asked->shape;
    __atomic_store_n(&shared->shape_count, number + 1, __ATOMIC_RELEASE);
    return (uint16_t)(OTHER_SHAPE - number);
}

static uint16_t look_up(const struct tsr_plan_asked *asked)
{
    const struct tsr_plan_table *table = &state->index.table;
    uint16_t found = NOT_THERE;
    uint32_t function = NEVER;
    for (uint32_t i = 0; i < table->class_count; i++) {
        bool is_one = is_class(&table->classes[i], asked);
        if (!is_one && !is_function(&table->classes[i], asked))
            continue;
        if (is_one && is_code(&table->classes[i], asked)) {
            state->shapes[i] = asked->shape;
            return (uint16_t)(FIRST_NUMBER + i);
        }
        if (is_code(&table->classes[i], asked))
            function = i;
        else
            found = OTHER_CODE;
    }
    return function != NEVER ? note_shape(asked, function) : found;
}

static void adopt(uint32_t generation, double now_ns)
{
    struct tsr_plan *shared = state->shared;
    state->index.table = shared->tables[generation % 2];
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    if (__atomic_load_n(&shared->generation, __ATOMIC_RELAXED) != generation)
        return; /* it was replaced meanwhile: the next launch looks again */
    if (state->generation)
        count(&shared->counts.swaps);
    __atomic_store(&shared->followed_ns, &now_ns, __ATOMIC_RELAXED);
    state->generation = generation;
    state->is_sound = tsr_plan_index_make(&state->index);
    state->dealt = 0;
    memset(state->dealt_to, 0, sizeof state->dealt_to);
    memset(state->number_of, 0, sizeof state->number_of);
    memset(state->shapes, 0, sizeof state->shapes);
    __atomic_store_n(&shared->shape_count, 0, __ATOMIC_RELEASE);
}

static uint32_t in_flight(double now_ns)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < REQUESTS; i++)
        found += state->ends_ns[i] > now_ns;
    return found;
}

/* The next request goes where most is owed. */
static void deal(double now_ns)
{
    const struct tsr_plan_table *table = &state->index.table;
    double whole = 0, most = 0;
    uint32_t best = NEVER;
    for (uint32_t i = 0; i < table->placement_count; i++)
        whole += table->placements[i].weight;
    for (uint32_t i = 0; i < table->placement_count; i++) {
        double owed = (double)(state->dealt + 1) * table->placements[i].weight / whole - (double)state->dealt_to[i];
        if (best == NEVER || owed > most + 1e-9)
            best = i, most = owed;
    }
    follower.placement = best;
    follower.turn = state->dealt_to[best]++;
    follower.request = state->dealt++;
    follower.has_request = true;
    __atomic_fetch_add(&state->shared->counts.in_flight, in_flight(now_ns) + 1, __ATOMIC_RELAXED);
    count(&state->shared->counts.requests);
}

static uint32_t rank_in(uint32_t group, uint64_t turn)
{
    const struct tsr_plan_group *of = &state->index.table.groups[group];
    uint32_t number = of->gpus[turn % of->count];
    return number < TSR_GPUS ? state->rank[number] : TSR_PLAN_NO_GPU;
}

/* A thread's request was dealt by the plan before. Where in the iteration it is stays: plans of one profile number its classes alike. */
static void follow_generation(void)
{
    if (follower.generation != state->generation)
        follower = (struct follower){.generation = state->generation, .position = follower.position};
}

/* A launch that the plan has. */
static uint32_t gpu_of(const struct tsr_plan_asked *asked, uint32_t class)
{
    struct tsr_plan_counts *counts = &state->shared->counts;
    enum tsr_plan_met met = tsr_plan_meet(&state->index, &follower.position, class, asked->reads);
    if (met == TSR_PLAN_MET_UNEXPECTED)
        follower.has_request = follower.has_request && state->index.table.carries;
    if (met == TSR_PLAN_MET_FIRST || met == TSR_PLAN_MET_NEXT) {
        bool is_new = met == TSR_PLAN_MET_FIRST && !state->index.table.carries;
        if (is_new || !follower.has_request)
            deal(asked->now_ns);
        return rank_in(state->index.table.placements[follower.placement].group[follower.position.at], follower.turn);
    }
    uint32_t settled = tsr_plan_settled(&state->index, class, asked->reads);
    if (settled != TSR_PLAN_NOWHERE)
        return rank_in(settled, 0);
    count(met == TSR_PLAN_MET_UNEXPECTED ? &counts->unexpected
          : met == TSR_PLAN_MET_NONE     ? &counts->unknown
                                         : &counts->unplaced);
    return TSR_PLAN_NO_GPU;
}

uint32_t tsr_plan_gpu(const struct tsr_plan_asked *asked)
{
    wanted = TSR_PLAN_NO_GPU;
    uint32_t generation = __atomic_load_n(&state->shared->generation, __ATOMIC_ACQUIRE);
    if (__builtin_expect(generation != state->generation, 0))
        adopt(generation, asked->now_ns);
    if (!state->is_sound || generation != state->generation || !asked->shape)
        return TSR_PLAN_NO_GPU;
    follow_generation();
    uint16_t *number = &state->number_of[asked->shape - asked->classes->entries];
    if (*number == NOT_LOOKED_UP)
        *number = look_up(asked);
    if (*number <= OTHER_SHAPE && *number > OTHER_SHAPE - SHAPES) {
        state->shared->shapes[OTHER_SHAPE - *number].launches++;
        count(&state->shared->counts.unknown);
    } else if (*number == NOT_THERE || *number == OTHER_CODE)
        count(*number == OTHER_CODE ? &state->shared->counts.other_code : &state->shared->counts.unknown);
    else
        wanted = gpu_of(asked, *number - FIRST_NUMBER);
    return wanted;
}

bool tsr_plan_adapts(void)
{
    return tsr_plan_is_there && state->shared->adapts;
}

void tsr_plan_went(uint32_t gpu, double finish_ns)
{
    if (follower.has_request)
        state->ends_ns[follower.request % REQUESTS] = finish_ns;
    if (wanted != TSR_PLAN_NO_GPU)
        count(wanted == gpu ? &state->shared->counts.followed : &state->shared->counts.stayed);
    wanted = TSR_PLAN_NO_GPU;
}

static void report_times(float *to, const struct tsr_class *of)
{
    for (uint32_t gpu = 0; of && gpu < state->gpus; gpu++)
        __atomic_store(&to[state->numbers[gpu]], &of->ns[gpu], __ATOMIC_RELAXED);
}

void tsr_plan_report(double start_ns, double now_ns)
{
    struct tsr_plan *shared = state->shared;
    uint32_t lost = 0;
    for (uint32_t i = 0; state->is_sound && i < state->index.table.class_count; i++)
        report_times(shared->observed_ns[i], state->shapes[i]);
    for (uint32_t i = 0; i < shared->shape_count && i < SHAPES; i++)
        report_times(shared->shapes[i].ns, state->other_shapes[i]);
    for (uint32_t rank = 1; rank < state->gpus; rank++)
        lost |= (uint32_t)tsr_lane_is_lost(state->session->lanes[rank - 1]) << state->numbers[rank];
    __atomic_store_n(&shared->lost, lost, __ATOMIC_RELAXED);
    __atomic_store(&shared->start_ns, &start_ns, __ATOMIC_RELAXED);
    __atomic_store(&shared->now_ns, &now_ns, __ATOMIC_RELAXED);
    __atomic_store_n(&shared->observed_generation, state->generation, __ATOMIC_RELEASE);
}

static struct tsr_plan *map_plan(void)
{
    const char *path = tsr_options()->plan;
    int descriptor = *path ? tsr_os_open_own(path, O_RDWR) : -1;
    if (descriptor < 0)
        return NULL;
    struct tsr_plan *plan = mmap(NULL, sizeof *plan, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    off_t bytes = lseek(descriptor, 0, SEEK_END);
    close(descriptor);
    if (plan == MAP_FAILED)
        return NULL;
    if (bytes < (off_t)sizeof *plan || plan->magic != TSR_PLAN_MAGIC || plan->version != TSR_PLAN_VERSION ||
        plan->bytes != sizeof *plan) {
        tsr_error("the plan %s is of another release; it is not followed", path);
        munmap(plan, sizeof *plan);
        return NULL;
    }
    return plan;
}

void tsr_plan_start(const struct tsr_session *session)
{
    struct tsr_plan *shared = map_plan();
    free(state); /* a parent process' */
    state = shared ? calloc(1, sizeof *state) : NULL;
    tsr_plan_is_there = state != NULL;
    if (!state)
        return;
    state->shared = shared;
    state->session = session;
    state->gpus = 1 + session->lane_count;
    for (uint32_t number = 0; number < TSR_GPUS; number++)
        state->rank[number] = TSR_PLAN_NO_GPU;
    for (uint32_t rank = 0; rank < state->gpus; rank++) {
        state->numbers[rank] = tsr_session_gpu(session, rank);
        if (state->numbers[rank] < TSR_GPUS)
            state->rank[state->numbers[rank]] = rank;
    }
}
