/*
 * The life of the driver in one process: not initialised, ready, over. A forked child of a process that had initialised the driver
 * never gets ready again, as on hardware. When the process exits the driver is over: calls from later exit handlers answer
 * DEINITIALIZED; threads that still run work are left alone, and nothing that they use is taken down.
 */
#include <pthread.h>
#include <stdlib.h>

#include "base/fork.h"
#include "base/log.h"
#include "base/options.h"

#include "../machine/live.h"
#include "../machine/map.h"
#include "context.h"

enum driver_state { DRIVER_NEW, DRIVER_READY, DRIVER_FORKED, DRIVER_OVER };

#define EXIT_FUNCTIONS 8

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int state;                   /* atomic; enum driver_state; changes under lock, except in a forked child */
static struct tsr_machine *machine; /* set before state becomes DRIVER_READY */
static int process_row = -1;        /* likewise */
static void (*exit_functions[EXIT_FUNCTIONS])(void); /* lock */
static unsigned exit_function_count;                 /* lock */

static int state_get(void)
{
    return __atomic_load_n(&state, __ATOMIC_ACQUIRE);
}

static void in_forked_child(void)
{
    if (state_get() != DRIVER_NEW)
        __atomic_store_n(&state, DRIVER_FORKED, __ATOMIC_RELEASE);
    pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
    lock = fresh;
}

static const struct tsr_fork_listener forks = {.in_child = in_forked_child};

static void at_exit(void)
{
    if (state_get() != DRIVER_READY)
        return;
    __atomic_store_n(&state, DRIVER_OVER, __ATOMIC_RELEASE);
    while (exit_function_count)
        exit_functions[--exit_function_count]();
    tsr_live_detach(machine, process_row);
}

static CUresult start(void)
{
    CUresult result = tsr_machine_map(tsr_options()->machine, tsr_options()->visible_devices, &machine);
    if (result != CUDA_SUCCESS)
        return result;
    process_row = tsr_live_attach(machine);
    if (!tsr_fork_listen(&forks) || atexit(at_exit) != 0)
        tsr_warn("no memory to watch for forks and exit");
    tsr_info("emulated machine with %u devices, first: %s", machine->device_count, machine->devices[0].name);
    return CUDA_SUCCESS;
}

CUresult tsr_driver_init(void)
{
    pthread_mutex_lock(&lock);
    CUresult result = CUDA_SUCCESS;
    if (state == DRIVER_NEW) {
        result = start();
        if (result == CUDA_SUCCESS)
            __atomic_store_n(&state, DRIVER_READY, __ATOMIC_RELEASE);
    } else {
        result = tsr_driver_ready();
    }
    pthread_mutex_unlock(&lock);
    return result;
}

CUresult tsr_driver_ready(void)
{
    switch (state_get()) {
    case DRIVER_READY:
        return CUDA_SUCCESS;
    case DRIVER_OVER:
        return CUDA_ERROR_DEINITIALIZED;
    default:
        return CUDA_ERROR_NOT_INITIALIZED;
    }
}

void tsr_driver_at_exit(void (*fn)(void))
{
    pthread_mutex_lock(&lock);
    if (exit_function_count < EXIT_FUNCTIONS)
        exit_functions[exit_function_count++] = fn;
    pthread_mutex_unlock(&lock);
}

struct tsr_machine *tsr_machine_instance(void)
{
    return state_get() == DRIVER_NEW ? NULL : machine;
}

int tsr_driver_process_row(void)
{
    return process_row;
}
