/* See ties.h. */
#include "order/ties.h"

#include "lane/lane_client.h"
#include "lane/streams.h"
#include "order/order_parts.h"

CUresult tsr_ties_open(struct tsr_stream *stream, struct tsr_lane_client *lane)
{
    CUresult state = tsr_lane_state(lane);
    if (!tsr_lane_enter(lane))
        return state != CUDA_SUCCESS ? state : CUDA_ERROR_LAUNCH_FAILED;
    CUresult result = tsr_slot_take(stream) ? tsr_order_open_locked(stream, lane) : CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    if (result != CUDA_SUCCESS)
        tsr_lane_leave(lane);
    return result;
}

void tsr_ties_close(struct tsr_lane_client *lane)
{
    tsr_lane_leave(lane);
}

CUdeviceptr tsr_tie_fence(const struct tsr_stream *stream, const struct tsr_lane_client *from, const struct tsr_lane_client *to)
{
    return from ? tsr_lane_away_fence(stream->slot, from) : tsr_lane_home_fence(stream->slot, to);
}

static CUresult write_at_home(const struct tsr_stream *stream, const struct tsr_lane_client *to, uint64_t value)
{
    CUstreamBatchMemOpParams write = tsr_order_write_operation(tsr_lane_home_fence(stream->slot, to), value);
    return tsr_order_operate_locked(stream, 1, &write);
}

CUresult tsr_tie_await_fence(const struct tsr_stream *stream, CUdeviceptr fence, uint64_t value)
{
    CUstreamBatchMemOpParams wait = tsr_order_wait_operation(fence, value);
    return tsr_order_operate_locked(stream, 1, &wait);
}

CUresult tsr_tie_signal(struct tsr_stream *stream, struct tsr_lane_client *from, struct tsr_lane_client *to, uint64_t *value)
{
    *value = tsr_slot_next_value(stream->slot);
    if (!from)
        return write_at_home(stream, to, *value);
    struct tsr_lane_record signal = {.kind = TSR_LANE_SIGNAL, .stream = stream->slot, .value = *value};
    tsr_slot_set_signalled(stream->slot, from, *value);
    return tsr_lane_post(from, &signal, NULL);
}

CUresult tsr_tie_await(struct tsr_stream *stream, struct tsr_lane_client *from, struct tsr_lane_client *to, uint64_t value)
{
    CUresult result = from ? tsr_tie_await_fence(stream, tsr_tie_fence(stream, from, to), value) : CUDA_SUCCESS;
    if (result != CUDA_SUCCESS || !to)
        return result;
    if (from)
        result = write_at_home(stream, to, value = tsr_slot_next_value(stream->slot));
    struct tsr_lane_record wait = {.kind = TSR_LANE_WAIT, .stream = stream->slot, .value = value};
    return result == CUDA_SUCCESS ? tsr_lane_post(to, &wait, NULL) : result;
}

CUresult tsr_tie(struct tsr_stream *stream, struct tsr_lane_client *from, struct tsr_lane_client *to)
{
    uint64_t value;
    CUresult result = tsr_tie_signal(stream, from, to, &value);
    return result == CUDA_SUCCESS ? tsr_tie_await(stream, from, to, value) : result;
}
