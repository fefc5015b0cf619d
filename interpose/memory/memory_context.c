/* Contexts and memory: what a context owns goes with it, and other devices that the application uses get at the home GPU's memory. */
#include <pthread.h>

#include "base/log.h"
#include "driver/engaged.h"
#include "driver/gpus.h"
#include "lane/streams.h"
#include "memory/arena.h"
#include "memory/home.h"
#include "memory/pool.h"
#include "memory/memory.h"
#include "memory/contexts.h"
#include "memory/copies.h"
#include "memory/room.h"
#include "object/place.h"
#include "order/order.h"
#include "driver/real.h"
#include "object/session.h"

static uint32_t devices_open;  /* atomic; bit n: device n can access ordinary memory of the home GPU */
static uint32_t devices_begun; /* atomic; bit n: the application has a context of device n */
static uint32_t devices_apart; /* atomic; of those that are open: bit n: device n is no peer, so it cannot */
bool tsr_memory_pending, tsr_memory_others, tsr_memory_apart;
/*
 * Held while the driver retains or releases a primary context, and until what belonged to one that has ended is forgotten: a thread that retains it
 * again meanwhile would get the same handle. Taken before all other locks.
 */
static pthread_mutex_t primaries = PTHREAD_MUTEX_INITIALIZER;

/* The driver has ended it. */
static void forget(CUcontext context)
{
    tsr_order_context_ended(context);
    tsr_memory_context_gone(context);
}

CUresult tsr_memory_end_context(CUcontext context, CUresult (*end)(CUcontext))
{
    if (!tsr_session())
        return end(context);
    bool was_known = tsr_memory_context_end_begin(context);
    tsr_copies_context_end_begin();
    CUresult result = end(context);
    tsr_copies_context_end_finish(result == CUDA_SUCCESS ? context : NULL);
    if (result == CUDA_SUCCESS)
        forget(context);
    tsr_memory_context_end_finish(context, was_known && result != CUDA_SUCCESS);
    return result;
}

static uint32_t bit_of(CUdevice device)
{
    return 1u << (device & 31);
}

static void update_pending(void)
{
    uint32_t open = __atomic_load_n(&devices_open, __ATOMIC_ACQUIRE), begun = __atomic_load_n(&devices_begun, __ATOMIC_ACQUIRE);
    __atomic_store_n(&tsr_memory_pending, (begun & ~open) != 0, __ATOMIC_RELEASE);
}

static int is_active(CUdevice device)
{
    unsigned flags;
    int active = 0;
    tsr_real.cuDevicePrimaryCtxGetState(device, &flags, &active);
    return active;
}

static CUcontext find_primary(CUdevice device)
{
    CUcontext context = NULL;
    if (is_active(device) && tsr_real.cuDevicePrimaryCtxRetain(&context, device) == CUDA_SUCCESS)
        tsr_real.cuDevicePrimaryCtxRelease_v2(device);
    return context;
}

CUcontext tsr_memory_primary_context(CUdevice device)
{
    if (!tsr_session())
        return find_primary(device);
    pthread_mutex_lock(&primaries);
    CUcontext context = find_primary(device);
    pthread_mutex_unlock(&primaries);
    return context;
}

/* What may be the end of a device's primary context, or also of a green one that has it. */
struct end {
    CUresult (*release)(CUdevice);
    CUgreenCtx green; /* NULL: it is the device's */
};

static CUresult call(const struct end *end, CUdevice device)
{
    return end->green ? tsr_real.cuGreenCtxDestroy(end->green) : end->release(device);
}

static CUresult end_primary_locked(CUdevice device, const struct end *how)
{
    CUcontext context = find_primary(device);
    bool was_known = tsr_memory_context_end_begin(context);
    tsr_copies_context_end_begin();
    CUresult result = call(how, device);
    bool ended = result == CUDA_SUCCESS && context && !is_active(device);
    tsr_copies_context_end_finish(ended ? context : NULL);
    if (ended)
        forget(context);
    tsr_memory_context_end_finish(context, was_known && !ended);
    return result;
}

static CUresult end_primary(CUdevice device, const struct end *how)
{
    pthread_mutex_lock(&primaries);
    CUresult result = end_primary_locked(device, how);
    pthread_mutex_unlock(&primaries);
    return result;
}

CUresult tsr_memory_end_primary(CUdevice device, CUresult (*end)(CUdevice))
{
    return tsr_session() ? end_primary(device, &(struct end){.release = end}) : end(device);
}

/*
 * A device of which the application has a context may copy from and to ordinary memory of all devices, so it must be able to access it. Memory that it can access
 * has no copies any more, and many programs make contexts of all devices and use one: it is opened when the device is first given work.
 */
static CUresult used(CUresult result, CUdevice device, const CUcontext *context)
{
    if (result != CUDA_SUCCESS)
        return result;
    tsr_memory_context_begun(*context);
    if (device == tsr_session()->home)
        return result;
    __atomic_fetch_or(&devices_begun, bit_of(device), __ATOMIC_RELEASE);
    __atomic_store_n(&tsr_memory_others, true, __ATOMIC_RELEASE);
    update_pending();
    return result;
}

static void open_to(CUdevice device)
{
    int possible = 0;
    CUdevice home = tsr_session()->home;
    if (device < 0 || device == home || __atomic_load_n(&devices_open, __ATOMIC_ACQUIRE) & bit_of(device))
        return;
    CUstreamCaptureMode mode = tsr_memory_relax_begin();
    bool can = tsr_real.cuDeviceCanAccessPeer(&possible, device, home) == CUDA_SUCCESS && possible;
    bool done = !can || tsr_memory_open_to(device) == CUDA_SUCCESS;
    tsr_memory_relax_end(mode);
    if (!done)
        return;
    if (!can) {
        __atomic_fetch_or(&devices_apart, bit_of(device), __ATOMIC_RELEASE);
        __atomic_store_n(&tsr_memory_apart, true, __ATOMIC_RELEASE);
    }
    __atomic_fetch_or(&devices_open, bit_of(device), __ATOMIC_RELEASE);
    update_pending();
    if (can)
        tsr_info("the program uses GPU %u by itself, too: memory that there is has no copies on other GPUs from now on",
                 tsr_gpu_of(device));
}

static CUdevice device_of_stream(CUstream stream)
{
    struct tsr_stream_found found;
    uint32_t gpu = tsr_stream_place(stream, &found);
    return gpu == tsr_session()->policy->home || gpu == TSR_PLACE_UNKNOWN ? -1 : tsr_gpu_device(gpu);
}

static CUdevice device_of(CUdeviceptr address)
{
    int ordinal = -1;
    bool known =
        address && tsr_real.cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address) == CUDA_SUCCESS;
    return known ? ordinal : -1;
}

bool tsr_memory_is_apart(CUstream stream)
{
    CUdevice device = device_of_stream(stream);
    return device >= 0 && __atomic_load_n(&devices_apart, __ATOMIC_ACQUIRE) & bit_of(device);
}

void tsr_memory_open_for_work_slow(CUstream stream)
{
    open_to(device_of_stream(stream));
}

void tsr_memory_open_for_copy_slow(CUstream stream, CUdeviceptr to, CUdeviceptr from)
{
    bool to_is_ours = tsr_arena_covers(to), from_is_ours = tsr_arena_covers(from);
    if (!to_is_ours && !from_is_ours)
        return;
    CUdevice device = device_of_stream(stream);
    open_to(device);
    if (device >= 0 && __atomic_load_n(&tsr_pools_are_used, __ATOMIC_ACQUIRE) &&
        !(__atomic_load_n(&devices_apart, __ATOMIC_ACQUIRE) & bit_of(device)))
        tsr_pools_open(device, to_is_ours ? to : 0, from_is_ours ? from : 0);
    if (!tsr_memory_any_pending())
        return;
    open_to(to_is_ours ? -1 : device_of(to));
    open_to(from_is_ours ? -1 : device_of(from));
}

void tsr_memory_open_for_all_slow(void)
{
    for (CUdevice device = 0; device < 32; device++)
        if (__atomic_load_n(&devices_begun, __ATOMIC_ACQUIRE) & bit_of(device))
            open_to(device);
}

static CUresult retain(CUcontext *context, CUdevice device)
{
    pthread_mutex_lock(&primaries);
    CUresult result = tsr_real.cuDevicePrimaryCtxRetain(context, device);
    pthread_mutex_unlock(&primaries);
    return result;
}

TSR_REDIRECTED(cuDevicePrimaryCtxRetain)(CUcontext *pctx, CUdevice dev)
{
    struct tsr_room room = {.device = dev};
    CUresult result;
    do
        result = retain(pctx, dev);
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

/* It may be the last that holds its device's primary context; of other devices than home there is nothing to forget. */
TSR_REDIRECTED(cuGreenCtxDestroy)(CUgreenCtx hCtx)
{
    CUcontext context = NULL;
    CUresult result = tsr_order_destroy_contexts();
    if (result != CUDA_SUCCESS || tsr_real.cuCtxFromGreenCtx(&context, hCtx) != CUDA_SUCCESS)
        return result == CUDA_SUCCESS ? tsr_real.cuGreenCtxDestroy(hCtx) : result;
    result = end_primary(tsr_session()->home, &(struct end){.green = hCtx});
    if (result == CUDA_SUCCESS)
        tsr_order_context_ended(context);
    return result;
}

void tsr_memory_context_forget(void)
{
    pthread_mutex_init(&primaries, NULL);
    devices_open = devices_begun = devices_apart = 0;
    tsr_memory_pending = tsr_memory_others = tsr_memory_apart = false;
    tsr_contexts_forget();
}
