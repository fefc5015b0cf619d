/* Contexts and memory: what a context owns goes with it, and peer access covers what the arena holds. */
#include "shim/engaged.h"
#include "shim/memory.h"
#include "shim/order.h"
#include "shim/real.h"
#include "shim/session.h"

#define DEVICES 32

static uint32_t peer_users[DEVICES]; /* atomic; contexts of the device that may access the home GPU's memory */

CUresult tsr_memory_end_context(CUcontext context, CUresult (*end)(CUcontext))
{
    CUresult result = end(context);
    if (result == CUDA_SUCCESS && tsr_session())
        tsr_memory_context_gone(context);
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
    CUresult result = end(device);
    if (result == CUDA_SUCCESS && context && !is_active(device))
        tsr_memory_context_gone(context);
    return result;
}

/* Whether the peer is a context of the home GPU and the current one is not; gives the current one's device. */
static bool concerns_home(CUcontext peer, CUdevice *device)
{
    CUdevice home;
    CUcontext popped;
    if (tsr_real.cuCtxGetDevice(device) != CUDA_SUCCESS || tsr_real.cuCtxPushCurrent_v2(peer) != CUDA_SUCCESS)
        return false;
    CUresult result = tsr_real.cuCtxGetDevice(&home);
    tsr_real.cuCtxPopCurrent_v2(&popped);
    return result == CUDA_SUCCESS && (uint32_t)home == tsr_session()->policy->home && *device != home && *device < DEVICES;
}

TSR_REDIRECTED(cuCtxEnablePeerAccess)(CUcontext peerContext, unsigned int Flags)
{
    CUdevice device;
    CUresult result = tsr_real.cuCtxEnablePeerAccess(peerContext, Flags);
    if (result != CUDA_SUCCESS || !concerns_home(peerContext, &device))
        return result;
    return __atomic_fetch_add(&peer_users[device], 1, __ATOMIC_ACQ_REL) == 0 ? tsr_memory_peer(device, true) : CUDA_SUCCESS;
}

TSR_REDIRECTED(cuCtxDisablePeerAccess)(CUcontext peerContext)
{
    CUdevice device;
    bool home = concerns_home(peerContext, &device);
    CUresult result = home ? tsr_order_join_all() : CUDA_SUCCESS;
    if (result == CUDA_SUCCESS)
        result = tsr_real.cuCtxDisablePeerAccess(peerContext);
    if (result != CUDA_SUCCESS || !home)
        return result;
    return __atomic_sub_fetch(&peer_users[device], 1, __ATOMIC_ACQ_REL) == 0 ? tsr_memory_peer(device, false) : CUDA_SUCCESS;
}
