/* See twin.h. */
#include "object/session.h"
#include "check/twin.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <tessera/access.h>
#include <tessera/twins.h>

#include "check/snapshot.h"
#include "base/log.h"
#include "base/map.h"
#include "driver/real.h"
#include "lane/functions.h"
#include "launch/predict.h"
#include "check/twin_text.h"
#include "check/untested.h"

#define KIND_BITS 2u

_Static_assert(TSR_PREDICTED_RANGES <= TSR_TWIN_RANGES, "a twin has room for what is predicted of a launch");

struct tsr_twin {
    struct tsr_twin_text text;
    CUlibrary library; /* unless it is refused */
    CUkernel kernel;
    bool refused;
    struct tsr_lack lack; /* then: why */
    CUcontext context;    /* of the launch that it was found for, and its variable there */
    CUdeviceptr variable;
};

/* What a twin's variable holds. */
static struct {
    struct tsr_twin_block head;
    struct tsr_twin_range ranges[TSR_TWIN_RANGES];
    uint64_t places[TSR_TWIN_PLACES];
} block; /* memory lock; from finding a twin to reading what came out, of that one */

static struct tsr_map twins; /* memory lock; by the templates of their functions, which are one to a code and name */

/* ---- loading ---- */

static void refuse(struct tsr_twin *twin, const struct tsr_function_record *function, CUresult result)
{
    tsr_lack_say(&twin->lack, TSR_CHECK_REFUSED, "the driver does not load the twin (error %d)", (int)result);
    tsr_warn("check: the driver does not load the twin of %s (error %d); its accesses are not tested", function->name,
             (int)result);
    twin->refused = true;
}

/* Blocks as large as the function's own fit, however many registers the tests take. */
static void load(struct tsr_twin *twin, const struct tsr_function_record *function)
{
    CUjit_option options[] = {CU_JIT_THREADS_PER_BLOCK};
    void *values[] = {(void *)(uintptr_t)function->max_threads};
    CUresult result = tsr_real.cuLibraryLoadData(&twin->library, twin->text.ptx, options, values, 1, NULL, NULL, 0);
    if (result == CUDA_SUCCESS && (result = tsr_real.cuLibraryGetKernel(&twin->kernel, twin->library, function->name)))
        tsr_real.cuLibraryUnload(twin->library);
    if (result != CUDA_SUCCESS)
        refuse(twin, function, result);
}

/* The GPU whose launches are checked. */
static uint32_t home(void)
{
    return tsr_session()->policy->home;
}

/* NULL: *lack says why there is none. */
static struct tsr_twin *create(struct tsr_function_record *function, struct tsr_lack *lack)
{
    uint32_t template_bytes, bytes;
    const struct tsr_access_template *template = tsr_function_template(function, home(), &template_bytes);
    const char *data = template ? tsr_template_twin(&function->template, home(), &bytes) : NULL;
    struct tsr_twin_text text = {.ptx = ""};
    if (!template || (!data && template->tier != TSR_ACCESS_PTX))
        tsr_lack_say(lack, TSR_CHECK_NO_PTX, "it is known from %s", template ? "machine code" : "the library call");
    else if (!data || !tsr_twin_text_read(data, bytes, &text))
        tsr_lack_say(lack, TSR_CHECK_NO_TWIN, "there was no room for its twin");
    else if (!*text.ptx)
        tsr_lack_say(lack, TSR_CHECK_NO_TWIN, "%s", text.untested);
    struct tsr_twin *twin = *text.ptx ? calloc(1, sizeof *twin) : NULL;
    if (*text.ptx && (!twin || !tsr_map_set(&twins, (uintptr_t)template, twin))) {
        tsr_lack_say(lack, TSR_CHECK_REFUSED, "out of memory");
        free(twin);
        return NULL;
    }
    if (twin) {
        twin->text = text;
        load(twin, function);
    }
    return twin;
}

/* ---- variables of the function's module, the launch's context being current ---- */

/* Their addresses go to the block's places. NULL: all are known; else the name of one that is not. */
static const char *place(const struct tsr_twin *twin, const struct tsr_function_record *function)
{
    uint32_t count = 0;
    for (const char *line = twin->text.lines; *line; line += strlen(line) + 1) {
        CUdeviceptr address;
        size_t bytes;
        if (*line != TSR_TWIN_GLOBAL)
            continue;
        if (!function->module || tsr_module_locate(function->module, line + 1, &address, &bytes) != CUDA_SUCCESS)
            return line + 1;
        block.places[count++] = address;
    }
    return NULL;
}

/* The twin's get the content of those in constant memory. What the driver does not find nobody has changed. */
static CUresult copy_constants(const struct tsr_twin *twin, const struct tsr_function_record *function, CUstream stream)
{
    CUresult result = CUDA_SUCCESS;
    for (const char *line = twin->text.lines; *line && result == CUDA_SUCCESS; line += strlen(line) + 1) {
        CUdeviceptr from, to;
        size_t bytes, room;
        if (*line != TSR_TWIN_CONSTANT || !function->module ||
            tsr_module_locate(function->module, line + 1, &from, &bytes) != CUDA_SUCCESS)
            continue;
        result = tsr_real.cuLibraryGetGlobal(&to, &room, twin->library, line + 1);
        if (result == CUDA_SUCCESS)
            result = room == bytes ? tsr_real.cuMemcpyDtoDAsync_v2(to, from, bytes, stream) : CUDA_ERROR_INVALID_IMAGE;
    }
    return result;
}

static CUresult locate(struct tsr_twin *twin, const struct tsr_function_record *function, CUstream stream, const char **missing)
{
    CUcontext popped;
    CUresult result = tsr_real.cuStreamGetCtx(stream, &twin->context);
    if (result == CUDA_SUCCESS)
        result = tsr_real.cuCtxPushCurrent_v2(twin->context);
    if (result != CUDA_SUCCESS)
        return result;
    *missing = place(twin, function);
    tsr_real.cuCtxPopCurrent_v2(&popped);
    return CUDA_SUCCESS;
}

struct tsr_twin *tsr_twin_find_locked(struct tsr_function_record *function, CUstream stream, struct tsr_lack *lack)
{
    uint32_t bytes;
    const void *template = tsr_function_template(function, home(), &bytes);
    struct tsr_twin *twin = template ? tsr_map_find(&twins, (uintptr_t)template) : NULL;
    if (!twin)
        twin = create(function, lack);
    if (!twin)
        return NULL;
    *lack = twin->lack;
    if (twin->refused)
        return NULL;
    const char *missing = NULL;
    CUresult result = locate(twin, function, stream, &missing);
    if (result != CUDA_SUCCESS)
        tsr_lack_say(lack, TSR_CHECK_REFUSED, "the driver does not tell the stream's context (error %d)", (int)result);
    else if (missing)
        tsr_lack_say(lack, TSR_CHECK_REFUSED, "the driver does not say where its variable %s is", missing);
    return result == CUDA_SUCCESS && !missing ? twin : NULL;
}

CUfunction tsr_twin_function(const struct tsr_twin *twin)
{
    return (CUfunction)twin->kernel;
}

const char *tsr_twin_untested(const struct tsr_twin *twin)
{
    return twin->text.untested;
}

void tsr_twin_give_up_locked(struct tsr_twin *twin, struct tsr_lack *lack)
{
    tsr_lack_say(&twin->lack, TSR_CHECK_REFUSED, "the driver does not launch the twin");
    *lack = twin->lack;
    twin->refused = true;
}

/* ---- a launch ---- */

static CUresult adopt_attributes(const struct tsr_twin *twin, const struct tsr_function_record *function)
{
    CUdevice device;
    CUresult result = tsr_real.cuCtxGetDevice(&device);
    for (unsigned i = 0; i + 1 < TSR_FUNCTION_ATTRIBUTES && result == CUDA_SUCCESS; i++)
        if (function->attributes_set >> i & 1)
            result = tsr_real.cuKernelSetAttribute((CUfunction_attribute)i, function->attributes[i], twin->kernel, device);
    return result;
}

static void fill(const struct tsr_prediction *prediction)
{
    block.head = (struct tsr_twin_block){.count = prediction->count};
    for (uint32_t i = 0; i < prediction->count; i++) {
        struct tsr_span span = tsr_predicted_span(&prediction->ranges[i]);
        block.ranges[i] = (struct tsr_twin_range){span.low, span.high, span.stride, span.width, prediction->ranges[i].kind};
    }
}

/* In the stream, so that what is copied is there when the twin runs. The launch's context is current. */
static CUresult arm(struct tsr_twin *twin, const struct tsr_function_record *function, CUstream stream,
                    const struct tsr_prediction *prediction)
{
    size_t bytes = 0;
    CUresult result = adopt_attributes(twin, function);
    if (result == CUDA_SUCCESS)
        result = copy_constants(twin, function, stream);
    if (result == CUDA_SUCCESS)
        result = tsr_real.cuLibraryGetGlobal(&twin->variable, &bytes, twin->library, TSR_TWIN_VARIABLE);
    if (result == CUDA_SUCCESS && bytes != sizeof block)
        result = CUDA_ERROR_INVALID_IMAGE;
    fill(prediction);
    return result == CUDA_SUCCESS ? tsr_real.cuMemcpyHtoDAsync_v2(twin->variable, &block, sizeof block, stream) : result;
}

CUresult tsr_twin_arm_locked(struct tsr_twin *twin, const struct tsr_function_record *function, CUstream stream,
                             const struct tsr_prediction *prediction)
{
    CUcontext popped;
    CUresult result = tsr_real.cuCtxPushCurrent_v2(twin->context);
    if (result != CUDA_SUCCESS)
        return result;
    result = arm(twin, function, stream, prediction);
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
