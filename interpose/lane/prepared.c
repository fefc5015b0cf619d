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
static struct tsr_function_record *sending;               /* lock; to all lanes at the same time; NULL: none */
static uint64_t turn;                                     /* lock; counts functions that were sent */
static uint32_t lanes;  /* atomic; as many have a thread; 0: nothing is sent in the background */
static uint32_t left;   /* lock; lanes to which `sending` has not been sent yet */
static uint32_t unsent; /* atomic; of all that were listed, with the one that is being sent */

static void forget_parent(void)
{
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    changed = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    first = sending = NULL;
    end = &first;
    lanes = left = unsent = 0;
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

static void begin_next_locked(void)
{
    if (sending || !first)
        return;
    sending = take_locked(&first);
    __atomic_store_n(&sending->was_listed, true, __ATOMIC_RELAXED); /* new attributes meanwhile call for another time */
    left = lanes;
    turn++;
    pthread_cond_broadcast(&changed);
}

/* It has been sent to one lane more. */
static void end_locked(void)
{
    if (--left)
        return;
    __atomic_store_n(&sending->is_listed, false, __ATOMIC_RELAXED);
    tsr_function_give(sending);
    sending = NULL;
    __atomic_sub_fetch(&unsent, 1, __ATOMIC_RELEASE);
    pthread_cond_broadcast(&changed);
    begin_next_locked();
}

/* A lane's thread: executors load at the same time. */
static void *keep_sending(void *argument)
{
    struct tsr_lane_client *lane = argument;
    pthread_mutex_lock(&lock);
    for (uint64_t seen = 0;;) {
        while (!sending || seen == turn)
            pthread_cond_wait(&changed, &lock);
        struct tsr_function_record *function = sending;
        enum tsr_reason reason; /* a launch asks for it again */
        seen = turn;
        pthread_mutex_unlock(&lock);
        tsr_function_prepare(function, lane, &reason);
        pthread_mutex_lock(&lock);
        end_locked();
        pthread_mutex_unlock(&lock);
        poll(NULL, 0, PAUSE_MS);
        pthread_mutex_lock(&lock);
    }
    return NULL;
}

void tsr_prepared_start(const struct tsr_session *session)
{
    pthread_t thread;
    tsr_fork_listen(&forks);
    pthread_mutex_lock(&lock);
    uint32_t count = lanes;
    while (!lanes && count < session->lane_count &&
           tsr_os_thread_start(&thread, "tessera-code", keep_sending, session->lanes[count])) {
        pthread_detach(thread);
        count++;
    }
    __atomic_store_n(&lanes, count, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&lock);
}

static void list(struct tsr_function_record *function)
{
    pthread_mutex_lock(&lock);
    if (!function->is_listed && tsr_function_keep(function)) {
        __atomic_store_n(&function->is_listed, true, __ATOMIC_RELAXED);
        function->next = NULL;
        *end = function;
        end = &function->next;
        __atomic_add_fetch(&unsent, 1, __ATOMIC_RELAXED);
        begin_next_locked();
    }
    pthread_mutex_unlock(&lock);
}

uint16_t tsr_unprepared_lanes(struct tsr_function_record *function)
{
    if (!__atomic_load_n(&lanes, __ATOMIC_ACQUIRE) || !function->module || function->module->image < 0)
        return 0;
    if (!__atomic_load_n(&function->was_listed, __ATOMIC_RELAXED) && !__atomic_load_n(&function->is_listed, __ATOMIC_RELAXED))
        list(function);
    if (__atomic_load_n(&unsent, __ATOMIC_ACQUIRE)) /* an executor that is loading code answers nobody else */
        return UINT16_MAX;
    unsigned refused = __atomic_load_n(&function->refused, __ATOMIC_RELAXED) |
                       __atomic_load_n(&function->module->refused, __ATOMIC_RELAXED); /* at once, with the reason */
    return (uint16_t)~(__atomic_load_n(&function->sent, __ATOMIC_ACQUIRE) | refused);
}

void tsr_prepared_forget(struct tsr_module_record *module)
{
    if (!__atomic_load_n(&lanes, __ATOMIC_ACQUIRE))
        return;
    pthread_mutex_lock(&lock);
    for (struct tsr_function_record **at = &first; *at;) {
        if ((*at)->module != module) {
            at = &(*at)->next;
            continue;
        }
        tsr_function_give(take_locked(at));
        __atomic_sub_fetch(&unsent, 1, __ATOMIC_RELEASE);
    }
    while (sending && sending->module == module)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}
