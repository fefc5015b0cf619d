/* Makes a program from its seed and runs it: threads, phases, and what is compared at the end. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "program.h"

#define MOST_OPERATIONS 200u /* of a program, so that each takes milliseconds */

const char *const feature_names[FEATURE_COUNT] = {
#define NAME(name) #name,
    FEATURES(NAME)
#undef NAME
};

static const struct {
    const char *name;
    uint32_t weight;
    void (*execute)(struct worker *worker, struct draw *draw);
} ops[] = {
#define ROW(name, weight) {#name, weight, op_##name},
    OPS(ROW)
#undef ROW
};
#define OP_COUNT (sizeof ops / sizeof ops[0])

bool printing;
static CUcontext primary[2];
static int gpus;
static struct program program;
static const struct request *now;
static pthread_barrier_t barrier;
static uint32_t weights[OP_COUNT], total_weight;

bool owns(const struct worker *worker, uint32_t item, uint32_t own)
{
    if (item < MOST_THREADS * own)
        return item / own == worker->number;
    return (item - MOST_THREADS * own + worker->phase) % worker->program->threads == worker->number;
}

static bool failed(void)
{
    return __atomic_load_n(&program.failed, __ATOMIC_ACQUIRE);
}

bool succeeded(struct worker *worker, CUresult result, const char *call)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    if (result == CUDA_SUCCESS)
        return true;
    const char *name = "?";
    cuGetErrorName(result, &name);
    pthread_mutex_lock(&lock);
    if (!program.failed)
        snprintf(program.failure, sizeof program.failure, "%s in operation %u.%u.%u: %.150s", name, worker->number,
                 worker->phase, worker->op, call);
    __atomic_store_n(&program.failed, true, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&lock);
    return false;
}

#define TALLIES 128u
static struct {
    const char *what;
    uint64_t count;
} tallies[TALLIES];
static pthread_mutex_t tallies_lock = PTHREAD_MUTEX_INITIALIZER;
static __thread const char *executing; /* the operation, until it has said that it does something */

void tally(const char *what)
{
    pthread_mutex_lock(&tallies_lock);
    for (uint32_t i = 0; i < TALLIES; i++)
        if (!tallies[i].what || strcmp(tallies[i].what, what) == 0) {
            tallies[i].what = what;
            tallies[i].count++;
            break;
        }
    pthread_mutex_unlock(&tallies_lock);
}

void run_report(void)
{
    fprintf(stderr, "done:");
    for (uint32_t i = 0; i < TALLIES && tallies[i].what; i++)
        fprintf(stderr, " %s=%lu", tallies[i].what, (unsigned long)tallies[i].count);
    fprintf(stderr, "\n");
}

void say(struct worker *worker, const char *format, ...)
{
    char line[256];
    va_list arguments;
    if (executing)
        tally(executing);
    executing = NULL;
    if (!printing)
        return;
    int bytes = snprintf(line, sizeof line, "%u.%u.%u ", worker->number, worker->phase, worker->op);
    va_start(arguments, format);
    vsnprintf(line + bytes, sizeof line - (size_t)bytes, format, arguments);
    va_end(arguments);
    printf("# %s\n", line);
    fflush(stdout);
}

static void draw_weights(struct draw *from)
{
    static const uint8_t factors[] = {0, 1, 1, 2};
    total_weight = 0;
    for (uint32_t i = 0; i < OP_COUNT; i++) {
        weights[i] = ops[i].weight * factors[draw(from, sizeof factors)];
        total_weight += weights[i];
    }
    if (total_weight == 0)
        total_weight = weights[0] = 1;
}

static void make_program(uint64_t seed, uint32_t without)
{
    struct draw from = draw_of(seed, ~0ull);
    memset(&program, 0, sizeof program);
    program.seed = seed;
    program.features = one_in(&from, 6) ? ~0u : draw(&from, 1u << 31) | draw(&from, 1u << 31);
    program.features &= ((1u << FEATURE_COUNT) - 1) & ~without;
    uint32_t threads = one_in(&from, 2) ? 1 : 1 + draw(&from, MOST_THREADS);
    program.threads = uses(&program, FEATURE_threads) ? threads : 1;
    program.phases = 1 + draw(&from, MOST_PHASES);
    uint32_t most = MOST_OPERATIONS / (program.threads * program.phases);
    program.ops = 4 + draw(&from, (most < MOST_OPS ? most : MOST_OPS) - 4);
    program.own_context = uses(&program, FEATURE_contexts) && one_in(&from, 4);
    if (gpus < 2)
        program.features &= ~(1u << FEATURE_peer);
    draw_weights(&from);
    for (uint32_t i = 0; i < SLOTS; i++)
        program.slots[i].sync.writer = NO_STREAM;
    for (uint32_t i = 0; i < MODULES; i++)
        program.modules[i].sync.writer = NO_STREAM;
    for (uint32_t i = 0; i < TABLES; i++)
        program.tables[i].sync.writer = NO_STREAM;
    pthread_mutex_init(&program.blocks_lock, NULL);
    for (uint32_t i = 0; i < MOST_THREADS; i++)
        program.workers[i] = (struct worker){.program = &program, .number = i, .digest = seed};
}

static bool wanted(const struct worker *worker)
{
    uint32_t number = op_number(worker->number, worker->phase, worker->op);
    for (size_t i = 0; i < now->only_count; i++)
        if (now->only[i] == number)
            return true;
    return now->only == NULL;
}

static void execute(struct worker *worker)
{
    struct draw from = draw_of(program.seed, op_number(worker->number, worker->phase, worker->op));
    uint32_t at = draw(&from, total_weight), i = 0;
    for (; at >= weights[i]; i++)
        at -= weights[i];
    if (!wanted(worker))
        return;
    executing = ops[i].name;
    ops[i].execute(worker, &from);
    executing = NULL;
}

static void hand_over_all(struct worker *worker)
{
    for (uint32_t i = MOST_THREADS * OWN_SLOTS; i < SLOTS; i++)
        if (owns(worker, i, OWN_SLOTS))
            hand_over(worker, &program.slots[i].sync);
    for (uint32_t i = MOST_THREADS * OWN_MODULES; i < MODULES; i++)
        if (owns(worker, i, OWN_MODULES))
            hand_over(worker, &program.modules[i].sync);
    for (uint32_t i = MOST_THREADS * OWN_TABLES; i < TABLES; i++)
        if (owns(worker, i, OWN_TABLES))
            hand_over(worker, &program.tables[i].sync);
}

static void digest(struct worker *worker)
{
    for (uint32_t i = 0; i < SLOTS && !failed(); i++) {
        if (!owns(worker, i, OWN_SLOTS) || !program.slots[i].kind)
            continue;
        uint64_t own = slot_digest(worker, &program.slots[i], 0);
        worker->digest = scramble(worker->digest + own);
        if (now->digests)
            printf("# %lu slot %u: %016lx\n", (unsigned long)program.seed, i, (unsigned long)own);
    }
    if (now->digests)
        printf("# %lu thread %u: %016lx\n", (unsigned long)program.seed, worker->number, (unsigned long)worker->digest);
}

static void clean_up(struct worker *worker)
{
    struct draw from = draw_of(program.seed, ~1ull - worker->number);
    worker->op = MOST_OPS; /* in messages */
    modules_end(worker, &from);
    for (uint32_t i = 0; i < SLOTS; i++)
        if (owns(worker, i, OWN_SLOTS) && program.slots[i].kind)
            slot_free(worker, &program.slots[i], &from);
    graphs_end(worker);
    for (uint32_t stream = 0; stream < STREAMS; stream++)
        if (worker->opened[stream])
            CU(cuStreamSynchronize(worker->streams[stream]));
    close_streams(worker);
    notes_end(worker);
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    CU(cuCtxSetCurrent(program.contexts[0]));
    for (;; worker->phase++) {
        for (worker->op = 0; worker->op < program.ops && !failed(); worker->op++)
            execute(worker);
        if (worker->phase + 1 == program.phases)
            break;
        if (!failed())
            hand_over_all(worker);
        pthread_barrier_wait(&barrier);
    }
    digest(worker);
    pthread_barrier_wait(&barrier);
    if (!failed())
        clean_up(worker);
    return NULL;
}

static void run_threads(void)
{
    pthread_t threads[MOST_THREADS];
    pthread_barrier_init(&barrier, NULL, program.threads);
    for (uint32_t i = 1; i < program.threads; i++)
        pthread_create(&threads[i], NULL, work, &program.workers[i]);
    work(&program.workers[0]);
    for (uint32_t i = 1; i < program.threads; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&barrier);
}

static void destroy_events(struct sync *sync)
{
    for (uint32_t gpu = 0; gpu < 2; gpu++)
        if (sync->events[gpu])
            cuEventDestroy(sync->events[gpu]);
}

static bool begin_context(void)
{
    struct worker *worker = &program.workers[0];
    program.contexts[0] = primary[0];
    program.contexts[1] = primary[1];
    if (program.own_context && CU(cuCtxCreate(&program.contexts[0], NULL, 0, 0)))
        return work_start(program.contexts[0], 2);
    return !failed();
}

static void end_context(void)
{
    struct worker *worker = &program.workers[0];
    for (uint32_t i = 0; i < SLOTS; i++)
        destroy_events(&program.slots[i].sync);
    for (uint32_t i = 0; i < MODULES; i++)
        destroy_events(&program.modules[i].sync);
    for (uint32_t i = 0; i < TABLES; i++)
        destroy_events(&program.tables[i].sync);
    blocks_end(worker);
    if (program.own_context)
        CU(cuCtxDestroy(program.contexts[0]));
}

bool run_program(const struct request *request, uint64_t *result, char failure[256])
{
    now = request;
    make_program(request->seed, request->without);
    if (begin_context())
        run_threads();
    if (!failed())
        end_context();
    *result = request->seed;
    for (uint32_t i = 0; i < program.threads; i++)
        *result = scramble(*result + program.workers[i].digest);
    memcpy(failure, program.failure, sizeof program.failure);
    return !program.failed;
}

void run_describe(uint64_t seed, uint32_t without)
{
    make_program(seed, without);
    printf("%lu threads %u phases %u ops %u context %s features", (unsigned long)seed, program.threads, program.phases,
           program.ops, program.own_context ? "own" : "primary");
    for (uint32_t i = 0; i < FEATURE_COUNT; i++)
        if (uses(&program, (enum feature)i))
            printf(" %s", feature_names[i]);
    printf("\n");
}

bool run_start(void)
{
    if (cuInit(0) != CUDA_SUCCESS || cuDeviceGetCount(&gpus) != CUDA_SUCCESS)
        return false;
    for (int i = 0; i < 2 && i < gpus; i++)
        if (cuDevicePrimaryCtxRetain(&primary[i], i) != CUDA_SUCCESS || !work_start(primary[i], (uint32_t)i))
            return false;
    return cuCtxSetCurrent(primary[0]) == CUDA_SUCCESS;
}
