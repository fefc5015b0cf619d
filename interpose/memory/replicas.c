/* See replicas.h. */
#include "memory/replicas.h"

#include <unistd.h>

#include <tessera/lane.h>

#include "base/log.h"
#include "driver/real.h"
#include "lane/executors.h"
#include "lane/lane_client.h"
#include "memory/arena.h"
#include "memory/backing.h"
#include "memory/pairs.h"
#include "memory/relay.h"
#include "object/session.h"

#define READ_WRITE CU_MEM_ACCESS_FLAGS_PROT_READWRITE

static bool open, refused; /* memory lock */

/* The last copy that there may be: of the last lane, or of the host. */
static uint32_t last_copy(void)
{
    return (uint32_t)tsr_session_copies(tsr_session()) - 1;
}

/* The windows of all copies, and what is behind them. */
static uint64_t windows_bytes(void)
{
    return (last_copy() + 1ull) * TSR_ARENA_BYTES + TSR_PRIVATE_BYTES;
}

bool tsr_replicas_open(void)
{
    uint64_t bytes = windows_bytes();
    struct tsr_message message = {.kind = TSR_MESSAGE_RESERVE, .address = TSR_WINDOWS_ADDRESS, .bytes = bytes};
    struct tsr_message undo = {.kind = TSR_MESSAGE_UNRESERVE, .address = TSR_WINDOWS_ADDRESS, .bytes = bytes};
    CUdeviceptr address = 0;
    if (open || refused)
        return open;
    refused = last_copy() >= TSR_WINDOWS ||
              tsr_real.cuMemAddressReserve(&address, bytes, TSR_ARENA_PAGE, TSR_WINDOWS_ADDRESS, 0) != CUDA_SUCCESS;
    if (!refused && (address != TSR_WINDOWS_ADDRESS || tsr_executors_ask(&message, -1, &undo) != CUDA_SUCCESS)) {
        tsr_real.cuMemAddressFree(address, bytes);
        refused = true;
    }
    open = !refused;
    if (refused)
        tsr_warn("address space for copies of memory cannot be shared; memory has one copy, at home");
    return open;
}

void tsr_replicas_forget(void)
{
    open = refused = false;
}

static bool is_of_host(const struct tsr_replicas *replicas)
{
    return replicas->owner > tsr_session()->lane_count;
}

static bool has(const struct tsr_replicas *replicas, uint32_t copy)
{
    return replicas->own >> copy & 1;
}

static CUresult hand(struct tsr_lane_client *lane, CUdeviceptr address, uint64_t bytes, CUmemGenericAllocationHandle memory,
                     int32_t charged)
{
    struct tsr_message message = {
        .kind = TSR_MESSAGE_MAP, .address = address, .bytes = bytes, .detail = READ_WRITE, .value = charged};
    int descriptor = -1;
    CUresult result = tsr_real.cuMemExportToShareableHandle(&descriptor, memory, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    if (result == CUDA_SUCCESS)
        result = tsr_lane_ask(lane, &message, descriptor);
    if (descriptor >= 0)
        close(descriptor);
    return result;
}

CUresult tsr_replicas_private(CUdeviceptr address, uint64_t bytes, uint32_t copy)
{
    uint32_t gpu = tsr_session_gpu(tsr_session(), copy);
    CUmemGenericAllocationHandle memory;
    CUresult result = tsr_backing_create(&memory, bytes, gpu);
    if (result != CUDA_SUCCESS)
        return result;
    result = copy ? hand(tsr_session()->lanes[copy - 1], address, bytes, memory, (int32_t)gpu + 1)
                  : tsr_backing_map(address, bytes, memory, 0);
    tsr_real.cuMemRelease(memory); /* it stays while it is mapped */
    return result;
}

static void take_back(struct tsr_lane_client *lane, CUdeviceptr address, uint64_t bytes)
{
    struct tsr_message message = {.kind = TSR_MESSAGE_UNMAP, .address = address, .bytes = bytes};
    tsr_lane_ask(lane, &message, -1);
}

void tsr_replicas_private_drop(CUdeviceptr address, uint64_t bytes, uint32_t copy)
{
    if (copy)
        take_back(tsr_session()->lanes[copy - 1], address, bytes);
    else
        tsr_real.cuMemUnmap(address, bytes);
}

/* Its own memory at the extent's address, or the owner's. */
static CUresult give_memory(const struct tsr_extent *extent, uint32_t copy, bool own, struct tsr_replicas *replicas)
{
    struct tsr_lane_client *lane = tsr_session()->lanes[copy - 1];
    int32_t charged = (int32_t)tsr_session_gpu(tsr_session(), copy) + 1;
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    if (own)
        result = tsr_backing_create(&replicas->memory[copy], extent->bytes, tsr_session_gpu(tsr_session(), copy));
    if (result == CUDA_SUCCESS) {
        result = hand(lane, extent->address, extent->bytes, replicas->memory[copy], charged);
        if (result == CUDA_SUCCESS) {
            replicas->own |= (uint16_t)(1u << copy);
            replicas->used_by[copy] = (uint8_t)copy;
            return CUDA_SUCCESS;
        }
        tsr_real.cuMemRelease(replicas->memory[copy]);
    }
    if (!tsr_pair_is_direct(copy, replicas->owner))
        return result;
    replicas->used_by[copy] = replicas->owner;
    return hand(lane, extent->address, extent->bytes, extent->memory,
                (int32_t)tsr_session_gpu(tsr_session(), replicas->owner) + 1);
}

/* In the process of the GPU `in`. */
static CUresult open_window(const struct tsr_extent *extent, uint32_t in, uint32_t copy, const struct tsr_replicas *replicas)
{
    CUdeviceptr at = tsr_window_at(copy, extent->address);
    if (!tsr_pair_is_direct(in, copy))
        return CUDA_SUCCESS;
    if (!in)
        return tsr_backing_map(at, extent->bytes, replicas->memory[copy], 0);
    return hand(tsr_session()->lanes[in - 1], at, extent->bytes, replicas->memory[copy], 0);
}

static void close_window(const struct tsr_extent *extent, uint32_t in, uint32_t copy)
{
    CUdeviceptr at = tsr_window_at(copy, extent->address);
    if (!in)
        tsr_real.cuMemUnmap(at, extent->bytes);
    else
        take_back(tsr_session()->lanes[in - 1], at, extent->bytes);
}

static bool is_ready(const struct tsr_replicas *replicas, uint32_t gpu)
{
    return replicas->ready >> gpu & 1;
}

/* The GPU sees all copies, also when it has none of its own and pulls into home's, and all who use the extent see its own. */
static CUresult open_windows(const struct tsr_extent *extent, uint32_t gpu, const struct tsr_replicas *replicas)
{
    CUresult result = CUDA_SUCCESS;
    for (uint32_t other = 0; other <= last_copy() && result == CUDA_SUCCESS; other++) {
        if (has(replicas, other))
            result = open_window(extent, gpu, other, replicas);
        if (result == CUDA_SUCCESS && other != gpu && has(replicas, gpu) && is_ready(replicas, other))
            result = open_window(extent, other, gpu, replicas);
    }
    return result;
}

/* Also of what was opened in part: what is not mapped is refused by the driver and the executors. */
static void close_windows(const struct tsr_extent *extent, uint32_t gpu, const struct tsr_replicas *replicas)
{
    for (uint32_t other = 0; other <= last_copy(); other++) {
        if (has(replicas, other))
            close_window(extent, gpu, other);
        if (other != gpu && has(replicas, gpu) && is_ready(replicas, other))
            close_window(extent, other, gpu);
    }
}

void tsr_replicas_take(const struct tsr_extent *extent, uint32_t copy, struct tsr_replicas *replicas)
{
    take_back(tsr_session()->lanes[copy - 1], extent->address, extent->bytes);
    close_windows(extent, copy, replicas);
    replicas->ready &= (uint16_t)~(1u << copy);
    if (!has(replicas, copy) || copy == replicas->owner)
        return;
    tsr_real.cuMemRelease(replicas->memory[copy]);
    replicas->own &= (uint16_t)~(1u << copy);
}

CUresult tsr_replicas_give(const struct tsr_extent *extent, uint32_t copy, bool own, struct tsr_replicas *replicas)
{
    CUresult result = give_memory(extent, copy, own, replicas);
    if (result != CUDA_SUCCESS)
        return result;
    replicas->ready |= (uint16_t)(1u << copy);
    result = open_windows(extent, copy, replicas);
    if (result != CUDA_SUCCESS)
        tsr_replicas_take(extent, copy, replicas);
    return result;
}

/* At home, at the extent's address. */
static CUresult exchange(const struct tsr_extent *extent, CUmemGenericAllocationHandle memory, CUmemGenericAllocationHandle now)
{
    CUresult result = tsr_real.cuMemUnmap(extent->address, extent->bytes);
    if (result == CUDA_SUCCESS &&
        (result = tsr_backing_map(extent->address, extent->bytes, memory, extent->peers)) != CUDA_SUCCESS &&
        tsr_backing_map(extent->address, extent->bytes, now, extent->peers) != CUDA_SUCCESS)
        tsr_error("memory of %llu bytes at 0x%llx could neither be exchanged nor stay; what uses it fails",
                  (unsigned long long)extent->bytes, (unsigned long long)extent->address);
    return result;
}

/* All who use the extent see home's copy. */
static CUresult open_home_windows(const struct tsr_extent *extent, const struct tsr_replicas *replicas)
{
    CUresult result = CUDA_SUCCESS;
    for (uint32_t gpu = 0; gpu <= tsr_session()->lane_count && result == CUDA_SUCCESS; gpu++)
        if (is_ready(replicas, gpu))
            result = open_window(extent, gpu, 0, replicas);
    return result;
}

static void close_home_windows(const struct tsr_extent *extent, const struct tsr_replicas *replicas)
{
    for (uint32_t gpu = 0; gpu <= tsr_session()->lane_count; gpu++)
        if (is_ready(replicas, gpu))
            close_window(extent, gpu, 0);
}

CUresult tsr_replicas_give_home(const struct tsr_extent *extent, struct tsr_replicas *replicas)
{
    CUresult result = tsr_backing_create(&replicas->memory[0], extent->bytes, tsr_session_gpu(tsr_session(), 0));
    if (result != CUDA_SUCCESS)
        return result;
    result = open_home_windows(extent, replicas);
    if (result == CUDA_SUCCESS)
        result = exchange(extent, replicas->memory[0], extent->memory);
    if (result != CUDA_SUCCESS) {
        close_home_windows(extent, replicas);
        tsr_real.cuMemRelease(replicas->memory[0]);
        return result;
    }
    replicas->own |= 1;
    replicas->used_by[0] = 0;
    return CUDA_SUCCESS;
}

void tsr_replicas_take_home(const struct tsr_extent *extent, struct tsr_replicas *replicas)
{
    exchange(extent, extent->memory, replicas->memory[0]);
    close_home_windows(extent, replicas);
    tsr_real.cuMemRelease(replicas->memory[0]);
    replicas->own &= (uint16_t)~1u;
    replicas->used_by[0] = replicas->owner;
}

CUresult tsr_replicas_pass(struct tsr_extent *extent, uint32_t to, struct tsr_replicas *replicas)
{
    uint32_t from = replicas->owner;
    CUresult result = CUDA_SUCCESS;
    if (replicas->used_by[0] == from)
        result = exchange(extent, replicas->memory[to], extent->memory);
    if (result != CUDA_SUCCESS)
        return result;
    for (uint32_t gpu = 1; gpu <= tsr_session()->lane_count; gpu++)
        if (is_ready(replicas, gpu) && !has(replicas, gpu))
            tsr_replicas_take(extent, gpu, replicas);
    replicas->owner = (uint8_t)to;
    extent->memory = replicas->memory[to];
    if (from) {
        tsr_replicas_take(extent, from, replicas);
    } else {
        close_home_windows(extent, replicas);
        tsr_real.cuMemRelease(replicas->memory[0]);
        replicas->own &= (uint16_t)~1u;
    }
    for (uint32_t gpu = 0; gpu < TSR_DIRECTORY_COPIES; gpu++)
        if (!(replicas->own >> gpu & 1))
            replicas->used_by[gpu] = (uint8_t)to;
    return CUDA_SUCCESS;
}

void tsr_replicas_drop(const struct tsr_extent *extent, struct tsr_replicas *replicas)
{
    if (has(replicas, 0) && replicas->owner)
        tsr_replicas_take_home(extent, replicas);
    for (uint32_t copy = 1; copy <= tsr_session()->lane_count; copy++)
        if (is_ready(replicas, copy) && copy != replicas->owner)
            tsr_replicas_take(extent, copy, replicas);
    if (replicas->owner && !is_of_host(replicas))
        tsr_replicas_take(extent, replicas->owner, replicas);
    else
        close_window(extent, 0, replicas->owner);
    replicas->own = replicas->ready = 0;
}

/* The owner has mapped it, and home sees it. */
static CUresult begin_at_owner(const struct tsr_extent *extent, struct tsr_replicas *replicas)
{
    uint32_t owner = replicas->owner;
    CUresult result = hand(tsr_session()->lanes[owner - 1], extent->address, extent->bytes, extent->memory, 0);
    if (result != CUDA_SUCCESS)
        return result;
    replicas->ready |= (uint16_t)(1u << owner);
    result = open_windows(extent, owner, replicas);
    if (result != CUDA_SUCCESS)
        tsr_replicas_take(extent, owner, replicas);
    return result;
}

CUresult tsr_replicas_make(const struct tsr_extent *extent, uint32_t owner, struct tsr_replicas *out)
{
    CUresult result = tsr_pairs_are_all_direct() || tsr_relay_prepare() ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
    *out = (struct tsr_replicas){.own = (uint16_t)(1u << owner), .ready = 1, .owner = (uint8_t)owner};
    for (uint32_t gpu = 0; gpu < TSR_DIRECTORY_COPIES; gpu++)
        out->used_by[gpu] = (uint8_t)owner;
    out->memory[owner] = extent->memory;
    if (result != CUDA_SUCCESS)
        return result;
    return owner && !is_of_host(out) ? begin_at_owner(extent, out) : open_window(extent, 0, owner, out);
}
