/* See fork.h. Needs no lock, which a fork could leave taken in the child. */
#include "base/fork.h"

#include <pthread.h>
#include <stddef.h>

#define LISTENERS 24u

static const struct tsr_fork_listener *listeners[LISTENERS]; /* atomic; from the first NULL on, none */
static bool watching;                                        /* atomic */
static __thread unsigned begun; /* of the fork that this thread is in: as many listeners were called before it */

static const struct tsr_fork_listener *listener_at(unsigned place)
{
    return place < LISTENERS ? __atomic_load_n(&listeners[place], __ATOMIC_ACQUIRE) : NULL;
}

static void before(void)
{
    unsigned count = 0;
    while (listener_at(count))
        count++;
    begun = count;
    while (count--)
        if (listener_at(count)->before)
            listener_at(count)->before();
}

/* Not those that another thread has added since: they would give back what they never took. */
static void in_parent(void)
{
    for (unsigned i = 0; i < begun; i++)
        if (listener_at(i)->in_parent)
            listener_at(i)->in_parent();
    begun = 0;
}

static void in_child(void)
{
    for (unsigned i = 0; listener_at(i); i++)
        if (listener_at(i)->in_child)
            listener_at(i)->in_child();
}

static void watch(void)
{
    if (pthread_atfork(before, in_parent, in_child) == 0)
        __atomic_store_n(&watching, true, __ATOMIC_RELEASE);
}

/* The place that the listener has, or takes. */
static bool take_place(const struct tsr_fork_listener *listener)
{
    for (unsigned place = 0; place < LISTENERS; place++) {
        const struct tsr_fork_listener *found = NULL;
        if (__atomic_compare_exchange_n(&listeners[place], &found, listener, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE) ||
            found == listener)
            return true;
    }
    return false;
}

bool tsr_fork_listen(const struct tsr_fork_listener *listener)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch);
    return __atomic_load_n(&watching, __ATOMIC_ACQUIRE) && take_place(listener);
}
