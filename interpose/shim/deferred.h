/*
 * Launches that return at once: what a launch needs is copied into a ring (work_ring.h), and a thread of ours decides about it and gives it to a GPU, while the program's
 * thread goes on. So do memsets and copies on the GPU, and launches of graphs. All other calls of the driver that enqueue work or could see that some is missing first wait until our thread has
 * caught up (forward.c), so the program cannot tell, but for errors of launches, which a later call returns, as it does those of kernels.
 *
 * Each thread of the program that launches more than a little has a ring and a thread of its own, as long as there are enough CPUs. What threads do waits for work that others have
 * deferred only where that comes before by the order of streams: a thread may be held up in a stream until another one has done something in its own. Only what the driver would take is deferred: launches of a
 * function that it has taken before, of a shape within the function's limits, work on bytes within one allocation, and graphs that it has launched as they are now.
 */
#ifndef TSR_SHIM_DEFERRED_H
#define TSR_SHIM_DEFERRED_H

#include "api/driver.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "driver/rows.h"

struct tsr_launch;
struct tsr_session;

/* Bits of tsr_deferring: work may be deferred; the program takes something for done that may not be (skipped_wait.h). */
#define TSR_DEFERRED 1u
#define TSR_SKIPPED 2u
/* atomic; not 0: calls may have something to wait for. Read by forward.c. */
extern uint32_t tsr_deferring __attribute__((visibility("hidden")));

/* Of a session that is about to be engaged. emulated: on emulated GPUs, whose virtual time would depend on how fast the thread is. */
void tsr_deferred_start(const struct tsr_session *session, bool emulated);

/*
 * Before a call that deferred work concerns: until that has been given to GPUs. all: concerned are all threads; else only the one whose work it is.
 * wait_for: a call with a stream. Errors: the first of the thread's deferred work, if it was not told of it, or of that of a thread that has ended; and those of what was
 * skipped.
 */
CUresult tsr_deferred_wait(bool all) __attribute__((visibility("hidden")));
CUresult tsr_deferred_wait_for_slow(CUstream stream);
/* The same, but what was skipped stays so. */
CUresult tsr_deferred_await_slow(CUstream stream);

/* Before a change that launches of the function given before are not to see, those of other threads: until they have been given to GPUs. */
struct tsr_function_record;
CUresult tsr_deferred_await_launches(const struct tsr_function_record *function);

bool tsr_deferred_launch_slow(struct tsr_launch *launch, CUresult *result);
bool tsr_deferred_set_slow(enum tsr_row row, CUdeviceptr to, uint32_t value, uint32_t element, size_t count, CUstream stream,
                           CUresult *result);
bool tsr_deferred_copy_slow(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream, CUresult *result);
bool tsr_deferred_graph_slow(CUgraphExec exec, CUstream named, CUresult *result);

/* Whether calls may have something to wait for. */
static inline bool tsr_deferred_is_on(void)
{
    return __builtin_expect(__atomic_load_n(&tsr_deferring, __ATOMIC_RELAXED) != 0, 0);
}

static inline CUresult tsr_deferred_wait_for(CUstream stream)
{
    return tsr_deferred_is_on() ? tsr_deferred_wait_for_slow(stream) : CUDA_SUCCESS;
}

static inline CUresult tsr_deferred_await(CUstream stream)
{
    return tsr_deferred_is_on() ? tsr_deferred_await_slow(stream) : CUDA_SUCCESS;
}

/* A launch, a memset of elements of so many bytes, a copy on GPUs, a graph's launch is about to be carried out. True: there is nothing left to do than to return the result. */
static inline bool tsr_deferred_launch(struct tsr_launch *launch, CUresult *result)
{
    return tsr_deferred_is_on() && tsr_deferred_launch_slow(launch, result);
}

static inline bool tsr_deferred_set(enum tsr_row row, CUdeviceptr to, uint32_t value, uint32_t element, size_t count,
                                    CUstream stream, CUresult *result)
{
    return tsr_deferred_is_on() && tsr_deferred_set_slow(row, to, value, element, count, stream, result);
}

static inline bool tsr_deferred_copy(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream, CUresult *result)
{
    return tsr_deferred_is_on() && tsr_deferred_copy_slow(to, from, bytes, stream, result);
}

/* The stream is named. */
static inline bool tsr_deferred_graph(CUgraphExec exec, CUstream named, CUresult *result)
{
    return tsr_deferred_is_on() && tsr_deferred_graph_slow(exec, named, result);
}

void tsr_deferred_note_slow(const struct tsr_launch *launch);

/* The driver has taken a launch. */
static inline void tsr_deferred_note(const struct tsr_launch *launch)
{
    if (tsr_deferred_is_on())
        tsr_deferred_note_slow(launch);
}

#endif
