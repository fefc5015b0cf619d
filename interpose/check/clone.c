/* See clone.h. */
#include "object/session.h"
#include "check/clone.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <tessera/access.h>
#include <tessera/clones.h>

#include "check/snapshot.h"
#include "base/demangle.h"
#include "base/log.h"
#include "base/map.h"
#include "driver/real.h"
#include "lane/functions.h"
#include "launch/predict.h"
#include "check/clone_text.h"
#include "check/untested.h"

#define KIND_BITS 2u

_Static_assert(TSR_PREDICTED_RANGES <= TSR_CLONE_RANGES, "a clone has room for what is predicted of a launch");

struct tsr_clone {
    struct tsr_clone_text text;
    CUlibrary library; /* unless it is refused */
    CUkernel kernel;
    bool refused;
    struct tsr_lack lack; /* then: why */
    CUcontext context;    /* of the launch that it was found for, and its variable there */
    CUdeviceptr variable;
};

/* What a clone's variable holds. */
static struct {
    struct tsr_clone_block head;
    struct tsr_clone_range ranges[TSR_CLONE_RANGES];
    uint64_t places[TSR_CLONE_PLACES];
} block; /* memory lock; from finding a clone to reading what came out, of that one */

static struct tsr_map clones; /* memory lock; by the templates of their functions, which are one to a code and name */

/* ---- loading ---- */

static void refuse(struct tsr_clone *clone, const struct tsr_function_record *function, CUresult result)
{
    tsr_lack_set(&clone->lack, TSR_CHECK_REFUSED, "the driver does not load the clone (error %d)", (int)result);
    tsr_warn("check: the driver does not load the clone of %s (error %d); its accesses are not tested",
             TSR_KERNEL_NAME(function->name), (int)result);
    clone->refused = true;
}

/* Blocks as large as the function's own fit, however many registers the tests take. */
static void load(struct tsr_clone *clone, const struct tsr_function_record *function)
{
    CUjit_option options[] = {CU_JIT_THREADS_PER_BLOCK};
    void *values[] = {(void *)(uintptr_t)function->max_threads};
    CUresult result = tsr_real.cuLibraryLoadData(&clone->library, clone->text.ptx, options, values, 1, NULL, NULL, 0);
    if (result == CUDA_SUCCESS && (result = tsr_real.cuLibraryGetKernel(&clone->kernel, clone->library, function->name)))
        tsr_real.cuLibraryUnload(clone->library);
    if (result != CUDA_SUCCESS)
        refuse(clone, function, result);
}

/* The GPU whose launches are checked. */
static uint32_t home(void)
{
    return tsr_session()->policy->home;
}

/* NULL: *lack says why there is none. */
static struct tsr_clone *create(struct tsr_function_record *function, struct tsr_lack *lack)
{
    uint32_t template_bytes, bytes;
    const struct tsr_access_template *template = tsr_function_template(function, home(), &template_bytes);
    const char *data = template ? tsr_template_clone(&function->template, home(), &bytes) : NULL;
    struct tsr_clone_text text = {.ptx = ""};
    if (!template || (!data && template->tier != TSR_ACCESS_PTX))
        tsr_lack_set(lack, TSR_CHECK_NO_PTX, "it is known from %s", template ? "machine code" : "the library call");
    else if (!data || !tsr_clone_text_read(data, bytes, &text))
        tsr_lack_set(lack, TSR_CHECK_NO_TWIN, "there was no room for its clone");
    else if (!*text.ptx)
        tsr_lack_set(lack, TSR_CHECK_NO_TWIN, "%s", text.untested);
    struct tsr_clone *clone = *text.ptx ? calloc(1, sizeof *clone) : NULL;
    if (*text.ptx && (!clone || !tsr_map_set(&clones, (uintptr_t)template, clone))) {
        tsr_lack_set(lack, TSR_CHECK_REFUSED, "out of memory");
        free(clone);
        return NULL;
    }
    if (clone) {
        clone->text = text;
        load(clone, function);
    }
    return clone;
}

/* ---- variables of the function's module, the launch's context being current ---- */

/* Their addresses go to the block's places. NULL: all are known; else the name of one that is not. */
static const char *place(const struct tsr_clone *clone, const struct tsr_function_record *function)
{
    uint32_t count = 0;
    for (const char *line = clone->text.lines; *line; line += strlen(line) + 1) {
        CUdeviceptr address;
        size_t bytes;
        if (*line != TSR_CLONE_GLOBAL)
            continue;
        if (!function->module || tsr_module_locate(function->module, line + 1, &address, &bytes) != CUDA_SUCCESS)
            return line + 1;
        block.places[count++] = address;
    }
    return NULL;
}

/* The clone's get the content of those in constant memory. What the driver does not find nobody has changed. */
static CUresult copy_constants(const struct tsr_clone *clone, const struct tsr_function_record *function, CUstream stream)
{
    CUresult result = CUDA_SUCCESS;
    for (const char *line = clone->text.lines; *line && result == CUDA_SUCCESS; line += strlen(line) + 1) {
        CUdeviceptr from, to;
        size_t bytes, room;
        if (*line != TSR_CLONE_CONSTANT || !function->module ||
            tsr_module_locate(function->module, line + 1, &from, &bytes) != CUDA_SUCCESS)
            continue;
        result = tsr_real.cuLibraryGetGlobal(&to, &room, clone->library, line + 1);
        if (result == CUDA_SUCCESS)
            result = room == bytes ? tsr_real.cuMemcpyDtoDAsync_v2(to, from, bytes, stream) : CUDA_ERROR_INVALID_IMAGE;
    }
    return result;
}

static CUresult locate(struct tsr_clone *clone, const struct tsr_function_record *function, CUstream stream,
                       const char **missing)
{
    CUcontext popped;
    CUresult result = tsr_real.cuStreamGetCtx(stream, &clone->context);
    if (result == CUDA_SUCCESS)
        result = tsr_real.cuCtxPushCurrent_v2(clone->context);
    if (result != CUDA_SUCCESS)
        return result;
    *missing = place(clone, function);
    tsr_real.cuCtxPopCurrent_v2(&popped);
    return CUDA_SUCCESS;
}

struct tsr_clone *tsr_clone_find_locked(struct tsr_function_record *function, CUstream stream, struct tsr_lack *lack)
{
    uint32_t bytes;
    const void *template = tsr_function_template(function, home(), &bytes);
    struct tsr_clone *clone = template ? tsr_map_find(&clones, (uintptr_t)template) : NULL;
    if (!clone)
        clone = create(function, lack);
    if (!clone)
        return NULL;
    *lack = clone->lack;
    if (clone->refused)
        return NULL;
    const char *missing = NULL;
    CUresult result = locate(clone, function, stream, &missing);
    if (result != CUDA_SUCCESS)
        tsr_lack_set(lack, TSR_CHECK_REFUSED, "the driver does not tell the stream's context (error %d)", (int)result);
    else if (missing)
        tsr_lack_set(lack, TSR_CHECK_REFUSED, "the driver does not say where its variable %s is", missing);
    return result == CUDA_SUCCESS && !missing ? clone : NULL;
}

CUfunction tsr_clone_function(const struct tsr_clone *clone)
{
    return (CUfunction)clone->kernel;
}

const char *tsr_clone_untested(const struct tsr_clone *clone)
{
    return clone->text.untested;
}

void tsr_clone_give_up_locked(struct tsr_clone *clone, struct tsr_lack *lack)
{
    tsr_lack_set(&clone->lack, TSR_CHECK_REFUSED, "the driver does not launch the clone");
    *lack = clone->lack;
    clone->refused = true;
}

/* ---- a launch ---- */

static CUresult adopt_attributes(const struct tsr_clone *clone, const struct tsr_function_record *function)
{
    CUdevice device;
    CUresult result = tsr_real.cuCtxGetDevice(&device);
    for (unsigned i = 0; i + 1 < TSR_FUNCTION_ATTRIBUTES && result == CUDA_SUCCESS; i++)
        if (function->attributes_set >> i & 1)
            result = tsr_real.cuKernelSetAttribute((CUfunction_attribute)i, function->attributes[i], clone->kernel, device);
    return result;
}

static void fill(const struct tsr_prediction *prediction)
{
    block.head = (struct tsr_clone_block){.count = prediction->count};
    for (uint32_t i = 0; i < prediction->count; i++) {
        struct tsr_strided_range span = tsr_predicted_span(&prediction->ranges[i]);
        block.ranges[i] = (struct tsr_clone_range){span.low, span.high, span.stride, span.width, prediction->ranges[i].kind};
    }
}

/* In the stream, so that what is copied is there when the clone runs. The launch's context is current. */
static CUresult arm(struct tsr_clone *clone, const struct tsr_function_record *function, CUstream stream,
                    const struct tsr_prediction *prediction)
{
    size_t bytes = 0;
    CUresult result = adopt_attributes(clone, function);
    if (result == CUDA_SUCCESS)
        result = copy_constants(clone, function, stream);
    if (result == CUDA_SUCCESS)
        result = tsr_real.cuLibraryGetGlobal(&clone->variable, &bytes, clone->library, TSR_CLONE_VARIABLE);
    if (result == CUDA_SUCCESS && bytes != sizeof block)
        result = CUDA_ERROR_INVALID_IMAGE;
    fill(prediction);
    return result == CUDA_SUCCESS ? tsr_real.cuMemcpyHtoDAsync_v2(clone->variable, &block, sizeof block, stream) : result;
}

CUresult tsr_clone_arm_locked(struct tsr_clone *clone, const struct tsr_function_record *function, CUstream stream,
                              const struct tsr_prediction *prediction)
{
    CUcontext popped;
    CUresult result = tsr_real.cuCtxPushCurrent_v2(clone->context);
    if (result != CUDA_SUCCESS)
        return result;
    result = arm(clone, function, stream, prediction);
    tsr_real.cuCtxPopCurrent_v2(&popped);
    return result;
}

CUresult tsr_clone_read_locked(struct tsr_clone *clone, struct tsr_clone_result *out)
{
    CUcontext popped;
    CUresult result = tsr_real.cuCtxPushCurrent_v2(clone->context);
    if (result != CUDA_SUCCESS)
        return result;
    result = tsr_real.cuMemcpyDtoH_v2(&block, clone->variable, sizeof block.head);
    tsr_real.cuCtxPopCurrent_v2(&popped);
    *out =
        (struct tsr_clone_result){block.head.tested, block.head.outside,           block.head.address,
                                  block.head.bytes,  block.head.what >> KIND_BITS, block.head.what & ((1u << KIND_BITS) - 1)};
    return result;
}
