/*
 * The worker threads: they share out the teams of one grid at a time, together with the thread that called tsr_grid_run.
 *
 * Teams start in the order of their number. One that only waits for others goes to the end of the grid's queue, and new teams and
 * queued ones run in turn. A forked child has no worker threads until it needs them.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/fork.h"
#include "base/os.h"
#include "base/options.h"
#include "heap.h"
#include "printf.h"
#include "state.h"

#define MAX_WORKERS 64u
#define SMALL_GRID_THREADS 2048u /* not worth waking others for */
#define TICKS_PER_LOOK 32u       /* slices between looks at the clock */
#define VAIN_IN_A_ROW 32u        /* and as many as there are queued teams: the rest of the quantum is given up */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t work, idle;
    pthread_mutex_t caller; /* held by the thread whose grid the workers run */
    uint32_t wanted;        /* 0: number of CPUs; includes the calling thread */
    uint32_t threads, failed;
    /* the job; under lock */
    struct tsr_grid *grid;
    const struct tsr_snapshot *snapshot;
    uint64_t deadline_ns;
    uint64_t number;
    uint32_t busy, helpers; /* working on it; how many more may join */
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER,
          .work = PTHREAD_COND_INITIALIZER,
          .idle = PTHREAD_COND_INITIALIZER,
          .caller = PTHREAD_MUTEX_INITIALIZER};

static void child(void)
{
    pthread_mutex_init(&pool.lock, NULL);
    pthread_mutex_init(&pool.caller, NULL);
    pthread_cond_init(&pool.work, NULL);
    pthread_cond_init(&pool.idle, NULL);
    pool.threads = pool.failed = pool.busy = 0;
    pool.grid = NULL;
    tsr_team_cache_child();
    tsr_grid_child();
    tsr_heap_child();
}

static const struct tsr_fork_listener forks = {.in_child = child};

void tsr_exec_workers(uint32_t count)
{
    pthread_mutex_lock(&pool.lock);
    pool.wanted = count;
    pthread_mutex_unlock(&pool.lock);
}

static void worker_begin(struct tsr_worker *worker, struct tsr_grid *grid, const struct tsr_snapshot *snapshot,
                         uint64_t deadline_ns, bool alone)
{
    tsr_worker_forget_ranges(worker);
    worker->grid = grid;
    worker->snapshot = snapshot;
    worker->deadline_ns = deadline_ns;
    worker->epoch = grid->epoch;
    worker->alone = alone;
    worker->traced = grid->trace != NULL;
    worker->progressed = false;
    worker->team = NULL;
    memset(&worker->cost, 0, sizeof worker->cost);
}

static void cost_add(struct tsr_cost *sum, const struct tsr_cost *cost)
{
    sum->warp_instructions += cost->warp_instructions;
    sum->lane_instructions += cost->lane_instructions;
    sum->issue_cycles += cost->issue_cycles;
    sum->l2_bytes += cost->l2_bytes;
    sum->shared_cycles += cost->shared_cycles;
    sum->atomics += cost->atomics;
    for (unsigned location = 0; location <= TSR_LOCATION_HOST; location++) {
        sum->dram_read_bytes[location] += cost->dram_read_bytes[location];
        sum->dram_write_bytes[location] += cost->dram_write_bytes[location];
    }
    if (cost->longest_block_cycles > sum->longest_block_cycles)
        sum->longest_block_cycles = cost->longest_block_cycles;
}

static void queue_add_locked(struct tsr_grid *grid, struct tsr_team *team, bool first)
{
    team->next = first ? grid->queue_first : NULL;
    if (first || grid->queue_first == NULL) {
        grid->queue_first = team;
        if (team->next == NULL)
            grid->queue_last = team;
    } else {
        grid->queue_last->next = team;
        grid->queue_last = team;
    }
    __atomic_add_fetch(&grid->queued, 1, __ATOMIC_RELAXED);
}

/* The next team to work on: a new one and one from the queue by turns. NULL: none that nobody else works on. */
static struct tsr_team *team_take(struct tsr_grid *grid, struct tsr_worker *worker, bool prefer_queue)
{
    struct tsr_team *team = NULL;
    pthread_mutex_lock(&grid->lock);
    bool fresh = grid->next_team < grid->team_count && grid->resident < grid->resident_limit;
    if (grid->queue_first != NULL && (prefer_queue || !fresh)) {
        team = grid->queue_first;
        grid->queue_first = team->next;
        __atomic_sub_fetch(&grid->queued, 1, __ATOMIC_RELAXED);
    } else if (fresh) {
        uint64_t index = grid->next_team++;
        grid->resident++;
        pthread_mutex_unlock(&grid->lock);
        team = tsr_team_get(grid, worker, index);
        if (team != NULL)
            return team;
        pthread_mutex_lock(&grid->lock);
        if (grid->fault.kind == TSR_FAULT_NONE)
            grid->fault =
                (struct tsr_fault){.kind = TSR_FAULT_TRAP, .result = CUDA_ERROR_OUT_OF_MEMORY, .function = grid->function};
        __atomic_store_n(&grid->stopping, 1, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&grid->lock);
    return team;
}

static void team_finish(struct tsr_grid *grid, struct tsr_worker *worker, struct tsr_team *team)
{
    pthread_mutex_lock(&grid->lock);
    grid->finished++;
    grid->resident--;
    tsr_text_hand_over_locked(grid, team);
    pthread_mutex_unlock(&grid->lock);
    worker->team = team;
}

static void team_queue(struct tsr_grid *grid, struct tsr_team *team, bool first)
{
    pthread_mutex_lock(&grid->lock);
    queue_add_locked(grid, team, first);
    pthread_mutex_unlock(&grid->lock);
}

void tsr_grid_work(struct tsr_grid *grid, struct tsr_worker *worker)
{
    bool prefer_queue = true, time = true;
    uint32_t vain = 0;
    while (time && !__atomic_load_n(&grid->stopping, __ATOMIC_ACQUIRE)) {
        struct tsr_team *team = team_take(grid, worker, prefer_queue);
        if (team == NULL)
            break;
        prefer_queue = !prefer_queue;
        enum tsr_team_result result = tsr_team_run(team, worker);
        if (result != TSR_TEAM_VAIN) {
            vain = 0;
            worker->progressed = true;
        }
        switch (result) {
        case TSR_TEAM_DONE:
            team_finish(grid, worker, team);
            if (worker->ticks >= TICKS_PER_LOOK) {
                worker->ticks = 0;
                time = tsr_os_monotonic_ns() < worker->deadline_ns;
            }
            break;
        case TSR_TEAM_VAIN:
            team_queue(grid, team, false);
            vain++;
            time = vain % 16 != 0 || tsr_os_monotonic_ns() < worker->deadline_ns;
            if (vain > VAIN_IN_A_ROW + 2 * __atomic_load_n(&grid->queued, __ATOMIC_RELAXED))
                time = false;
            break;
        case TSR_TEAM_TIME:
        case TSR_TEAM_STOPPED:
            team_queue(grid, team, true);
            time = false;
            break;
        }
    }
    pthread_mutex_lock(&grid->lock);
    cost_add(&grid->cost, &worker->cost);
    grid->progressed |= worker->progressed;
    pthread_mutex_unlock(&grid->lock);
    if (worker->team != NULL)
        tsr_team_put(worker->team);
}

static void *thread_main(void *argument)
{
    struct tsr_worker *worker = argument;
    uint64_t seen = 0;
    pthread_mutex_lock(&pool.lock);
    for (;;) {
        while (pool.grid == NULL || pool.number == seen || pool.helpers == 0)
            pthread_cond_wait(&pool.work, &pool.lock);
        seen = pool.number;
        pool.busy++;
        pool.helpers--;
        worker_begin(worker, pool.grid, pool.snapshot, pool.deadline_ns, false);
        pthread_mutex_unlock(&pool.lock);
        tsr_grid_work(worker->grid, worker);
        pthread_mutex_lock(&pool.lock);
        if (--pool.busy == 0)
            pthread_cond_signal(&pool.idle);
    }
    return NULL;
}

/* How many threads besides the caller may work. */
static uint32_t threads_start_locked(void)
{
    uint32_t wanted = pool.wanted != 0              ? pool.wanted
                      : tsr_options()->workers != 0 ? (uint32_t)tsr_options()->workers
                                                    : tsr_os_cpu_count();
    if (wanted > MAX_WORKERS)
        wanted = MAX_WORKERS;
    while (pool.threads + 1 < wanted && !pool.failed) {
        pthread_t thread;
        struct tsr_worker *worker = calloc(1, sizeof *worker);
        if (worker == NULL || !tsr_os_thread_start(&thread, "tsr-worker", thread_main, worker)) {
            free(worker);
            pool.failed = 1; /* those that are there must do */
            break;
        }
        pthread_detach(thread);
        pool.threads++;
    }
    return pool.threads < wanted - 1 ? pool.threads : wanted - 1;
}

void tsr_pool_run(struct tsr_grid *grid, const struct tsr_snapshot *snapshot, uint64_t deadline_ns)
{
    struct tsr_worker worker;
    uint32_t helpers = 0;
    tsr_fork_listen(&forks);
    bool shared = grid->team_count > 1 && grid->block_count * grid->threads >= SMALL_GRID_THREADS &&
                  pthread_mutex_trylock(&pool.caller) == 0;
    if (shared) {
        pthread_mutex_lock(&pool.lock);
        helpers = threads_start_locked();
        if (helpers != 0) {
            pool.grid = grid;
            pool.snapshot = snapshot;
            pool.deadline_ns = deadline_ns;
            pool.number++;
            pool.helpers = helpers;
            pthread_cond_broadcast(&pool.work);
        }
        pthread_mutex_unlock(&pool.lock);
    }
    worker_begin(&worker, grid, snapshot, deadline_ns, helpers == 0);
    worker.ticks = 0;
    tsr_grid_work(grid, &worker);
    if (shared) {
        pthread_mutex_lock(&pool.lock);
        pool.grid = NULL;
        while (pool.busy != 0)
            pthread_cond_wait(&pool.idle, &pool.lock);
        pthread_mutex_unlock(&pool.lock);
        pthread_mutex_unlock(&pool.caller);
    }
}
