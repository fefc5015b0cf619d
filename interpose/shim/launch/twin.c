/* See twin.h. */
#include "shim/launch/twin.h"

#include <stdbool.h>
#include <stdlib.h>

#include <tessera/access.h>
#include <tessera/twins.h>

#include "base/log.h"
#include "base/map.h"
#include "shim/entry/real.h"
#include "shim/launch/functions.h"
#include "shim/launch/predict.h"

#define KIND_BITS 2u

_Static_assert(TSR_PREDICTED_RANGES <= TSR_TWIN_RANGES, "a twin has room for what is predicted of a launch");

struct tsr_twin {
    CUlibrary library;
    CUkernel kernel;
    bool refused;
    CUcontext context; /* of the launch that it is armed for, and its variable there */
    CUdeviceptr variable;
};

/* What a twin's variable holds. */
static struct {
    struct tsr_twin_block head;
    struct tsr_twin_range ranges[TSR_TWIN_RANGES];
} block; /* memory lock */

static struct tsr_map twins; /* memory lock; by the templates of their functions, which are one to a code and name */

/* Blocks as large as the function's own fit, however many registers the tests take. */
static CUresult load(struct tsr_twin *twin, const struct tsr_function_record *function, const char *text)
{
    CUjit_option options[] = {CU_JIT_THREADS_PER_BLOCK};
    void *values[] = {(void *)(uintptr_t)function->max_threads};
    CUresult result = tsr_real.cuLibraryLoadData(&twin->library, text, options, values, 1, NULL, NULL, 0);
    if (result == CUDA_SUCCESS)
        result = tsr_real.cuLibraryGetKernel(&twin->kernel, twin->library, function->name);
    if (result != CUDA_SUCCESS)
        tsr_warn("check: the driver does not load the twin of %s (error %d); its accesses are not tested", function->name,
                 (int)result);
    return result;
}

struct tsr_twin *tsr_twin_find_locked(struct tsr_function_record *function, enum tsr_check_lack *lack)
{
    uint32_t bytes;
    const struct tsr_access_template *template = tsr_function_template(function, &bytes);
    const char *text = template ? tsr_template_twin(&function->template) : NULL;
    struct tsr_twin *twin = text ? tsr_map_find(&twins, (uintptr_t)template) : NULL;
    *lack = !template || (!text && template->tier != TSR_ACCESS_PTX) ? TSR_CHECK_NO_PTX
            : !text                                                  ? TSR_CHECK_NO_TWIN
                                                                     : TSR_CHECK_REFUSED;
    if (text && !twin) {
        twin = calloc(1, sizeof *twin);
        if (!twin || !tsr_map_set(&twins, (uintptr_t)template, twin)) {
            free(twin);
            return NULL;
        }
        twin->refused = load(twin, function, text) != CUDA_SUCCESS;
    }
    return twin && !twin->refused ? twin : NULL;
}

CUfunction tsr_twin_function(const struct tsr_twin *twin)
{
    return (CUfunction)twin->kernel;
}

void tsr_twin_give_up_locked(struct tsr_twin *twin)
{
    twin->refused = true;
}

static CUresult adopt_attributes(const struct tsr_twin *twin, const struct tsr_function_record *function)
{
    CUdevice device;
    CUresult result = tsr_real.cuCtxGetDevice(&device);
    for (unsigned i = 0; i + 1 < TSR_FUNCTION_ATTRIBUTES && result == CUDA_SUCCESS; i++)
        if (function->attributes_set >> i & 1)
            result = tsr_real.cuKernelSetAttribute((CUfunction_attribute)i, function->attributes[i], twin->kernel, device);
    return result;
}

static uint32_t fill(const struct tsr_prediction *prediction)
{
    block.head = (struct tsr_twin_block){.count = prediction->count};
    for (uint32_t i = 0; i < prediction->count; i++) {
        struct tsr_span span = tsr_predicted_span(&prediction->ranges[i]);
        block.ranges[i] = (struct tsr_twin_range){span.low, span.high, span.stride, span.width, prediction->ranges[i].kind};
    }
    return (uint32_t)(sizeof block.head + prediction->count * sizeof block.ranges[0]);
}

/* The launch's context is current. */
static CUresult arm(struct tsr_twin *twin, const struct tsr_function_record *function, const struct tsr_prediction *prediction)
{
    size_t bytes = 0;
    CUresult result = adopt_attributes(twin, function);
    if (result == CUDA_SUCCESS)
        result = tsr_real.cuLibraryGetGlobal(&twin->variable, &bytes, twin->library, TSR_TWIN_VARIABLE);
    if (result == CUDA_SUCCESS && bytes < sizeof block)
        result = CUDA_ERROR_INVALID_IMAGE;
    return result == CUDA_SUCCESS ? tsr_real.cuMemcpyHtoD_v2(twin->variable, &block, fill(prediction)) : result;
}

CUresult tsr_twin_arm_locked(struct tsr_twin *twin, const struct tsr_function_record *function, CUstream stream,
                             const struct tsr_prediction *prediction)
{
    CUcontext popped;
    CUresult result = tsr_real.cuStreamGetCtx(stream, &twin->context);
    if (result == CUDA_SUCCESS)
        result = tsr_real.cuCtxPushCurrent_v2(twin->context);
    if (result != CUDA_SUCCESS)
        return result;
    result = arm(twin, function, prediction);
    tsr_real.cuCtxPopCurrent_v2(&popped);
    return result;
}

CUresult tsr_twin_read_locked(struct tsr_twin *twin, struct tsr_twin_result *out)
{
    CUcontext popped;
    CUresult result = tsr_real.cuCtxPushCurrent_v2(twin->context);
    if (result != CUDA_SUCCESS)
        return result;
    result = tsr_real.cuMemcpyDtoH_v2(&block, twin->variable, sizeof block.head);
    tsr_real.cuCtxPopCurrent_v2(&popped);
    *out = (struct tsr_twin_result){block.head.tested, block.head.outside,           block.head.address,
                                    block.head.bytes,  block.head.what >> KIND_BITS, block.head.what & ((1u << KIND_BITS) - 1)};
    return result;
}
