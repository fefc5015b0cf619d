/* See deferred.h. */
#include "shim/deferred.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <tessera/access.h>

#include "base/fork.h"
#include "base/log.h"
#include "base/options.h"
#include "base/os.h"
#include "calls/calls.h"
#include "carry/record.h"
#include "driver/engaged.h"
#include "driver/real.h"
#include "driver/stream_handle.h"
#include "graph/instance.h"
#include "lane/streams.h"
#include "launch/call_memory.h"
#include "launch/launch.h"
#include "memory/address_map.h"
#include "memory/copies.h"
#include "object/capture.h"
#include "object/registry.h"
#include "object/session.h"
#include "schedule/automatic.h"
#include "schedule/plan.h"
#include "shim/redirect.h"
#include "shim/skipped_wait.h"
#include "shim/work_ring.h"

#define MOST_PARAMETERS 256u
#define MOST_RANGES 64u
#define MOST_WORKERS 16u
#define FEW 32u /* pieces of work of a thread, before it gets a worker */
#define LEAST_CPUS 4u
#define CPUS_PER_WORKER 2u
#define STREAMS 16u /* of a thread, of which it is known what was deferred in them */
#define NEVER 0u /* of TESSERA_DEFER */
#define ALWAYS 1u

/* What the work needs of the thread that it comes from. */
struct origin {
    CUcontext context;
    struct tessera_library_stated call; /* call 0: none */
};

/* Behind it a launch's attributes, the ranges of its library call, its parameters. */
struct launch {
    CUfunction function;
    const struct tsr_function_record *known;
    uint32_t grid[3], block[3], shared_bytes;
    uint32_t attribute_count;
};

struct set {
    CUdeviceptr to;
    uint32_t value;
    size_t count;
};

struct copy {
    CUdeviceptr to, from;
    size_t bytes;
};

struct entry {
    struct tsr_work_entry entry;
    enum tsr_row row;
    CUstream stream;
    struct origin origin;
    union {
        struct launch launch;
        struct set set;
        struct copy copy;
        CUgraphExec graph;
    };
} __attribute__((aligned(TSR_WORK_LINE)));

__typeof__(cuLaunchKernel) engaged_cuLaunchKernel;
__typeof__(cuLaunchKernelEx) engaged_cuLaunchKernelEx;
__typeof__(cuMemsetD8Async) engaged_cuMemsetD8Async;
__typeof__(cuMemsetD16Async) engaged_cuMemsetD16Async;
__typeof__(cuMemsetD32Async) engaged_cuMemsetD32Async;
__typeof__(cuMemcpyDtoDAsync_v2) engaged_cuMemcpyDtoDAsync_v2;
__typeof__(cuGraphLaunch) engaged_cuGraphLaunch;

uint32_t tsr_deferring TSR_HOT;

/*
 * A ring with its thread, and the thread of the program whose work it carries out. All others read for each of their launches what is seldom written, and lies in lines of
 * its own for that.
 */
struct worker {
    struct tsr_work_ring ring;
    /* Atomic; in the order of their first work; NULL: no more. */
    CUstream streams[STREAMS] __attribute__((aligned(TSR_WORK_LINE)));
    bool taken;     /* atomic; by a thread */
    CUresult error; /* atomic; of work, of which the thread was not told */
    /* Atomic: numbers of the last work in each of these streams and in any other one; and in those for which the legacy default stream waits, or may. */
    uint64_t last[STREAMS + 1] __attribute__((aligned(TSR_WORK_LINE)));
    uint64_t last_blocking;
};

static struct worker workers[MOST_WORKERS];
static uint32_t worker_count; /* atomic; those that have been started */
static uint32_t most_workers;
static pthread_mutex_t starting = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t thread_ends;
static __thread struct worker *own; /* NULL: none */
static __thread uint32_t made;      /* pieces of work, until there is one */

/* ---- what lies behind an entry ---- */

static CUlaunchAttribute *attributes_of(const struct entry *entry)
{
    return (CUlaunchAttribute *)(entry + 1);
}

static struct tsr_access_range *ranges_of(const struct entry *entry, uint32_t attribute_count)
{
    return (struct tsr_access_range *)(attributes_of(entry) + attribute_count);
}

static uint32_t range_count(const struct entry *entry)
{
    return entry->origin.call.count > 0 ? (uint32_t)entry->origin.call.count : 0;
}

/* As bytes from the entry on. */
static uint32_t parameters_begin(const struct entry *entry, uint32_t attribute_count)
{
    const struct tsr_access_range *end = ranges_of(entry, attribute_count) + range_count(entry);
    return tsr_work_rounded((uint64_t)((const uint8_t *)end - (const uint8_t *)entry));
}

/* ---- carrying out ---- */

static CUresult launch_now(const struct entry *entry)
{
    void *values[MOST_PARAMETERS];
    const struct launch *launch = &entry->launch;
    const struct tsr_parameters *layout = &launch->known->parameters;
    const uint32_t *grid = launch->grid, *block = launch->block;
    uint8_t *parameters = (uint8_t *)entry + parameters_begin(entry, launch->attribute_count);
    for (uint32_t i = 0; i < layout->count; i++)
        values[i] = parameters + layout->all[i].offset;
    if (entry->row == TSR_ROW_cuLaunchKernel)
        return engaged_cuLaunchKernel(launch->function, grid[0], grid[1], grid[2], block[0], block[1], block[2],
                                      launch->shared_bytes, entry->stream, values, NULL);
    const CUlaunchConfig config = {.gridDimX = grid[0],
                                   .gridDimY = grid[1],
                                   .gridDimZ = grid[2],
                                   .blockDimX = block[0],
                                   .blockDimY = block[1],
                                   .blockDimZ = block[2],
                                   .sharedMemBytes = launch->shared_bytes,
                                   .hStream = entry->stream,
                                   .attrs = attributes_of(entry),
                                   .numAttrs = launch->attribute_count};
    return engaged_cuLaunchKernelEx(&config, launch->function, values, NULL);
}

static CUresult work_now(const struct entry *entry)
{
    const struct set *set = &entry->set;
    switch (entry->row) {
    case TSR_ROW_cuMemsetD8Async:
        return engaged_cuMemsetD8Async(set->to, (unsigned char)set->value, set->count, entry->stream);
    case TSR_ROW_cuMemsetD16Async:
        return engaged_cuMemsetD16Async(set->to, (unsigned short)set->value, set->count, entry->stream);
    case TSR_ROW_cuMemsetD32Async:
        return engaged_cuMemsetD32Async(set->to, set->value, set->count, entry->stream);
    case TSR_ROW_cuMemcpyDtoDAsync_v2:
        return engaged_cuMemcpyDtoDAsync_v2(entry->copy.to, entry->copy.from, entry->copy.bytes, entry->stream);
    case TSR_ROW_cuGraphLaunch:
        return engaged_cuGraphLaunch(entry->graph, entry->stream);
    default:
        return launch_now(entry);
    }
}

static struct worker *worker_of(const struct tsr_work_entry *entry)
{
    uint32_t number = 0;
    while ((uintptr_t)entry - (uintptr_t)workers[number].ring.memory >= TSR_WORK_BYTES)
        number++;
    return &workers[number];
}

static void carry_out(const struct tsr_work_entry *in_ring)
{
    const struct entry *entry = (const struct entry *)in_ring;
    CUresult result = tsr_real.cuCtxSetCurrent(entry->origin.context), none = CUDA_SUCCESS;
    if (entry->origin.call.call)
        tessera_library_stand_in(&entry->origin.call);
    if (result == CUDA_SUCCESS)
        result = work_now(entry);
    if (entry->origin.call.call)
        tessera_library_stand_in(NULL);
    if (result == CUDA_SUCCESS)
        return;
    tsr_debug("deferred work failed (error %d, row %d of the driver table); a later call of its thread says so", (int)result,
              (int)entry->row);
    __atomic_compare_exchange_n(&worker_of(in_ring)->error, &none, result, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

/* ---- waiting ---- */

static CUresult wait_for_own(void)
{
    if (!own)
        return CUDA_SUCCESS;
    tsr_work_wait(&own->ring);
    if (__builtin_expect(__atomic_load_n(&own->error, __ATOMIC_RELAXED) == CUDA_SUCCESS, 1))
        return CUDA_SUCCESS;
    return __atomic_exchange_n(&own->error, CUDA_SUCCESS, __ATOMIC_ACQUIRE);
}

/* A stream's place, or where it would be: STREAMS if there is no more. */
static uint32_t place_of(const struct worker *worker, CUstream stream, bool *is_there)
{
    uint32_t place = 0;
    CUstream there = NULL;
    while (place < STREAMS && (there = __atomic_load_n(&worker->streams[place], __ATOMIC_RELAXED)) && there != stream)
        place++;
    *is_there = place == STREAMS || there;
    return place;
}

/* The number of the last work in it; 0: none. */
static uint64_t last_in(const struct worker *worker, CUstream stream)
{
    bool is_there;
    uint32_t place = place_of(worker, stream, &is_there);
    return is_there ? __atomic_load_n(&worker->last[place], __ATOMIC_ACQUIRE) : 0;
}

/* What a thread that has ended was not told. */
static void take_error(struct worker *worker, CUresult *result)
{
    if (__atomic_load_n(&worker->error, __ATOMIC_RELAXED) != CUDA_SUCCESS &&
        !__atomic_load_n(&worker->taken, __ATOMIC_ACQUIRE) && *result == CUDA_SUCCESS)
        *result = __atomic_exchange_n(&worker->error, CUDA_SUCCESS, __ATOMIC_ACQUIRE);
}

static CUresult wait_for_all_others(void)
{
    uint32_t count = __atomic_load_n(&worker_count, __ATOMIC_ACQUIRE);
    CUresult result = CUDA_SUCCESS;
    for (struct worker *worker = workers; worker < workers + count; worker++) {
        if (worker == own)
            continue;
        tsr_work_wait(&worker->ring);
        take_error(worker, &result);
    }
    return result;
}

/* It waits for no legacy stream, which may be held up in another thread. */
static bool is_free(CUstream stream)
{
    const struct tsr_stream *seen = tsr_stream_seen(stream, false);
    return seen && tsr_stream_is(seen, TSR_STREAM_FREE);
}

/* Work of other threads that comes before what this one does in the stream. */
static CUresult wait_for_others(CUstream stream)
{
    uint32_t count = __atomic_load_n(&worker_count, __ATOMIC_ACQUIRE);
    CUresult result = CUDA_SUCCESS;
    for (struct worker *worker = workers; worker < workers + count; worker++) {
        if (worker == own)
            continue;
        uint64_t number = last_in(worker, stream);
        uint64_t legacy = stream == CU_STREAM_LEGACY ? __atomic_load_n(&worker->last_blocking, __ATOMIC_ACQUIRE)
                                                     : last_in(worker, CU_STREAM_LEGACY);
        if (number)
            tsr_work_wait_for(&worker->ring, number);
        if (legacy && !tsr_work_is_done(&worker->ring, legacy) && !is_free(stream))
            tsr_work_wait_for(&worker->ring, legacy);
        take_error(worker, &result);
    }
    return result;
}

CUresult tsr_deferred_wait(bool all)
{
    if (tsr_work_is_mine)
        return CUDA_SUCCESS;
    CUresult others = all ? wait_for_all_others() : CUDA_SUCCESS, result = wait_for_own();
    if (result == CUDA_SUCCESS)
        result = others;
    return result == CUDA_SUCCESS && all ? tsr_wait_settle_for(NULL) : result;
}

CUresult tsr_deferred_await_slow(CUstream stream)
{
    if (tsr_work_is_mine)
        return CUDA_SUCCESS;
    CUresult others = wait_for_others(stream), result = wait_for_own();
    return result == CUDA_SUCCESS ? others : result;
}

CUresult tsr_deferred_wait_for_slow(CUstream stream)
{
    CUresult result = tsr_deferred_await_slow(stream);
    return result == CUDA_SUCCESS && !tsr_work_is_mine ? tsr_wait_settle_for(stream) : result;
}

CUresult tsr_deferred_await_launches(const struct tsr_function_record *function)
{
    uint32_t count = __atomic_load_n(&worker_count, __ATOMIC_ACQUIRE);
    uint32_t rings = __atomic_load_n(&function->deferred, __ATOMIC_ACQUIRE);
    CUresult result = CUDA_SUCCESS;
    for (uint32_t i = 0; i < count; i++) {
        if (!(rings >> i & 1) || &workers[i] == own)
            continue;
        tsr_work_wait(&workers[i].ring);
        take_error(&workers[i], &result);
    }
    return result;
}

/* It has to be carried out here. */
static bool do_it_here(CUstream stream, CUresult *result)
{
    *result = tsr_deferred_wait_for_slow(stream);
    return *result != CUDA_SUCCESS;
}

/* ---- deferring ---- */

/* The thread ends; what it launches after this it carries out itself. */
static void give_back(void *worker)
{
    own = NULL;
    made = 0;
    __atomic_store_n(&((struct worker *)worker)->taken, false, __ATOMIC_RELEASE);
}

/* Of a thread that has ended, and whose work has been carried out: it may be held up. */
static struct worker *take_free(void)
{
    uint32_t count = __atomic_load_n(&worker_count, __ATOMIC_ACQUIRE);
    for (struct worker *worker = workers; worker < workers + count; worker++)
        if (!__atomic_load_n(&worker->taken, __ATOMIC_ACQUIRE) &&
            tsr_work_is_done(&worker->ring, __atomic_load_n(&worker->ring.given, __ATOMIC_ACQUIRE)) &&
            !__atomic_exchange_n(&worker->taken, true, __ATOMIC_ACQUIRE))
            return worker;
    return NULL;
}

static struct worker *start_one(void)
{
    struct worker *worker = NULL;
    pthread_mutex_lock(&starting);
    if (worker_count < most_workers && tsr_work_start(&workers[worker_count].ring, carry_out)) {
        worker = &workers[worker_count];
        worker->taken = true;
        __atomic_store_n(&worker_count, worker_count + 1, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&starting);
    return worker;
}

/* Threads that launch little have none. */
static bool has_worker(void)
{
    if (__builtin_expect(own != NULL, 1))
        return true;
    if (++made % FEW)
        return false;
    own = take_free();
    if (!own)
        own = start_one();
    if (own && pthread_setspecific(thread_ends, own) != 0)
        give_back(own);
    return own;
}

/* False: an ended thread's work failed, which the next call says: the caller's own. */
static bool wait_for_others_first(CUstream stream)
{
    CUresult result = wait_for_others(stream);
    if (result != CUDA_SUCCESS)
        __atomic_store_n(&own->error, result, __ATOMIC_RELAXED);
    return result == CUDA_SUCCESS;
}

/* False: it has to be carried out here. */
static bool defers(CUstream stream)
{
    uint32_t deferring = __atomic_load_n(&tsr_deferring, __ATOMIC_RELAXED);
    if (tsr_work_is_mine || !(deferring & TSR_DEFERRED) ||
        (deferring & TSR_SKIPPED && tsr_wait_settle_for(stream) != CUDA_SUCCESS))
        return false;
    if (stream == CU_STREAM_PER_THREAD || tsr_is_any_capture() || !has_worker() ||
        __atomic_load_n(&own->error, __ATOMIC_RELAXED) != CUDA_SUCCESS)
        return false;
    return __atomic_load_n(&worker_count, __ATOMIC_RELAXED) <= 1 || wait_for_others_first(stream);
}

/* For a stream that has none: a free place, or that of one whose work has been carried out. STREAMS: none. */
static uint32_t take_place(CUstream stream, uint32_t place)
{
    for (uint32_t i = 0; place == STREAMS && i < STREAMS; i++)
        if (tsr_work_is_done(&own->ring, own->last[i]))
            place = i;
    if (place < STREAMS)
        __atomic_store_n(&own->streams[place], stream, __ATOMIC_RELAXED);
    return place;
}

/* Returns the work's number in the ring. */
static uint64_t give(const struct entry *entry)
{
    CUstream named = entry->stream;
    const struct tsr_stream *stream = tsr_stream_seen(named, false);
    uint64_t number = tsr_work_give(&own->ring, &entry->entry);
    bool is_there;
    uint32_t place = place_of(own, named, &is_there);
    if (!is_there || place == STREAMS)
        place = take_place(named, place);
    __atomic_store_n(&own->last[place], number, __ATOMIC_RELEASE);
    if (!stream || !tsr_stream_is(stream, TSR_STREAM_FREE))
        __atomic_store_n(&own->last_blocking, number, __ATOMIC_RELEASE);
    return number;
}

/* False: it cannot be told. */
static bool find_origin(struct origin *origin)
{
    *origin = (struct origin){0};
    if (tessera_library_call && tessera_library_stand_in && (origin->call.call = tessera_library_call()))
        origin->call.count = tessera_library_operands(&origin->call.ranges, &origin->call.other_gpus, &origin->call.why);
    return tsr_real.cuCtxGetCurrent(&origin->context) == CUDA_SUCCESS && origin->context &&
           origin->call.count <= (int32_t)MOST_RANGES;
}

/* The entry, with its ranges; parameter_bytes: of what is to follow them. NULL: it has to be carried out here. */
static struct entry *make(enum tsr_row row, CUstream stream, uint32_t attribute_count, uint32_t parameter_bytes)
{
    struct entry here = {.row = row, .stream = stream};
    if (!find_origin(&here.origin))
        return NULL;
    here.entry.bytes = tsr_work_rounded((uint64_t)parameters_begin(&here, attribute_count) + parameter_bytes);
    struct entry *entry = tsr_work_room(&own->ring, here.entry.bytes);
    *entry = here;
    if (range_count(&here))
        memcpy(ranges_of(entry, attribute_count), here.origin.call.ranges,
               range_count(&here) * sizeof *here.origin.call.ranges);
    entry->origin.call.ranges = ranges_of(entry, attribute_count);
    return entry;
}

/* Bit of struct tsr_function_record's `taken`. */
static uint32_t form_of(const struct tsr_launch *launch)
{
    return launch->attribute_count ? 2 : 1;
}

static bool attributes_are_values(const struct tsr_launch *launch)
{
    for (uint32_t i = 0; i < launch->attribute_count; i++)
        if (!tsr_record_attribute_goes(launch->attributes[i].id))
            return false;
    return launch->attribute_count <= TSR_MOST_ATTRIBUTES;
}

static bool is_simple(const struct tsr_launch *launch)
{
    const struct tsr_function_record *known = launch->known;
    return (launch->row == TSR_ROW_cuLaunchKernel || launch->row == TSR_ROW_cuLaunchKernelEx) && known && known->module &&
           __atomic_load_n(&known->taken, __ATOMIC_RELAXED) & form_of(launch) && known->parameters.count <= MOST_PARAMETERS &&
           !(launch->params && launch->extra) && attributes_are_values(launch) && tsr_redirect_shape_is_valid(known, launch);
}

static void note_launch(struct tsr_function_record *function)
{
    uint32_t ring = 1u << (own - workers);
    if (!(__atomic_load_n(&function->deferred, __ATOMIC_RELAXED) & ring))
        __atomic_fetch_or(&function->deferred, ring, __ATOMIC_RELEASE);
}

static bool put_launch(const struct tsr_launch *launch)
{
    uint32_t count = launch->attribute_count, bytes = launch->gathered->bytes;
    struct entry *entry = make(launch->row, launch->stream, count, bytes);
    if (!entry)
        return false;
    entry->launch = (struct launch){.function = launch->function,
                                    .known = launch->known,
                                    .grid = {launch->grid[0], launch->grid[1], launch->grid[2]},
                                    .block = {launch->block[0], launch->block[1], launch->block[2]},
                                    .shared_bytes = launch->shared_bytes,
                                    .attribute_count = count};
    if (count)
        memcpy(attributes_of(entry), launch->attributes, count * sizeof *launch->attributes);
    memcpy((uint8_t *)entry + parameters_begin(entry, count), launch->gathered->values, bytes);
    note_launch(launch->known);
    give(entry);
    tsr_call_enqueued();
    return true;
}

bool tsr_deferred_launch_slow(struct tsr_launch *launch, CUresult *result)
{
    *result = CUDA_SUCCESS;
    if (defers(launch->stream)) {
        launch->known = tsr_function_find(launch->function);
        if (is_simple(launch) && tsr_launch_gather(launch) && put_launch(launch))
            return true;
    }
    return do_it_here(launch->stream, result);
}

static bool are_of_one_allocation(CUdeviceptr address, uint64_t bytes)
{
    uint64_t begins, ends;
    return bytes && tsr_address_find_range(address, &begins, &ends) && bytes <= ends - address;
}

bool tsr_deferred_set_slow(enum tsr_row row, CUdeviceptr to, uint32_t value, uint32_t element, size_t count, CUstream stream,
                           CUresult *result)
{
    CUstream named = tsr_stream_named(stream, false);
    uint64_t bytes = (uint64_t)element * count;
    *result = CUDA_SUCCESS;
    bool is_valid = to % element == 0 && bytes / element == count && are_of_one_allocation(to, bytes);
    struct entry *entry = is_valid && defers(named) ? make(row, named, 0, 0) : NULL;
    if (!entry)
        return do_it_here(named, result);
    entry->set = (struct set){.to = to, .value = value, .count = count};
    give(entry);
    tsr_call_enqueued_bytes(to, bytes);
    return true;
}

bool tsr_deferred_copy_slow(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream, CUresult *result)
{
    CUstream named = tsr_stream_named(stream, false);
    *result = CUDA_SUCCESS;
    bool is_valid = are_of_one_allocation(to, bytes) && are_of_one_allocation(from, bytes);
    struct entry *entry = is_valid && defers(named) ? make(TSR_ROW_cuMemcpyDtoDAsync_v2, named, 0, 0) : NULL;
    if (!entry)
        return do_it_here(named, result);
    entry->copy = (struct copy){.to = to, .from = from, .bytes = bytes};
    give(entry);
    tsr_call_enqueued();
    return true;
}

/* Launches of a graph come one after another, whichever thread makes them. */
static void wait_for_last_of(const struct tsr_instance *graph)
{
    uint32_t ring = __atomic_load_n(&graph->ring, __ATOMIC_ACQUIRE);
    if (ring && &workers[ring - 1] != own)
        tsr_work_wait_for(&workers[ring - 1].ring, __atomic_load_n(&graph->ring_entry, __ATOMIC_RELAXED));
}

bool tsr_deferred_graph_slow(CUgraphExec exec, CUstream named, CUresult *result)
{
    struct tsr_instance *graph = tsr_instance_find(exec);
    if (!(__atomic_load_n(&tsr_deferring, __ATOMIC_RELAXED) & TSR_DEFERRED))
        return do_it_here(named, result);
    bool goes = graph && __atomic_load_n(&graph->taken, __ATOMIC_ACQUIRE) && defers(named);
    if (goes)
        wait_for_last_of(graph);
    struct entry *entry = goes ? make(TSR_ROW_cuGraphLaunch, named, 0, 0) : NULL;
    *result = entry ? CUDA_SUCCESS : tsr_deferred_wait(true); /* it may do anything */
    if (!entry)
        return *result != CUDA_SUCCESS;
    entry->graph = exec;
    __atomic_store_n(&graph->ring_entry, give(entry), __ATOMIC_RELAXED);
    __atomic_store_n(&graph->ring, (uint32_t)(own - workers) + 1, __ATOMIC_RELEASE);
    tsr_call_enqueued();
    return true;
}

void tsr_deferred_note_slow(const struct tsr_launch *launch)
{
    struct tsr_function_record *known = launch->known;
    if (known && !(__atomic_load_n(&known->taken, __ATOMIC_RELAXED) & form_of(launch)))
        __atomic_fetch_or(&known->taken, form_of(launch), __ATOMIC_RELAXED);
}

/* ---- the start ---- */

/* Errors are still to be told. */
static void wait_for_all(void)
{
    uint32_t count = tsr_work_is_mine ? 0 : __atomic_load_n(&worker_count, __ATOMIC_ACQUIRE);
    for (struct worker *worker = workers; worker < workers + count; worker++)
        tsr_work_wait(&worker->ring);
}

/* The rings' memory serves again. */
static void forget_parent(void)
{
    tsr_deferring = worker_count = 0;
    tsr_wait_forget();
    for (uint32_t i = 0; i < MOST_WORKERS; i++)
        workers[i] = (struct worker){.ring.memory = workers[i].ring.memory};
    starting = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    own = NULL;
    made = 0;
    tsr_work_is_mine = false;
    pthread_setspecific(thread_ends, NULL);
}

static const struct tsr_fork_listener forks = {.before = wait_for_all, .in_child = forget_parent};

static bool has_key;

static void prepare(void)
{
    has_key = pthread_key_create(&thread_ends, give_back) == 0;
    atexit(wait_for_all);
}

static bool gives_threads(const struct tsr_policy_table *table)
{
    bool gives = false;
    for (uint32_t i = 0; i < table->rule_count; i++)
        gives |= table->rules[i].device == TSR_POLICY_BY_THREAD;
    return gives;
}

/* A rule or a plan may be about the thread that launches; what is checked, recorded or verified is so while its launch returns. */
static bool is_wanted(const struct tsr_session *session, bool emulated)
{
    const struct tsr_policy_table *table = &session->policy->tables[session->policy->generation % 2];
    uint64_t option = tsr_options()->defer;
    bool pays = (tsr_automatic_is_on || tsr_copies_are_on()) && !emulated && tsr_os_cpu_count() >= LEAST_CPUS;
    return option != NEVER && (pays || option == ALWAYS) && !gives_threads(table) && !table->verify_every && !session->checks &&
           !tsr_plan_is_there && !tsr_has_role(TSR_RECORDING);
}

void tsr_deferred_start(const struct tsr_session *session, bool emulated)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (!is_wanted(session, emulated) || !tsr_fork_listen(&forks))
        return;
    pthread_once(&once, prepare);
    uint32_t have_cpus = tsr_os_cpu_count() / CPUS_PER_WORKER;
    most_workers = tsr_options()->defer == ALWAYS || have_cpus > MOST_WORKERS ? MOST_WORKERS : have_cpus;
    if (has_key)
        __atomic_fetch_or(&tsr_deferring, TSR_DEFERRED, __ATOMIC_RELEASE);
    tsr_debug("launches are deferred");
}
