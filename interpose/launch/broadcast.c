/* See broadcast.h. */
#include "launch/broadcast.h"

#include "driver/real.h"
#include "driver/stream_handle.h"
#include "lane/lane_client.h"
#include "lane/streams.h"
#include "memory/home_only.h"
#include "memory/memory.h"
#include "memory/readback.h"
#include "memory/tickets.h"
#include "object/capture.h"
#include "object/session.h"
#include "order/order.h"
#include "order/strands.h"

static bool is_in_host_space(uint64_t address, uint64_t bytes)
{
    return tsr_host_covers(address) && address + bytes - TSR_HOST_ADDRESS <= TSR_HOST_BYTES;
}

static bool is_known_to_driver(uint64_t address, CUmemorytype *type)
{
    return tsr_real.cuPointerGetAttribute(type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) == CUDA_SUCCESS;
}

static bool is_registered(uint64_t first, uint64_t last)
{
    return tsr_home_only_reason(first) == TSR_REASON_MEMORY_REGISTERED &&
           tsr_home_only_reason(last) == TSR_REASON_MEMORY_REGISTERED;
}

struct tsr_broadcast_work tsr_broadcast_of_copy(CUdeviceptr to, const void *from, size_t bytes, struct tsr_lane_copy *what)
{
    uint64_t first = (uintptr_t)from, last = first + bytes - 1;
    CUmemorytype type;
    struct tsr_broadcast_work work = {.data = from};
    if (!from || !bytes || bytes > TSR_BROADCAST_MOST_BYTES || last < first)
        return work;
    work.touches[work.count++] = (struct tsr_touch){.first = to, .end = to + bytes, .writes = true};
    if (!is_in_host_space(first, bytes) && !is_known_to_driver(first, &type) && !is_known_to_driver(last, &type)) {
        work.record = (struct tsr_lane_record){.kind = TSR_LANE_WRITE, .value = to, .param_bytes = (uint32_t)bytes};
        return work;
    }
    work.home_only = !is_in_host_space(first, bytes) || tsr_home_only_reason(first) || tsr_home_only_reason(last);
    if (work.home_only && !is_registered(first, last))
        return (struct tsr_broadcast_work){0};
    *what = (struct tsr_lane_copy){.to = to, .from = first, .width = bytes, .height = 1};
    work.touches[work.count++] = (struct tsr_touch){.first = first, .end = first + bytes, .pulls = true};
    work.record = (struct tsr_lane_record){.kind = TSR_LANE_COPY, .param_bytes = sizeof *what};
    work.data = what;
    return work;
}

struct tsr_broadcast_work tsr_broadcast_of_set(const struct tsr_lane_set *what)
{
    uint64_t bytes = what->width * what->element;
    struct tsr_broadcast_work work = {.data = what};
    if (what->height != 1 || what->width > TSR_BROADCAST_MOST_BYTES || bytes > TSR_BROADCAST_MOST_BYTES)
        return work;
    work.touches[work.count++] = (struct tsr_touch){.first = what->to, .end = what->to + bytes, .writes = true};
    work.record = (struct tsr_lane_record){.kind = TSR_LANE_SET, .param_bytes = sizeof *what};
    return work;
}

bool tsr_broadcast_enter(CUstream handle, bool per_thread, struct tsr_broadcast_work *work, struct tsr_order_hold *hold)
{
    struct tsr_copies_use use = {.touches = work->touches,
                                 .count = work->count,
                                 .tracked = true,
                                 .cause = TSR_PULL_COPY,
                                 .stream = handle,
                                 .per_thread = per_thread,
                                 .lanes = work->home_only ? NULL : &work->lanes,
                                 .on_all = work->on_all};
    if (!work->count || !tsr_order_by_data || !tsr_copies_matter() || tsr_is_capturing(tsr_stream_named(handle, per_thread)))
        return false;
    struct tsr_lane_client *last = tsr_order_lane(handle, per_thread);
    if (last && !work->on_all && tsr_tickets_used_strands(tsr_stream_named(handle, per_thread)) == 1u << tsr_lane_rank(last))
        return false;
    tsr_memory_open_for_work(tsr_stream_named(handle, per_thread));
    if (tsr_copies_enter(&use, hold) != CUDA_SUCCESS)
        return false;
    if (hold->stream && work->lanes) /* it goes on where it was */
        __atomic_store_n(&hold->stream->lane, last, __ATOMIC_RELEASE);
    return true;
}

CUresult tsr_broadcast_post(struct tsr_lane_client *lane, const struct tsr_lane_record *record, const void *data)
{
    CUresult result = CUDA_SUCCESS;
    uint32_t most = record->kind == TSR_LANE_WRITE ? TSR_LANE_MOST_WRITTEN : UINT32_MAX;
    for (uint32_t at = 0, left; (left = record->param_bytes - at) && result == CUDA_SUCCESS; at += left < most ? left : most) {
        struct tsr_lane_record part = *record;
        part.value += at;
        part.param_bytes = left < most ? left : most;
        result = tsr_lane_post(lane, &part, (const uint8_t *)data + at);
    }
    return result;
}

CUresult tsr_broadcast_leave(struct tsr_broadcast_work *work, struct tsr_order_hold *hold, CUresult result)
{
    const struct tsr_session *session = tsr_session();
    work->record.stream = hold->stream ? hold->stream->slot : 0;
    for (uint32_t left = work->lanes; left && result == CUDA_SUCCESS; left &= left - 1)
        result = tsr_broadcast_post(session->lanes[__builtin_ctz(left)], &work->record, work->data);
    CUstream stream = hold->stream ? hold->stream->handle : NULL;
    tsr_order_leave(hold);
    if (result == CUDA_SUCCESS && stream && work->record.kind == TSR_LANE_WRITE)
        tsr_readback_gave(stream);
    return result == CUDA_SUCCESS ? tsr_order_state() : result;
}
