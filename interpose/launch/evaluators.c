/* See evaluators.h. */
#include "launch/evaluators.h"

#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>

#include <tessera/access.h>
#include <tessera/lane.h>

#include "base/fork.h"
#include "base/map.h"
#include "base/os.h"
#include "base/vec.h"
#include "lane/functions.h"
#include "object/shapes.h"

#define MOST_RANGES 512u
#define LOOK_MS 20 /* a function's first launches come before its template, or long after */

struct known {
    struct tsr_template_link link;
    const void *template;
    uint32_t bytes;
};

struct remembering {
    struct tsr_access *access;
    uint32_t count;
};

struct all_known {
    struct known *data;
    size_t count, capacity;
};

static struct tsr_map made;                              /* by the template's bytes in the table */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* making them, and `running` */
static void *scratch;                                    /* lock; of TSR_ACCESS_SCRATCH_BYTES; NULL: none yet */
static bool running;                                     /* atomic; the thread that makes them */
static uint32_t home; /* the GPU that runs the launches which are asked about; before `running` */

/* The parent's threads may have been making one. */
static void forget_parent(void)
{
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    made = (struct tsr_map){0};
    running = false;
}

static const struct tsr_fork_listener forks = {.in_child = forget_parent};

/* In an earlier run, or later in this one: addresses of the arena are those of allocations, others are not. */
static int is_allocated(void *context, uint64_t address, uint64_t *begin, uint64_t *end)
{
    (void)context;
    *begin = TSR_ARENA_ADDRESS;
    *end = TSR_ARENA_ADDRESS + TSR_ARENA_BYTES;
    return address >= *begin && address < *end;
}

/* What is remembered hangs on all that was asked of the launch: where another one has other answers it is no use, and no harm. */
static bool remember(const struct tsr_shape *shape, const void *parameters, void *argument)
{
    struct remembering *now = argument;
    static struct tsr_access_range ranges[MOST_RANGES]; /* lock */
    struct tsr_access_launch launch = {.grid = {shape->grid[0], shape->grid[1], shape->grid[2]},
                                       .block = {shape->block[0], shape->block[1], shape->block[2]},
                                       .shared_bytes = shape->shared_bytes,
                                       .parameter_bytes = shape->parameter_bytes,
                                       .parameters = parameters,
                                       .allocation = is_allocated};
    struct tsr_access_result result = {.ranges = ranges, .capacity = MOST_RANGES};
    tsr_access_evaluate(now->access, &launch, scratch, TSR_ACCESS_SCRATCH_BYTES, &result);
    return ++now->count < TSR_ACCESS_MEMO_ENTRIES;
}

/* Where variables of the module lie is another matter in each run. */
static void remember_all_locked(const struct tsr_template_link *link, struct tsr_access *access)
{
    struct remembering now = {.access = access};
    if (!scratch)
        scratch = tsr_os_map(NULL, TSR_ACCESS_SCRATCH_BYTES, PROT_READ | PROT_WRITE, -1, 0);
    if (scratch && tsr_access_symbols(access, NULL, 0) == 0)
        tsr_shapes_each(link, remember, &now);
}

static struct tsr_access *make_locked(const struct tsr_template_link *link, const void *template, uint32_t bytes)
{
    uint64_t key = (uintptr_t)template;
    struct tsr_access *access = tsr_map_find(&made, key);
    if (access)
        return access;
    access = tsr_access_create(template, bytes, TSR_ACCESS_MEMO_ENTRIES);
    if (access)
        remember_all_locked(link, access);
    if (access && !tsr_map_set(&made, key, access)) {
        tsr_access_destroy(access);
        return NULL;
    }
    return access;
}

struct tsr_access *tsr_evaluator_of(const struct tsr_template_link *link, const void *template, uint32_t bytes)
{
    struct tsr_access *access = template ? tsr_map_find(&made, (uintptr_t)template) : NULL;
    if (!template || access)
        return access;
    pthread_mutex_lock(&lock);
    access = make_locked(link, template, bytes);
    pthread_mutex_unlock(&lock);
    return access;
}

void tsr_evaluators_expect(const void *handle)
{
    struct tsr_function_record *function = __atomic_load_n(&running, __ATOMIC_ACQUIRE) ? tsr_function_find(handle) : NULL;
    uint32_t bytes;
    const void *template = function ? tsr_function_template(function, home, &bytes) : NULL;
    if (template)
        tsr_evaluator_of(&function->template, template, bytes);
}

/* What is listed is made when nobody waits for the table of functions. */
static void list(uint64_t handle, void *function, void *argument)
{
    struct all_known *all = argument;
    const struct tsr_template_link *link = &((const struct tsr_function_record *)function)->template;
    struct known known = {.link = {.code = link->code, .function = link->function}};
    (void)handle;
    known.template = tsr_function_template(function, home, &known.bytes);
    if (known.template && !tsr_map_find(&made, (uintptr_t)known.template))
        tsr_vec_push(all, known); /* without memory its first launch makes it */
}

static void make_all(void)
{
    struct all_known all = {0};
    tsr_functions_each(list, &all);
    for (size_t i = 0; i < all.count; i++)
        tsr_evaluator_of(&all.data[i].link, all.data[i].template, all.data[i].bytes);
    tsr_vec_fini(&all);
}

/* A function that comes after its template is looked at when it comes. */
static void *keep_making(void *argument)
{
    uint32_t seen = 0;
    (void)argument;
    for (;;) {
        uint32_t published = __atomic_load_n(tsr_templates_published, __ATOMIC_ACQUIRE);
        if (published != seen)
            make_all();
        seen = published;
        poll(NULL, 0, LOOK_MS);
    }
    return NULL;
}

void tsr_evaluators_start(uint32_t gpu)
{
    pthread_t thread;
    tsr_fork_listen(&forks);
    pthread_mutex_lock(&lock);
    home = gpu;
    bool runs = running || tsr_os_thread_start(&thread, "tessera-known", keep_making, NULL);
    if (runs && !running)
        pthread_detach(thread);
    __atomic_store_n(&running, runs, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&lock);
}
