/* See evaluators.h. */
#include "launch/evaluators.h"

#include <poll.h>
#include <pthread.h>

#include <tessera/access.h>

#include "base/map.h"
#include "base/os.h"
#include "base/vec.h"
#include "lane/functions.h"

#define LOOK_MS 20 /* a function's first launches come before its template, or long after */

struct known {
    const void *template;
    uint32_t bytes;
};

struct all_known {
    struct known *data;
    size_t count, capacity;
};

static struct tsr_map made;                              /* by the template's bytes in the table */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* making them, and `running` */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool running;  /* atomic; the thread that makes them */
static uint32_t home; /* the GPU that runs the launches which are asked about; before `running` */

/* The parent's threads may have been making one. */
static void forget_parent(void)
{
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    made = (struct tsr_map){0};
    running = false;
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, forget_parent);
}

static struct tsr_access *make_locked(const void *template, uint32_t bytes)
{
    uint64_t key = (uintptr_t)template;
    struct tsr_access *access = tsr_map_find(&made, key);
    if (access)
        return access;
    access = tsr_access_create(template, bytes, TSR_ACCESS_MEMO_ENTRIES);
    if (access && !tsr_map_set(&made, key, access)) {
        tsr_access_destroy(access);
        return NULL;
    }
    return access;
}

struct tsr_access *tsr_evaluator_of(const void *template, uint32_t bytes)
{
    struct tsr_access *access = template ? tsr_map_find(&made, (uintptr_t)template) : NULL;
    if (!template || access)
        return access;
    pthread_mutex_lock(&lock);
    access = make_locked(template, bytes);
    pthread_mutex_unlock(&lock);
    return access;
}

void tsr_evaluators_expect(const void *handle)
{
    struct tsr_function_record *function = __atomic_load_n(&running, __ATOMIC_ACQUIRE) ? tsr_function_find(handle) : NULL;
    uint32_t bytes;
    const void *template = function ? tsr_function_template(function, home, &bytes) : NULL;
    if (template)
        tsr_evaluator_of(template, bytes);
}

/* What is listed is made when nobody waits for the table of functions. */
static void list(uint64_t handle, void *function, void *argument)
{
    struct all_known *all = argument;
    struct known known;
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
        tsr_evaluator_of(all.data[i].template, all.data[i].bytes);
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
    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&lock);
    home = gpu;
    bool runs = running || tsr_os_thread_start(&thread, "tessera-known", keep_making, NULL);
    if (runs && !running)
        pthread_detach(thread);
    __atomic_store_n(&running, runs, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&lock);
}
