/*
 * What the parts of a process do when it forks. A child has one thread, and must not use what other threads of its parent held: locks are
 * initialised again, and tables that describe the parent are emptied. This is the only place in a library that calls pthread_atfork, so the order
 * is defined: in the child, and in the parent after the fork, listeners are called in the order in which they registered; before the fork in reverse.
 * One that registers while another thread forks may be called in the child alone, never in the parent alone.
 *
 * The shim registers none before the driver's own cuInit: what it does before a fork may take calls of the driver, which must not have prepared
 * for the fork by then.
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
