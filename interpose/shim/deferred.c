/* See deferred.h. */
#include "shim/deferred.h"

#include <string.h>

#include <tessera/access.h>

#include "base/fork.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/options.h"
#include "base/os.h"
#include "calls/calls.h"
#include "carry/record.h"
#include "driver/engaged.h"
#include "driver/real.h"
#include "driver/stream_handle.h"
#include "launch/call_memory.h"
#include "launch/launch.h"
#include "memory/address_map.h"
#include "object/capture.h"
#include "object/registry.h"
#include "object/session.h"
#include "schedule/automatic.h"
#include "schedule/plan.h"
#include "shim/work_ring.h"
#include "shim/redirect.h"

#define MOST_PARAMETERS 256u
#define MOST_RANGES 64u
#define MANY 32u        /* pieces of work of another thread, after which that one is served */
#define LONG 64u        /* of one thread in a row: where fewer of others are between them, threads alternate; */
#define ALTERNATIONS 32u /* and so often, before none is served any more */
#define LEAST_CPUS 4u
#define STREAMS 32u /* of which it is known what was deferred in them; the others count as one */
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
    };
} __attribute__((aligned(TSR_WORK_LINE)));

__typeof__(cuLaunchKernel) engaged_cuLaunchKernel;
__typeof__(cuLaunchKernelEx) engaged_cuLaunchKernelEx;
__typeof__(cuMemsetD8Async) engaged_cuMemsetD8Async;
__typeof__(cuMemsetD16Async) engaged_cuMemsetD16Async;
__typeof__(cuMemsetD32Async) engaged_cuMemsetD32Async;
__typeof__(cuMemcpyDtoDAsync_v2) engaged_cuMemcpyDtoDAsync_v2;

uint32_t tsr_deferring TSR_HOT;

static CUresult error; /* atomic; of work, of which nobody was told */

/* Who is served. */
static struct {
    struct tsr_lock lock;                    /* of what follows; and who has it may put work into the ring */
    const void *thread;                      /* by an address of its own; NULL: none yet */
    uint32_t in_a_row, others, alternations; /* pieces of its work; then of others; how often they alternated: atomic */
    bool always;                             /* whoever comes is served at once */
} served;

/* By stream, the number of the last work in it. The first is the legacy default stream, the last any others. */
static struct {
    CUstream stream;
    uint64_t number;
} last[STREAMS]; /* atomic */

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
    default:
        return launch_now(entry);
    }
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
    if (result != CUDA_SUCCESS)
        __atomic_compare_exchange_n(&error, &none, result, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

/* ---- deferring ---- */

static bool is_served(void)
{
    return __atomic_load_n(&served.thread, __ATOMIC_RELAXED) == &tsr_work_is_mine;
}

static CUresult wait_for_own(void)
{
    tsr_work_wait();
    if (__builtin_expect(__atomic_load_n(&error, __ATOMIC_RELAXED) == CUDA_SUCCESS, 1))
        return CUDA_SUCCESS;
    return __atomic_exchange_n(&error, CUDA_SUCCESS, __ATOMIC_ACQUIRE);
}

CUresult tsr_deferred_wait(bool all)
{
    if (tsr_work_is_mine)
        return CUDA_SUCCESS;
    if (is_served())
        return wait_for_own();
    if (all)
        tsr_work_wait();
    return CUDA_SUCCESS;
}

/* The place of a stream, or where it would be. Places are taken in order. */
static uint32_t place_of(CUstream stream)
{
    uint32_t place = 1;
    if (stream == CU_STREAM_LEGACY)
        return 0;
    for (CUstream there; place < STREAMS - 1 && (there = __atomic_load_n(&last[place].stream, __ATOMIC_RELAXED)); place++)
        if (there == stream)
            break;
    return place;
}

static void note_last(CUstream stream, uint64_t number)
{
    uint32_t place = place_of(stream);
    __atomic_store_n(&last[place].stream, stream, __ATOMIC_RELAXED);
    __atomic_store_n(&last[place].number, number, __ATOMIC_RELEASE);
}

CUresult tsr_deferred_wait_for_slow(CUstream stream)
{
    if (tsr_work_is_mine || is_served() || stream == CU_STREAM_LEGACY)
        return tsr_deferred_wait(true);
    tsr_work_wait_for(__atomic_load_n(&last[0].number, __ATOMIC_ACQUIRE));
    tsr_work_wait_for(__atomic_load_n(&last[place_of(stream)].number, __ATOMIC_ACQUIRE));
    return CUDA_SUCCESS;
}

/* It has to be carried out here. */
static bool do_it_here(CUstream stream, CUresult *result)
{
    *result = tsr_deferred_wait_for_slow(stream);
    return *result != CUDA_SUCCESS;
}

static bool is_served_locked(void)
{
    const void *self = &tsr_work_is_mine;
    if (served.thread == self) {
        __atomic_store_n(&served.alternations, served.alternations + (served.others && served.in_a_row < LONG),
                         __ATOMIC_RELAXED);
        served.in_a_row = served.others ? 1 : served.in_a_row + 1;
        served.others = 0;
    } else if ((++served.others >= MANY || !served.thread || served.always) && tsr_work_is_done()) {
        __atomic_store_n(&served.thread, self, __ATOMIC_RELAXED);
        served.in_a_row = served.others = 0;
    }
    return served.thread == self;
}

/* True: the calling thread may put work into the ring, until give or give_nothing. */
static bool begins(CUstream stream)
{
    if (tsr_work_is_mine || stream == CU_STREAM_PER_THREAD || tsr_is_any_capture() ||
        __atomic_load_n(&error, __ATOMIC_RELAXED) != CUDA_SUCCESS ||
        (__atomic_load_n(&served.alternations, __ATOMIC_RELAXED) >= ALTERNATIONS && !served.always))
        return false;
    if (!tsr_lock_try(&served.lock)) /* who has it may wait for room */
        return false;
    if (is_served_locked())
        return true;
    tsr_lock_give(&served.lock);
    return false;
}

static void give(const struct entry *entry)
{
    note_last(entry->stream, tsr_work_give(&entry->entry));
    tsr_lock_give(&served.lock);
}

static bool give_nothing(CUstream stream, CUresult *result)
{
    tsr_lock_give(&served.lock);
    return do_it_here(stream, result);
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
    struct entry made = {.row = row, .stream = stream};
    if (!find_origin(&made.origin))
        return NULL;
    made.entry.bytes = tsr_work_rounded((uint64_t)parameters_begin(&made, attribute_count) + parameter_bytes);
    struct entry *entry = tsr_work_room(made.entry.bytes);
    *entry = made;
    if (range_count(&made))
        memcpy(ranges_of(entry, attribute_count), made.origin.call.ranges,
               range_count(&made) * sizeof *made.origin.call.ranges);
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
    give(entry);
    tsr_call_enqueued();
    return true;
}

bool tsr_deferred_launch_slow(struct tsr_launch *launch, CUresult *result)
{
    *result = CUDA_SUCCESS;
    if (!begins(launch->stream))
        return do_it_here(launch->stream, result);
    launch->known = tsr_function_find(launch->function);
    return (is_simple(launch) && tsr_launch_gather(launch) && put_launch(launch)) || give_nothing(launch->stream, result);
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
    if (!begins(named))
        return do_it_here(named, result);
    bool is_valid = to % element == 0 && bytes / element == count && are_of_one_allocation(to, bytes);
    struct entry *entry = is_valid ? make(row, named, 0, 0) : NULL;
    if (!entry)
        return give_nothing(named, result);
    entry->set = (struct set){.to = to, .value = value, .count = count};
    give(entry);
    tsr_call_enqueued_bytes(to, bytes);
    return true;
}

bool tsr_deferred_copy_slow(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream, CUresult *result)
{
    CUstream named = tsr_stream_named(stream, false);
    *result = CUDA_SUCCESS;
    if (!begins(named))
        return do_it_here(named, result);
    bool is_valid = are_of_one_allocation(to, bytes) && are_of_one_allocation(from, bytes);
    struct entry *entry = is_valid ? make(TSR_ROW_cuMemcpyDtoDAsync_v2, named, 0, 0) : NULL;
    if (!entry)
        return give_nothing(named, result);
    entry->copy = (struct copy){.to = to, .from = from, .bytes = bytes};
    give(entry);
    tsr_call_enqueued();
    return true;
}

void tsr_deferred_note(const struct tsr_launch *launch)
{
    struct tsr_function_record *known = launch->known;
    if (known && !(__atomic_load_n(&known->taken, __ATOMIC_RELAXED) & form_of(launch)))
        __atomic_fetch_or(&known->taken, form_of(launch), __ATOMIC_RELAXED);
}

/* ---- the start ---- */

static void forget_parent(void)
{
    tsr_deferring = 0;
    error = CUDA_SUCCESS;
    memset(&served, 0, sizeof served);
    memset(last, 0, sizeof last);
}

static const struct tsr_fork_listener forks = {.in_child = forget_parent};

/* Rules may be about threads, and so is where one is in a plan; what is checked, recorded or verified is so while its launch returns. */
static bool is_wanted(const struct tsr_session *session, bool emulated)
{
    const struct tsr_policy_table *table = &session->policy->tables[session->policy->generation % 2];
    uint64_t option = tsr_options()->defer;
    bool is_simple = tsr_automatic_is_on && !table->rule_count && !emulated && tsr_os_cpu_count() >= LEAST_CPUS;
    return option != NEVER && (is_simple || option == ALWAYS) && !table->verify_every && !session->checks &&
           !tsr_plan_is_there && !tsr_has_role(TSR_RECORDING);
}

void tsr_deferred_start(const struct tsr_session *session, bool emulated)
{
    if (!is_wanted(session, emulated) || !tsr_fork_listen(&forks) || !tsr_work_start(carry_out))
        return;
    served.always = tsr_options()->defer == ALWAYS;
    __atomic_store_n(&tsr_deferring, 1, __ATOMIC_RELEASE);
    tsr_debug("launches are deferred");
}
