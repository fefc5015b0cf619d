/* See predict.h. */
#include "launch/predict.h"

#include "base/map.h"
#include "calls/calls.h"
#include "driver/real.h"
#include "launch/call_ranges.h"
#include "lane/functions.h"
#include "launch/launch.h"
#include "object/session.h"
#include "launch/tensor_maps.h"
#include "memory/allocation.h"
#include "memory/vmm.h"

#define MOST_SYMBOLS 128u /* with more, a launch may touch anything */

_Static_assert(TSR_BOX_RANGES <= TSR_ACCESS_TENSOR_RANGES, "the evaluator has room for what is told of a tensor");

static struct tsr_map checked;         /* memory lock; templates by their bytes in the table */
static uint64_t symbols[MOST_SYMBOLS]; /* memory lock */
static uint8_t scratch[TSR_ACCESS_SCRATCH_BYTES] __attribute__((aligned(16))); /* memory lock */

/* Where the launches run that are asked about. */
static uint32_t home(void)
{
    return tsr_session()->policy->home;
}

bool tsr_is_predictable(struct tsr_function_record *function)
{
    return tsr_template_find(&function->template, home()) || (tessera_library_call && tessera_library_call());
}

/* NULL: there is no template, or it is damaged. */
static struct tsr_access *access_locked(const void *template, uint32_t bytes)
{
    uint64_t key = (uintptr_t)template;
    struct tsr_access *access = template ? tsr_map_find(&checked, key) : NULL;
    if (!template || access)
        return access;
    access = tsr_access_create(template, bytes, TSR_ACCESS_MEMO_ENTRIES);
    if (access && !tsr_map_set(&checked, key, access)) {
        tsr_access_destroy(access);
        return NULL;
    }
    return access;
}

bool tsr_predict_allocation_locked(uint64_t address, uint64_t *begin, uint64_t *end)
{
    const struct tsr_allocation *allocation = tsr_allocation_find(address);
    if (!allocation)
        return tsr_vmm_around_locked(address, begin, end);
    *begin = allocation->address;
    *end = allocation->address + allocation->bytes;
    return true;
}

static int allocation_locked(void *context, uint64_t address, uint64_t *begin, uint64_t *end)
{
    (void)context;
    return tsr_predict_allocation_locked(address, begin, end);
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

/* Addresses of the template's symbols in the context of the launch; NULL: it has none. Errors: the driver's; then nothing is known. */
static CUresult find_symbols_locked(const struct tsr_access *access, const struct tsr_function_record *function,
                                    CUstream stream, const uint64_t **out)
{
    const char *names[MOST_SYMBOLS];
    uint32_t count = tsr_access_symbols(access, names, MOST_SYMBOLS);
    CUcontext context, popped;
    *out = count ? symbols : NULL;
    if (count > MOST_SYMBOLS)
        return CUDA_ERROR_NOT_SUPPORTED;
    CUresult result = count ? tsr_real.cuStreamGetCtx(stream, &context) : CUDA_SUCCESS;
    if (result == CUDA_SUCCESS && count)
        result = tsr_real.cuCtxPushCurrent_v2(context);
    if (result != CUDA_SUCCESS || !count)
        return result;
    for (uint32_t i = 0; i < count && result == CUDA_SUCCESS; i++)
        result = locate(function, names[i], &symbols[i]);
    tsr_real.cuCtxPopCurrent_v2(&popped);
    return result;
}

void tsr_predict_locked(struct tsr_function_record *function, const struct tsr_launch *launch, const void *parameters,
                        uint32_t bytes, struct tsr_prediction *out)
{
    struct tsr_access_launch asked = {.grid = {launch->grid[0], launch->grid[1], launch->grid[2]},
                                      .block = {launch->block[0], launch->block[1], launch->block[2]},
                                      .shared_bytes = launch->shared_bytes,
                                      .parameter_bytes = bytes,
                                      .parameters = parameters,
                                      .allocation = allocation_locked,
                                      .tensor = tensor};
    struct tsr_access_result result = {.ranges = out->ranges, .capacity = TSR_PREDICTED_RANGES, .level = TSR_LEVEL_UNKNOWN};
    uint32_t template_bytes;
    const struct tsr_access_template *template = tsr_function_template(function, home(), &template_bytes);
    struct tsr_access *access = access_locked(template, template_bytes);
    out->source = TSR_SOURCE_NONE;
    if (access && find_symbols_locked(access, function, launch->stream, &asked.symbols) == CUDA_SUCCESS) {
        tsr_access_evaluate(access, &asked, scratch, sizeof scratch, &result);
        tsr_call_ranges_refine(&asked, &result);
        out->source = template->tier == TSR_ACCESS_PTX ? TSR_SOURCE_PTX : TSR_SOURCE_MACHINE_CODE;
    }
    if (result.level == TSR_LEVEL_UNKNOWN) {
        bool other_gpus;
        tsr_call_ranges(&asked, &result, &other_gpus);
        out->source = TSR_SOURCE_LIBRARY;
    }
    out->count = result.count;
    out->in_call = tessera_library_call && tessera_library_call();
    if (result.level == TSR_LEVEL_UNKNOWN)
        out->source = TSR_SOURCE_NONE;
}

void tsr_predict_distrust(struct tsr_function_record *function, enum tsr_source source)
{
    if (tessera_library_call && tessera_library_call())
        tsr_call_ranges_distrust(); /* which has a part in what was predicted by code, too */
    if (source != TSR_SOURCE_LIBRARY)
        tsr_template_distrust(tsr_template_find(&function->template, home()));
}
