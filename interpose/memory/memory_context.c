/* Contexts and memory: what a context owns goes with it, and other devices that the application uses get at the home GPU's memory. */
#include "driver/engaged.h"
#include "memory/memory.h"
#include "memory/contexts.h"
#include "memory/room.h"
#include "order/order.h"
#include "driver/real.h"
#include "object/session.h"

static uint32_t devices_used; /* atomic; bit n: device n may access ordinary memory of the home GPU */

CUresult tsr_memory_end_context(CUcontext context, CUresult (*end)(CUcontext))
{
    if (!tsr_session())
        return end(context);
    bool was_known = tsr_memory_context_end_begin(context);
    CUresult result = end(context);
    if (result == CUDA_SUCCESS) {
        tsr_order_context_ended(context);
        tsr_memory_context_gone(context);
    }
    tsr_memory_context_end_finish(context, was_known && result != CUDA_SUCCESS);
    return result;
}

static int is_active(CUdevice device)
{
    unsigned flags;
    int active = 0;
    tsr_real.cuDevicePrimaryCtxGetState(device, &flags, &active);
    return active;
}

CUresult tsr_memory_end_primary(CUdevice device, CUresult (*end)(CUdevice))
{
    CUcontext context = NULL;
    if (!tsr_session())
        return end(device);
    if (is_active(device) && tsr_real.cuDevicePrimaryCtxRetain(&context, device) == CUDA_SUCCESS)
        tsr_real.cuDevicePrimaryCtxRelease_v2(device);
    bool was_known = tsr_memory_context_end_begin(context);
    CUresult result = end(device);
    bool ended = result == CUDA_SUCCESS && context && !is_active(device);
    if (ended) {
        tsr_order_context_ended(context);
        tsr_memory_context_gone(context);
    }
    tsr_memory_context_end_finish(context, was_known && !ended);
    return result;
}

/* A device of which the application has a context may copy from and to ordinary memory of all devices, so it must be able to access it. */
static CUresult used(CUresult result, CUdevice device, const CUcontext *context)
{
    int possible = 0;
    CUdevice home = tsr_session()->home;
    uint32_t bit = 1u << (device & 31);
    if (result == CUDA_SUCCESS)
        tsr_memory_context_begun(*context);
    if (result != CUDA_SUCCESS || device == home || __atomic_load_n(&devices_used, __ATOMIC_ACQUIRE) & bit)
        return result;
    if (tsr_real.cuDeviceCanAccessPeer(&possible, device, home) == CUDA_SUCCESS && possible &&
        tsr_memory_open_to(device) == CUDA_SUCCESS)
        __atomic_fetch_or(&devices_used, bit, __ATOMIC_RELEASE);
    return CUDA_SUCCESS;
}

TSR_REDIRECTED(cuDevicePrimaryCtxRetain)(CUcontext *pctx, CUdevice dev)
{
    struct tsr_room room = {.device = dev};
    CUresult result;
    do
        result = tsr_real.cuDevicePrimaryCtxRetain(pctx, dev);
    while (tsr_room_is_made(&room, result));
    return used(result, dev, pctx);
}

TSR_REDIRECTED(cuCtxCreate_v2)(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
    struct tsr_room room = {.device = dev};
    CUresult result;
    do
        result = tsr_real.cuCtxCreate_v2(pctx, flags, dev);
    while (tsr_room_is_made(&room, result));
    return used(result, dev, pctx);
}

TSR_REDIRECTED(cuCtxCreate_v3)(CUcontext *pctx, CUexecAffinityParam *paramsArray, int numParams, unsigned int flags,
                               CUdevice dev)
{
    struct tsr_room room = {.device = dev};
    CUresult result;
    do
        result = tsr_real.cuCtxCreate_v3(pctx, paramsArray, numParams, flags, dev);
    while (tsr_room_is_made(&room, result));
    return used(result, dev, pctx);
}

TSR_REDIRECTED(cuCtxCreate_v4)(CUcontext *pctx, CUctxCreateParams *ctxCreateParams, unsigned int flags, CUdevice dev)
{
    struct tsr_room room = {.device = dev};
    CUresult result;
    do
        result = tsr_real.cuCtxCreate_v4(pctx, ctxCreateParams, flags, dev);
    while (tsr_room_is_made(&room, result));
    return used(result, dev, pctx);
}

TSR_REDIRECTED(cuGreenCtxCreate)(CUgreenCtx *phCtx, CUdevResourceDesc desc, CUdevice dev, unsigned int flags)
{
    tsr_memory_context_begun(NULL);
    return tsr_real.cuGreenCtxCreate(phCtx, desc, dev, flags);
}

void tsr_memory_context_forget(void)
{
    devices_used = 0;
    tsr_contexts_forget();
}
