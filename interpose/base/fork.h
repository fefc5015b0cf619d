/*
 * What parts of a process do when it forks. A child has one thread, and must not use what the other threads of its parent held: locks are made
 * anew, tables that describe the parent are emptied. The only place that calls pthread_atfork in a library, so that the order of its parts is
 * known: in the child, and in the parent afterwards, they are told in the order in which they began to listen; before the fork in the reverse order.
 */
#ifndef TSR_BASE_FORK_H
#define TSR_BASE_FORK_H

#include <stdbool.h>

/* Each may be NULL. */
struct tsr_fork_listener {
    void (*before)(void);
    void (*in_parent)(void);
    void (*in_child)(void);
};

/* From now on; once, however often a listener asks. By any thread. False: there is no memory, or no room. The listener is kept. */
bool tsr_fork_listen(const struct tsr_fork_listener *listener);

#endif
