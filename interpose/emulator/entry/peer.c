/* Peer access between devices. */
#include "guard.h"

#include "../context/context_object.h"
#include "../memory/alloc.h"

static const struct tsr_link_desc *link_of(uint32_t from, uint32_t to)
{
    return &tsr_machine_instance()->links[from * TSR_MACHINE_DEVICES + to];
}

CUresult CUDAAPI cuDeviceCanAccessPeer(int *canAccessPeer, CUdevice dev, CUdevice peerDev)
{
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(canAccessPeer, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(tsr_device_check(dev));
    TSR_TRY(tsr_device_check(peerDev));
    *canAccessPeer = dev != peerDev && link_of((uint32_t)dev, (uint32_t)peerDev)->peer_access;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attrib, CUdevice srcDevice, CUdevice dstDevice)
{
    TSR_TRY(tsr_driver_ready());
    TSR_REQUIRE(value, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(tsr_device_check(srcDevice));
    TSR_TRY(tsr_device_check(dstDevice));
    TSR_REQUIRE(srcDevice != dstDevice, CUDA_ERROR_INVALID_DEVICE);
    const struct tsr_link_desc *link = link_of((uint32_t)srcDevice, (uint32_t)dstDevice);
    switch ((int)attrib) {
    case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK:
        *value = link->kind == TSR_LINK_NVLINK ? 0 : 1;
        return CUDA_SUCCESS;
    case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED:
        *value = link->peer_access != 0;
        return CUDA_SUCCESS;
    case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED:
        *value = link->peer_access && link->kind == TSR_LINK_NVLINK;
        return CUDA_SUCCESS;
    case CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED:
    case CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED:
        *value = 0;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult CUDAAPI cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags)
{
    struct tsr_context *context, *peer;
    TSR_TRY(tsr_context_current(&context));
    TSR_REQUIRE(Flags == 0, CUDA_ERROR_INVALID_VALUE);
    TSR_TRY(tsr_context_find(peerContext, &peer));
    uint32_t from = tsr_emulated_context_device(context), to = tsr_emulated_context_device(peer);
    TSR_REQUIRE(from != to && link_of(from, to)->peer_access, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
    return tsr_peer_enable(context, peer);
}

CUresult CUDAAPI cuCtxDisablePeerAccess(CUcontext peerContext)
{
    struct tsr_context *context, *peer;
    TSR_TRY(tsr_context_current(&context));
    TSR_TRY(tsr_context_find(peerContext, &peer));
    return tsr_peer_disable(context, peer);
}
