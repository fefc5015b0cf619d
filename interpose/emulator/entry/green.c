/*
 * Green contexts: a share of a device's SMs, with the memory and modules of its primary context. Which SMs they are does not matter to
 * an emulated device, so a resource is a count; two groups made by one split never add up to more than there is, but nothing keeps
 * a program from using one resource twice.
 */
#include "guard.h"

#include <stdlib.h>
#include <string.h>

#include "../context/context_object.h"
#include "../context/handles.h"
#include "../stream/stream.h"

struct resource_desc {
    unsigned sm_count;
    uint32_t device;
};

struct green {
    CUgreenCtx handle;
    struct tsr_context *context; /* a reference */
};

/* What a resource carries in its private part. */
struct resource_private {
    uint64_t magic;
    uint32_t device;
};

#define RESOURCE_MAGIC 0x54535252455331ull

static unsigned group_size(const struct tsr_device_desc *desc)
{
    return desc->compute_major >= 9 ? 8 : desc->compute_major >= 8 ? 4 : 2;
}

static unsigned group_alignment(const struct tsr_device_desc *desc)
{
    return desc->compute_major >= 9 ? 8 : 2;
}

static void resource_fill(CUdevResource *resource, uint32_t device, unsigned sm_count)
{
    const struct tsr_device_desc *desc = &tsr_machine_instance()->devices[device];
    struct resource_private private = {RESOURCE_MAGIC, device};
    memset(resource, 0, sizeof *resource);
    resource->type = CU_DEV_RESOURCE_TYPE_SM;
    memcpy(resource->_internal_padding, &private, sizeof private);
    resource->sm.smCount = sm_count;
    resource->sm.minSmPartitionSize = group_size(desc);
    resource->sm.smCoscheduledAlignment = group_alignment(desc);
}

static CUresult resource_check(const CUdevResource *resource, uint32_t *device)
{
    struct resource_private private;
    memcpy(&private, resource->_internal_padding, sizeof private);
    TSR_REQUIRE(resource->type == CU_DEV_RESOURCE_TYPE_SM, CUDA_ERROR_INVALID_RESOURCE_TYPE);
    TSR_REQUIRE(private.magic == RESOURCE_MAGIC && private.device < tsr_machine_instance()->device_count,
                CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
    TSR_REQUIRE(resource->sm.smCount && resource->sm.smCount <= tsr_machine_instance()->devices[private.device].sm_count,
                CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
    *device = private.device;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetDevResource(CUdevice device, CUdevResource *resource, CUdevResourceType type)
{
    TSR_TRY(tsr_device_check(device));
    TSR_REQUIRE(resource, CUDA_ERROR_INVALID_VALUE);
    TSR_REQUIRE(type == CU_DEV_RESOURCE_TYPE_SM, CUDA_ERROR_INVALID_RESOURCE_TYPE);
    resource_fill(resource, (uint32_t)device, tsr_machine_instance()->devices[device].sm_count);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetDevResource(CUcontext hCtx, CUdevResource *resource, CUdevResourceType type)
{
    struct tsr_context *context;
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(resource, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(tsr_context_from_handle(hCtx, &context));
    TSR_REQUIRE(type == CU_DEV_RESOURCE_TYPE_SM, CUDA_ERROR_INVALID_RESOURCE_TYPE);
    resource_fill(resource, tsr_emulated_context_device(context), tsr_context_sm_count(context));
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDevSmResourceSplitByCount(CUdevResource *result, unsigned int *nbGroups, const CUdevResource *input,
                                             CUdevResource *remaining, unsigned int useFlags, unsigned int minCount)
{
    uint32_t device;
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(nbGroups && input && !(useFlags & ~3u), CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(resource_check(input, &device));
    const struct tsr_device_desc *desc = &tsr_machine_instance()->devices[device];
    bool loose = useFlags & CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING;
    unsigned unit = loose ? 2 : group_alignment(desc), least = loose ? 2 : group_size(desc);
    unsigned size = minCount < least ? least : (minCount + unit - 1) / unit * unit;
    unsigned possible = input->sm.smCount / size;
    TSR_REQUIRE(possible, CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
    if (!result) {
        *nbGroups = possible;
        return CUDA_SUCCESS;
    }
    TSR_REQUIRE(*nbGroups, CUDA_ERROR_INVALID_VALUE);
    unsigned made = *nbGroups < possible ? *nbGroups : possible, total = input->sm.smCount;
    for (unsigned i = 0; i < made; i++)
        resource_fill(&result[i], device, size);
    if (remaining) {
        resource_fill(remaining, device, total - made * size);
        if (!remaining->sm.smCount)
            remaining->type = CU_DEV_RESOURCE_TYPE_INVALID;
    }
    *nbGroups = made;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDevResourceGenerateDesc(CUdevResourceDesc *phDesc, CUdevResource *resources, unsigned int nbResources)
{
    uint32_t device = 0;
    unsigned total = 0;
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(phDesc && resources && nbResources, CUDA_ERROR_INVALID_VALUE);
    for (unsigned i = 0; i < nbResources; i++) {
        uint32_t of = device;
        TSR_TRY(resource_check(&resources[i], &of));
        TSR_REQUIRE(i == 0 || of == device, CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
        device = of;
        total += resources[i].sm.smCount;
    }
    TSR_REQUIRE(total <= tsr_machine_instance()->devices[device].sm_count, CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
    struct resource_desc *desc = malloc(sizeof *desc);
    TSR_REQUIRE(desc, CUDA_ERROR_OUT_OF_MEMORY);
    *desc = (struct resource_desc){total, device};
    void *handle = tsr_handle_create(tsr_handle_table(), TSR_KIND_RESOURCE_DESC, desc, free);
    if (!handle) {
        free(desc);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *phDesc = handle;
    return CUDA_SUCCESS;
}

static void green_free(void *object)
{
    struct green *green = object;
    tsr_context_unref(green->context);
    free(green);
}

static CUresult find(CUgreenCtx handle, struct green **out)
{
    TSR_TRY(tsr_driver_ready());
    *out = handle ? tsr_handle_find(tsr_handle_table(), TSR_KIND_GREEN, handle) : NULL;
    TSR_REQUIRE(*out, CUDA_ERROR_INVALID_VALUE);
    return CUDA_SUCCESS;
}

static CUresult green_make(uint32_t device, unsigned sm_count, struct green **out)
{
    struct tsr_context *primary;
    struct green *green = calloc(1, sizeof *green);
    TSR_REQUIRE(green, CUDA_ERROR_OUT_OF_MEMORY);
    CUresult result = tsr_primary_retain(device, &primary);
    if (result == CUDA_SUCCESS) {
        result = tsr_context_create_green(primary, sm_count, &green->context);
        if (result != CUDA_SUCCESS)
            tsr_primary_release(device);
    }
    if (result != CUDA_SUCCESS) {
        free(green);
        return result;
    }
    tsr_context_ref(green->context);
    green->handle = tsr_handle_create(tsr_handle_table(), TSR_KIND_GREEN, green, green_free);
    if (!green->handle) {
        tsr_context_destroy(green->context);
        green_free(green);
        tsr_primary_release(device);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = green;
    return CUDA_SUCCESS;
}

/* Without a description: all of the device. */
CUresult CUDAAPI cuGreenCtxCreate(CUgreenCtx *phCtx, CUdevResourceDesc desc, CUdevice dev, unsigned int flags)
{
    struct green *green;
    TSR_TRY(tsr_device_check(dev));
    unsigned sm_count = tsr_machine_instance()->devices[dev].sm_count;
    TSR_REQUIRE(phCtx && flags == CU_GREEN_CTX_DEFAULT_STREAM, CUDA_ERROR_INVALID_VALUE);
    if (desc) {
        const struct resource_desc *found = tsr_handle_find(tsr_handle_table(), TSR_KIND_RESOURCE_DESC, desc);
        TSR_REQUIRE(found, CUDA_ERROR_INVALID_VALUE);
        TSR_REQUIRE(found->device == (uint32_t)dev, CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
        sm_count = found->sm_count;
    }
    TSR_TRY(green_make((uint32_t)dev, sm_count, &green));
    *phCtx = green->handle;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGreenCtxDestroy(CUgreenCtx hCtx)
{
    struct green *green;
    struct tsr_context *popped;
    TSR_TRY(find(hCtx, &green));
    struct tsr_context *context = green->context;
    tsr_context_ref(context);
    tsr_handle_remove(tsr_handle_table(), TSR_KIND_GREEN, hCtx);
    CUresult result = tsr_context_destroy(context);
    if (tsr_current_top() == context && tsr_current_pop(&popped) == CUDA_SUCCESS)
        tsr_context_unref(popped);
    tsr_primary_release(tsr_emulated_context_device(context));
    tsr_context_unref(context);
    return result;
}

CUresult CUDAAPI cuCtxFromGreenCtx(CUcontext *pContext, CUgreenCtx hCtx)
{
    struct green *green;
    TSR_TRY(find(hCtx, &green));
    TSR_REQUIRE(pContext, CUDA_ERROR_INVALID_VALUE);
    *pContext = tsr_context_handle(green->context);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGreenCtxGetDevResource(CUgreenCtx hCtx, CUdevResource *resource, CUdevResourceType type)
{
    struct green *green;
    TSR_TRY(find(hCtx, &green));
    return cuCtxGetDevResource(tsr_context_handle(green->context), resource, type);
}

CUresult CUDAAPI cuGreenCtxGetId(CUgreenCtx greenCtx, unsigned long long *greenCtxId)
{
    struct green *green;
    TSR_TRY(find(greenCtx, &green));
    TSR_REQUIRE(greenCtxId, CUDA_ERROR_INVALID_VALUE);
    *greenCtxId = tsr_context_id(green->context);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGreenCtxStreamCreate(CUstream *phStream, CUgreenCtx greenCtx, unsigned int flags, int priority)
{
    struct green *green;
    TSR_TRY(find(greenCtx, &green));
    TSR_REQUIRE(phStream && flags == CU_STREAM_NON_BLOCKING, CUDA_ERROR_INVALID_VALUE);
    return tsr_stream_create(green->context, flags, priority, greenCtx, phStream);
}

CUresult CUDAAPI cuStreamGetGreenCtx(CUstream hStream, CUgreenCtx *phCtx)
{
    struct tsr_emulated_stream *stream;
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(phCtx, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(tsr_stream_get(tsr_driver_stream(hStream), &stream));
    *phCtx = stream->green;
    tsr_stream_put(stream);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGreenCtxRecordEvent(CUgreenCtx hCtx, CUevent hEvent)
{
    struct green *green;
    TSR_TRY(find(hCtx, &green));
    return cuCtxRecordEvent(tsr_context_handle(green->context), hEvent);
}

CUresult CUDAAPI cuGreenCtxWaitEvent(CUgreenCtx hCtx, CUevent hEvent)
{
    struct green *green;
    TSR_TRY(find(hCtx, &green));
    return cuCtxWaitEvent(tsr_context_handle(green->context), hEvent);
}
