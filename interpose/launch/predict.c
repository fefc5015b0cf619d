/* See predict.h. */
#include "launch/predict.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/fork.h"
#include "base/os.h"
#include "calls/calls.h"
#include "driver/real.h"
#include "launch/call_ranges.h"
#include "launch/evaluators.h"
#include "lane/functions.h"
#include "launch/launch.h"
#include "object/session.h"
#include "object/shapes.h"
#include "launch/tensor_maps.h"
#include "memory/address_map.h"
#include "memory/copies.h"

#define MOST_SYMBOLS 128u /* with more, a launch may touch anything */

_Static_assert(TSR_BOX_RANGES <= TSR_ACCESS_TENSOR_RANGES, "the evaluator has room for the ranges of a tensor");

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* making symbols */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t scratch_key;
static __thread void *thread_scratch;

uint32_t tsr_predict_errors;

static void give_scratch(void *scratch)
{
    tsr_os_unmap(scratch, TSR_ACCESS_SCRATCH_BYTES);
}

static void forget_parent(void)
{
    pthread_mutex_init(&lock, NULL);
}

static const struct tsr_fork_listener forks = {.in_child = forget_parent};

static void prepare(void)
{
    pthread_key_create(&scratch_key, give_scratch);
    tsr_fork_listen(&forks);
}

/* The calling thread's own, until it ends; NULL: no memory. */
static void *scratch(void)
{
    if (__builtin_expect(thread_scratch != NULL, 1))
        return thread_scratch;
    pthread_once(&once, prepare);
    void *made = tsr_os_map(NULL, TSR_ACCESS_SCRATCH_BYTES, PROT_READ | PROT_WRITE, -1, 0);
    if (made && pthread_setspecific(scratch_key, made) != 0) {
        give_scratch(made);
        return NULL;
    }
    return thread_scratch = made;
}

/* The GPU on which the launches run that are predicted. */
static uint32_t home(void)
{
    return tsr_session()->policy->home;
}

static bool is_in_call(const struct tsr_launch *launch)
{
    return launch->call ? launch->call->call : tessera_library_call && tessera_library_call();
}

bool tsr_is_predictable(const struct tsr_launch *launch)
{
    return tsr_template_find(&launch->known->template, home()) || is_in_call(launch);
}

static int allocation(void *context, uint64_t address, uint64_t *begin, uint64_t *end)
{
    (void)context;
    return tsr_address_find_range(address, begin, end);
}

static uint32_t tensor(void *context, const void *map, struct tsr_access_range *ranges)
{
    (void)context;
    return tsr_tensor_map_ranges(map, TSR_ACCESS_READ, ranges);
}

/* 0: the driver does not find it. */
static CUresult locate(const struct tsr_function_record *function, const char *name, uint64_t *out)
{
    CUdeviceptr address = 0;
    size_t bytes;
    CUresult result = name && function->module ? tsr_module_locate(function->module, name, &address, &bytes) : CUDA_SUCCESS;
    *out = result == CUDA_SUCCESS ? address : 0;
    return result == CUDA_ERROR_NOT_FOUND ? CUDA_SUCCESS : result;
}

static const struct tsr_symbols *known_symbols(const struct tsr_function_record *function, const void *template,
                                               CUcontext context)
{
    uint64_t epoch = tsr_registry_epoch();
    const struct tsr_symbols *at = __atomic_load_n(&function->symbols, __ATOMIC_ACQUIRE);
    while (at && (at->context != context || at->epoch != epoch || at->template != template))
        at = at->next;
    return at;
}

static CUresult locate_all(const struct tsr_function_record *function, const char *const *names, struct tsr_symbols *symbols,
                           uint32_t count)
{
    CUcontext popped;
    CUresult result = tsr_real.cuCtxPushCurrent_v2(symbols->context);
    if (result != CUDA_SUCCESS)
        return result;
    for (uint32_t i = 0; i < count && result == CUDA_SUCCESS; i++)
        result = locate(function, names[i], &symbols->addresses[i]);
    tsr_real.cuCtxPopCurrent_v2(&popped);
    return result;
}

/* Asks the driver, once per function and context. Errors: the driver's; then nothing is known. */
static CUresult make_symbols_locked(struct tsr_function_record *function, const void *template, CUcontext context,
                                    const char *const *names, uint32_t count)
{
    struct tsr_symbols *made = calloc(1, sizeof *made + count * sizeof made->addresses[0]);
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *made = (struct tsr_symbols){
        .next = function->symbols, .context = context, .epoch = tsr_registry_epoch(), .template = template};
    CUresult result = locate_all(function, names, made, count);
    if (result == CUDA_SUCCESS)
        __atomic_store_n(&function->symbols, made, __ATOMIC_RELEASE);
    else
        free(made);
    return result;
}

static CUresult context_of(const struct tsr_launch *launch, CUcontext *context)
{
    if (launch->place.stream) {
        *context = __atomic_load_n(&launch->place.stream->context, __ATOMIC_RELAXED);
        return CUDA_SUCCESS;
    }
    return tsr_real.cuStreamGetCtx(launch->stream, context);
}

/* Addresses of the template's symbols in the context of the launch; NULL: it has none. Errors: the driver's; then nothing is known. */
static CUresult find_symbols(const struct tsr_access *access, const void *template, const struct tsr_launch *launch,
                             const uint64_t **out)
{
    const char *names[MOST_SYMBOLS];
    uint32_t count = tsr_access_symbols(access, names, MOST_SYMBOLS);
    CUcontext context;
    *out = NULL;
    if (count == 0)
        return CUDA_SUCCESS;
    CUresult result = count > MOST_SYMBOLS ? CUDA_ERROR_NOT_SUPPORTED : context_of(launch, &context);
    const struct tsr_symbols *found = result == CUDA_SUCCESS ? known_symbols(launch->known, template, context) : NULL;
    if (result == CUDA_SUCCESS && !found) {
        pthread_mutex_lock(&lock);
        if (!known_symbols(launch->known, template, context))
            result = make_symbols_locked(launch->known, template, context, names, count);
        pthread_mutex_unlock(&lock);
        found = result == CUDA_SUCCESS ? known_symbols(launch->known, template, context) : NULL;
    }
    *out = found ? found->addresses : NULL;
    return found ? CUDA_SUCCESS : result == CUDA_SUCCESS ? CUDA_ERROR_NOT_SUPPORTED : result;
}

/* It may be made again, in this run or another. */
static void note_shape(const struct tsr_launch *launch, uint32_t most)
{
    struct tsr_shape like = {.parameter_bytes = launch->gathered->bytes,
                             .grid = {launch->grid[0], launch->grid[1], launch->grid[2]},
                             .block = {launch->block[0], launch->block[1], launch->block[2]},
                             .shared_bytes = launch->shared_bytes};
    tsr_shapes_note(&launch->known->template, &like, launch->gathered->values, most);
}

void tsr_predict_later(const struct tsr_launch *launch)
{
    if (launch->gathered && launch->gathered->done)
        note_shape(launch, TSR_SHAPES_BEFORE_TEMPLATE);
}

void tsr_predict(const struct tsr_launch *launch, struct tsr_prediction *out)
{
    struct tsr_function_record *function = launch->known;
    struct tsr_access_launch asked = {.grid = {launch->grid[0], launch->grid[1], launch->grid[2]},
                                      .block = {launch->block[0], launch->block[1], launch->block[2]},
                                      .shared_bytes = launch->shared_bytes,
                                      .parameter_bytes = launch->gathered->bytes,
                                      .parameters = launch->gathered->values,
                                      .allocation = allocation,
                                      .tensor = tensor};
    struct tsr_access_result result = {.ranges = out->ranges, .capacity = TSR_PREDICTED_RANGES, .level = TSR_LEVEL_UNKNOWN};
    struct tsr_library_operands call = launch->call ? *launch->call : tsr_library_operands_now();
    uint32_t template_bytes;
    const struct tsr_access_template *template = tsr_function_template(function, home(), &template_bytes);
    struct tsr_access *access = tsr_evaluator_of(&function->template, template, template_bytes);
    void *room = access ? scratch() : NULL;
    out->source = TSR_SOURCE_NONE;
    if (room && find_symbols(access, template, launch, &asked.symbols) == CUDA_SUCCESS) {
        tsr_access_evaluate(access, &asked, room, TSR_ACCESS_SCRATCH_BYTES, &result);
        if (__builtin_expect(!result.remembered, 0))
            note_shape(launch, TSR_SHAPES_OF_FUNCTION);
        tsr_call_ranges_refine(&call, &asked, &result);
        out->source = template->tier == TSR_ACCESS_PTX ? TSR_SOURCE_PTX : TSR_SOURCE_MACHINE_CODE;
    }
    if (result.level == TSR_LEVEL_UNKNOWN) {
        tsr_call_ranges(&call, &asked, &result);
        out->source = TSR_SOURCE_LIBRARY;
    }
    out->count = result.count;
    out->in_call = call.call;
    if (result.level == TSR_LEVEL_UNKNOWN)
        out->source = TSR_SOURCE_NONE;
}

void tsr_predict_distrust(struct tsr_function_record *function, enum tsr_source source)
{
    if (tessera_library_call && tessera_library_call())
        tsr_call_ranges_distrust(); /* the call's operands are used in predictions by code, too */
    if (source != TSR_SOURCE_LIBRARY)
        tsr_template_distrust(tsr_template_find(&function->template, home()));
    __atomic_fetch_add(&tsr_predict_errors, 1, __ATOMIC_RELEASE);
    tsr_copies_look_again();
}
