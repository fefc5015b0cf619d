/* See fences.h. */
#include "lane/fences.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#include <tessera/lane.h>

#include "base/os.h"
#include "driver/current.h"
#include "driver/real.h"
#include "lane/lane_client.h"
#include "lane/lane_object.h"
#include "object/session.h"

/* Where a context sees the lanes. Never freed: it is looked up without the lock. */
struct view {
    struct view *next;
    CUcontext context;   /* atomic; NULL: it has ended, and another one may use this */
    char *at[TSR_LANES]; /* atomic; by lane; NULL: not registered */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* changing views, registering */
static struct view *views;                               /* atomic */

static struct view *find(CUcontext context)
{
    struct view *view = __atomic_load_n(&views, __ATOMIC_ACQUIRE);
    while (view && __atomic_load_n(&view->context, __ATOMIC_ACQUIRE) != context)
        view = view->next;
    return view;
}

static char *place_in(const struct view *view, uint32_t lane)
{
    return view ? __atomic_load_n(&view->at[lane], __ATOMIC_ACQUIRE) : NULL;
}

/* NULL: there is no memory. */
static struct view *make_locked(CUcontext context)
{
    struct view *view = find(context);
    if (view)
        return view;
    view = find(NULL);
    if (!view && (view = calloc(1, sizeof *view))) {
        view->next = views;
        __atomic_store_n(&views, view, __ATOMIC_RELEASE);
    }
    if (view)
        __atomic_store_n(&view->context, context, __ATOMIC_RELEASE);
    return view;
}

static char *address_of(const struct tsr_lane_client *lane)
{
    return (char *)lane->lane;
}

static bool is_taken_locked(const struct tsr_lane_client *lane)
{
    bool taken = false;
    for (const struct view *view = views; view && !taken; view = view->next)
        taken = view->at[lane->number] == address_of(lane);
    return taken;
}

static CUresult register_here(char *at)
{
    CUstreamCaptureMode mode =
        CU_STREAM_CAPTURE_MODE_RELAXED; /* a capture in progress forbids registering, unless it is relaxed */
    tsr_real.cuThreadExchangeStreamCaptureMode(&mode);
    CUresult result =
        tsr_real.cuMemHostRegister_v2(at, TSR_LANE_FRONT_BYTES, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
    tsr_real.cuThreadExchangeStreamCaptureMode(&mode);
    return result;
}

static CUresult register_again(const struct tsr_lane_client *lane, char **at)
{
    *at = tsr_os_map_again(address_of(lane), TSR_LANE_FRONT_BYTES);
    CUresult result = *at ? register_here(*at) : CUDA_ERROR_OUT_OF_MEMORY;
    if (result != CUDA_SUCCESS && *at)
        tsr_os_unmap(*at, TSR_LANE_FRONT_BYTES);
    return result;
}

/* In the current context, which this is. */
static CUresult open_locked(CUcontext context, const struct tsr_lane_client *lane)
{
    struct view *view = make_locked(context);
    char *at = address_of(lane);
    if (!view)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (view->at[lane->number])
        return CUDA_SUCCESS;
    CUresult result = is_taken_locked(lane) ? CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED : register_here(at);
    if (result == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED)
        result = register_again(lane, &at);
    if (result == CUDA_SUCCESS)
        __atomic_store_n(&view->at[lane->number], at, __ATOMIC_RELEASE);
    return result;
}

static CUresult open_here(CUcontext context, const struct tsr_lane_client *lane)
{
    if (place_in(find(context), lane->number))
        return CUDA_SUCCESS;
    pthread_mutex_lock(&lock);
    CUresult result = open_locked(context, lane);
    pthread_mutex_unlock(&lock);
    return result;
}

CUresult tsr_fences_open(CUcontext context, const struct tsr_lane_client *lane)
{
    bool pushed;
    CUresult result = tsr_current_push(context, &pushed);
    if (result == CUDA_SUCCESS)
        result = open_here(context, lane);
    tsr_current_pop(pushed);
    return result;
}

/* Waits and writes have their address in the same place. */
static CUresult translate(CUcontext context, CUdeviceptr *address)
{
    const struct tsr_session *session = tsr_session();
    uint64_t offset = *address - TSR_LANE_ADDRESS, number = offset / TSR_LANE_SPACING;
    if (number >= session->lane_count)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = open_here(context, session->lanes[number]);
    if (result == CUDA_SUCCESS)
        *address = (CUdeviceptr)(uintptr_t)place_in(find(context), (uint32_t)number) + offset % TSR_LANE_SPACING;
    return result;
}

/* A default stream is the current context's; and a thread that ends contexts may have none, or another one. */
CUresult tsr_fences_operate(CUcontext context, CUstream stream, unsigned count, CUstreamBatchMemOpParams *operations)
{
    bool pushed;
    CUresult result = tsr_current_push(context, &pushed);
    for (unsigned i = 0; i < count && result == CUDA_SUCCESS; i++)
        result = translate(context, &operations[i].waitValue.address);
    if (result == CUDA_SUCCESS)
        result = tsr_real.cuStreamBatchMemOp_v2(stream, count, operations, 0);
    tsr_current_pop(pushed);
    return result;
}

/* If the registration has gone with the context, as it should have, the driver says only so. */
static void close_locked(struct view *view, const struct tsr_lane_client *lane)
{
    char *at = view->at[lane->number];
    if (!at)
        return;
    tsr_real.cuMemHostUnregister(at);
    __atomic_store_n(&view->at[lane->number], NULL, __ATOMIC_RELEASE);
    if (at != address_of(lane))
        tsr_os_unmap(at, TSR_LANE_FRONT_BYTES);
}

void tsr_fences_context_ended(CUcontext context)
{
    const struct tsr_session *session = tsr_session();
    pthread_mutex_lock(&lock);
    struct view *view = context ? find(context) : NULL;
    for (uint32_t i = 0; view && i < session->lane_count; i++)
        close_locked(view, session->lanes[i]);
    if (view)
        __atomic_store_n(&view->context, NULL, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&lock);
}

void tsr_fences_start(void)
{
    pthread_mutex_init(&lock, NULL);
    views = NULL;
}
