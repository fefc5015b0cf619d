/* See backing.h. */
#include "memory/backing.h"

#include <unistd.h>

#include <tessera/lane.h>

#include "base/log.h"
#include "driver/gpus.h"
#include "driver/real.h"
#include "object/session.h"
#include "memory/arena.h"
#include "memory/bounds.h"
#include "memory/home_only.h"
#include "memory/owners.h"
#include "memory/pairs.h"
#include "lane/executors.h"

#define READ_WRITE CU_MEM_ACCESS_FLAGS_PROT_READWRITE

static uint64_t away_bytes;                        /* memory lock */
static const struct tsr_backing_copies *copies_of; /* memory lock; NULL: all extents have one copy */

void tsr_backing_have_copies(const struct tsr_backing_copies *copies)
{
    copies_of = copies;
}

bool tsr_backing_yield(CUdevice device, uint64_t bytes)
{
    return copies_of && copies_of->yield(device, bytes);
}

static uint32_t home(void)
{
    return tsr_session()->policy->home;
}

static void count_away(const struct tsr_extent *extent, bool more)
{
    if (extent->residency.gpu != home())
        away_bytes += more ? extent->bytes : -extent->bytes;
}

void tsr_backing_passed(struct tsr_extent *extent, uint32_t gpu)
{
    count_away(extent, false);
    extent->residency.gpu = (uint8_t)gpu;
    count_away(extent, true);
}

uint64_t tsr_backing_away_bytes(void)
{
    return away_bytes;
}

bool tsr_backing_fits(uint64_t bytes)
{
    size_t free, total;
    if (tsr_owners_are_on())
        return true;
    return tsr_real.cuMemGetInfo_v2(&free, &total) != CUDA_SUCCESS || (free >= away_bytes && free - away_bytes >= bytes);
}

void tsr_backing_forget(void)
{
    away_bytes = 0;
}

CUmemLocation tsr_backing_host(void)
{
    int node = 0;
    tsr_real.cuDeviceGetAttribute(&node, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, tsr_session()->home);
    return (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_HOST_NUMA, .id = node > 0 ? node : 0};
}

/* The driver locks its pages. */
static CUresult create_host(CUmemGenericAllocationHandle *out, uint64_t bytes)
{
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                      .location = tsr_backing_host()};
    CUresult result = tsr_real.cuMemCreate(out, bytes, &properties, 0);
    if (result != CUDA_SUCCESS)
        tsr_owners_host_refused((int)result);
    return result == CUDA_SUCCESS ? result : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult tsr_backing_create(CUmemGenericAllocationHandle *out, uint64_t bytes, uint32_t gpu)
{
    if (gpu == TSR_GPU_HOST)
        return create_host(out, bytes);
    CUdevice device = tsr_gpu_device(gpu);
    if (device < 0)
        return CUDA_ERROR_NOT_SUPPORTED;
    CUmemAllocationProp properties = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
    };
    int rdma = 0; /* ordinary memory can do it where the GPU can */
    tsr_real.cuDeviceGetAttribute(&rdma, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, device);
    properties.allocFlags.gpuDirectRDMACapable = rdma != 0;
    return tsr_real.cuMemCreate(out, bytes, &properties, 0);
}

static CUresult allow(CUdeviceptr address, uint64_t bytes, CUdevice device, CUmemAccess_flags flags)
{
    CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}, .flags = flags};
    return tsr_real.cuMemSetAccess(address, bytes, &access, 1);
}

CUresult tsr_backing_grant(struct tsr_extent *extent, CUdevice device, CUmemAccess_flags flags)
{
    CUresult result = allow(extent->address, extent->bytes, device, flags);
    uint32_t bit = 1u << device;
    if (extent->copies && flags != CU_MEM_ACCESS_FLAGS_PROT_NONE)
        result = result == CUDA_SUCCESS ? copies_of->fix(extent) : result;
    if (result == CUDA_SUCCESS)
        extent->peers = flags == READ_WRITE ? extent->peers | bit : extent->peers & ~bit;
    return result;
}

CUresult tsr_backing_map(CUdeviceptr address, uint64_t bytes, CUmemGenericAllocationHandle memory, uint32_t peers)
{
    CUresult result = tsr_real.cuMemMap(address, bytes, 0, memory, 0);
    if (result != CUDA_SUCCESS)
        return result;
    result = allow(address, bytes, tsr_session()->home, READ_WRITE);
    for (CUdevice device = 0; peers >> device && result == CUDA_SUCCESS; device++)
        if (peers >> device & 1)
            result = allow(address, bytes, device, READ_WRITE);
    if (result != CUDA_SUCCESS)
        tsr_real.cuMemUnmap(address, bytes);
    return result;
}

static CUresult map_home(struct tsr_extent *extent, uint32_t gpu, uint32_t peers)
{
    CUresult result = tsr_backing_create(&extent->memory, extent->bytes, gpu);
    if (result != CUDA_SUCCESS)
        return result;
    result = tsr_backing_map(extent->address, extent->bytes, extent->memory, peers);
    if (result != CUDA_SUCCESS)
        tsr_real.cuMemRelease(extent->memory);
    return result;
}

static void unmap_home(struct tsr_extent *extent)
{
    tsr_real.cuMemUnmap(extent->address, extent->bytes);
    tsr_real.cuMemRelease(extent->memory);
}

/* Asks all executors for something about memory that they are handed. */
static CUresult hand(struct tsr_message *ask, CUmemGenericAllocationHandle memory, uint32_t gpu, struct tsr_message *undo)
{
    int descriptor = -1;
    ask->detail = READ_WRITE;
    ask->value = (int32_t)gpu + 1;
    if (!tsr_pairs_may_share())
        return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    CUresult result = tsr_real.cuMemExportToShareableHandle(&descriptor, memory, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    if (result == CUDA_SUCCESS)
        result = tsr_executors_ask(ask, descriptor, undo);
    if (descriptor >= 0)
        close(descriptor);
    return result;
}

static struct tsr_message about(enum tsr_message_kind kind, const struct tsr_extent *extent)
{
    return (struct tsr_message){.kind = kind, .address = extent->address, .bytes = extent->bytes};
}

static CUresult share(struct tsr_extent *extent, uint32_t gpu)
{
    struct tsr_message ask = about(TSR_MESSAGE_MAP, extent), undo = about(TSR_MESSAGE_UNMAP, extent);
    CUresult result = hand(&ask, extent->memory, gpu, &undo);
    extent->shared = result == CUDA_SUCCESS;
    if (extent->shared)
        tsr_arena_mark(extent->address, extent->bytes, true);
    return result;
}

CUresult tsr_backing_make(struct tsr_extent *extent, uint32_t gpu, uint32_t peers)
{
    CUresult result = map_home(extent, gpu, peers);
    if (result != CUDA_SUCCESS)
        return result;
    result = copies_of ? copies_of->begin(extent, gpu, peers) : CUDA_ERROR_NOT_SUPPORTED;
    extent->shared = result == CUDA_SUCCESS;
    if (result != CUDA_SUCCESS)
        result = share(extent, gpu);
    if (result != CUDA_SUCCESS && gpu != home()) {
        unmap_home(extent);
        return result;
    }
    extent->peers = peers;
    extent->residency = (struct tsr_residency){.gpu = (uint8_t)gpu};
    count_away(extent, true);
    if (result != CUDA_SUCCESS) {
        tsr_warn("memory of %llu bytes cannot be shared with the executors (error %d); launches that use it stay home",
                 (unsigned long long)extent->bytes, (int)result);
        tsr_home_only_add(extent->address, extent->bytes, TSR_REASON_MEMORY_NOT_SHARED);
    }
    return CUDA_SUCCESS;
}

void tsr_backing_drop(struct tsr_extent *extent)
{
    if (extent->copies) {
        copies_of->drop(extent);
    } else if (extent->shared) {
        struct tsr_message message = about(TSR_MESSAGE_UNMAP, extent);
        tsr_arena_mark(extent->address, extent->bytes, false);
        tsr_executors_tell(&message);
    } else {
        tsr_home_only_take(extent->address);
    }
    unmap_home(extent);
    count_away(extent, false);
}

/* The home GPU copies, through a second address. */
static CUresult fill(CUmemGenericAllocationHandle memory, CUdeviceptr from, uint64_t bytes)
{
    CUdeviceptr at;
    CUstream stream;
    CUresult result = tsr_real.cuMemAddressReserve(&at, bytes, TSR_ARENA_PAGE, 0, 0);
    if (result != CUDA_SUCCESS)
        return result;
    result = tsr_backing_map(at, bytes, memory, 0);
    if (result != CUDA_SUCCESS)
        goto free_addresses;
    result = tsr_real.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    if (result == CUDA_SUCCESS) {
        tsr_bounds_lift();
        result = tsr_real.cuMemcpyDtoDAsync_v2(at, from, bytes, stream);
        CUresult waited = tsr_real.cuStreamSynchronize(stream);
        tsr_bounds_restore();
        result = result == CUDA_SUCCESS ? waited : result;
        tsr_real.cuStreamDestroy_v2(stream);
    }
    tsr_real.cuMemUnmap(at, bytes);
free_addresses:
    tsr_real.cuMemAddressFree(at, bytes);
    return result;
}

/* Maps the other memory at the same address, at home. */
static CUresult exchange(const struct tsr_extent *extent, CUmemGenericAllocationHandle memory)
{
    CUresult result = tsr_real.cuMemUnmap(extent->address, extent->bytes);
    if (result == CUDA_SUCCESS &&
        (result = tsr_backing_map(extent->address, extent->bytes, memory, extent->peers)) != CUDA_SUCCESS &&
        tsr_backing_map(extent->address, extent->bytes, extent->memory, extent->peers) != CUDA_SUCCESS)
        tsr_error("memory of %llu bytes at 0x%llx could neither move nor stay; what uses it fails",
                  (unsigned long long)extent->bytes, (unsigned long long)extent->address);
    return result;
}

CUresult tsr_backing_move(struct tsr_extent *extent, uint32_t gpu)
{
    struct tsr_message ask = about(TSR_MESSAGE_MOVE, extent), back = about(TSR_MESSAGE_MOVED, extent), stay = back;
    CUmemGenericAllocationHandle memory;
    stay.detail = 1;
    CUresult result = tsr_backing_create(&memory, extent->bytes, gpu);
    if (result != CUDA_SUCCESS)
        return result;
    result = fill(memory, extent->address, extent->bytes);
    if (result == CUDA_SUCCESS)
        result = hand(&ask, memory, gpu, &back);
    if (result != CUDA_SUCCESS)
        goto release;
    result = exchange(extent, memory);
    tsr_executors_tell(result == CUDA_SUCCESS ? &stay : &back);
    if (result != CUDA_SUCCESS)
        goto release;
    tsr_real.cuMemRelease(extent->memory);
    count_away(extent, false);
    extent->memory = memory;
    extent->residency.gpu = (uint8_t)gpu;
    extent->residency.moves += extent->residency.moves < TSR_RESIDENCY_MOST_MOVES;
    count_away(extent, true);
    return CUDA_SUCCESS;
release:
    tsr_real.cuMemRelease(memory);
    return result;
}
