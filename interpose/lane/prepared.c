/* See prepared.h. */
#include "lane/prepared.h"

#include <poll.h>
#include <pthread.h>
#include <stddef.h>

#include "base/fork.h"
#include "base/os.h"
#include "lane/functions.h"
#include "object/registry.h"
#include "object/session.h"

#define PAUSE_MS 1 /* between functions: who waits to ask an executor for something else comes first */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct tsr_function_record *first, **end = &first; /* lock; to be sent, by `next`; each is kept (tsr_function_keep) */
static const struct tsr_module_record *sending;           /* lock; whose function is being sent; NULL: none */
static uint32_t unsent;                                   /* atomic; of all that were listed, with the one that is being sent */
static bool running;                                      /* atomic */

static void forget_parent(void)
{
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    changed = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    first = NULL;
    end = &first;
    sending = NULL;
    unsent = 0;
    running = false;
}

static const struct tsr_fork_listener forks = {.in_child = forget_parent};

/* at: what leads to it. */
static struct tsr_function_record *take_locked(struct tsr_function_record **at)
{
    struct tsr_function_record *function = *at;
    *at = function->next;
    if (end == &function->next)
        end = at;
    return function;
}

static void *keep_sending(void *argument)
{
    (void)argument;
    for (;;) {
        pthread_mutex_lock(&lock);
        while (!first)
            pthread_cond_wait(&changed, &lock);
        struct tsr_function_record *function = take_locked(&first);
        sending = function->module;
        pthread_mutex_unlock(&lock);
        const struct tsr_session *session = tsr_session();
        for (uint32_t i = 0; session && i < session->lane_count; i++) {
            enum tsr_reason reason; /* a launch asks for it again */
            tsr_function_prepare(function, session->lanes[i], &reason);
        }
        pthread_mutex_lock(&lock);
        sending = NULL;
        __atomic_sub_fetch(&unsent, 1, __ATOMIC_RELEASE);
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
        tsr_function_give(function);
        poll(NULL, 0, PAUSE_MS);
    }
    return NULL;
}

void tsr_prepared_start(void)
{
    pthread_t thread;
    tsr_fork_listen(&forks);
    pthread_mutex_lock(&lock);
    bool runs = running || tsr_os_thread_start(&thread, "tessera-code", keep_sending, NULL);
    if (runs && !running)
        pthread_detach(thread);
    __atomic_store_n(&running, runs, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&lock);
}

static void list(struct tsr_function_record *function)
{
    pthread_mutex_lock(&lock);
    if (!function->listed && tsr_function_keep(function)) {
        __atomic_store_n(&function->listed, true, __ATOMIC_RELEASE);
        function->next = NULL;
        *end = function;
        end = &function->next;
        __atomic_add_fetch(&unsent, 1, __ATOMIC_RELAXED);
        pthread_cond_broadcast(&changed);
    }
    pthread_mutex_unlock(&lock);
}

uint16_t tsr_unprepared_lanes(struct tsr_function_record *function)
{
    if (!__atomic_load_n(&running, __ATOMIC_ACQUIRE) || !function->module || function->module->image < 0)
        return 0;
    if (!__atomic_load_n(&function->listed, __ATOMIC_ACQUIRE))
        list(function);
    if (__atomic_load_n(&unsent, __ATOMIC_ACQUIRE)) /* an executor that is loading code answers nobody else */
        return UINT16_MAX;
    unsigned refused = __atomic_load_n(&function->refused, __ATOMIC_RELAXED) |
                       __atomic_load_n(&function->module->refused, __ATOMIC_RELAXED); /* at once, with the reason */
    return (uint16_t)~(__atomic_load_n(&function->sent, __ATOMIC_ACQUIRE) | refused);
}

void tsr_prepared_forget(struct tsr_module_record *module)
{
    if (!__atomic_load_n(&running, __ATOMIC_ACQUIRE))
        return;
    struct tsr_function_record *gone = NULL;
    pthread_mutex_lock(&lock);
    for (struct tsr_function_record **at = &first; *at;) {
        if ((*at)->module != module) {
            at = &(*at)->next;
            continue;
        }
        struct tsr_function_record *function = take_locked(at);
        function->next = gone;
        gone = function;
        __atomic_sub_fetch(&unsent, 1, __ATOMIC_RELEASE);
    }
    while (sending == module)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    while (gone) {
        struct tsr_function_record *function = gone;
        gone = function->next;
        tsr_function_give(function);
    }
}
